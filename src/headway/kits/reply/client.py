"""A language model in a worker process, as a `Generator`; `AsyncLanguageWorker` for event loops. Neither loads torch.

    worker = LanguageWorker(Path("."), "smollm2")      # of the project in this folder; start it with `headway worker`
    worker.generate([Prompt(text="The capital of France is", max_tokens=5)])
    for delta in worker.stream(Prompt(turns=(Turn("user", "Hello"),))): ...

    async for delta in AsyncLanguageWorker(Path("."), "smollm2").stream(prompt): ...

Without a worker: `Unavailable`, code `worker_missing`, with the command. While `headway up` starts one, a question
waits for it. Closing a stream or cancelling the task cancels the question: the worker stops generating tokens for it.
`deadline_s` limits the whole answer.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from headway.kits import models
from headway.kits.models import Completion, Delta, Prompt, Scored
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import (
    MOST_BYTES,
    PREFIX,
    SILENCE_S,
    Alive,
    Answer,
    Generate,
    GenerateDone,
    HealthQuestion,
    Question,
    Score,
    ScoreDone,
    TextDelta,
    WorkerFailure,
    WorkerStatus,
    answer_of,
    base_of,
    error_of,
    frame,
    named,
    no_worker,
    reachable,
    socket_of,
)
from headway.loop import note_of_up
from headway.nouns import Finding, errors
from headway.settings import Settings

Kind = TypeVar("Kind", GenerateDone, ScoreDone, WorkerStatus)
_MISSING = (FileNotFoundError, ConnectionRefusedError, NotADirectoryError)
_NAME = "worker"  # of the process that `headway up` starts
_START_S, _LOOK_S = 60.0, 0.1  # how long it may take to start, and how often we look


class _Questions:
    """The settings that both clients share: worker, model, deadline."""

    def __init__(self, folder: Path, model: str | Path, *, deadline_s: float | None = None, adapter: str = "") -> None:
        self._path, self._home = socket_of(folder), folder / ".headway"
        self._model = named(model)
        self._deadline_s = deadline_s
        self._adapter = adapter  # the content hash of a bundle; "": the base alone

    @property
    def model(self) -> str:
        return self._model

    def _until(self, question: Question) -> float:
        """How long to wait for a worker that is being started."""
        if isinstance(question, HealthQuestion):
            return 0.0
        return time.monotonic() + min(_START_S, _START_S if self._deadline_s is None else self._deadline_s)

    def _check_starting(self, until: float) -> None:
        """Nobody listens: raise, unless `headway up` starts a worker and there is time left."""
        note = note_of_up(self._home)
        if note is None or _NAME not in note.get("workers", (_NAME,)):
            raise no_worker(restart=note is not None)
        if time.monotonic() >= until:
            raise no_worker(late=True)

    def _generate(self, prompts: Sequence[Prompt], *, stream: bool) -> Generate:
        return Generate(self._model, tuple(prompts), stream, self._deadline_s, self._adapter)

    def _score(self, prompt: Prompt, reply: str | Sequence[int], ended: bool) -> Score:
        exact = reply if isinstance(reply, str) else tuple(reply)
        return Score(self._model, prompt, exact, ended, self._deadline_s, self._adapter)


class LanguageWorker(_Questions):
    """The worker of a project, for programs without an event loop. Thread-safe."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """One reply per prompt, generated in one batch with the questions of other clients."""
        with self._ask(self._generate(prompts, stream=False)) as answers:
            return list(_last(answers, GenerateDone).completions)

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        with self._ask(self._generate([prompt], stream=True)) as answers:
            for answer in answers:
                yield from _delta(answer)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        with self._ask(self._score(prompt, reply, ended)) as answers:
            return _last(answers, ScoreDone).scored

    def health(self) -> WorkerStatus:
        with self._ask(HealthQuestion()) as answers:
            return _last(answers, WorkerStatus)

    @contextmanager
    def _ask(self, question: Question) -> Iterator[Iterator[Answer]]:
        body = frame(question)
        with self._connected(self._until(question)) as connection:
            try:
                connection.sendall(body)
            except OSError as error:
                raise _lost(error) from error
            yield self._answers(connection)

    def _connected(self, until: float) -> socket.socket:
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(SILENCE_S)
            try:
                with reachable(self._path) as address:
                    connection.connect(address)
                return connection
            except _MISSING:
                connection.close()
                self._check_starting(until)
            except OSError as error:
                connection.close()
                raise _lost(error) from error
            except BaseException:
                connection.close()
                raise
            time.sleep(_LOOK_S)

    def _answers(self, connection: socket.socket) -> Iterator[Answer]:
        last = False
        while not last:
            try:
                length = int.from_bytes(_exactly(connection, PREFIX), "big")
                answer, last = _read(length, _exactly(connection, length))
            except OSError as error:
                raise _lost(error) from error
            if answer is not None:
                yield answer


class AsyncLanguageWorker(_Questions):
    """The same for event loops."""

    async def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        async with self._ask(self._generate(prompts, stream=False)) as answers:
            async for answer in answers:
                if isinstance(answer, GenerateDone):
                    return list(answer.completions)
        raise _lost()

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        async with self._ask(self._generate([prompt], stream=True)) as answers:
            async for answer in answers:
                for delta in _delta(answer):
                    yield delta

    async def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        async with self._ask(self._score(prompt, reply, ended)) as answers:
            async for answer in answers:
                if isinstance(answer, ScoreDone):
                    return answer.scored
        raise _lost()

    async def health(self) -> WorkerStatus:
        async with self._ask(HealthQuestion()) as answers:
            async for answer in answers:
                if isinstance(answer, WorkerStatus):
                    return answer
        raise _lost()

    @asynccontextmanager
    async def _ask(self, question: Question) -> AsyncIterator[AsyncIterator[Answer]]:
        body = frame(question)
        reader, writer = await self._connected(self._until(question))
        try:
            writer.write(body)
            await writer.drain()
            yield self._answers(reader)
        except OSError as error:
            raise _lost(error) from error
        finally:
            writer.close()

    async def _connected(self, until: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while True:
            try:
                with reachable(self._path) as address:
                    return await asyncio.open_unix_connection(address)
            except _MISSING:
                self._check_starting(until)
            await asyncio.sleep(_LOOK_S)

    async def _answers(self, reader: asyncio.StreamReader) -> AsyncIterator[Answer]:
        last = False
        while not last:
            try:
                async with asyncio.timeout(SILENCE_S):
                    length = int.from_bytes(await reader.readexactly(PREFIX), "big")
                    answer, last = _read(length, await reader.readexactly(length))
            except (OSError, asyncio.IncompleteReadError) as error:
                raise _lost(error) from error
            if answer is not None:
                yield answer


def _read(length: int, body: bytes) -> tuple[Answer | None, bool]:
    """An answer (None for `Alive`) and whether it is the last; raises the worker's error."""
    if length > MOST_BYTES:
        raise _lost()
    try:
        answer = answer_of(body)
    except msgspec.MsgspecError as error:
        raise errors.HeadwayError(
            "The worker sent an unreadable answer.",
            code="not_headway",
            hint="Restart the worker: it may have another version.",
        ) from error
    if isinstance(answer, WorkerFailure):
        raise error_of(answer)
    return None if isinstance(answer, Alive) else answer, not isinstance(answer, (Alive, TextDelta))


def _exactly(connection: socket.socket, size: int) -> bytes:
    if size > MOST_BYTES:
        raise _lost()
    parts = bytearray()
    while len(parts) < size:
        chunk = connection.recv(size - len(parts))
        if not chunk:
            raise ConnectionResetError("the worker closed the connection")
        parts += chunk
    return bytes(parts)


def _last(answers: Iterator[Answer], kind: type[Kind]) -> Kind:
    for answer in answers:
        if isinstance(answer, kind):
            return answer
    raise _lost()


def _delta(answer: Answer) -> Iterator[Delta]:
    if isinstance(answer, TextDelta):
        yield Delta(answer.text)
    elif isinstance(answer, GenerateDone):
        yield Delta("", answer.completions[0])


def _lost(error: Exception | None = None) -> errors.Unavailable:
    why = "did not answer" if isinstance(error, TimeoutError) else "closed the connection before it answered"
    return errors.Unavailable(
        f"The language worker {why}.", code="worker_lost", hint="Its log is .headway/run/worker.log; try again."
    )


def check(settings: Settings) -> Iterator[Finding]:
    """One finding per reply task, and one about the worker. Loads no model."""
    bases = {task.name: reply_settings(task).base for task in settings.tasks.values() if task.kind == "reply"}
    for task, base in bases.items():
        name = f"base of {task}"
        if base in settings.upstreams:
            yield Finding(name=name, ok=True, found=f"the upstream {base}; its weights cannot be trained")
            continue
        try:
            folder = models.folder(base_of(base, settings.directory), settings.cache)
        except errors.HeadwayError as error:
            yield Finding(name=name, ok=False, found=error.message, cure=error.hint)
        else:
            yield Finding(name=name, ok=True, found=f"{base} in {folder}")
    if any(base not in settings.upstreams for base in bases.values()):
        yield _worker(settings)


def _worker(settings: Settings) -> Finding:
    """Information only: a project that is not in use needs none."""
    try:
        loaded = ", ".join(model.name for model in LanguageWorker(settings.directory, "").health().models)
    except errors.Unavailable:
        cure = "`headway up` starts one by itself, `headway worker` alone."
        return Finding(name="language worker", ok=None, found="none listens; local replies need one", cure=cure)
    return Finding(name="language worker", ok=None, found=f"listens; loaded: {loaded or 'nothing yet'}")
