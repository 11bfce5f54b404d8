"""Acting: decisions and signals through the store, outcomes settled. `decide` returns from what is durable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from headway.decide import acting, explore
from headway.nouns.errors import Conflict, InvalidInput
from headway.nouns.ids import decision_id, episode_id, is_episode, parse_decision_id
from headway.nouns.kit import Catalogue, catalogue
from headway.nouns.protocols import Clock
from headway.nouns.records import Decision, Ending, Outcome, Signal, Source
from headway.observe.database import open_database
from headway.observe.query import Query
from headway.observe.redact import Redactor
from headway.observe.settle import Agree, settle
from headway.observe.store import Store
from headway.observe.writer import Writer
from headway.project.inputs import Details, Offer, Offers, checked_name, checked_source, situation_of
from headway.project.recording import recorded
from headway.project.serving import Serving, Servings
from headway.promote.ledger import Ledger
from headway.promote.registry import Registry
from headway.reward.compose import Rewards
from headway.reward.signals import check
from headway.settings import Settings, load

__all__ = ["Deciding", "Listener"]

Listener = Callable[[Sequence[Decision], Sequence[Signal]], None]  # told what has become durable, in any thread


class Deciding:
    """What a project needs to act: settings, store, policies; decide, signal, settle."""

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
        self.registry = Registry(self.home / "policies")
        self.ledger = Ledger(self.database, self.query)
        self.servings = Servings(self.settings, self.registry, self.ledger, self.database, self.catalogue)
        self._writer = Writer(self.database, self.settings.store.queue)
        self._store = Store(self.database, self._writer, clock)
        self.redact = Redactor(store.redact)
        self.offers = Offers(self.redact)
        self._rewards: dict[str, Rewards] = {}
        self._tasks: dict[str, str] = {}  # decision id → task, of the latest decisions
        self._seeds = None if seed is None else explore.Seeds(seed)
        self._source: Source = "synthetic" if self.settings.store.synthetic else source
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

        The same `id` again returns the stored decision. In a sticky task the first decision of an episode draws and the
        later ones repeat it.
        """
        made, serving, opening = self.consider(task, text, candidates, **details)
        configs = {serving.config_hash: serving.config}
        try:
            (stored,) = self._store.add([made], configs, opening=[opening])
        except Conflict as error:
            if error.code != "draw_exists":
                raise
            made, serving, _ = self.consider(task, text, candidates, **details)
            (stored,) = self._store.add([made], {serving.config_hash: serving.config})
        self._remember(stored)
        self._tell([stored], ())
        return stored

    def submit(self, decisions: Iterable[tuple[Decision, Serving, bool]]) -> Future[list[Decision]]:
        """Store considered decisions as one atomic batch; the future is done when they are durable."""
        considered = list(decisions)
        configs = {serving.config_hash: serving.config for _, serving, _ in considered}
        made = [each for each, _, _ in considered]
        for each in made:
            self._remember(each)
        storing = self._store.submit_decisions(made, configs, opening=[opening for _, _, opening in considered])
        self._tell_after(storing)
        return storing

    def consider(
        self,
        task: str,
        text: str = "",
        candidates: Iterable[Offer] | None = None,
        **details: Unpack[Details],
    ) -> tuple[Decision, Serving, bool]:
        """The decision that `decide` would store, not stored yet; whose; and whether it opens a sticky episode."""
        settings = self.settings.task(task)
        offered = self.offers.candidates(task, candidates, settings.actions)
        situation = situation_of(task, text, details, self.redact)
        episode, identifier = situation.episode, details.get("id")
        serving = self.servings.of(settings)
        now = round(self.clock() * 1e6) / 1e6  # as the store keeps it
        seed = int.from_bytes(os.urandom(8), "little") if self._seeds is None else self._seeds.next()
        sticky = settings.sticky and episode is not None
        first = self.query.opening(task, episode) if sticky and episode is not None else None
        opening = sticky and first is None
        if first is not None and any(each.name == first.action for each in offered):
            acted = acting.sticky(first, offered)
            seed = first.seed
        else:
            (acted,), first = serving.pipeline.draw((situation,), offered, (seed,)), None
        assigned = {"canary": serving.canary, "current": serving.ref, "": ""}[acted.assigned]
        decision = Decision(
            id=decision_id(now) if identifier is None else parse_decision_id(identifier),
            situation=situation,
            candidates=offered,
            probabilities=acted.probabilities,
            action=offered[acted.chosen].name,
            propensity=acted.propensity,
            policy=serving.ref,
            policy_hash=serving.digest,
            config_hash=serving.config_hash,
            encoder=serving.encoder,
            exploration=acted.exploration,
            seed=seed,
            at=now,
            source=self._source_of(details),
            draw_id="" if first is None else first.id,
            assigned=assigned,
            state_seq=serving.state_seq,
            key=details.get("key", ""),
        )
        return decision, serving, opening

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
        """Log a decision that something else made, with the probability that it was made with.

        Give all `probabilities`, or the `propensity` of the action alone: the rest is then spread evenly.
        """
        now = self.clock()
        identifier = details.get("id")
        made = recorded(
            situation_of(task, text, details, self.redact),
            self.offers.candidates(task, candidates, self.settings.task(task).actions),
            action=self.redact(action),
            propensity=propensity,
            probabilities=None if probabilities is None else tuple(probabilities),
            policy=policy,
            at=now if at is None else at,
            id=decision_id(now) if identifier is None else parse_decision_id(identifier),
            key=details.get("key", ""),
            source=self._source_of(details, "imported"),
        )
        (stored,) = self._store.add([made], {made.config_hash: '{"encoder":""}'})
        self._remember(stored)
        return stored

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
        """Say how a decision or an episode went; returns how many signals were new.

        project.signal(pick.id, solved=1.0, cost_usd=0.004)
        project.signal(pick.id, {"solved": 1.0}, rater="bob", key="retry-safe")
        """
        rows = self.checked_signals(subject, {**(signals or {}), **named}, rater=rater, key=key, at=at, label=label)
        new = self._store.signal(rows, early=early)
        self._tell((), rows)
        task = self._tasks.get(rows[0].subject)
        if task is not None:
            self._signalled(task)
        return new

    def submit_signals(self, signals: list[Signal], *, early: bool = False) -> Future[Any]:
        storing = self._store.submit_signals(signals, early=early)
        self._tell_after(storing, signals)
        return storing

    @property
    def queued(self) -> int:
        """Writes that wait for the next commit."""
        return len(self._writer)

    def withdraw(self, subject: str, name: str, *, rater: str = "", key: str = "") -> None:
        """Take a signal back: it stops counting, exactly."""
        row = Signal(subject=self._subject(subject), name=name, value=None, rater=rater, key=key, at=self.clock())
        self._store.signal([row])

    def checked_signals(
        self,
        subject: str,
        values: Mapping[str, float],
        *,
        rater: str = "",
        key: str = "",
        at: float | None = None,
        label: str = "",
    ) -> list[Signal]:
        """Signals as rows, each value checked against the task's reward."""
        subject = self._subject(subject)
        if not values:
            raise InvalidInput(
                "There is no signal to store.", code="no_signal", hint="Name at least one: reward=1.0 or solved=1."
            )
        task = self._task_of(subject)
        rewards = self.rewards(task) if task else None
        when = self.clock() if at is None else at
        return [
            Signal(
                subject=subject,
                name=checked_name("signal", name),
                value=check(name, value) if rewards is None else rewards.check(name, value),
                label=self.redact(label),
                rater=rater,
                key=key,
                at=when,
            )
            for name, value in values.items()
        ]

    def end_episode(self, task: str, episode: str, ending: Ending = "terminated", *, key: str | None = None) -> None:
        """No decision of this episode comes any more. With `key`, only the episodes that it opened."""
        self._store.end_episode(task, episode, ending, self.clock(), key=key)

    def episode(self, task: str, episode: str) -> str:
        """The id by which an episode takes signals."""
        return episode_id(task, episode)

    # -- rewards

    def rewards(self, task: str) -> Rewards:
        found = self._rewards.get(task)
        if found is None:
            found = self._rewards[task] = self.settings.rewards(task)
        return found

    def settle(self, task: str, *, again: bool = False) -> int:
        """Settle what can be settled; returns how many outcomes were written."""
        settings, rewards = self.settings.task(task), self.rewards(task)
        needs_decision = isinstance(settings.reward, str)

        def judge(seq: int, signals: Mapping[str, float], age_s: float) -> Outcome:
            decision = self.query.by_seq(seq) if needs_decision and signals else None
            return rewards.outcome(signals, age_s=age_s, decision=decision)

        with self.lock():
            return settle(
                self.database,
                self.query,
                task,
                judge=judge,
                version=rewards.version,
                now=self.clock(),
                wait_s=settings.reward_after_s,
                again=again,
                agree=self._agreeing(rewards) if rewards.consensus else None,
            )

    def rescore(self, task: str) -> int:
        """Derive every reward again under today's definition; changes no stored signal. Returns how many changed."""
        self._rewards.pop(task, None)
        return self.settle(task, again=True)

    def outcome(self, decision: str) -> Outcome:
        found = self.query.decision(parse_decision_id(decision))
        self.settle(found.task)
        return self.query.outcome(found)

    def _agreeing(self, rewards: Rewards) -> Agree:
        from headway.reward.agree import agreeing  # numpy, and only where a task asks for it

        return lambda given: agreeing(rewards, given)

    # -- closing

    def close(self) -> None:
        """Commit what is queued and let go of the files."""
        self._writer.close()
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
        """One settler, learner or folder at a time per store, over all processes and machines. Not re-entrant."""
        with self.database.lock("project"):
            yield

    # -- small parts

    def _tell(self, decisions: Sequence[Decision], signals: Sequence[Signal]) -> None:
        for each in self.listeners:
            each(decisions, signals)

    def _tell_after(self, storing: Future[Any], signals: Sequence[Signal] | None = None) -> None:
        def tell(done: Future[Any]) -> None:
            if done.exception() is None:
                self._tell(done.result() if signals is None else (), signals or ())

        if self.listeners:
            storing.add_done_callback(tell)

    def _remember(self, decision: Decision) -> None:
        if len(self._tasks) > 20_000:
            self._tasks.clear()
        self._tasks[decision.id] = decision.task

    def _source_of(self, details: Details, default: Source | None = None) -> Source:
        """Where it comes from; in a synthetic store nothing can say that it is real."""
        if self.settings.store.synthetic:
            return "synthetic"
        return checked_source(details.get("source") or default or self._source)

    def _subject(self, subject: str) -> str:
        return subject if is_episode(subject) else parse_decision_id(subject)

    def _task_of(self, subject: str) -> str | None:
        known = self._tasks.get(subject)
        if known is not None:
            return known
        return self.query.task_of(subject)

    def _signalled(self, task: str) -> None:
        """Signals of a task have just become durable; `Project` lets online policies learn from them."""
