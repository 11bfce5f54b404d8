"""The thread of a language worker that holds the models: it loads them on demand and generates tokens for all clients.

There is one thread, because one computation at a time is fastest; new questions join the running batch between two
tokens. Idle models are unloaded. torch is imported here, on the first question.
"""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headway.kits.models import Completion, Delta
from headway.kits.reply.adapters import AdapterFuser
from headway.kits.reply.room import no_memory, out_of_memory
from headway.kits.reply.wire import (
    Answer,
    Generate,
    GenerateDone,
    LoadedModel,
    Score,
    ScoreDone,
    TextDelta,
    WorkerFailure,
    failure,
)
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.reply.batch import Request, RunningBatch
    from headway.kits.reply.formats import FormatChange
    from headway.kits.reply.model import LanguageModel


logger = logging.getLogger("headway.loop")
_MOST_JOBS = 256
MOST_MODELS = 2
_MOST_ADAPTERS = 6  # of one model, in memory
_RANK = 16  # of adapters that are taken without compiling the model again


def _no_adapters(adapter: str) -> Path:
    raise errors.UnknownName(f"There is no adapter {adapter[:12]!r}.", code="adapter_missing")


@dataclass(eq=False, slots=True)
class ModelJob:
    """One question and its answers. `send` is called from the engine's thread."""

    question: Generate | Score
    send: Callable[[Answer], None]
    until: float | None = None  # on the engine's clock
    cancelled: bool = False
    ended: bool = False
    requests: list[Request] = field(default_factory=list)
    completions: dict[int, Completion] = field(default_factory=dict)

    def end(self, answer: Answer) -> None:
        if not self.ended:
            self.ended = True
            self.cancel_requests()
            self.send(answer)

    def cancel_requests(self) -> None:
        for request in self.requests:
            request.cancelled = True


@dataclass(eq=False, slots=True)
class _Loaded:
    model: LanguageModel
    about: LoadedModel
    used: float
    batches: dict[str, RunningBatch] = field(default_factory=dict)  # by adapter, the least recently used first
    jobs: list[ModelJob] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return any(batch.busy for batch in self.batches.values())


class LanguageEngine:
    """Holds models and answers jobs in its own thread.

    engine = LanguageEngine(lambda name: models.folder(name, cache), say=print)
    engine.start(); engine.put(ModelJob(...)); engine.stop(5.0)
    """

    def __init__(
        self,
        find: Callable[[str], Path],
        *,
        find_adapter: Callable[[str], Path] = _no_adapters,
        say: Callable[[str], None] = lambda _line: None,
        device: str = "auto",
        dtype: str = "auto",
        threads: int = 0,
        idle_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._find_adapter = find_adapter  # content hash → a PEFT folder
        self._say = say
        self._device, self._dtype, self._threads = device, dtype, threads
        self._idle_s = idle_s
        self.clock = clock
        self._new: queue.SimpleQueue[ModelJob | None] = queue.SimpleQueue()
        self._loaded: dict[str, _Loaded] = {}
        self._stop_by: float | None = None
        self._fuser = AdapterFuser(say)
        self._thread = threading.Thread(target=self._run, name="headway-engine", daemon=True)
        self.made = self.tokens = 0

    def start(self) -> None:
        self._thread.start()

    def put(self, job: ModelJob) -> None:
        """Add a job. Thread-safe."""
        if self._stop_by is not None:
            raise _stopping()
        if self._new.qsize() >= _MOST_JOBS:
            raise errors.Busy(
                f"{_MOST_JOBS} questions are already waiting.", code="worker_busy", hint="Try again later."
            )
        self._new.put(job)

    def stop(self, grace_s: float) -> None:
        """Give running answers `grace_s` to finish; the other jobs get the error `stopping`."""
        self._stop_by = self.clock() + grace_s
        self._new.put(None)
        self._thread.join()
        self._fuser.wait(max(0.0, self._stop_by - self.clock()))

    @property
    def models(self) -> tuple[LoadedModel, ...]:
        return tuple(loaded.about for loaded in list(self._loaded.values()))

    @property
    def running(self) -> int:
        return sum(batch.running for loaded in list(self._loaded.values()) for batch in list(loaded.batches.values()))

    @property
    def waiting(self) -> int:
        batches = [batch for loaded in list(self._loaded.values()) for batch in list(loaded.batches.values())]
        return self._new.qsize() + sum(batch.waiting for batch in batches)

    # -- the thread

    def _run(self) -> None:
        while True:
            for job in self._new_jobs():
                self._begin(job)
            busy = [loaded for loaded in self._loaded.values() if loaded.busy]
            for loaded in busy:
                self._step(loaded)
            if self._stop_by is not None and (not busy or self.clock() >= self._stop_by):
                break
        for loaded in self._loaded.values():
            for job in loaded.jobs:
                job.end(failure(_stopping()))
        for job in self._queued():
            job.end(failure(_stopping()))
        self._loaded.clear()

    def _new_jobs(self) -> list[ModelJob]:
        """New jobs; waits for one if there is nothing else to do."""
        jobs = self._queued()
        if jobs or self._stop_by is not None or any(loaded.busy for loaded in self._loaded.values()):
            return jobs
        try:
            first = self._new.get(timeout=self._idle_s if self._loaded else None)
        except queue.Empty:
            self._unload(list(self._loaded))
            return []
        if first is None:
            return []
        return [first, *self._queued()]

    def _queued(self) -> list[ModelJob]:
        jobs: list[ModelJob] = []
        while True:
            try:
                job = self._new.get_nowait()
            except queue.Empty:
                return jobs
            if job is not None:
                jobs.append(job)

    def _begin(self, job: ModelJob) -> None:
        if job.cancelled:
            return
        if self._late(job):
            return
        try:
            loaded = self._model(job.question.model)
            batch = self._batch(loaded, job.question.adapter)
            if isinstance(job.question, Score):
                asked = job.question
                scored = loaded.model.score(asked.prompt, asked.reply, ended=asked.ended, adapter=asked.adapter)
                job.end(ScoreDone(scored))
                return
            job.requests = [loaded.model.request(prompt) for prompt in job.question.prompts]
        except errors.HeadwayError as error:
            job.end(failure(error))
            return
        except Exception as error:  # out of memory, a driver error: only this question fails
            logger.exception("model=%s", job.question.model)
            job.end(failure(_broken(error)))
            return
        if not job.requests:
            job.end(GenerateDone(()))
            return
        loaded.jobs.append(job)
        for request in job.requests:
            batch.add(request)

    def _step(self, loaded: _Loaded) -> None:
        for job in loaded.jobs:
            if job.cancelled:
                job.cancel_requests()
            else:
                self._late(job)
        owner = {id(request): (job, at) for job in loaded.jobs for at, request in enumerate(job.requests)}
        try:
            deltas = self._next_tokens(loaded)
        except Exception as error:
            logger.exception("model=%s", loaded.about.name)
            self._drop(loaded, failure(_broken(error)))
            return
        for request, delta in deltas:
            job, at = owner[id(request)]
            if not job.ended and not job.cancelled:
                self._deliver(loaded.model, job, at, delta)
        for job in loaded.jobs:
            if job.cancelled:
                job.cancel_requests()  # its rows are removed in the next step
        loaded.jobs = [job for job in loaded.jobs if not job.ended and not job.cancelled]
        loaded.used = self.clock()

    def _drop(self, loaded: _Loaded, failed: WorkerFailure) -> None:
        """Unload a model that failed; its jobs fail."""
        for job in loaded.jobs:
            job.end(failed)
        self._unload([name for name, other in self._loaded.items() if other is loaded])

    def _next_tokens(self, loaded: _Loaded) -> list[tuple[Request, Delta]]:
        """One step of every batch that has requests."""
        deltas = []
        for adapter, batch in list(loaded.batches.items()):
            if batch.busy:
                deltas += batch.step()
                self._fuser.wrote(loaded.model, adapter, batch.running)
        return deltas

    def _deliver(self, model: LanguageModel, job: ModelJob, at: int, delta: Delta) -> None:
        """Send what was written for a request of a job, and end the job with its last completion."""
        question = job.question
        if isinstance(question, Generate) and question.stream and delta.text:
            job.send(TextDelta(at, delta.text))
        if delta.completion is not None:
            self.made += 1
            self.tokens += len(delta.completion.tokens)
            job.completions[at] = delta.completion
            if len(job.completions) == len(job.requests):
                job.end(_done(model, job))

    def _late(self, job: ModelJob) -> bool:
        if job.until is None or self.clock() < job.until:
            return False
        made = sum(len(request.made) for request in job.requests)
        message = f"The deadline of {job.question.deadline_s:g} s passed after {made} tokens."
        job.end(failure(errors.Unavailable(message, code="deadline", hint="Allow more time, or request fewer tokens.")))
        return True

    # -- models

    def _model(self, name: str) -> _Loaded:
        loaded = self._loaded.get(name)
        if loaded is None:
            loaded = self._load(name)
        loaded.used = self.clock()
        return loaded

    def _load(self, name: str) -> _Loaded:
        started = self.clock()
        folder = self._find(name)
        from headway.kits.reply.device import use_threads
        from headway.kits.reply.model import COMPRESSED, LanguageModel

        use_threads(self._threads)
        idle = sorted((name for name, one in self._loaded.items() if not one.busy), key=lambda n: self._loaded[n].used)
        self._unload(idle[: max(0, len(self._loaded) + 1 - MOST_MODELS)])
        model = LanguageModel.load(
            folder,
            name=Path(name).name,
            device=self._device,
            dtype=self._dtype,
            rank=_RANK,
            threads=self._threads,
        )
        load_s = self.clock() - started
        about = LoadedModel(name, str(folder), model.where.name, model.window, load_s)
        self._loaded[name] = _Loaded(model, about, self.clock())
        self._say(f"{model.name} is loaded ({model.where.name}, {load_s:.1f} s).")
        if self._dtype in COMPRESSED and model.where.device.type == "cpu":
            self._say(f"{self._dtype}: {self._change(model, folder)}.")
        return self._loaded[name]

    def _change(self, model: LanguageModel, folder: Path) -> FormatChange:
        """What the smaller format changes, measured against float32, which is loaded for this time only."""
        from headway.kits.reply.formats import measured
        from headway.kits.reply.model import LanguageModel

        exact = LanguageModel.load(folder, device=self._device, rank=_RANK, threads=self._threads)
        return measured(model, exact)

    def _batch(self, loaded: _Loaded, adapter: str) -> RunningBatch:
        """The batch of an adapter, which is loaded beside the others if it is new; those that idle longest go."""
        from headway.kits.reply.batch import RunningBatch

        batch = loaded.batches.pop(adapter, None)
        if batch is None:
            if adapter:
                loaded.model.add_adapter(adapter, self._find_adapter(adapter))
                self._say(f"{loaded.model.name} has the adapter {adapter[:12]}.")
            batch = RunningBatch(loaded.model, adapter=adapter)
        loaded.batches[adapter] = batch
        idle = [name for name, other in loaded.batches.items() if name != adapter and not other.busy]
        for name in idle[: max(0, len(loaded.batches) - _MOST_ADAPTERS)]:
            del loaded.batches[name]
            loaded.model.drop_adapter(name)
        loaded.about = msgspec.structs.replace(loaded.about, adapters=loaded.model.adapters)
        return batch

    def _unload(self, names: list[str]) -> None:
        for name in names:
            unloaded = self._loaded.pop(name)
            self._say(f"{unloaded.model.name} is unloaded.")
            del unloaded
        if names:
            gc.collect()
            from headway.kits.reply.device import give_back

            give_back()


def _done(model: LanguageModel, job: ModelJob) -> GenerateDone:
    """The completions in the order of the prompts, with the hashes of the model that made them."""
    completions = [job.completions[place] for place in range(len(job.requests))]
    base, template = model.weights_hash, model.template_hash
    return GenerateDone(tuple(replace(completion, base=base, template=template) for completion in completions))


def _stopping() -> errors.Unavailable:
    return errors.Unavailable("The language worker is stopping.", code="stopping", hint="Try again when it is back.")


def _broken(error: Exception) -> errors.Unavailable:
    if out_of_memory(error):
        return no_memory("The language worker", "Send shorter prompts or fewer at once, or use a smaller model.")
    lines = str(error).strip().splitlines()
    return errors.Unavailable(
        f"The language worker could not answer: {type(error).__name__}: {lines[0][:200] if lines else ''}",
        code="worker_failed",
        hint="See its log: .headway/run/worker.log",
    )
