"""The protocol between a language worker and its clients: MessagePack frames with a length prefix of four bytes.

One question per connection, over a Unix socket in the project's `.headway/run/`; closing the connection cancels the
question. While a model loads or other clients are served, the worker sends `Alive` every few seconds: after half a
minute of silence, a client gives up.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headway.kits.models import Completion, Prompt, Scored
from headway.nouns import errors

ALIVE_S = 5.0
SILENCE_S = 30.0
MOST_BYTES = 32_000_000
PREFIX = 4
LOCK = Path("run", "language.lock")  # `run/worker.lock` is that of the loop and other workers on jobs
_LONGEST = 100  # bytes of a socket's path; the limit is 104 on macOS, 108 on Linux, including the final zero


class Generate(msgspec.Struct, tag="generate", frozen=True, forbid_unknown_fields=True):
    model: str
    prompts: tuple[Prompt, ...]
    stream: bool = False
    deadline_s: float | None = None
    adapter: str = ""  # the content hash of a bundle; "": the base alone


class Score(msgspec.Struct, tag="score", frozen=True, forbid_unknown_fields=True):
    model: str
    prompt: Prompt
    reply: str | tuple[int, ...]
    ended: bool = False
    deadline_s: float | None = None
    adapter: str = ""


class HealthQuestion(msgspec.Struct, tag="health", frozen=True, forbid_unknown_fields=True):
    pass


class Alive(msgspec.Struct, tag="alive", frozen=True):
    pass


class TextDelta(msgspec.Struct, tag="said", frozen=True):
    prompt: int  # index of the prompt
    text: str


class GenerateDone(msgspec.Struct, tag="done", frozen=True):
    completions: tuple[Completion, ...]


class ScoreDone(msgspec.Struct, tag="scored", frozen=True):
    scored: Scored


class LoadedModel(msgspec.Struct, frozen=True):
    """A model in the worker's memory."""

    name: str
    folder: str
    where: str  # "cpu float32"
    window: int
    load_s: float
    adapters: tuple[str, ...] = ()


class WorkerStatus(msgspec.Struct, tag="healthy", frozen=True):
    """The state of a worker."""

    pid: int
    models: tuple[LoadedModel, ...]
    running: int  # replies in progress
    waiting: int
    made: int  # finished replies since it started
    tokens: int


class WorkerFailure(msgspec.Struct, tag="failed", frozen=True):
    kind: str
    code: str
    message: str
    hint: str = ""


Question = Generate | Score | HealthQuestion
Answer = Alive | TextDelta | GenerateDone | ScoreDone | WorkerStatus | WorkerFailure

_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(Question)
_answers = msgspec.msgpack.Decoder(Answer)
_KINDS: dict[str, type[errors.HeadwayError]] = {
    kind.__name__: kind
    for kind in (
        errors.HeadwayError,
        errors.InvalidInput,
        errors.UnknownName,
        errors.Conflict,
        errors.Damaged,
        errors.Unavailable,
    )
}


def frame(message: Question | Answer) -> bytes:
    try:
        body = _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:  # a lone surrogate, a seed of more than 64 bits
        raise errors.InvalidInput(
            f"The question cannot be sent to a worker: {error}.", code="bad_prompt", hint="Use plain texts and numbers."
        ) from error
    if len(body) > MOST_BYTES:
        raise errors.InvalidInput(
            f"The message has {len(body)} bytes, expected at most {MOST_BYTES}.",
            code="bad_prompt",
            hint="Request fewer replies at a time.",
        )
    return len(body).to_bytes(PREFIX, "big") + body


def question_of(body: bytes) -> Question:
    question: Question = _questions.decode(body)
    return question


def answer_of(body: bytes) -> Answer:
    answer: Answer = _answers.decode(body)
    return answer


def failure(error: errors.HeadwayError) -> WorkerFailure:
    return WorkerFailure(type(error).__name__, error.code, error.message, error.hint)


def error_of(failed: WorkerFailure) -> errors.HeadwayError:
    """The worker's error, as the same class."""
    error: errors.HeadwayError
    if failed.kind == "Busy":
        return errors.Busy(failed.message, code=failed.code, hint=failed.hint)
    if failed.kind == "MissingExtra":
        error = errors.MissingExtra.__new__(errors.MissingExtra)
        errors.HeadwayError.__init__(error, failed.message, code=failed.code, hint=failed.hint)
        return error
    return _KINDS.get(failed.kind, errors.HeadwayError)(failed.message, code=failed.code, hint=failed.hint)


def no_worker(*, late: bool = False, restart: bool = False) -> errors.Unavailable:
    """No worker is running. `late`: the one of `headway up` has not started yet; `restart`: `up` has started none."""
    if late:
        return errors.Unavailable(
            "The language worker of `headway up` is still starting.",
            code="worker_missing",
            hint="If it takes long, see its log: .headway/run/worker.log",
        )
    return errors.Unavailable(
        "This needs a language worker, but none is running for this project.",
        code="worker_missing",
        hint="Start `headway up` again: this task was declared after it."
        if restart
        else "Start one in the project's folder: headway worker",
    )


def named(model: str | Path) -> str:
    """The model for the worker: a name, or an absolute path (the worker has another working directory)."""
    text = str(model)
    if isinstance(model, Path) or text.startswith((".", "/", "~")):
        return str(Path(text).expanduser().resolve())
    return text


def base_of(base: str, folder: Path) -> str:
    """The base of a task: a name, or an absolute path; in headway.toml a path begins at the project's folder."""
    return str((folder / Path(base).expanduser()).resolve()) if base.startswith((".", "/", "~")) else base


def socket_of(folder: Path) -> Path:
    """The socket of a project's worker."""
    return folder / ".headway" / "run" / "worker.sock"


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """A path to the socket that is short enough for the kernel, valid inside the block."""
    text = str(path)
    if len(os.fsencode(text)) <= _LONGEST:
        yield text
        return
    if not sys.platform.startswith("linux"):
        raise errors.Unavailable(
            f"The project's path is too long for a Unix socket: {text!r}.",
            code="path_too_long",
            hint=f"Move the project so that this path has at most {_LONGEST} bytes.",
        )
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
