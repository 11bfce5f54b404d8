"""`headway generate`: text from a local language model, in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, renders, verb
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.models import Completion, Generator, Prompt


@verb(
    "generate",
    'headway generate "The capital of France is" --temperature 0 --max-tokens 8',
    'headway generate --chat "Write a haiku about rain." --stream',
)
@click.argument("prompt")
@click.option("--model", default="smollm2", metavar="NAME", help="smollm2, another installed model, or ./a/folder.")
@click.option("--chat", is_flag=True, help="Send the prompt as a user's turn; by default the text is continued.")
@click.option("--system", default="", metavar="TEXT", help="With --chat: the system prompt.")
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option("--temperature", type=click.FloatRange(0, 100), default=0.7, show_default=True, help="0: greedy.")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), default=0.95, show_default=True)
@click.option("--stop", multiple=True, metavar="TEXT", help="Stop before this text; may be repeated.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="The same seed gives the same text; random by default.")
@click.option(
    "--n", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of texts, with consecutive seeds."
)
@click.option("--stream", is_flag=True, help="Print the text as it is generated.")
@click.option("--device", default="auto", metavar="NAME", help="Without a worker: auto, cpu, cuda or mps.")
def generate(
    session: Session,
    prompt: str,
    model: str,
    chat: bool,
    system: str,
    max_tokens: int,
    temperature: float,
    top_p: float,
    stop: tuple[str, ...],
    seed: int | None,
    n: int,
    stream: bool,
    device: str,
) -> int:
    """Continue a text, or answer in a conversation, with a local language model.

    Uses the project's worker if one is running (headway worker), else loads the model for this call. --json includes
    the tokens and their log-probabilities. `-` reads the prompt from standard input.
    """
    from headway.kits.models import Prompt, Turn

    if stream and n > 1:
        raise click.UsageError("--stream shows one text: omit --n.")
    if system and not chat:
        raise click.UsageError("--system needs --chat.")
    text = sys.stdin.read() if prompt == "-" else prompt
    turns = ((Turn("system", system),) if system else ()) + (Turn("user", text),) if chat else ()
    first = Prompt(
        text="" if chat else text,
        turns=turns,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        stop=stop,
        seed=_random() if seed is None else seed,
    )
    generator = _generator(session, model, device)
    if stream and not session.out.json:
        completions = [_streamed(session, generator, first)]
    else:
        completions = generator.generate([replace(first, seed=first.seed + offset) for offset in range(n)])
        session.show(GeneratedTexts(model=generator.model, completions=completions))
    dropped = max(completion.dropped_turns for completion in completions)
    if dropped:
        session.out.aside(f"{dropped} older turns were dropped to fit the model's window.")
    if temperature > 0 and seed is None:
        session.out.aside(f"Repeat with: --seed {first.seed}")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedTexts:
    """The completions of one prompt, and the model that made them."""

    model: str
    completions: Sequence[Completion]


@renders(GeneratedTexts)
def _texts(out: Output, generated: GeneratedTexts) -> None:
    for completion in generated.completions:
        if len(generated.completions) > 1:
            out.line(f"--- seed {completion.seed}", style="dim")
        out.line(completion.text)


def _generator(session: Session, model: str, device: str) -> Generator:
    """The project's worker if one is running, else the model in this process."""
    from headway.kits.reply.client import LanguageWorker

    worker = LanguageWorker(session.folder, model)
    try:
        worker.health()
    except errors.Unavailable as error:
        if error.code not in ("worker_missing", "path_too_long"):
            raise
    else:
        return worker
    from headway.kits.reply.generators import local

    return local(session.folder, model, device=device)


def _streamed(session: Session, generator: Generator, prompt: Prompt) -> Completion:

    last: Any = None
    for delta in generator.stream(prompt):
        session.out.piece(delta.text)
        sys.stdout.flush()
        last = delta.completion
    session.out.line()
    completion: Completion = last
    return completion


def _random() -> int:
    import secrets

    return secrets.randbits(31)
