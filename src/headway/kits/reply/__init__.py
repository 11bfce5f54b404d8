"""reply — a local language model: generation with exact log-probabilities, held by a worker process.

Other kits use it through `generators.py`. It is not among the built-in kits yet, so its commands are not offered.

Takes: prompts and conversations.   Gives: replies with the log-probabilities of the model and of the draw.
Never: loads torch in a server: the worker holds the model.
May import: cli, loop, project, settings, decide, client, nouns.
"""

from headway.nouns.kit import Command, Kit, Worker

KIT = Kit(
    name="reply",
    summary="A local language model that answers.",
    needs=("models",),
    commands={
        "generate": Command(
            "headway.kits.reply.commands.generate:generate",
            "Continue a text, or answer in a conversation, with a local language model.",
        ),
        "worker": Command(
            "headway.kits.reply.commands.worker:worker",
            "Hold local language models for a project, for its server and other clients.",
        ),
    },
    workers={"worker": Worker(module="headway.kits.reply.worker", needed="headway.kits.reply.worker:needs_worker")},
)
