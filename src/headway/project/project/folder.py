"""An open project folder: settings, store, policies; decide and signal. `Project` adds the other verbs."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from headway.decide import explore
from headway.nouns.errors import Damaged
from headway.nouns.ids import episode_id, parse_decision_id
from headway.nouns.kit import Catalogue, catalogue
from headway.nouns.protocols import Clock
from headway.nouns.records import Decision, Ending, Outcome, Signal, Source
from headway.observe.damage import damaged
from headway.observe.database import open_database
from headway.observe.query import Query
from headway.observe.redact import Redactor
from headway.observe.store import Store
from headway.observe.writer import Writer
from headway.project import decide, signal
from headway.project.decide.consider import Ask, Considered
from headway.project.decide.episode_memory import EpisodeMemories
from headway.project.decide.inputs import Details, Offer, Offers
from headway.project.decide.serving import Servings
from headway.promote.ledger import Ledger
from headway.promote.registry import Registry
from headway.reward.compose import Rewards
from headway.settings import Settings, load

if TYPE_CHECKING:
    from headway.nouns.factored import DrawnHead
    from headway.observe.lags import ChangeLags
    from headway.observe.served import ServedRows
    from headway.project.inspect.worth import KnownWorth
    from headway.project.prove.screen import Look


Listener = Callable[[Sequence[Decision], Sequence[Signal]], None]  # called with new durable rows, in any thread


class ProjectFolder:
    """A project that decides and accepts signals. Thread-safe."""

    consider_many = decide.consider  # for servers that group requests
    submit = decide.submit
    submit_ask = decide.submit_ask
    checked_signals = signal.checked
    withdraw = signal.withdraw
    settle = signal.settle

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
        self.served: dict[str, ServedRows] = {}  # by task: the outcomes that alarms are raised on
        self.unfit: dict[str, tuple[str, int, tuple[str, ...]]] = {}  # by task: reward version, last outcome, sentences
        self.worths: dict[str, KnownWorth] = {}  # by task: what its policy saves
        self.change_lags: dict[str, tuple[str, int, ChangeLags]] = {}  # by task: as last shown
        self.first_looks: dict[str, tuple[Hashable, Look | None]] = {}  # by task: the last one, and what it rests on
        self.memories = EpisodeMemories()  # of factored tasks
        self.recent_tasks: dict[str, str] = {}  # decision id → task, of the latest decisions
        self.seeds = None if seed is None else explore.Seeds(seed)
        self.source: Source = "synthetic" if self.settings.store.synthetic else source
        self.listeners: list[Listener] = []

    # -- decide

    def decide(
        self,
        task: str,
        text: str = "",
        candidates: Iterable[Offer] | None = None,
        **details: Unpack[Details],
    ) -> Decision:
        """Choose one of the candidates, log the choice with its exact probability, and return it.

        A repeated `id` returns the stored decision. In a sticky task the first decision of an episode draws and the
        later ones repeat it.
        """
        return decide.decide(self, Ask(task, text, candidates, details))

    def consider(
        self,
        task: str,
        text: str = "",
        candidates: Iterable[Offer] | None = None,
        **details: Unpack[Details],
    ) -> Considered:
        """The decision that `decide` would store, not stored yet."""
        return decide.one(self, Ask(task, text, candidates, details))

    def heads(self, decision: str) -> tuple[DrawnHead, ...]:
        """The heads of a factored decision, the first one first: choice, probabilities and what was allowed.

        project.heads(pick.id)[0].propensity      # of the lead; their product is pick.propensity
        """
        from headway.project.decide.factored import HEADS, KIT, heads_of

        data = self.query.details(parse_decision_id(decision), KIT).get(HEADS)
        return () if data is None else heads_of(data)

    def record(
        self,
        task: str,
        text: str = "",
        candidates: Iterable[Offer] | None = None,
        *,
        action: str,
        propensity: float | None = None,
        probabilities: Iterable[float] | None = None,
        policy: str = "elsewhere@0",
        at: float | None = None,
        **details: Unpack[Details],
    ) -> Decision:
        """Log a decision made elsewhere, with its probability.

        Pass all `probabilities`, or only the `propensity` of the action: the rest is then spread evenly.
        """
        ask = Ask(task, text, candidates, details)
        return decide.record(
            self, ask, action=action, propensity=propensity, probabilities=probabilities, policy=policy, at=at
        )

    @contextmanager
    def decision(
        self, task: str, text: str = "", candidates: Iterable[Offer] | None = None, **more: Any
    ) -> Iterator[Decision]:
        """`with project.decision(…) as pick:` records `latency_s`, and a raised exception as a failed outcome."""
        started = time.perf_counter()
        pick = self.decide(task, text, candidates, **more)
        try:
            yield pick
        except BaseException as error:
            self.signal(
                pick.id, {"failed": 1.0, "latency_s": time.perf_counter() - started}, label=type(error).__name__
            )
            raise
        self.signal(pick.id, {"latency_s": time.perf_counter() - started})

    # -- signal

    def signal(
        self,
        subject: str,
        signals: Mapping[str, float] | None = None,
        *,
        rater: str = "",
        key: str = "",
        early: bool = False,
        at: float | None = None,
        label: str = "",
        **named: float,
    ) -> int:
        """Record how a decision or an episode went; returns the number of new signals.

        project.signal(pick.id, solved=1.0, cost_usd=0.004)
        project.signal(pick.id, {"solved": 1.0}, rater="bob", key="retry-safe")
        """
        values = {**(signals or {}), **named}
        rows = signal.checked(self, subject, values, rater=rater, key=key, at=at, label=label)
        return signal.signal(self, rows, early=early)

    def submit_signals(self, signals: list[Signal], *, early: bool = False) -> Future[Any]:
        """Store checked signals; the future is done when they are durable."""
        storing = self.store.submit_signals(signals, early=early)
        self.tell_after(storing, signals)
        return storing

    def unread_signals(self, subject: str, names: Iterable[str]) -> list[str]:
        """Sentences about signals that neither the reward nor a guard of the task reads; see `signal.unread`."""
        task = self.recent_tasks.get(subject) or self.query.task_of(subject)
        return [] if task is None else signal.unread(self, task, names)

    def unread_names(self, task: str) -> list[str]:
        """The same about the signals of the latest decisions of a task."""
        return signal.unread(self, task, self.query.signal_names(task))

    def end_episode(self, task: str, episode: str, ending: Ending = "terminated", *, key: str | None = None) -> None:
        """End an episode: it accepts no more decisions. With `key`, only if that key opened it."""
        self.store.end_episode(task, episode, ending, self.clock(), key=key)

    def episode(self, task: str, episode: str) -> str:
        """The id for signals about an episode."""
        return episode_id(task, episode)

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

    def rescore(self, task: str) -> int:
        """Compute every reward again under the present definition; returns the number changed."""
        self._rewards.pop(task, None)
        self._read_signals.pop(task, None)
        return self.settle(task, again=True)

    def outcome(self, decision: str) -> Outcome:
        """How a decision went, settled up to now."""
        stored = self.query.decision(parse_decision_id(decision))
        self.settle(stored.task)
        return self.query.outcome(stored)

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

    def damage(self) -> Damaged | None:
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
