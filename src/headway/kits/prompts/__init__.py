"""prompts — chooses how to rewrite a prompt before a model sees it, and learns which way helps.

mutations          mutate(prompt, kind, rng) → Variation; allowed(prompt)
checked_prompts    prompts whose answers can be checked: 63 built-in ones, or a file
synthetic          generated prompts, and a world whose optimum per class is known; world: its vectorised environment
outcomes           the real-model mode: what a model answers, checked
choosers           ways of choosing a mutation, and their values there, on held-out prompts
service            the prompt-mutation service behind the eight endpoints of routes

Takes: prompts.   Gives: five mutations, a world to practise in, checks, the eight endpoints.
Never: judges a prompt by how it looks; only by the checked outcome.
May import: cli, serve, loop, project, settings, promote, learn, decide, reward, observe, encode, client, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.kits.prompts.kinds import MUTATIONS as MUTATIONS
from headway.nouns import Command, Kit, door

if TYPE_CHECKING:
    from headway.kits.prompts.checked_prompts import corpus as corpus
    from headway.kits.prompts.mutations import applied as applied
    from headway.kits.prompts.world import Autoreset as Autoreset, Box as Box, Discrete as Discrete
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="prompts",
    summary="Rewrite a prompt in one of five ways, and learn which way helps.",
    needs=("practice", "sandbox", "data", "reply"),
    worlds={"prompts": "headway.kits.prompts.synthetic:synthetic"},
    actions={"mutations": MUTATIONS},
    formats={"mutations": "headway.kits.prompts.formats:EXPERIENCES"},
    routes=("headway.kits.prompts.routes",),
    commands={
        "mutate": Command(
            "headway.kits.prompts.commands:mutate",
            "Change a prompt in one of five ways; what would change nothing is not offered.",
        ),
    },
    options={"learn": "headway.kits.prompts.commands:LEARN"},
    jobs={"update": "headway.kits.prompts.service:do_updates"},
    demos={
        "mutate": Command(
            "headway.kits.prompts.commands:demo_mutate",
            "Practise rewriting prompts in a synthetic world, and compare the result with the optimum.",
        ),
    },
)
