"""prompts — chooses how to rewrite a prompt before a model sees it, and learns which way helps.

mutations.py   mutate(prompt, kind, rng) → Variation; allowed(prompt)
corpus.py      prompts whose answers can be checked, and the checks
tasks.py       generated prompts with checkable answers, one simple task per class
synthetic.py   generated prompts, and a world whose optimum per class is known; world.py: its vectorised environment
outcomes.py    the real-model mode: what a model answers, checked
worth.py       what a way of choosing is worth there, on held-out prompts
service.py     the prompt-mutation service behind the eight endpoints of routes.py

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
            "headway.kits.prompts.commands.mutate:mutate",
            "Change a prompt in one of five ways; what would change nothing is not offered.",
        ),
    },
    options={"learn": "headway.kits.prompts.commands.learn:LEARN"},
    jobs={"update": "headway.kits.prompts.service:do_updates"},
    demos={
        "mutate": Command(
            "headway.kits.prompts.commands.demo:mutate",
            "Practise rewriting prompts in a synthetic world, and compare the result with the optimum.",
        ),
    },
)
