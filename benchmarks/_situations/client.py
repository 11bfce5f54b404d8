"""A client of one project: it asks, acts, and reports outcomes when they are known, on a clock that only it moves.

    with Client("range = [0, 1]", seed=7) as client:
        client.serve(visit, 400)                 # 400 decisions and the reports that are due by then
        candidate = client.project.learn(client.task)
        client.true_uplift(candidate, "uniform@0", visit)

Decisions are considered one by one, so that each has its own time, and stored 50 at a time.
"""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from headway.nouns import ids
from headway.project import Project

__all__ = ["Client", "Report", "Visit", "Visits"]

BLOCK = 50
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None
PROBES = 400  # visits on which the true value of a policy is computed


@dataclass(frozen=True, slots=True)
class Report:
    """Signals that the client sends some time after the decision; `withdraw_after_s`: and takes back later.

    `early`: they reach the store before the decision does.
    """

    signals: Mapping[str, float]
    delay_s: float = 0.0
    rater: str = ""
    withdraw_after_s: float | None = None
    early: bool = False


@dataclass(frozen=True, slots=True)
class Visit:
    """One situation: what the policy sees, what every action is truly worth, and what is reported after an action."""

    worth: Mapping[str, float]
    report: Callable[[str], Iterable[Report]]
    text: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    candidates: Sequence[str] | None = None


Visits = Callable[[np.random.Generator, int], Visit]  # a random generator and the place in the stream


class _Clock:
    now = 1.75e9

    def __call__(self) -> float:
        return self.now


class Client:
    """One project in a folder of its own."""

    def __init__(self, settings: str, *, seed: int, step_s: float = 60.0, task: str = "route") -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.folder = Path(tempfile.mkdtemp(prefix="situation-", dir=FOLDER))
        self.clock = _Clock()
        self.step_s = step_s
        self.made = 0
        self._seed = seed
        self._due: list[tuple[float, int, str, Report, bool]] = []
        self._order = 0
        self.settings = settings
        self.task = task
        self.project = self._open()

    def _open(self) -> Project:
        steps = "" if "ramp = " in self.settings else 'ramp = "off"\n'  # what is promoted decides at once
        text = f'[store]\ndurability = "process"\nqueue = 100000\n[tasks.{self.task}]\n{steps}{self.settings}\n'
        (self.folder / "headway.toml").write_text(text, "utf-8")
        return Project(self.folder, environ={}, clock=self.clock, seed=self._seed + self.made)

    def reopen(self, settings: str | None = None) -> None:
        """As after an edit of headway.toml and a restart."""
        self.project.close()
        self.settings = self.settings if settings is None else settings
        self.project = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.project.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- traffic

    def serve(self, visits: Visits, count: int, *, one_by_one: bool = False) -> None:
        """Decide `count` times, and send every report that falls due meanwhile.

        `one_by_one` stores every decision before the next is made, as sticky episodes need it.
        """
        size = 1 if one_by_one else BLOCK
        for start in range(0, count, size):
            considered, reports = [], []
            for _ in range(min(size, count - start)):
                visit = visits(self.rng, self.made)
                details = {"id": self.next_id(), **visit.details}
                considered.append(self.project.consider(self.task, visit.text, visit.candidates, **details))
                reports.append(visit.report)
            for one, report in zip(considered, reports, strict=True):
                self.schedule(one.decision.id, report(one.decision.action), one.decision.at)
            self.project.submit(considered).result()
            self.deliver()

    def record(self, visits: Visits, count: int, choose: Callable[[Visit], tuple[str, Sequence[float]]]) -> None:
        """Log decisions that the client made itself; `choose` gives its action and the probabilities that it claims."""
        for place in range(count):
            visit = visits(self.rng, self.made)
            identifier = self.next_id()
            action, claimed = choose(visit)
            self.project.record(
                self.task,
                visit.text,
                visit.candidates,
                action=action,
                probabilities=claimed,
                **{"id": identifier, **visit.details},
            )
            self.schedule(identifier, visit.report(action), self.clock.now)
            if place % BLOCK == BLOCK - 1:
                self.deliver()
        self.deliver()

    def next_id(self) -> str:
        """Moves the clock by one step; the id of the next decision."""
        self.clock.now += self.step_s
        self.made += 1
        return ids.decision(self.clock.now, self.rng.bytes(8))

    def wait(self, seconds: float) -> None:
        """Let time pass without traffic."""
        self.clock.now += seconds
        self.deliver()

    # -- reports

    def schedule(self, decision: str, reports: Iterable[Report], at: float) -> None:
        """Remember what to report about a decision, and when."""
        for report in reports:
            if report.early:
                signals = self.project.checked_signals(decision, report.signals, rater=report.rater, at=at)
                self.project.submit_signals(signals, early=True).result()
                continue
            self._push(at + report.delay_s, decision, report, withdraw=False)
            if report.withdraw_after_s is not None:
                self._push(at + report.delay_s + report.withdraw_after_s, decision, report, withdraw=True)

    def _push(self, due: float, decision: str, report: Report, *, withdraw: bool) -> None:
        self._order += 1
        heapq.heappush(self._due, (due, self._order, decision, report, withdraw))

    def deliver(self) -> None:
        """Send what is due."""
        signals = []
        while self._due and self._due[0][0] <= self.clock.now:
            at, _, decision, report, withdraw = heapq.heappop(self._due)
            if withdraw:
                self._send(signals)
                signals = []
                for name in report.signals:
                    self.project.withdraw(decision, name, rater=report.rater)
            else:
                signals += self.project.checked_signals(decision, report.signals, rater=report.rater, at=at)
        self._send(signals)

    def _send(self, signals: list[Any]) -> None:
        if signals:
            self.project.submit_signals(signals).result()

    # -- the truth

    def true_uplift(self, candidate: str, against: str, visits: Visits) -> float:
        """What the candidate would truly earn more than the other policy, as whole pipelines on the same visits."""
        rng = np.random.default_rng([self._seed, 2])
        probes = [visits(rng, self.made + place) for place in range(PROBES)]
        values = []
        for ref in (candidate, against):
            with Project(self.folder, environ={"HEADWAY_POLICY": ref}, clock=self.clock, seed=0) as project:
                values.append(np.mean([_worth(project, self.task, probe) for probe in probes]))
        return float(values[0] - values[1])


def _worth(project: Project, task: str, visit: Visit) -> float:
    details = {name: value for name, value in visit.details.items() if name != "episode"}
    decision = project.consider(task, visit.text, visit.candidates, **details).decision
    return float(
        sum(
            visit.worth[candidate.name] * probability
            for candidate, probability in zip(decision.candidates, decision.probabilities, strict=True)
        )
    )
