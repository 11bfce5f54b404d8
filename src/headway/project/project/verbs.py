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
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headway.nouns.kit import Catalogue
from headway.project.project.folder import ProjectFolder

if TYPE_CHECKING:
    import headway.project.alarm
    import headway.project.data.erase
    import headway.project.experiment
    import headway.project.guard
    import headway.project.inspect
    import headway.project.learn
    import headway.project.promote
    import headway.project.prove.cost
    import headway.project.prove.examine
    import headway.project.prove.plan
    import headway.project.prove.standing
    import headway.project.prove.start
    import headway.project.prove.subject
    from headway.promote.standing import CurrentPolicy
    from headway.prove.leaks import Leaks

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


class Project(ProjectFolder):
    """One folder of experience, policies and evidence. Opened by `headway.open()`."""

    _folded_at = 0.0

    learn = at.learn.learn
    next_candidate = at.learn.next_candidate
    due = at.learn.due
    fold = at.learn.fold  # of online tasks

    prove = at.prove.examine.prove
    plan = at.prove.plan.plan
    verdict_cost = at.prove.cost.verdict_cost
    readiness = at.prove.start.readiness
    start_experiment = at.experiment.start_experiment
    stop_experiment = at.experiment.stop_experiment
    experiment = at.experiment.experiment

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

    explain = at.inspect.explain
    replay = at.inspect.replay
    status = at.inspect.status
    next_step = at.inspect.next_step
    standing = at.prove.standing.standing
    evidence = at.prove.subject.stored_evidence
    verdict = at.inspect.verdict_on
    report = at.inspect.judge_evidence
    raters = at.inspect.rater_agreement
    questions = at.inspect.questions_to_ask

    def leaks(self, task: str, *, mined: bool = False) -> Leaks:
        """Fields of the settled decisions that reveal the outcome, and other causes of optimistic results."""
        from headway.project.data.leaks import check_leaks

        self.settle(task)
        return check_leaks(self, task, mined=mined)

    def current(self, task: str) -> CurrentPolicy:
        """The current policy by the ledger. Loads no bundle: it may be missing."""
        from headway.project.prove.subject import current_policy

        return current_policy(self, self.settings.task(task))

    if not TYPE_CHECKING:  # a type checker still finds misspelt verbs; typed code calls a kit's function

        def __getattr__(self, name: str) -> Any:
            """The verbs of kits."""
            return self.__dict__.get("catalogue", Catalogue(())).method("verbs", self, name)

    def tasks(self) -> list[str]:
        """Declared tasks and those that have decisions."""
        return sorted({*self.settings.tasks, *self.query.names("task")})

    def signalled(self, task: str) -> None:
        """In-process online learning: at most one snapshot a second."""
        if self.settings.task(task).online == "live" and time.monotonic() - self._folded_at >= 1.0:
            self._folded_at = time.monotonic()
            self.fold(task)
