"""The shipped loop on a clock that the benchmark moves: a client decides and reports, `Watch.check` does the rest.

    with LoopRun(RULES, steady(0.6, 0.65), seed=7) as run:
        run.serve(5500)
        run.first("promote")       # the number of decisions before the first promotion, or None

The client is a project of its own on the same store, as a server would be. Nothing is configured but what defines the
task: its actions, its rules where it has any, and `promote = "auto"`, because nobody is there to be asked, with
`final_after_s = 0`, because outcomes never change, and `ramp = "off"`, because the gate's decision is what is counted.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from _power.world import World
from headway.loop.watch import Watch
from headway.loop.when import Machine
from headway.nouns import ids
from headway.project import Project
from headway.promote.ledger import Entry

__all__ = ["RULES", "UNIFORM", "LoopChange", "LoopRun"]

TASK = "route"
UNIFORM = 'actions = ["small", "large"]\npromote = "auto"\nramp = "off"\nfinal_after_s = 0\n'
RULES = UNIFORM + 'rules = [{ when = "text_length >= 0", use = "small" }]\n'
STEP_S = 10.0
FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass(frozen=True, slots=True)
class LoopChange:
    """A row of the ledger, and how many decisions were made before it."""

    at: int
    entry: Entry


class _MovedClock:
    now = 1.75e9

    def __call__(self) -> float:
        return self.now


class LoopRun:
    """One project in a folder of its own, with its loop and a client."""

    def __init__(self, settings: str, world: World, *, seed: int, batch: int = 50) -> None:
        self.world = world
        self.batch = batch
        self.changes: list[LoopChange] = []
        self.verdicts: list[tuple[int, str, str]] = []  # decisions made, policy, state
        self.failures: list[str] = []
        self.chances: list[float] = []  # of the chosen arm, decision by decision
        self.client_s = self.check_s = 0.0
        self._rng = np.random.default_rng([seed, 17])
        self._clock = _MovedClock()
        self._folder = Path(tempfile.mkdtemp(prefix="power-", dir=FOLDER))
        self._rows = 0
        self._seed = seed
        self.configure(settings)
        self._watch = Watch(
            self._folder, clock=self._clock, timed=False, environ={}, machine=lambda _folder: Machine()
        ).__enter__()
        self._client = self._open()

    def configure(self, settings: str) -> None:
        """Write headway.toml; the loop sees a change at its next check, the client after `reopen`."""
        text = f'[store]\ndurability = "process"\nqueue = 100000\n[tasks.{TASK}]\n{settings}'
        (self._folder / "headway.toml").write_text(text, "utf-8")

    def _open(self) -> Project:
        return Project(self._folder, environ={}, clock=self._clock, seed=self._seed + self.made)

    def reopen(self) -> None:
        """Restart the client, which then has the present settings."""
        self._client.close()
        self._client = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._watch.__exit__(kind, error, trace)
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- play

    @property
    def made(self) -> int:
        return len(self.chances)

    def serve(self, most: int, until: Callable[[Self], bool] | None = None) -> None:
        """Make up to `most` decisions, a batch at a time with a check after each; stop early when `until` says so."""
        end = self.made + most
        while self.made < end and not (until is not None and until(self)):
            started = time.process_time()
            self._decide(min(self.batch, end - self.made))
            decided = time.process_time()
            self._check()
            self.client_s += decided - started
            self.check_s += time.process_time() - decided

    def _decide(self, count: int) -> None:
        client, considered = self._client, []
        for _ in range(count):
            self._clock.now += STEP_S
            identifier = ids.decision(self._clock.now, self._rng.bytes(8))
            considered.append(client.consider(TASK, "", None, id=identifier))
        decisions = client.submit(considered).result()
        signals = []
        for decision in decisions:
            chance = self.world(self.made)[decision.action]
            self.chances.append(chance)
            reward = float(self._rng.random() < chance)
            signals += client.checked_signals(decision.id, {"reward": reward}, at=decision.at)
        client.submit_signals(signals).result()

    def _check(self) -> None:
        for check in self._watch.check():
            if check.error:
                self.failures.append(f"{self.made}: {check.error}")
            if check.done is not None and check.done.verdict is not None:
                self.verdicts.append((self.made, check.done.proved, check.done.verdict.state))
        entries = self._watch.project.ledger.entries(TASK)
        self.changes += [LoopChange(self.made, entry) for entry in entries[self._rows :]]
        if len(entries) > self._rows:
            self._rows = len(entries)
            self._client.servings.refresh()

    # -- what happened

    def all(self, kind: str, *, after: int = -1) -> list[LoopChange]:
        """The ledger rows of a kind that came after a number of decisions."""
        return [change for change in self.changes if change.entry.kind == kind and change.at > after]

    def first(self, kind: str, *, after: int = -1) -> int | None:
        """How many decisions were made before the first row of a kind."""
        rows = self.all(kind, after=after)
        return rows[0].at if rows else None

    def share(self, action: str) -> float:
        """The probability with which the client would choose an action now."""
        decision = self._client.consider(TASK).decision
        names = [candidate.name for candidate in decision.candidates]
        return decision.probabilities[names.index(action)]

    def mean(self, start: int, stop: int) -> float:
        """The mean chance of success of the chosen arms, from one decision to another."""
        return float(np.mean(self.chances[start:stop])) if stop > start else 0.0
