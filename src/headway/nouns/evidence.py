"""The result of `prove` and the verdict of the gate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from headway.nouns.forecast import VerdictForecast  # which needs datetime: `import headway` takes a tenth less

_UNITS = {"log": "decisions", "preference": "comparisons", "world": "episodes", "heldout": "held-out rows"}
CLIPPING = "clipping"  # the check that fails if rewards were cut to the range in favour of the candidate
CLIPPING_AGAINST = "clipping_against"  # and to its disadvantage: then nothing shows that it is worse
SAME_CHOICES = "same_choices"  # the check that fails if two policies make the same choices
VerdictState = Literal["pass", "wait", "no difference", "refused", "worse"]
VerdictWord = Literal["better", "worse", "too early", "no difference", "cannot tell"]
Refusal = Literal["data", "few", "same", "guard", "ended"]
Reliance = Literal["claims", "predictions"]  # what a verdict rests on that only a person may accept
_WORDS: Mapping[str, VerdictWord] = {
    "pass": "better", "worse": "worse", "wait": "too early", "no difference": "no difference",
}  # fmt: skip
_REFUSED: Mapping[Refusal, VerdictWord] = {
    "few": "too early", "same": "no difference", "ended": "no difference", "guard": "worse", "data": "cannot tell",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its interval and the amount of data behind it."""

    value: float
    low: float
    high: float
    n: int
    ess: float
    method: str = "dr"
    level: float = 0.95

    def __str__(self) -> str:
        return (
            f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]  {self.method}  n={self.n:,}  ESS={self.ess:,.0f}"
        )

    def _repr_html_(self) -> str:
        return f"<code>{escape(str(self))}</code>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One check of the data. `blocks`: if it fails, there is no verdict on this data."""

    name: str
    value: float
    limit: float
    ok: bool
    blocks: bool
    message: str
    cure: str = ""

    @property
    def refuses(self) -> bool:
        return self.blocks and not self.ok

    @classmethod
    def at_least(cls, name: str, value: float, limit: float, message: str, cure: str) -> Diagnostic:
        """A check that blocks below the limit."""
        ok = value >= limit
        said = message if ok else f"{message} (at least {limit:,g} needed)"
        return cls._of(name, value, limit, said, cure, ok=ok)

    @classmethod
    def at_most(cls, name: str, value: float, limit: float, message: str, cure: str) -> Diagnostic:
        """A check that blocks above the limit."""
        return cls._of(name, value, limit, message, cure, ok=value <= limit)

    @classmethod
    def _of(cls, name: str, value: float, limit: float, message: str, cure: str, *, ok: bool) -> Diagnostic:
        value, limit, cure = float(value), float(limit), "" if ok else cure
        return cls(name=name, value=value, limit=limit, ok=ok, blocks=True, message=message, cure=cure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A metric that must not get worse by more than its tolerance (cost, latency, failures, a segment)."""

    name: str
    difference: Estimate
    tolerance: float
    ok: bool  # a metric: shown to be within its tolerance; a segment: not proven worse
    message: str
    undecided: bool = False  # not ok, and not proven to be outside its tolerance either
    needed: int | None = None  # decisions that an undecided guard still needs, about; None: unknown
    cure: str = ""  # of one that cannot be told, whatever the number of decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A registered test: the number of decisions, fixed in advance."""

    horizon: int
    uplift: float
    power: float
    alpha: float
    margin: float = 0.0
    from_seq: int = 0  # the row after which the horizon counts
    from_decision: int | None = None  # the last decision that the test does not count; None: a plan by settled rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What a test can still show: the largest difference that is likely, and the decisions that would show it."""

    likely: float  # at most
    needed: int | None  # decisions in all that would show such a difference; None: no number of them
    most: int  # decisions that a test may take

    @property
    def futile(self) -> bool:
        """Whether going on is pointless."""
        return self.needed is None or self.needed > self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Decisions after the maturity mark: they count in a test once nearly all outcomes of their time are in."""

    decisions: int
    open: int  # without an outcome so far
    counting: int  # that may speak in the test; not counted beyond those that it still needs
    until: float  # by then these count at the latest, because open outcomes are then missing ones
    final_s: float = 0.0  # outcomes change for so long: no decision counts earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterShare:
    """One rater's share of an evidence, and the rule's result without its ratings.

    A decision with several raters counts for each of them, so shares may add up to more than 1. Without a rater,
    decisions that others rated too keep the others' reward, and decisions that only it rated carry no information.
    """

    name: str  # of the key; "" is this machine, without a key; of a group, all names
    rows: int  # scored decisions that it rated, alone or with others
    share: float  # of all scored decisions
    uplift: float | None  # the share of the uplift that depends on it; may be above 1 or below 0
    own: bool = False  # the project itself: it never decides
    others: int = 0  # scored decisions without it
    statistic: float = 0.0  # without it
    threshold: float = 0.0  # without it
    statistic_worse: float = 0.0  # the rule's other side, without it
    threshold_worse: float = 0.0
    region: str = ""  # where it alone decides what the candidate chooses, in words
    members: Sequence[str] = ()  # of a group of keys that agree far more than the rest

    def excused(self, trusted: Collection[str]) -> bool:
        """Whether it may decide a verdict: a trusted key, or a group with fewer than two others."""
        return sum(name not in trusted for name in self.members or (self.name,)) < max(1, min(2, len(self.members)))


@dataclass(frozen=True, slots=True)
class Claims:
    """Decisions whose probabilities a client sent, and the rule's result on those alone that Headway drew."""

    rows: int
    drawn: int
    statistic: float  # of the decisions that Headway drew
    statistic_worse: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The input of the gate. The same data hash and policies give equal evidence."""

    task: str
    kind: str  # "log", "preference", "world", "heldout", or a kind that a kit registers
    candidate: str
    candidate_hash: str
    against: str
    against_hash: str
    n: int
    difference: Estimate  # for display: candidate minus current
    values: Mapping[str, Estimate]  # candidate, current, behaviour, constants …
    statistic: float  # what the rule compares: ln E of the bet, or Σ score − margin·n
    threshold: float
    rule: str  # "registered horizon 20000", "confidence sequence", "e-process"
    alpha: float
    challenger: int = 1  # the k-th test of the task that is charged to the error budget
    promotions: int = 0  # on evidence, that stood when the test began: they add to its share of the budget
    diagnostics: Sequence[Diagnostic] = ()
    guards: Sequence[Guard] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  # rewarded, failed, censored, pending, by source
    needed: int | None = None  # decisions still needed for 80% power at the observed effect
    plan: Plan | None = None
    curve: Sequence[tuple[int, float, float, float]] = ()  # n, mean, gate's lower bound, upper: for the plot
    reward_version: str = ""
    data_hash: str = ""
    seed: int = 0
    id: str = ""
    margin: float = 0.0  # the candidate must be better by more than this
    statistic_worse: float = 0.0  # the other side of the rule: above the threshold, the candidate is proven worse
    bounds: tuple[float, float] | None = None  # the differences that the gate's rule does not exclude
    ended: bool = False  # the registered horizon is used up: no later look can pass
    command: str = ""  # recomputes this evidence from the stored hashes
    notes: Sequence[str] = ()
    raters: Sequence[RaterShare] = ()  # who gave the rewards, most first
    trusted: Sequence[str] = ()  # keys that may decide it, named by the user at proof time
    config_hash: str = ""  # of the configuration that would serve it; empty in evidence from before this was kept
    behaviour: str = ""  # digest of what both policies do: rules, fallback, explorer, floor, encoder, arm of a built-in
    declared: Mapping[str, str] = field(default_factory=dict)  # what the task declares: {"missing": "at random"}
    threshold_worse: float | None = None  # of `statistic_worse`; None: the same as `threshold`
    unchecked: Sequence[str] = ()  # checks that could not be made, in words
    prospect: Prospect | None = None  # None: too early to say, or the test has no limit
    test: str = ""  # id of the ledger row that charged this test to the error budget; empty: not charged
    waiting: Waiting | None = None  # decisions that could not be counted yet when this was computed
    claims: Claims | None = None  # None: Headway drew every decision
    final_s: float = 0.0  # the age in seconds from which decisions count: outcomes change for so long
    seen_s: float = 0.0  # the age of the log: later changes of outcomes could not be seen

    @property
    def unit(self) -> str:
        """What `n` counts."""
        declared = self.declared.get("unit")
        return f"{declared}s" if self.kind == "log" and declared else _UNITS.get(self.kind, "rows")

    @property
    def reliance(self) -> Reliance | None:
        """What a result rests on that only a person may accept.

        claims        without the decisions whose probabilities a client sent, it would be another one
        predictions   held-out rows show who predicts better, not what another action would have earned
        """
        if self.kind == "heldout":
            return "predictions"
        return "claims" if self._by_claims() else None

    def _by_claims(self) -> bool:
        claims = self.claims
        if claims is None:
            return False
        few = claims.drawn < self._least()
        better = self.shows_better and (few or claims.statistic <= self.threshold)
        least = self.threshold if self.threshold_worse is None else self.threshold_worse
        return better or (self.shows_worse and claims.statistic_worse <= least)

    @property
    def watches(self) -> bool:
        """Whether this looks for harm by a policy that acts already, not for a proof."""
        return self.rule.endswith(", restarted")

    @property
    def shows_better(self) -> bool:
        """Whether the rule proves the candidate better by more than the margin."""
        return self.statistic > self.threshold

    @property
    def shows_worse(self) -> bool:
        """Whether the rule's other side proves it worse."""
        return self.statistic_worse > (self.threshold if self.threshold_worse is None else self.threshold_worse)

    def proven(self, side: Literal["better", "worse"]) -> float | None:
        """By how much it is better or worse at least, above 0; None if that is not known."""
        if self.bounds is None:
            return None
        least = self.bounds[0] if side == "better" else -self.bounds[1]
        return least if least > 0.0 else None

    def consistent(self) -> bool:
        """Whether the bounds hold the estimate, and what the rule proves."""
        if self.bounds is None:
            return True
        low, high = self.bounds
        holds = low <= self.difference.value <= high
        return holds and (not self.shows_better or low >= self.margin) and (not self.shows_worse or high <= 0.0)

    def deciding(self) -> tuple[str, ...]:
        """Keys without which the candidate would not pass: too few decisions remain, or the result changes."""
        if not self.shows_better:
            return ()
        return tuple(rater.name for rater in self._named() if self._alone(rater) or rater.statistic <= rater.threshold)

    def deciding_worse(self) -> tuple[str, ...]:
        """Keys without which the candidate would not be proven worse."""
        if not self.shows_worse:
            return ()
        return tuple(
            rater.name
            for rater in self._named()
            if self._alone(rater) or rater.statistic_worse <= rater.threshold_worse
        )

    def _named(self) -> Iterator[RaterShare]:
        return (rater for rater in self.raters if not rater.own)

    def _alone(self, rater: RaterShare) -> bool:
        """Whether fewer decisions remain without it than any log must have."""
        return rater.others < self._least()

    def _least(self) -> float:
        return max((diagnostic.limit for diagnostic in self.diagnostics if diagnostic.name == "rows"), default=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the candidate may be promoted, and the reasons."""

    state: VerdictState
    reasons: tuple[str, ...]
    hint: str = ""
    evidence: Evidence | None = None
    disowned: bool = False  # a data check fails, so the numbers of the evidence mean nothing and are not shown
    refusal: Refusal = "data"  # of a refused one: bad or missing data, too few rows, no difference, a guard
    more: int | None = None  # rows that are still needed, about, and not made yet; 0: those made wait for outcomes
    forecast: VerdictForecast | None = None  # how long that takes; None: not known, or nothing is missing

    @property
    def passed(self) -> bool:
        return self.state == "pass"

    @property
    def word(self) -> VerdictWord:
        """The verdict in one of the five words that every door shows."""
        watches = self.evidence is not None and self.evidence.watches
        return _WORDS.get(self.state) or ("too early" if watches else _REFUSED[self.refusal])

    def __str__(self) -> str:
        word = self.word.upper()
        if self.evidence is None:
            return f"{word}: {' '.join(self.reasons)}"
        if self.disowned:
            return f"{self.evidence.candidate} against {self.evidence.against}: {word}. {' '.join(self.reasons)}"
        return f"{self.evidence.difference} against {self.evidence.against}: {word}"

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return f"<p><b>{escape(str(self))}</b></p><ul>{items}</ul>"
