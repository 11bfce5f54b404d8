"""An open project folder: settings, store, policies. `Project` adds the verbs, which take it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headway.decide import explore
from headway.nouns import Catalogue, Clock, Decision, Outcome, Progress, Signal, Source, catalogue, errors
from headway.observe import (
    BLOCK,
    Agree,
    Jobs,
    Query,
    Redactor,
    Store,
    Writer,
    damaged,
    keep_totals,
    open_database,
    outcome_now,
    settle as settle_task,
    waiting_signals,
)
from headway.project.decide.inputs import Offers
from headway.project.decide.serving import Servings
from headway.promote import Ledger, Registry
from headway.reward import Rewards
from headway.settings import Settings, load

if TYPE_CHECKING:
    from headway.nouns import TaskWorth
    from headway.observe import ChangeLags, ServedRows
    from headway.prove import Look


_MANY = 20_000  # waiting signals, from which on settling them is a bulk of writes
Listener = Callable[[Sequence[Decision], Sequence[Signal]], None]  # called with new durable rows, in any thread


class Opened:
    """An open project folder, as every verb takes it. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Clock = time.time,
        seed: int | None = None,
        source: Source = "real",
    ) -> None:
        self.folder = folder
        self.home = folder / ".headway"
        self.clock = clock
        self.settings: Settings = load(folder, environ)
        self.catalogue: Catalogue = catalogue(self.settings.kits)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with suppress(FileExistsError), os.fdopen(os.open(self.home / ".gitignore", flags, 0o600), "w") as marker:
            marker.write("*\n")  # users' texts: git must not commit them by accident
        store = self.settings.store
        self.database = open_database(self.home / "headway.db" if store.embedded else store.url, store.durability)
        self.query = Query(self.database)
        self.ledger = Ledger(self.database, self.query)
        self.registry = Registry(self.home / "policies", self.ledger.rewritten)
        self.servings = Servings(self.settings, self.registry, self.ledger, self.database, self.catalogue)
        self.writer = Writer(self.database, self.settings.store.queue)
        self.store = Store(self.database, self.writer, clock)
        self.redact = Redactor(store.redact)
        self.offers = Offers(self.redact)
        self._read_signals: dict[str, frozenset[str]] = {}
        self._rewards: dict[str, Rewards] = {}
        self._sealed: set[str] = set()  # tasks whose stored columns were checked and completed since this was opened
        self.served: dict[str, ServedRows] = {}  # by task: the outcomes that alarms are raised on
        self.unfit: dict[str, tuple[str, int, tuple[str, ...]]] = {}  # by task: reward version, last outcome, sentences
        self.worths: dict[str, tuple[tuple[str, str, str], int, TaskWorth]] = {}  # by task: of what, last outcome, it
        self.change_lags: dict[str, tuple[str, int, ChangeLags]] = {}  # by task: as last shown
        self.first_looks: dict[str, tuple[Hashable, Look | None]] = {}  # by task: the last one, and what it rests on
        # by task: about whom, outcomes so far, the experiment that is offered
        self.experiment_offers: dict[str, tuple[Hashable, int, str]] = {}
        self.kept: dict[str, Any] = {}  # what kits keep while the project is open, by their names
        self.recent_tasks: dict[str, str] = {}  # decision id → task, of the latest decisions
        self.seeds = None if seed is None else explore.Seeds(seed)
        self.source: Source = "synthetic" if self.settings.store.synthetic else source
        self.listeners: list[Listener] = []

    @property
    def jobs(self) -> Jobs:
        """Work that others do: the loop, or a worker of a kit."""
        return Jobs(self.database)

    # -- rewards

    def read_signals(self, task: str) -> frozenset[str]:
        """The signals that the reward or a guard of a task reads; empty if a function decides."""
        read = self._read_signals.get(task)
        if read is None:
            counting = self.rewards(task).counting
            read = counting.union(self.settings.task(task).guards) if counting else counting
            self._read_signals[task] = read
        return read

    def rewards(self, task: str) -> Rewards:
        """The reward definition of a task."""
        rewards = self._rewards.get(task)
        if rewards is None:
            rewards = self._rewards[task] = self.settings.rewards(task)
        return rewards

    def settle(self, task: str, *, again: bool = False, progress: Progress | None = None) -> int:
        """Settle all outcomes that are known; returns the number written."""
        wait_s = self.settings.task(task).reward_after_s
        how = self._judging(task)
        many = waiting_signals(self.database, self.query, task) > _MANY or again
        with self.lock(), self.database.bulk() if many else nullcontext():
            written = settle_task(self.database, self.query, task, wait_s=wait_s, again=again, progress=progress, **how)
            task_id = self.query.name_id("task", task)
            keep_totals(self.database, task_id)
            if (written or task not in self._sealed) and self.query.last_decision(task) >= BLOCK:
                from headway.observe import seal  # numpy

                seal(self.database, task_id, check=task not in self._sealed)
                self._sealed.add(task)
            return written

    def _judging(self, task: str) -> dict[str, Any]:
        """How signals of a task become an outcome now."""
        rewards, needs_decision = self.rewards(task), isinstance(self.settings.task(task).reward, str)

        def judge(seq: int, signals: Mapping[str, float], age_s: float) -> Outcome:
            decision = self.query.by_seq(seq) if needs_decision and signals else None
            return rewards.outcome(signals, age_s=age_s, decision=decision)

        agree = _agreement(rewards) if rewards.consensus else None
        return {"judge": judge, "version": rewards.version, "now": self.clock(), "agree": agree}

    def outcome_now(self, stored: Decision) -> Outcome:
        """The outcome of a stored decision, whether it was settled since its last signal or not; nothing is written."""
        return outcome_now(self.database, self.query, stored, **self._judging(stored.task))

    def tasks(self) -> list[str]:
        """Declared tasks and those that have decisions."""
        return sorted({*self.settings.tasks, *self.query.names("task")})

    # -- closing

    def close(self) -> None:
        """Commit queued writes and close the files."""
        self.writer.close()
        self.database.close()
        self.servings.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lock for settling, learning and folding: one holder per store, on any machine. Not re-entrant."""
        with self.database.lock("project"):
            yield

    def damage(self) -> errors.Damaged | None:
        """What is wrong in the store, after an error that nobody expected. Reads everything."""
        problems = self.database.check()
        return damaged(self.database.name, "; ".join(problems)) if problems else None

    # -- durable rows

    @property
    def queued(self) -> int:
        """The number of writes that wait for the next commit."""
        return len(self.writer)

    def tell(self, decisions: Sequence[Decision], signals: Sequence[Signal]) -> None:
        """Call the listeners with new durable rows."""
        for listener in self.listeners:
            listener(decisions, signals)

    def tell_after(self, storing: Future[Any], signals: Sequence[Signal] | None = None) -> None:
        """The same, once a write is done."""

        def stored(done: Future[Any]) -> None:
            if done.exception() is None:
                self.tell(done.result() if signals is None else (), signals or ())

        if self.listeners:
            storing.add_done_callback(stored)

    def signalled(self, task: str) -> None:
        """Called when signals of a task are durable; `Project` lets online policies learn from them."""


def _agreement(rewards: Rewards) -> Agree:
    from headway.reward import agreeing  # numpy, loaded only if a task needs it

    return lambda given: agreeing(rewards, given)
