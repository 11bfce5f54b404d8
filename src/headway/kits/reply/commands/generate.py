"""`headway generate`: text from a local language model; `headway worker`: the process that holds such models."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, renders, verb

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
    before = (Turn("system", system),) if system else ()
    first = Prompt(
        text="" if chat else text,
        turns=(*before, Turn("user", text)) if chat else (),
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        stop=stop,
        seed=secrets.randbits(31) if seed is None else seed,
    )
    generator = _generator(session, model, device)
    if stream and not session.out.json:
        completions = [_streamed(session, generator, first)]
    else:
        completions = generator.generate([replace(first, seed=first.seed + offset) for offset in range(n)])
        session.show(GeneratedTexts(model=generator.model, completions=completions))
    _asides(session.out, completions, first.seed if temperature > 0 and seed is None else None)
    return 0


def _asides(out: Output, completions: Sequence[Completion], seed: int | None) -> None:
    """What was left out of a conversation, and the seed that was drawn."""
    dropped = max(completion.dropped_turns for completion in completions)
    if dropped:
        out.aside(f"{dropped} older turns were dropped to fit the model's window.")
    if seed is not None:
        out.aside(f"Repeat with: --seed {seed}")


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
    from headway.kits.reply.generators import local, worker_of

    return worker_of(session.folder, model) or local(session.folder, model, device=device)


def _streamed(session: Session, generator: Generator, prompt: Prompt) -> Completion:

    last: Any = None
    for delta in generator.stream(prompt):
        session.out.piece(delta.text)
        sys.stdout.flush()
        last = delta.completion
    session.out.line()
    completion: Completion = last
    return completion


@verb("worker", "headway worker", "headway worker --device cuda --idle 60", waits=True)
@click.option("--device", default="auto", metavar="NAME", help="auto (the best available), cpu, cuda or mps.")
@click.option("--dtype", default="auto", metavar="NAME", help="auto, float32, bfloat16, float16 or int8.")
@click.option(
    "--threads", type=click.IntRange(0), default=0, help="Cores per matrix product; 0: all, or OMP_NUM_THREADS."
)
@click.option(
    "--idle", type=click.FloatRange(0, min_open=True), default=600.0, help="Seconds before an idle model is unloaded."
)
def worker(session: Session, device: str, dtype: str, threads: int, idle: float) -> int:
    """Hold local language models for a project, for its server and other clients.

    One worker per project; models are loaded on the first question. Concurrent questions share one batch. Press Ctrl-C
    to stop it. `headway up` starts a worker if a task uses a local model. On a CPU, --dtype int8 is faster and
    changes the text, float16 hardly does either; the worker says how much: the ratio of perplexities, and the share
    of equal tokens.
    """
    from headway.kits.reply.worker import WorkerServer

    def say(line: str) -> None:
        session.out.line(line)
        sys.stdout.flush()

    def announce(socket: Path) -> None:
        session.show(RunningWorker(socket=str(socket), pid=os.getpid()))
        session.next('headway generate "The capital of France is"')
        session.out.finish()
        session.out.json = False  # the document is complete

    with session.project(create=True):
        pass  # reports settings errors or a missing folder before the lock is taken
    work = WorkerServer(
        session.folder, say=say, announce=announce, device=device, dtype=dtype, threads=threads, idle_s=idle
    )
    return work.run()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    """A worker that listens, and how to stop it."""

    socket: str
    pid: int
    stop: str = "Ctrl-C"


@renders(RunningWorker)
def _running(out: Output, worker: RunningWorker) -> None:
    out.line(f"The worker listens at {worker.socket}.")
