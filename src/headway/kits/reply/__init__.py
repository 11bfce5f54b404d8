"""reply — a local language model that answers, and learns from your ratings. A worker process holds it.

Other kits use it through `generators.py`.

Takes: prompts and conversations.   Gives: replies with the log-probabilities of the model and of the draw.
Never: loads torch in a server: the worker holds the model.
May import: cli, serve, loop, project, settings, promote, prove, decide, reward, observe, client, files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Command, Family, Kind, Kit, Worker, door

if TYPE_CHECKING:
    from headway.kits.reply.generators import local as local, open_generator as open_generator
    from headway.kits.reply.kept import KeptReply as KeptReply, to_details as to_details
    from headway.kits.reply.replies import completion as completion
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="reply",
    summary="A local language model that answers.",
    needs=("models", "runs"),
    kinds={
        "reply": Kind(
            summary="A language model answers in conversations.",
            settings="headway.kits.reply.settings:ReplySettings",
            defaults={"reward": {"stars": "stars", "thumb": "thumbs"}, "explore": "none", "floor": 0.0},
            ratings=("stars", "thumb"),
            measures=("relevance", "style", "length"),
            signals=("edited", "critiqued", "preferred"),
            first="base@0",
            first_keys=("base", "system"),
            pipeline="headway.kits.reply.policy:answering",
            offers="headway.kits.reply.policy:offers",
            judged="votes",
            shared=True,
            knobs="headway.kits.reply.settings:knobs",
            decides="headway chat --role {task}",
            rates="headway chat --role {task} --unrated",
            votes="headway compare {task} --ask",
        )
    },
    families={
        "language": Family(
            kinds=("reply",),
            policy="headway.kits.reply.policy:read",
            learner="headway.kits.reply.learner:LanguageLearner",
            knobs="headway.kits.reply.knobs:LanguageKnobs",
            evidence=("preference",),
            interruptible=True,
            material="headway.kits.reply.learn.material:material",
        ),
    },
    routes=("headway.kits.reply.replies", "headway.kits.reply.routes"),
    evidence={"preference": "headway.kits.reply.preference:PREFERENCE"},
    exports={"interactions": "headway.kits.reply.kept:writer"},
    commands={
        "chat": Command(
            "headway.kits.reply.commands.chat:chat",
            "Talk to a local model, and rate what it says.",
        ),
        "generate": Command(
            "headway.kits.reply.commands.generate:generate",
            "Continue a text, or answer in a conversation, with a local language model.",
        ),
        "models export": Command(
            "headway.kits.reply.commands.learn:export",
            "Write the adapter of a reply policy as a PEFT folder, for vLLM and other servers.",
        ),
        "worker": Command(
            "headway.kits.reply.commands.generate:worker",
            "Hold local language models for a project, for its server and other clients.",
        ),
    },
    options={
        "compare": "headway.kits.reply.commands.compare:COMPARE",
        "learn": "headway.kits.reply.commands.learn:LEARN",
    },
    checks=("headway.kits.reply.client:check",),
    explains=("headway.kits.reply.kept:explain",),
    erases=("headway.kits.reply.ratings:erase",),
    workers={
        "worker": Worker(
            module="headway.kits.reply.worker",
            needed="headway.kits.reply.worker:needs_worker",
            starting="The language model is being loaded; replies wait for it.",
        )
    },
)
