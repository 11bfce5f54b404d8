"""`Project`: a folder with one SQLite file, and one method per verb.

    project = headway.open("demo")
    pick = project.decide("route", "Prove that sqrt(2) is irrational", ["small", "large"])
    project.signal(pick.id, reward=1.0)
    policy = project.learn("route")
    proof = project.prove(policy)
    project.promote(policy, because=proof)

`decide` and `signal` may be called from threads and inside an event loop; they return after the commit.

A verb is the function of its module, which takes the project first. The module is imported when the verb is first
used: a project that only decides loads no code that learns, proves, imports or deletes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

from headway.nouns import Catalogue, Decision, Ending, Outcome, Progress, Signal, ids
from headway.project import decide as decisions, signal
from headway.project.decide.consider import Ask, Considered
from headway.project.decide.inputs import Details, Offer
from headway.project.project.folder import Opened

if TYPE_CHECKING:
    import headway.project.alarm
    import headway.project.data.erase
    import headway.project.data.leaks
    import headway.project.experiment
    import headway.project.guard
    import headway.project.inspect
    import headway.project.learn
    import headway.project.promote
    import headway.project.prove.cost
    import headway.project.prove.examine
    import headway.project.prove.rows
    import headway.project.prove.standing
    import headway.project.prove.start
    import headway.project.prove.subject
    import headway.project.publish
    from headway.promote import CurrentPolicy

    at = headway.project
else:

    class _Later:
        """A function, by its place in the package, that a class binds; imported when the method is first used."""

        def __init__(self, module: str, name: str = "") -> None:
            self._module, self._name = module, name

        def __getattr__(self, name: str) -> _Later:
            return _Later(f"{self._module}.{self._name}".rstrip("."), name)

        def __set_name__(self, owner: type, method: str) -> None:
            self._owner, self._method = owner, method

        def __get__(self, instance: object, owner: type) -> Any:
            function = getattr(import_module(self._module), self._name)
            setattr(self._owner, self._method, function)  # from now on an ordinary method
            return function.__get__(instance, owner)

    at = _Later("headway.project")


class Project(Opened):
    """One folder of experience, policies and evidence. Opened by `headway.open()`."""

    _folded_at = 0.0

    decide = decisions.decide
    consider_many = decisions.consider  # for servers that group requests
    record = decisions.record
    submit = decisions.submit
    submit_ask = decisions.submit_ask
    beside = decisions.beside
    checked_signals = signal.checked
    withdraw = signal.withdraw

    learn = at.learn.learn
    next_candidate = at.learn.next_candidate
    readable = at.learn.readable
    labelled_rows = at.learn.labelled_rows
    due = at.learn.due
    fold = at.learn.fold  # of online tasks

    prove = at.prove.examine.prove
    examine = at.prove.examine.examine
    candidate = at.prove.subject.candidate_policy
    newest_rows = at.prove.rows.newest_rows
    plan = at.prove.cost.plan
    verdict_cost = at.prove.cost.verdict_cost
    readiness = at.prove.start.readiness
    start_experiment = at.experiment.start_experiment
    stop_experiment = at.experiment.stop_experiment
    experiment = at.experiment.experiment

    publish = at.publish.publish_policy
    add_bundle = at.publish.add_bundle
    record_change = at.publish.record_change
    promote = at.promote.promote
    canary = at.promote.canary
    shadow = at.promote.shadow
    retire = at.promote.retire
    rollback = at.promote.rollback
    guard = at.guard.guard
    check_alarm = at.alarm.check_alarm
    end_alarm = at.alarm.end_alarm
    close_alarm = at.guard.close_alarm
    alarms = at.alarm.alarms

    erase = at.data.erase.erase
    retain = at.data.erase.retain
    leaks = at.data.leaks.check_leaks

    explain = at.inspect.explain
    replay = at.inspect.replay
    status = at.inspect.status
    next_step = at.inspect.next_step
    standing = at.prove.standing.standing
    evidence = at.prove.subject.stored_evidence
    verdict = at.inspect.verdict_on
    report = at.inspect.judge_evidence

    def current(self, task: str) -> CurrentPolicy:
        """The current policy by the ledger. Loads no bundle: it may be missing."""
        from headway.project.prove.subject import current_policy

        return current_policy(self, self.settings.task(task))

    if not TYPE_CHECKING:  # a type checker still finds misspelt verbs; typed code calls a kit's function

        def __getattr__(self, name: str) -> Any:
            """The verbs of kits."""
            return self.__dict__.get("catalogue", Catalogue(())).method("verbs", self, name)

    def signalled(self, task: str) -> None:
        """In-process online learning: at most one snapshot a second."""
        if self.settings.task(task).online == "live" and time.monotonic() - self._folded_at >= 1.0:
            self._folded_at = time.monotonic()
            self.fold(task)

    # -- decide

    def consider(
        self,
        task: str,
        text: str = "",
        candidates: Iterable[Offer] | None = None,
        **details: Unpack[Details],
    ) -> Considered:
        """The decision that `decide` would store, not stored yet."""
        return decisions.one(self, Ask(task, text, candidates, details))

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
        return ids.episode(task, episode)

    def rescore(self, task: str, *, progress: Progress | None = None) -> int:
        """Compute every reward again under the present definition; returns the number changed."""
        self._rewards.pop(task, None)
        self._read_signals.pop(task, None)
        return self.settle(task, again=True, progress=progress)

    def outcome(self, decision: str) -> Outcome:
        """How a decision went, by all signals up to now."""
        return self.outcome_now(self.query.decision(ids.parse_decision(decision)))
