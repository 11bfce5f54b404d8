"""`headway worker`: the process that holds local language models for a project."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from headway.cli import Output, Session, renders, verb


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
