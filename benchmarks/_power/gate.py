"""The loop's tests alone, on arrays: how soon they find a better arm; between equal arms every promotion is false.

The loop itself takes half a minute for 20,000 decisions. This is what it does with them, without a store, an encoder
and a learner: the same schedule of learning and looks (`Standing`, `due`), the same look at the training rows, the same
proof, evidence and verdict, the same error budget. A candidate is the arm with the higher mean among its training rows,
which is what the learner comes to where there is nothing else to learn from. An experiment gets the share that the
loop's planner chooses here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headway.loop.due import Marks, due, question
from headway.nouns.evidence import Verdict
from headway.promote import gate
from headway.promote.entry import Entry
from headway.promote.standing import CandidatePolicy, CurrentPolicy, Standing
from headway.prove.about import About
from headway.prove.evidence import evidence_of, log_proof
from headway.prove.log import Log
from headway.prove.proof import LogProof

__all__ = ["GateRun", "gate_alone", "promotion_alone"]

EQUAL = (0.7, 0.7)  # chances of success
TRAINED = 0.6  # the share of the rows that learning reads
BATCH, RETRAIN, WITHIN, MOST = 50, 50, 5_000, 25_000  # decisions
WAITS_FOR_LOG, WAITS_FOR_EXPERIMENT = WITHIN // 16, WITHIN // 20
SHARE = 0.4  # of an experiment from rules
EXPLORED = 0.059  # the probability of the other arm: an exploration of 10% and a floor of 2%
RULES = np.array([1.0 - EXPLORED, EXPLORED])
UNIFORM = np.array([0.5, 0.5])
Floats = NDArray[np.float64]


@dataclass(slots=True)
class _Candidate:
    learned: int  # decisions that there were
    arm: int
    name: str
    after: int | None = None  # the decisions before its experiment
    experiment: bool = False  # which runs
    tested: bool = False
    proof: LogProof | None = None
    about: About | None = None
    fed: int = 0  # rows of its proof
    verdict: Verdict | None = None

    @property
    def chosen(self) -> Floats:
        probabilities = np.full(2, EXPLORED)
        probabilities[self.arm] = 1.0 - EXPLORED
        return probabilities


class GateRun:
    """One task from its first decision on."""

    def __init__(self, seed: int, *, rules: bool, decisions: int, chances: tuple[float, float] = EQUAL) -> None:
        self._rng = np.random.default_rng([seed, 43])
        self._rules, self._current = rules, RULES if rules else UNIFORM
        self._trained = self._rng.random(decisions) < TRAINED
        self._luck, self._chances = self._rng.random(decisions), np.array(chances)
        self._reward = np.zeros(decisions)
        self._action = np.zeros(decisions, dtype=np.int64)
        self._logged = np.zeros((decisions, 2))
        self._marks = Marks()
        self._candidate: _Candidate | None = None
        self._shadow: _Candidate | None = None
        self._waits_since: int | None = None
        self._learned = self.tests = self.made = 0
        self.experiments = 0
        self.verdicts: list[tuple[int, str]] = []
        self.promoted: int | None = None  # the decisions before it
        self.promoted_arm: int | None = None

    def play(self) -> None:
        """Until something is promoted, or the decisions are used up."""
        while self.made < self._reward.size and self.promoted is None:
            self._decide()
            self._check()

    def _decide(self) -> None:
        candidate, rows = self._candidate, slice(self.made, self.made + BATCH)
        share = SHARE if candidate is not None and candidate.experiment else 0.0
        mixed = self._current if candidate is None else (1.0 - share) * self._current + share * candidate.chosen
        self._logged[rows] = mixed
        self._action[rows] = self._rng.random(BATCH) >= mixed[0]
        self._reward[rows] = self._luck[rows] < self._chances[self._action[rows]]
        self.made += BATCH

    # -- a check

    def _check(self) -> None:
        work = due(self._standing(), self._marks)
        if work.turn:
            self._candidate, self._shadow = self._shadow, None
        elif work.learn:
            self._learn()
        candidate = self._candidate
        if not work.prove or candidate is None:
            return
        self._marks.proved[question(self._standing())] = self.made
        if candidate.tested or candidate.experiment or self._starts(candidate):
            self._look(candidate)

    def _standing(self) -> Standing:
        candidate, verdict = self._candidate, None if self._candidate is None else self._candidate.verdict
        return Standing(
            task="route",
            current=CurrentPolicy(ref="current@0", digest="current", expects=""),
            candidate=None
            if candidate is None
            else CandidatePolicy(task="route", ref=candidate.name, digest=candidate.name),
            admission=None if verdict is None else gate.Admission(state="refused", verdict=verdict, fresh=True),
            shadow=None
            if self._shadow is None
            else Entry(task="route", kind="shadow", policy=self._shadow.name, policy_hash=self._shadow.name),
            settled=self.made,
            since=self.made - self._learned,
            tested=candidate is not None and (candidate.tested or candidate.experiment),
            most=MOST,
            retrain_after=RETRAIN,
            promote="auto",
        )

    def _learn(self) -> None:
        rows = np.flatnonzero(self._trained[: self.made])
        total, count = (
            np.bincount(self._action[rows], weights=what, minlength=2) for what in (self._reward[rows], rows * 0 + 1.0)
        )
        means = total / np.maximum(count, 1.0)
        learned = _Candidate(self.made, int(means[1] > means[0]), f"bandit@{self.made}")
        self._learned = self.made
        if self._standing().under_test:
            self._shadow = learned
            return
        self._candidate, self._shadow = learned, None
        if self._waits_since is None:
            self._waits_since = self.made

    def _starts(self, candidate: _Candidate) -> bool:
        """The look at the rows that it was trained on (`headway.project.prove.start`)."""
        rows = np.flatnonzero(self._trained[: candidate.learned])
        action, reward = self._action[rows], self._reward[rows]
        shift = candidate.chosen - self._current
        if np.abs(shift).max() <= 1e-9:
            return False
        means = np.array([reward[action == arm].mean() if (action == arm).any() else reward.mean() for arm in (0, 1)])
        scores = shift @ means + shift[action] / self._logged[rows, action] * (reward - means[action])
        error = scores.std(ddof=1) / np.sqrt(scores.size)
        if scores.mean() <= 0.0:
            return False
        waits = WAITS_FOR_EXPERIMENT if self._rules else WAITS_FOR_LOG
        waited = self.made - (self.made if self._waits_since is None else self._waits_since)
        if scores.mean() <= error and waited < waits:
            return False
        if self._rules:
            candidate.experiment, candidate.after = True, self.made
            self._waits_since = None
            self.experiments += 1
        return True

    def _look(self, candidate: _Candidate) -> None:
        if candidate.proof is None:
            candidate.about = About(
                task="route",
                candidate=candidate.name,
                against="current@0",
                challenger=self.tests + 1,
                most=MOST,
                most_share=0.5,
                reward_range=(-1.0, 1.0),
            )
            if not self._rules:
                candidate.about = replace(candidate.about, alpha_worse=candidate.about.share)
            candidate.proof = log_proof(candidate.about, hashing=False)
        rows = self._rows(candidate)
        if rows.size:
            candidate.proof.update(self._log(rows, candidate))
        if not candidate.proof.arms:
            return
        assert candidate.about is not None
        evidence = evidence_of(candidate.proof, candidate.about)
        candidate.verdict = verdict = gate.verdict(evidence)
        if not candidate.tested and not (verdict.state == "refused" and verdict.disowned):
            candidate.tested, self._waits_since = True, None
            self.tests += 1
        if verdict.state in ("wait", "refused"):
            return
        self.verdicts.append((self.made, verdict.state))
        if verdict.state == "pass":
            self.promoted, self.promoted_arm = self.made, candidate.arm
        elif verdict.state == "worse" and candidate.experiment:
            self._candidate = None
        candidate.experiment = False

    def _rows(self, candidate: _Candidate) -> NDArray[np.int64]:
        """What its proof has not read yet: after the experiment began, or what its training has not read."""
        first = max(candidate.fed, candidate.after or 0)
        rows = np.arange(first, self.made)
        candidate.fed = self.made
        return rows if candidate.after is not None else rows[(rows >= candidate.learned) | ~self._trained[rows]]

    def _log(self, rows: NDArray[np.int64], candidate: _Candidate) -> Log:
        return Log.of(
            reward=self._reward[rows],
            action=self._action[rows],
            logged=self._logged[rows],
            target=np.tile(candidate.chosen, (rows.size, 1)),
            baseline=np.tile(self._current, (rows.size, 1)),
            order=rows,
            arms=("small", "large"),
        )


def gate_alone(rules: bool, decisions: int, seed: int) -> dict[str, float]:
    """Whether anything was promoted, how many tests there were, and when the first one ended."""
    run = GateRun(seed, rules=rules, decisions=decisions)
    run.play()
    numbers = {"decisions": run.made, "promotions": run.promoted is not None, "tests": run.tests}
    if run.verdicts:
        numbers["verdict"] = run.verdicts[0][0]
    return {name: float(value) for name, value in numbers.items()}


def promotion_alone(rules: bool, chances: tuple[float, float], decisions: int, seed: int) -> dict[str, float]:
    """When the second arm, which is better, was promoted."""
    run = GateRun(seed, rules=rules, decisions=decisions, chances=chances)
    run.play()
    numbers: dict[str, float] = {"decisions": run.made, "tests": run.tests, "experiments": run.experiments}
    return numbers | ({} if run.promoted is None else {"promoted": run.promoted, "right": float(run.promoted_arm == 1)})
