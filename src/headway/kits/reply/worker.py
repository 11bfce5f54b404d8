"""A language worker: one process that holds language models for a project and listens on a Unix socket.

    WorkerServer(Path(".")).run()                    # until SIGTERM, SIGINT; `headway worker`
    python -m headway.kits.reply.worker FOLDER       # the same as a child of `headway up`

Its clients are `LanguageWorker` and `AsyncLanguageWorker` in client.py. The socket is in `.headway/run/` (0700), with
mode 0600; a second worker for the same project is refused. Models are loaded on the first question; the child of
`headway up` loads those of the reply tasks at once. When it stops, running answers get a few more seconds, and other
questions get an error.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from headway.kits import models
from headway.kits.reply.engine import MOST_MODELS, LanguageEngine, ModelJob
from headway.kits.reply.settings import reply_settings
from headway.kits.reply.wire import (
    ALIVE_S,
    LOCK,
    MOST_BYTES,
    PREFIX,
    Alive,
    Answer,
    Generate,
    HealthQuestion,
    Question,
    TextDelta,
    WorkerFailure,
    WorkerStatus,
    base_of,
    failure,
    frame,
    question_of,
    reachable,
    socket_of,
)
from headway.loop import held
from headway.nouns import errors
from headway.promote import Registry
from headway.settings import Settings, load

logger = logging.getLogger("headway.loop")
_GRACE_S = 4.0  # `up` waits for five seconds
_ASK_S = 10.0  # a connected client must send its question within this time


class WorkerServer:
    """The worker of one project."""

    def __init__(
        self,
        folder: Path,
        *,
        say: Callable[[str], None] = lambda _line: None,
        announce: Callable[[Path], None] = lambda _socket: None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 0,
        idle_s: float = 600.0,
        grace_s: float = _GRACE_S,
        preload: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        settings = load(folder, environ)
        cache = settings.cache
        self._say, self._preload = say, local_bases(settings)[:MOST_MODELS] if preload else []
        adapters = folder / ".headway" / "run" / "adapters"
        self._announce = announce  # called with the socket once it listens
        self._engine = LanguageEngine(
            lambda name: models.folder(name, cache),
            find_adapter=lambda digest: adapter_folder(folder, digest, adapters),
            say=say,
            device=device,
            dtype=dtype,
            threads=threads,
            idle_s=idle_s,
        )
        self._grace_s = grace_s
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ready = threading.Event()  # set once it listens

    def run(self) -> int:
        """Run until stopped; returns the exit status."""
        with held(self.folder / ".headway" / LOCK, "headway worker"):
            asyncio.run(self._serve())
        return 0

    def stop(self) -> None:
        """Stop the worker. Thread-safe."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, self._stop.set)
        listening = _listen(socket_of(self.folder))
        open_connections: set[asyncio.Task[None]] = set()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            open_connections.add(task)
            try:
                await self._connection(reader, writer)
            finally:
                open_connections.discard(task)

        server = await asyncio.start_unix_server(answer, sock=listening)
        self._engine.start()
        self._announce(socket_of(self.folder))
        self.ready.set()
        for base in self._preload:
            self._engine.put(ModelJob(Generate(base_of(base, self.folder), ()), self._loaded))
        try:
            await self._stop.wait()
        finally:
            server.close()
            socket_of(self.folder).unlink(missing_ok=True)
            await loop.run_in_executor(None, self._engine.stop, self._grace_s)
            if open_connections:
                await asyncio.wait(open_connections, timeout=1.0)

    def _loaded(self, answer: Answer) -> None:
        """A model that cannot be loaded is said now, not with the first question."""
        if isinstance(answer, WorkerFailure):
            self._say(f"{answer.message} {answer.hint}".rstrip())

    # -- one question

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not _same_user(writer.get_extra_info("socket")):
                return
            async with asyncio.timeout(_ASK_S):
                question = await _question(reader)
            if isinstance(question, HealthQuestion):
                writer.write(frame(self._health()))
            elif isinstance(question, errors.HeadwayError):
                writer.write(frame(failure(question)))
            else:
                await self._answers(question, reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client disconnected, or never sent a question
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _answers(self, question: Question, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert not isinstance(question, HealthQuestion)
        assert self._loop is not None
        loop = self._loop
        answers: asyncio.Queue[Answer] = asyncio.Queue()
        until = None if question.deadline_s is None else self._engine.clock() + question.deadline_s

        def send(answer: Answer) -> None:
            loop.call_soon_threadsafe(answers.put_nowait, answer)

        job = ModelJob(question, send, until)
        try:
            self._engine.put(job)
        except errors.HeadwayError as error:
            writer.write(frame(failure(error)))
            return
        gone = asyncio.ensure_future(reader.read(1))  # a client sends nothing more: a read returns when it disconnects
        try:
            while True:
                next_answer = asyncio.ensure_future(answers.get())
                await asyncio.wait((gone, next_answer), timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    next_answer.cancel()
                    return
                if not next_answer.done():
                    next_answer.cancel()
                    writer.write(frame(Alive()))
                else:
                    answer = next_answer.result()
                    writer.write(_framed(answer))
                    if not isinstance(answer, TextDelta):
                        return
                await writer.drain()
        finally:
            job.cancelled = True
            gone.cancel()

    def _health(self) -> WorkerStatus:
        engine = self._engine
        return WorkerStatus(os.getpid(), engine.models, engine.running, engine.waiting, engine.made, engine.tokens)


def _framed(answer: Answer) -> bytes:
    try:
        return frame(answer)
    except errors.InvalidInput as error:
        return frame(failure(error))


async def _question(reader: asyncio.StreamReader) -> Question | errors.HeadwayError:
    length = int.from_bytes(await reader.readexactly(PREFIX), "big")
    wrong = ""
    if length > MOST_BYTES:
        wrong = f"The question has {length} bytes, expected at most {MOST_BYTES}."
    else:
        try:
            return question_of(await reader.readexactly(length))
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            wrong = f"The question cannot be read: {error}."
    return errors.InvalidInput(wrong, code="bad_prompt", hint="Use headway.kits.reply.client of the same version.")


def _listen(path: Path) -> socket.socket:
    """Listen on the socket. This process holds the lock, so an existing socket belongs to a dead worker."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(path) as address:
            listener.bind(address)
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def _same_user(connection: socket.socket) -> bool:
    """Whether the client is the same user; checked on Linux only, elsewhere the folder's mode protects the socket."""
    if not sys.platform.startswith("linux"):
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] in (os.getuid(), 0))


def adapter_folder(project: Path, digest: str, into: Path) -> Path:
    """The adapter of a bundle as a PEFT folder, written on first use; a damaged bundle is refused."""
    from headway.kits.reply.adapters import write_peft

    registry = Registry(project / ".headway" / "policies")
    header, tensors = registry.load(digest, task=registry.header(digest).task)
    return write_peft(tensors, header.extra, into / digest)


def needs_worker(settings: Settings) -> bool:
    """Whether a task uses a local language model."""
    return bool(local_bases(settings))


def local_bases(settings: Settings) -> list[str]:
    """The models of the reply tasks that answer on this machine."""
    replies = (reply_settings(task).base for task in settings.tasks.values() if task.kind == "reply")
    return list(dict.fromkeys(base for base in replies if base not in settings.upstreams))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="headway.kits.reply.worker", description="Hold language models for a project."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="", help="the server's address, which `up` passes to all its workers")
    parser.add_argument("--idle", type=float, default=600.0)
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        return WorkerServer(options.folder, say=_say, announce=_announce, idle_s=options.idle, preload=True).run()
    except errors.HeadwayError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _announce(socket: Path) -> None:
    _say(f"The worker listens at {socket}.")


if __name__ == "__main__":
    sys.exit(main())
