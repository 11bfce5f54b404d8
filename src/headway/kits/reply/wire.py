"""What a language worker and its clients say to each other: MessagePack in frames of four bytes' length, then as many.

One question per connection, over a Unix socket in the project's `.headway/run/`; closing the connection takes the
question back. While a model is loaded or others are served, the worker says `Alive` every few seconds: who hears
nothing for half a minute talks to nobody.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headway.nouns.errors import (
    Busy,
    Conflict,
    Damaged,
    HeadwayError,
    InvalidInput,
    MissingExtra,
    Unavailable,
    UnknownName,
)
from headway.nouns.protocols import Completion, Prompt, Scored

__all__ = [
    "ALIVE_S",
    "LOCK",
    "MOST_BYTES",
    "PREFIX",
    "SILENCE_S",
    "Alive",
    "Answer",
    "Done",
    "Failed",
    "Generate",
    "Health",
    "Healthy",
    "LoadedModel",
    "Question",
    "Said",
    "Score",
    "ScoreDone",
    "answer_of",
    "error_of",
    "failure",
    "frame",
    "named",
    "no_worker",
    "question_of",
    "reachable",
    "socket_of",
]

ALIVE_S = 5.0
SILENCE_S = 30.0
MOST_BYTES = 32_000_000
PREFIX = 4
LOCK = Path("run", "worker.lock")
_LONGEST = 100  # bytes of a socket's path: 104 on macOS, 108 on Linux, with the zero at its end


class Generate(msgspec.Struct, tag="generate", frozen=True, forbid_unknown_fields=True):
    model: str
    prompts: tuple[Prompt, ...]
    stream: bool = False
    deadline_s: float | None = None


class Score(msgspec.Struct, tag="score", frozen=True, forbid_unknown_fields=True):
    model: str
    prompt: Prompt
    reply: str | tuple[int, ...]
    ended: bool = False
    deadline_s: float | None = None


class Health(msgspec.Struct, tag="health", frozen=True, forbid_unknown_fields=True):
    pass


class Alive(msgspec.Struct, tag="alive", frozen=True):
    pass


class Said(msgspec.Struct, tag="said", frozen=True):
    prompt: int  # which of the prompts
    text: str


class Done(msgspec.Struct, tag="done", frozen=True):
    completions: tuple[Completion, ...]


class ScoreDone(msgspec.Struct, tag="scored", frozen=True):
    scored: Scored


class LoadedModel(msgspec.Struct, frozen=True):
    """A model that the worker holds in memory."""

    name: str
    folder: str
    where: str  # "cpu float32"
    window: int
    load_s: float


class Healthy(msgspec.Struct, tag="healthy", frozen=True):
    """How a worker is."""

    pid: int
    models: tuple[LoadedModel, ...]
    running: int  # replies being made
    waiting: int
    made: int  # replies since it started
    tokens: int


class Failed(msgspec.Struct, tag="failed", frozen=True):
    kind: str
    code: str
    message: str
    hint: str = ""


Question = Generate | Score | Health
Answer = Alive | Said | Done | ScoreDone | Healthy | Failed

_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(Question)
_answers = msgspec.msgpack.Decoder(Answer)
_KINDS: dict[str, type[HeadwayError]] = {
    each.__name__: each for each in (HeadwayError, InvalidInput, UnknownName, Conflict, Damaged, Unavailable)
}


def frame(message: Question | Answer) -> bytes:
    try:
        body = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:  # half a surrogate pair, a seed of more than 64 bits
        raise InvalidInput(
            f"This cannot be sent to a worker: {error}.", code="bad_prompt", hint="Use plain texts and numbers."
        ) from error
    if len(body) > MOST_BYTES:
        raise InvalidInput(
            f"{len(body)} bytes are more than a worker takes at once ({MOST_BYTES}).",
            code="bad_prompt",
            hint="Ask for fewer replies at a time.",
        )
    return len(body).to_bytes(PREFIX, "big") + body


def question_of(body: bytes) -> Question:
    found: Question = _questions.decode(body)
    return found


def answer_of(body: bytes) -> Answer:
    found: Answer = _answers.decode(body)
    return found


def failure(error: HeadwayError) -> Failed:
    return Failed(type(error).__name__, error.code, error.message, error.hint)


def error_of(failed: Failed) -> HeadwayError:
    """The error that the worker raised, of the same class."""
    error: HeadwayError
    if failed.kind == "Busy":
        return Busy(failed.message, code=failed.code, hint=failed.hint)
    if failed.kind == "MissingExtra":
        error = MissingExtra.__new__(MissingExtra)
        HeadwayError.__init__(error, failed.message, code=failed.code, hint=failed.hint)
        return error
    return _KINDS.get(failed.kind, HeadwayError)(failed.message, code=failed.code, hint=failed.hint)


def no_worker() -> Unavailable:
    return Unavailable(
        "This needs a language worker, and none is running for this project.",
        code="worker_missing",
        hint="Start one in the project's folder: headway worker",
    )


def named(model: str | Path) -> str:
    """A model as the worker understands it: a name, or an absolute path (its working directory is another)."""
    text = str(model)
    if isinstance(model, Path) or text.startswith((".", "/", "~")):
        return str(Path(text).expanduser().resolve())
    return text


def socket_of(folder: Path) -> Path:
    """Where the worker of a project listens."""
    return folder / ".headway" / "run" / "worker.sock"


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A path to the socket that is short enough for the kernel, for as long as the block runs."""
    text = str(path)
    if len(os.fsencode(text)) <= _LONGEST:
        yield text
        return
    if not sys.platform.startswith("linux"):
        raise Unavailable(
            f"The project's path is too long for a Unix socket: {text!r}.",
            code="path_too_long",
            hint=f"Move the project, so that this path has at most {_LONGEST} bytes.",
        )
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
