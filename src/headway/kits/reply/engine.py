"""The thread of a language worker that holds the models: it loads them when asked, and makes tokens for everybody.

One thread, because one computation at a time is fastest; whoever asks meanwhile joins the running batch between two
tokens. A model that nobody has asked for a while is let go. torch is imported here, on the first question.
"""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headway.kits.reply.wire import Answer, Done, Generate, LoadedModel, Said, Score, ScoreDone, failure
from headway.nouns.errors import Busy, HeadwayError, Unavailable
from headway.nouns.protocols import Completion

if TYPE_CHECKING:
    from headway.kits.reply.language import Batch, LanguageModel, Request

__all__ = ["Engine", "Job"]

logger = logging.getLogger("headway.loop")
_MOST_JOBS = 256
_MOST_MODELS = 2


@dataclass(eq=False, slots=True)
class Job:
    """One question, and where its answers go. `tell` is called from the engine's thread."""

    question: Generate | Score
    tell: Callable[[Answer], None]
    until: float | None = None  # by the engine's clock
    taken_back: bool = False
    ended: bool = False
    requests: list[Request] = field(default_factory=list)
    completions: dict[int, Completion] = field(default_factory=dict)

    def end(self, answer: Answer) -> None:
        if not self.ended:
            self.ended = True
            self.leave()
            self.tell(answer)

    def leave(self) -> None:
        for each in self.requests:
            each.cancelled = True


@dataclass(eq=False, slots=True)
class _Loaded:
    model: LanguageModel
    batch: Batch
    about: LoadedModel
    used: float
    jobs: list[Job] = field(default_factory=list)


class Engine:
    """Holds models and answers jobs in its own thread.

    engine = Engine(lambda name: models.folder(name, cache), say=print)
    engine.start(); engine.put(Job(...)); engine.stop(5.0)
    """

    def __init__(
        self,
        find: Callable[[str], Path],
        *,
        say: Callable[[str], None] = lambda _line: None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 0,
        idle_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._say = say
        self._device, self._dtype, self._threads = device, dtype, threads
        self._idle_s = idle_s
        self.clock = clock
        self._new: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._loaded: dict[str, _Loaded] = {}
        self._stop_by: float | None = None
        self._thread = threading.Thread(target=self._run, name="headway-engine", daemon=True)
        self.made = self.tokens = 0

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
        """From any thread."""
        if self._stop_by is not None:
            raise _stopping()
        if self._new.qsize() >= _MOST_JOBS:
            raise Busy(f"{_MOST_JOBS} questions wait already.", code="worker_busy", hint="Ask again in a while.")
        self._new.put(job)

    def stop(self, grace_s: float) -> None:
        """What is being answered may be finished within `grace_s`; the rest is told that the worker stops."""
        self._stop_by = self.clock() + grace_s
        self._new.put(None)
        self._thread.join()

    @property
    def models(self) -> tuple[LoadedModel, ...]:
        return tuple(each.about for each in list(self._loaded.values()))

    @property
    def running(self) -> int:
        return sum(each.batch.running for each in list(self._loaded.values()))

    @property
    def waiting(self) -> int:
        return self._new.qsize() + sum(each.batch.waiting for each in list(self._loaded.values()))

    # -- the thread

    def _run(self) -> None:
        while True:
            for job in self._arrived():
                self._begin(job)
            busy = [each for each in self._loaded.values() if each.batch.busy]
            for each in busy:
                self._step(each)
            if self._stop_by is not None and (not busy or self.clock() >= self._stop_by):
                break
        for each in self._loaded.values():
            for job in each.jobs:
                job.end(failure(_stopping()))
        for job in self._queued():
            job.end(failure(_stopping()))
        self._loaded.clear()

    def _arrived(self) -> list[Job]:
        """What has come in; waits for it where nothing else is to be done."""
        found = self._queued()
        if found or self._stop_by is not None or any(each.batch.busy for each in self._loaded.values()):
            return found
        try:
            first = self._new.get(timeout=self._idle_s if self._loaded else None)
        except queue.Empty:
            self._let_go(list(self._loaded))
            return []
        if first is None:
            return []
        return [first, *self._queued()]

    def _queued(self) -> list[Job]:
        found: list[Job] = []
        while True:
            try:
                job = self._new.get_nowait()
            except queue.Empty:
                return found
            if job is not None:
                found.append(job)

    def _begin(self, job: Job) -> None:
        if job.taken_back:
            return
        if self._late(job):
            return
        try:
            there = self._model(job.question.model)
            if isinstance(job.question, Score):
                question = job.question
                scored = there.model.score(question.prompt, question.reply, ended=question.ended)
                job.end(ScoreDone(scored))
                return
            job.requests = [there.model.request(each) for each in job.question.prompts]
        except HeadwayError as error:
            job.end(failure(error))
            return
        except Exception as error:  # out of memory, a driver: this question fails, the worker lives
            logger.exception("model=%s", job.question.model)
            job.end(failure(_broken(error)))
            return
        if not job.requests:
            job.end(Done(()))
            return
        there.jobs.append(job)
        for each in job.requests:
            there.batch.add(each)

    def _step(self, there: _Loaded) -> None:
        for job in there.jobs:
            if job.taken_back:
                job.leave()
            else:
                self._late(job)
        of = {id(each): (job, at) for job in there.jobs for at, each in enumerate(job.requests)}
        try:
            said = there.batch.step()
        except Exception as error:
            logger.exception("model=%s", there.about.name)
            for job in there.jobs:
                job.end(failure(_broken(error)))
            self._let_go([name for name, each in self._loaded.items() if each is there])
            return
        for request, delta in said:
            job, at = of[id(request)]
            if job.ended or job.taken_back:
                continue
            question = job.question
            if isinstance(question, Generate) and question.stream and delta.text:
                job.tell(Said(at, delta.text))
            if delta.completion is not None:
                self.made += 1
                self.tokens += len(delta.completion.tokens)
                job.completions[at] = delta.completion
                if len(job.completions) == len(job.requests):
                    job.end(Done(tuple(job.completions[each] for each in range(len(job.requests)))))
        for job in there.jobs:
            if job.taken_back:
                job.leave()  # its rows go with the next step
        there.jobs = [each for each in there.jobs if not each.ended and not each.taken_back]
        there.used = self.clock()

    def _late(self, job: Job) -> bool:
        if job.until is None or self.clock() < job.until:
            return False
        made = sum(len(each.made) for each in job.requests)
        message = f"The deadline of {job.question.deadline_s:g} s passed after {made} tokens."
        job.end(failure(Unavailable(message, code="deadline", hint="Allow more time, or ask for fewer tokens.")))
        return True

    # -- models

    def _model(self, name: str) -> _Loaded:
        there = self._loaded.get(name)
        if there is None:
            there = self._load(name)
        there.used = self.clock()
        return there

    def _load(self, name: str) -> _Loaded:
        begun = self.clock()
        folder = self._find(name)
        from headway.kits.reply.language import Batch, LanguageModel, use_threads

        use_threads(self._threads)
        idle = sorted(
            (each for each, one in self._loaded.items() if not one.batch.busy), key=lambda n: self._loaded[n].used
        )
        self._let_go(idle[: max(0, len(self._loaded) + 1 - _MOST_MODELS)])
        model = LanguageModel.load(folder, name=Path(name).name, device=self._device, dtype=self._dtype)
        load_s = self.clock() - begun
        about = LoadedModel(name, str(folder), model.where.name, model.window, load_s)
        self._loaded[name] = _Loaded(model, Batch(model), about, self.clock())
        self._say(f"{model.name} is loaded ({model.where.name}, {load_s:.1f} s).")
        return self._loaded[name]

    def _let_go(self, names: list[str]) -> None:
        for name in names:
            gone = self._loaded.pop(name)
            self._say(f"{gone.model.name} is let go.")
            del gone
        if names:
            gc.collect()
            from headway.kits.reply.language import give_back

            give_back()


def _stopping() -> Unavailable:
    return Unavailable("The language worker is stopping.", code="stopping", hint="Ask again when it is back.")


def _broken(error: Exception) -> Unavailable:
    said = str(error).strip().splitlines()
    return Unavailable(
        f"The language worker could not answer: {type(error).__name__}: {said[0][:200] if said else ''}",
        code="worker_failed",
        hint="Its log says more: .headway/run/worker.log",
    )
