"""What a pack states and its rows cannot show: results of checks that read the project's store.

    stated = Stated.of(examined.verdict.evidence, measured=examined.measured, recomputed=recomputed)
    stated.added(recomputed)     # the evidence of the proof
    stated.names(recomputed)     # ("the check 'duplicates'", …): what `headway verify` names

A statement can add a check, a region or a count. It replaces no number that follows from the rows, so leaving one out
is all that a false pack can gain from it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from headway.nouns import Diagnostic, Evidence, errors
from headway.promote import gate
from headway.prove import with_regions

NOTE = "stated by the project, not recomputed"
_BY_THE_GATE = gate.KEY_CHECKS  # recomputed from the raters
_FROM_THE_STORE = (
    "repetition",
    "replay",
    "clock",
    "clipping",
    "drift",
)  # checks whose columns only the project can fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Results that were read from the project's store."""

    note: str = NOTE
    checks: list[Diagnostic] = field(default_factory=list)  # duplicates, future, training_rows
    cures: dict[str, str] = field(default_factory=dict)  # of failed checks: the range that would hold every reward
    counts: dict[str, int] = field(default_factory=dict)  # rows that the proof could not use
    unchecked: list[str] = field(default_factory=list)
    regions: dict[str, str] = field(default_factory=dict)  # where one key alone decides
    unchecked_keys: list[str] = field(default_factory=list)
    test: str = ""  # the row of the ledger that charged the error budget
    seen_s: float = 0.0  # the age of the log

    @classmethod
    def of(cls, evidence: Evidence, *, measured: Evidence, recomputed: Evidence) -> Stated:
        """What the evidence of a proof has beyond that of its rows; `measured` is the one before keys are left out."""
        known = {check.name: check for check in recomputed.diagnostics}
        return cls(
            checks=[check for check in evidence.diagnostics if check.name not in {*known, *_BY_THE_GATE}],
            cures={
                check.name: check.cure
                for check in evidence.diagnostics
                if check.name in known and check.cure != known[check.name].cure
            },
            counts={name: count for name, count in evidence.counts.items() if name not in recomputed.counts},
            unchecked=list(measured.unchecked[len(recomputed.unchecked) :]),
            regions={rater.name: rater.region for rater in evidence.raters if rater.region},
            unchecked_keys=list(evidence.unchecked[len(measured.unchecked) :]),
            test=evidence.test,
            seen_s=evidence.seen_s,
        )

    def added(self, evidence: Evidence) -> Evidence:
        """The evidence of the rows with these statements; one that contradicts the rows is an InvalidInput."""
        _refuse_overlap((check.name for check in self.checks), {check.name for check in evidence.diagnostics})
        _refuse_overlap(self.counts, evidence.counts)
        checks = [
            replace(check, cure=self.cures[check.name]) if check.name in self.cures and not check.ok else check
            for check in evidence.diagnostics
        ]
        evidence = replace(
            evidence,
            diagnostics=(*checks, *self.checks),
            counts={**evidence.counts, **self.counts},
            unchecked=(*evidence.unchecked, *self.unchecked),
            test=self.test,
            seen_s=self.seen_s,
        )
        return with_regions(evidence, self.regions, self.unchecked_keys)

    def names(self, evidence: Evidence) -> tuple[str, ...]:
        """What the evidence of the rows rests on without a way to recompute it, in words."""
        return tuple(self._named([check.name for check in evidence.diagnostics if check.name in _FROM_THE_STORE]))

    def _named(self, filled: Sequence[str]) -> Iterator[str]:
        if filled:
            yield f"what the rows hold for the checks {', '.join(map(repr, filled))}"
        yield from (f"the check {check.name!r}" for check in self.checks)
        yield from (f"the cure of {name!r}" for name in self.cures)
        yield from (f"{count:,} rows {name}" for name, count in self.counts.items())
        yield "whether one key alone decides somewhere"
        if self.unchecked or self.unchecked_keys:
            yield "what could not be checked"
        yield "the age of the log"
        yield f"the charged test {self.test}" if self.test else "that no test was charged"


def _refuse_overlap(stated: Iterable[str], recomputed: Container[str]) -> None:
    for name in stated:
        if name in recomputed or name in _BY_THE_GATE:
            raise errors.InvalidInput(
                f"The pack states {name!r}, which follows from its rows.", code="bad_pack", hint="Make the pack again."
            )
