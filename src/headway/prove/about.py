"""Which policies are compared, and the evidence composed from any kind of data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headway.nouns.evidence import Diagnostic, Estimate, Evidence, EvidenceKind, Guard, Plan, RaterShare
from headway.prove import sequential

__all__ = ["About", "compose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Which policies are compared, and the error budget: the part of an evidence that is not data."""

    task: str
    candidate: str
    against: str
    candidate_hash: str = ""
    against_hash: str = ""
    plan: Plan | None = None
    alpha: float = sequential.ALPHA  # for the first candidate; the k-th gets alpha / (2k (k+1))
    challenger: int = 1
    margin: float = 0.0
    reward_version: str = ""
    data_hash: str = ""  # empty: computed from the data
    seed: int = 0
    command: str = ""
    trusted: Sequence[str] = ()  # keys that may decide the verdict

    @property
    def share(self) -> float:
        """The error that this candidate may spend."""
        return sequential.challenger_alpha(self.alpha, self.challenger)


def compose(
    about: About,
    *,
    kind: EvidenceKind,
    n: int,
    difference: Estimate,
    values: Mapping[str, Estimate],
    statistic: float,
    statistic_worse: float,
    threshold: float,
    rule: str,
    alpha: float,
    counts: Mapping[str, int],
    data_hash: str,
    needed: int | None,
    diagnostics: Sequence[Diagnostic] = (),
    guards: Sequence[Guard] = (),
    curve: Sequence[tuple[int, float, float, float]] = (),
    bounds: tuple[float, float] | None = None,
    ended: bool = False,
    raters: Sequence[RaterShare] = (),
) -> Evidence:
    """The evidence with its id, a hash of what was compared, on which data, by which rule."""
    evidence = Evidence(
        task=about.task,
        kind=kind,
        candidate=about.candidate,
        candidate_hash=about.candidate_hash,
        against=about.against,
        against_hash=about.against_hash,
        n=n,
        difference=difference,
        values=values,
        statistic=statistic,
        threshold=threshold,
        rule=rule,
        alpha=alpha,
        challenger=about.challenger,
        diagnostics=diagnostics,
        guards=guards,
        counts=counts,
        needed=needed,
        plan=about.plan,
        curve=curve,
        reward_version=about.reward_version,
        data_hash=about.data_hash or data_hash,
        seed=about.seed,
        margin=about.margin,
        statistic_worse=statistic_worse,
        bounds=bounds,
        ended=ended,
        command=about.command,
        raters=raters,
        trusted=tuple(about.trusted),
    )
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
    ]
    return replace(evidence, id="evi_" + hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32])
