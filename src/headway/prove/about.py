"""Which policies are compared, and the evidence composed from any kind of data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired, TypedDict, Unpack

from headway.nouns import Diagnostic, Estimate, Evidence, Guard, Plan, Prospect, RaterShare, errors
from headway.prove import sequential
from headway.prove.betting import BETTING
from headway.prove.power import decisions_needed, still_needed

_RANGE_FROM_ROWS = "the range of the rewards is taken from the rows: a reward outside it would change the result"


class Measured(TypedDict):
    """The part of an evidence that comes from the data; see the fields of `Evidence`."""

    kind: str
    n: int
    difference: Estimate
    values: Mapping[str, Estimate]
    statistic: float
    statistic_worse: float
    threshold: float
    rule: str
    alpha: float
    counts: Mapping[str, int]
    data_hash: str
    needed: int | None
    diagnostics: NotRequired[Sequence[Diagnostic]]
    guards: NotRequired[Sequence[Guard]]
    curve: NotRequired[Sequence[tuple[int, float, float, float]]]
    bounds: NotRequired[tuple[float, float] | None]
    ended: NotRequired[bool]
    raters: NotRequired[Sequence[RaterShare]]
    threshold_worse: NotRequired[float | None]
    prospect: NotRequired[Prospect | None]
    unchecked: NotRequired[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which policies are compared, and the error budget: the part of an evidence that is not data."""

    task: str
    candidate: str
    against: str
    candidate_hash: str = ""
    against_hash: str = ""
    plan: Plan | None = None
    alpha: float = sequential.ALPHA  # for the first test; the k-th gets alpha (promotions + 1) / (2k (k+1))
    challenger: int = 1
    promotions: int = 0  # on evidence, that stood when the test began
    most: int = 0  # decisions that the test may take; 0: it has no limit
    most_share: float = 0.0  # the share of the traffic that an experiment could give the candidate
    margin: float = 0.0
    reward_version: str = ""
    data_hash: str = ""  # empty: computed from the data
    seed: int = 0
    command: str = ""
    trusted: Sequence[str] = ()  # keys that may decide the verdict
    config_hash: str = ""  # of the configuration that would serve the candidate
    behaviour: str = ""  # digest of what both policies do
    declared: Mapping[str, str] = field(default_factory=dict)  # what the task declares
    alpha_worse: float = sequential.ALPHA  # for "worse": a budget of its own
    guard: bool = False  # whether to take back a policy that acts: "worse" also finds harm that begins late
    reward_range: tuple[float, float] | None = None  # no reward is outside; None: taken from the rows

    @property
    def share(self) -> float:
        """The error that this candidate may spend."""
        return sequential.challenger_alpha(self.alpha, self.challenger, self.promotions)

    @property
    def rule(self) -> str:
        return sequential.CONFIDENCE_SEQUENCE if self.plan is None else f"registered horizon {self.plan.horizon}"

    @property
    def bet(self) -> str:
        """The rule for bounded scores."""
        if self.guard:
            return f"{BETTING}, restarted"
        return BETTING if self.plan is None else f"{BETTING}, registered horizon {self.plan.horizon}"

    def threshold(self, n: int, variance: float) -> float:
        """The value that Σ score − margin·n must exceed at n rows, where the scores have no known bounds."""
        if self.plan is not None:
            return sequential.horizon_threshold(variance, self.plan.horizon, self.share)
        return sequential.sequence_threshold(variance, n, self.share)

    def still_needed(self, variance: float, n: int, mean: float, lowest: float = 0.0) -> int | None:
        """Rows still needed for the plan's uplift; without a plan, for the mean difference so far."""
        uplift = (self.plan.uplift if self.plan is not None else mean) - self.margin
        return still_needed(variance, n, uplift, self.share, registered=self.plan is not None, lowest=lowest)

    def planned(self, variance: float, *, uplift: float, power: float, lowest: float) -> int | None:
        """The horizon that shows this uplift with this power; None if no number of rows does."""
        if uplift <= self.margin:
            raise errors.InvalidInput(
                f"An uplift of {uplift!r} is not above the margin {self.margin!r}.",
                code="bad_uplift",
                hint="Plan for the smallest improvement that is worth a promotion.",
            )
        return decisions_needed(variance, uplift - self.margin, self.share, power, lowest=lowest)

    def compose(self, **measured: Unpack[Measured]) -> Evidence:
        """The evidence with its id, a hash of what was compared, on which data, by which rule."""
        measured["data_hash"] = self.data_hash or measured["data_hash"]
        if measured["kind"] == "log" and self.reward_range is None:
            measured["unchecked"] = (*measured.get("unchecked", ()), _RANGE_FROM_ROWS)
        evidence = Evidence(
            task=self.task,
            candidate=self.candidate,
            candidate_hash=self.candidate_hash,
            against=self.against,
            against_hash=self.against_hash,
            challenger=self.challenger,
            promotions=self.promotions,
            plan=self.plan,
            reward_version=self.reward_version,
            seed=self.seed,
            margin=self.margin,
            command=self.command,
            trusted=tuple(self.trusted),
            config_hash=self.config_hash,
            behaviour=self.behaviour,
            declared=dict(self.declared),
            **measured,
        )
        evidence = _checked(evidence, self.reward_range if evidence.kind == "log" else None)
        what = [
            evidence.task,
            evidence.kind,
            evidence.candidate,
            evidence.candidate_hash,
            evidence.against,
            evidence.against_hash,
            evidence.data_hash,
            evidence.reward_version,
            evidence.rule,
            evidence.alpha,
            evidence.margin,
            evidence.challenger,
            evidence.seed,
            *evidence.trusted,
            evidence.config_hash,
            evidence.behaviour,
            dict(evidence.declared),
            *([evidence.promotions] if evidence.promotions else []),
        ]
        return replace(evidence, id="evi_" + hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32])


def _checked(evidence: Evidence, declared: tuple[float, float] | None) -> Evidence:
    """The evidence with one difference, verdict, pair of bounds and curve that cannot contradict one another.

    Displayed numbers never leave the declared range. Bounds that do not hold the displayed difference are widened to
    it; if they then no longer say what the rule proves (the latest rows proved it against the mean of all), nothing is
    said about how large the difference is.
    """
    if declared is not None:
        span = declared[1] - declared[0]
        evidence = replace(
            evidence,
            difference=_cut(evidence.difference, -span, span),
            values={name: _cut(value, *declared) for name, value in evidence.values.items()},
        )
        assert evidence.bounds is None or max(map(abs, evidence.bounds)) <= span + 1e-9, evidence.bounds
    if evidence.bounds is None:
        return evidence
    low, high = evidence.bounds
    assert evidence.shows_better or low <= evidence.margin + 1e-9, (low, evidence.margin)
    assert evidence.shows_worse or high >= -1e-9, high
    value = evidence.difference.value
    bounds = min(low, value), max(high, value)
    end = evidence.curve[-1:]
    mean = end[0][1] if end and end[0][0] == evidence.n else value
    last = (evidence.n, min(max(mean, bounds[0]), bounds[1]), *bounds)
    curve = (*(point for point in evidence.curve if point[0] < evidence.n), last) if end else ()
    evidence = replace(evidence, bounds=bounds, curve=curve)
    return evidence if evidence.consistent() else replace(evidence, bounds=None, curve=())


def _cut(estimate: Estimate, low: float, high: float) -> Estimate:
    value, least, most = (min(max(end, low), high) for end in (estimate.value, estimate.low, estimate.high))
    return replace(estimate, value=value, low=least, high=most)
