"""A world of two actions played through a watch: decisions, outcomes and checks on a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from headway.loop.watch import TaskCheck, Watch
from headway.promote.ledger import Entry

__all__ = ["Played"]

TASK = "route"


class MovedClock:
    """Seconds that only the test moves."""

    now = 1.9e9

    def __call__(self) -> float:
        return self.now


class Played:
    """`chances` gives every action's chance of a reward of 1; it may be replaced at any time."""

    def __init__(self, watch: Watch, clock: MovedClock, chances: Mapping[str, float], *, seed: int) -> None:
        self.watch, self.clock, self.chances = watch, clock, chances
        self.earned: list[float] = []  # the chance of the chosen action, decision by decision
        self.errors: list[str] = []
        self._rng = random.Random(seed)

    @property
    def made(self) -> int:
        return len(self.earned)

    def best(self) -> str:
        """The action that is most likely now."""
        decision = self.watch.project.consider(TASK, "").decision
        likely = max(range(len(decision.probabilities)), key=decision.probabilities.__getitem__)
        return decision.candidates[likely].name

    def serve(self, count: int, *, every: int = 50, until: Callable[[], bool] = lambda: False) -> list[TaskCheck]:
        """Decide `count` times with a check after every few; stop early when `until` says so."""
        checks: list[TaskCheck] = []
        project, end = self.watch.project, self.made + count
        while self.made < end and not until():
            considered = []
            for _ in range(every):
                self.clock.now += 10.0
                considered.append(project.consider(TASK, ""))
            signals = []
            for decision in project.submit(considered).result():
                self.earned.append(self.chances[decision.action])
                reward = float(self._rng.random() < self.earned[-1])
                signals += project.checked_signals(decision.id, {"reward": reward})
            project.submit_signals(signals).result()
            if project.settings.task(TASK).online == "live":
                project.fold(TASK)
            checks += self.watch.check()
        self.errors += [check.error for check in checks if check.error]
        return checks

    def rows(self, kind: str) -> list[Entry]:
        return [entry for entry in self.watch.project.ledger.entries(TASK) if entry.kind == kind]
