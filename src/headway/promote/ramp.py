"""The ramp: a promotion takes over the traffic in steps, beside the policy that it replaces.

    Ramp.begin(proven=0.0, rows=1200)      # 10, 25, 50 and 100% of the traffic; each waits for 150 outcomes
    step.share, step.next, step.holds(evidence)

A proof says what a policy earns on the share of the traffic that it had. What it earns on more may be less: a rate
limit, a model that slows down, a stock that runs out. So a promotion beyond that share goes up in steps. Each step is a
randomised comparison of both policies on the same traffic, and a test of its own looks for harm after every few
outcomes; together, the tests of a ramp stop at most `ALPHA` of the policies that are no worse. The last step leaves
`HOLDBACK` of the traffic to the previous policy, so that there is something to compare with.

A step is a row of the ledger, a canary whose share grows. It ends after `least` decisions that were made in it and
have their outcomes: an eighth of those that proved the candidate, between 50 and 500, and four times as many in the
last step. It goes on while the candidate looks worse than the previous policy by more than a standard error, while
missing outcomes hide the difference, and while a guard of the task is shown to be worse.

Not covered: harm that no outcome shows, and harm by a step to all traffic, whichever policy draws: both policies then
earn less, which is what the alarm looks for (`headway.prove.change`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.nouns import Evidence

SHARES = (0.1, 0.25, 0.5, 1.0)  # of the traffic
HOLDBACK = 0.05  # which the previous policy keeps in the last step
ALPHA = 0.04  # of the policies that are no worse than the one before, how many a ramp ever stops
_PARTS, _LAST = 8, 4
_LEAST, _MOST = 50, 500
_WIDTHS = 1 / 3.92  # of a 95% interval: a standard error
_HIDDEN = frozenset({
    "missing_width", "missing_depends_on_action", "open_outcomes", "unanswered", "request_result", "episode_result",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """One step of a promotion, as its ledger row keeps it."""

    shares: tuple[float, ...]  # of all steps
    step: int  # from 1
    least: int  # decisions with their outcomes until the next step
    proven: float  # the share of the traffic at which the candidate was proven

    @classmethod
    def begin(cls, *, proven: float, rows: int) -> Ramp | None:
        """The first step beyond a share, after a proof of so many rows; None if there is none."""
        shares = tuple(share for share in SHARES if share > proven + 1e-9)
        if not shares or proven > 1.0 - HOLDBACK:
            return None
        least = max(_LEAST, min(_MOST, rows // _PARTS))
        first = cls(shares=shares, step=1, least=least, proven=proven)
        return first if len(shares) > 1 else replace(first, least=least * _LAST)

    @classmethod
    def of(cls, detail: Any) -> Ramp:
        """From the detail of a ledger row."""
        return cls(shares=tuple(detail["shares"]), step=detail["step"], least=detail["least"], proven=detail["proven"])

    @property
    def detail(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def target(self) -> float:
        """The share that this step is called after: 1 in the last one."""
        return self.shares[self.step - 1]

    @property
    def share(self) -> float:
        """The share that the candidate gets in this step."""
        return min(self.target, 1.0 - HOLDBACK)

    @property
    def alpha(self) -> float:
        """The share of the error budget that each step's test has."""
        return ALPHA / len(self.shares)

    @property
    def next(self) -> Ramp | None:
        """The step after this one; None: the promotion is complete."""
        if self.step == len(self.shares):
            return None
        last = self.step + 1 == len(self.shares)
        return replace(self, step=self.step + 1, least=self.least * (_LAST if last else 1))

    def holds(self, evidence: Evidence) -> str:
        """Why the step goes on, in words; empty if it is over. `evidence` is about the decisions of this step."""
        if evidence.n < self.least:
            return f"{evidence.n:,} of {self.least:,} {evidence.unit} have their outcomes"
        hidden = next((check for check in evidence.diagnostics if check.refuses and check.name in _HIDDEN), None)
        if hidden is not None:
            return hidden.message.rstrip(".")
        worse = next((guard for guard in evidence.guards if not guard.ok and not guard.undecided), None)
        if worse is not None:
            return f"guard {worse.name} got worse: {worse.message}"
        shown = evidence.difference
        if shown.value < -_WIDTHS * (shown.high - shown.low):
            return f"it looks worse than {evidence.against} so far ({shown.value:+.3f})"
        return ""
