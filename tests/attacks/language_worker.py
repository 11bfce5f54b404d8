"""A language worker without a model: it speaks the real protocol over the project's socket and records every prompt.

with recording_worker(folder) as received: ...       # received: the prompts that reached the model
"""

from __future__ import annotations

import itertools
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.kits.models.language import Completion, Prompt
from headway.kits.reply.wire import (
    PREFIX,
    Generate,
    GenerateDone,
    HealthQuestion,
    TextDelta,
    WorkerFailure,
    WorkerStatus,
    frame,
    question_of,
    reachable,
    socket_of,
)

__all__ = ["recording_worker"]


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str) -> None:
        self.received: list[Prompt] = []
        self.numbers = itertools.count()  # no two replies are the same, so that every comparison asks for a vote
        super().__init__(address, _Connection)


class _Connection(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        length = int.from_bytes(self.rfile.read(PREFIX), "big")
        question = question_of(self.rfile.read(length))
        if isinstance(question, HealthQuestion):
            self.wfile.write(frame(WorkerStatus(pid=1, models=(), running=0, waiting=0, made=0, tokens=0)))
        elif isinstance(question, Generate):
            self.server.received += question.prompts
            replies = tuple(_reply(next(self.server.numbers)) for _ in question.prompts)
            if question.stream:
                self.wfile.write(frame(TextDelta(0, replies[0].text)))
            self.wfile.write(frame(GenerateDone(replies)))
        else:
            self.wfile.write(frame(WorkerFailure("Unavailable", "worker_missing", "This worker only writes.")))


def _reply(number: int) -> Completion:
    return Completion(
        text=f"Reply {number}.",
        tokens=(1, 2),
        logprob_model=(-0.1, -0.1),
        logprob_acting=(-0.1, -0.1),
        finish="stop",
        prompt_tokens=(1,),
    )


@contextmanager
def recording_worker(folder: Path) -> Iterator[list[Prompt]]:
    path = socket_of(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    with reachable(path) as address:
        server = _Server(address)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        path.unlink(missing_ok=True)
