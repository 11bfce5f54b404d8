"""A language worker: one process that holds language models for a project, asked over a Unix socket.

    Work(Path(".")).run()                    # until SIGTERM, SIGINT; `headway worker`
    python -m headway.kits.reply.worker FOLDER       # the same as a child of `headway up`

It answers `client.worker.Worker` and `AsyncWorker`. The socket lies in `.headway/run/` (0700) and is 0600; a second
worker for the same project is refused. Nothing is loaded before the first question. Stopping: no new questions, what is
being answered may take a few seconds more, the rest is told.
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
from headway.kits.reply.engine import Engine, Job
from headway.kits.reply.wire import (
    ALIVE_S,
    LOCK,
    MOST_BYTES,
    PREFIX,
    Alive,
    Answer,
    Health,
    Healthy,
    Question,
    Said,
    failure,
    frame,
    question_of,
    reachable,
    socket_of,
)
from headway.loop.lock import held
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.settings import Settings, load

__all__ = ["Work", "main", "wanted"]

logger = logging.getLogger("headway.loop")
_GRACE_S = 4.0  # `up` waits for five
_ASK_S = 10.0  # a client that has connected says what it wants by then


class Work:
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
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        cache = load(folder, environ).cache
        self._say = say
        self._announce = announce  # told the socket once it listens
        self._engine = Engine(
            lambda name: models.folder(name, cache),
            say=say,
            device=device,
            dtype=dtype,
            threads=threads,
            idle_s=idle_s,
        )
        self._grace_s = grace_s
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.ready = threading.Event()  # it listens

    def run(self) -> int:
        """Until it is told to stop; returns the exit status."""
        with held(self.folder / ".headway" / LOCK, "headway worker"):
            asyncio.run(self._serve())
        return 0

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, self._stop.set)
        listening = _listen(socket_of(self.folder))
        answering: set[asyncio.Task[None]] = set()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            answering.add(task)
            try:
                await self._connection(reader, writer)
            finally:
                answering.discard(task)

        server = await asyncio.start_unix_server(answer, sock=listening)
        self._engine.start()
        self._say(f"The worker listens at {socket_of(self.folder)}.")
        self._announce(socket_of(self.folder))
        self.ready.set()
        try:
            await self._stop.wait()
        finally:
            server.close()
            socket_of(self.folder).unlink(missing_ok=True)
            await loop.run_in_executor(None, self._engine.stop, self._grace_s)
            if answering:
                await asyncio.wait(answering, timeout=1.0)

    # -- one question

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not _ours(writer.get_extra_info("socket")):
                return
            async with asyncio.timeout(_ASK_S):
                question = await _question(reader)
            if isinstance(question, Health):
                writer.write(frame(self._health()))
            elif isinstance(question, HeadwayError):
                writer.write(frame(failure(question)))
            else:
                await self._answers(question, reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client is gone, or never said what it wanted
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _answers(self, question: Question, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert not isinstance(question, Health)
        assert self._loop is not None
        loop = self._loop
        answers: asyncio.Queue[Answer] = asyncio.Queue()
        until = None if question.deadline_s is None else self._engine.clock() + question.deadline_s

        def tell(answer: Answer) -> None:
            loop.call_soon_threadsafe(answers.put_nowait, answer)

        job = Job(question, tell, until)
        try:
            self._engine.put(job)
        except HeadwayError as error:
            writer.write(frame(failure(error)))
            return
        gone = asyncio.ensure_future(reader.read(1))  # a client says nothing more: what comes is its end
        try:
            while True:
                coming = asyncio.ensure_future(answers.get())
                await asyncio.wait((gone, coming), timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    coming.cancel()
                    return
                if not coming.done():
                    coming.cancel()
                    writer.write(frame(Alive()))
                else:
                    answer = coming.result()
                    writer.write(_framed(answer))
                    if not isinstance(answer, Said):
                        return
                await writer.drain()
        finally:
            job.taken_back = True
            gone.cancel()

    def _health(self) -> Healthy:
        engine = self._engine
        return Healthy(os.getpid(), engine.models, engine.running, engine.waiting, engine.made, engine.tokens)


def _framed(answer: Answer) -> bytes:
    try:
        return frame(answer)
    except InvalidInput as error:
        return frame(failure(error))


async def _question(reader: asyncio.StreamReader) -> Question | HeadwayError:
    length = int.from_bytes(await reader.readexactly(PREFIX), "big")
    wrong = ""
    if length > MOST_BYTES:
        wrong = f"A question of {length} bytes is too long."
    else:
        try:
            return question_of(await reader.readexactly(length))
        except (msgspec.MsgspecError, RecursionError, ValueError) as error:
            wrong = f"The question cannot be read: {error}."
    return InvalidInput(wrong, code="bad_prompt", hint="Use headway.kits.reply.client of the same version.")


def _listen(path: Path) -> socket.socket:
    """The lock is ours, so a socket that lies there is a dead worker's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with reachable(path) as address:
            found.bind(address)
    except BaseException:
        found.close()
        raise
    finally:
        os.umask(before)
    found.listen(64)
    return found


def _ours(connection: socket.socket) -> bool:
    """Whether the same user is at the other end, where the system tells; elsewhere the folder's mode must do."""
    if not sys.platform.startswith("linux"):
        return True
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] in (os.getuid(), 0))


def wanted(settings: Settings) -> bool:
    """Whether a task of these settings is answered by a local language model."""
    return any(task.kind == "reply" for task in settings.tasks.values())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="headway.kits.reply.worker", description="Hold language models for a project."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="", help="the server's address, which `up` tells all its workers")
    parser.add_argument("--idle", type=float, default=600.0)
    asked = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        return Work(asked.folder, say=_say, idle_s=asked.idle).run()
    except HeadwayError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
