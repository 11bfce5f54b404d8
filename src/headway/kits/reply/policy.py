"""A policy of the family `language` as the core sees it: which base and which adapter; and who answers in a reply task.

A reply's candidates are the policies that could have written it, and its action is the one that did. The worker holds
the weights: choosing among policies needs their references only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from headway.decide import Pipeline, baseline
from headway.nouns import Candidate, Diagnostic, Encoder, Estimate, Guard, Opinions, PolicyRef, Situation, errors
from headway.project import Ask, Offer, Project
from headway.settings import TaskSettings


@dataclass(frozen=True, slots=True)
class LanguagePolicy:
    """It writes replies. Among candidates it has no preference: which policy answers is the ledger's choice."""

    base: str  # the hash of the weights that its adapter was trained on
    template: str
    measured: Mapping[str, float] = field(default_factory=dict)  # after training; what the gate checks
    family: str = "language"

    def opinions(
        self,
        situations: Sequence[Situation],
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        *,
        confidence: bool = True,
        std: bool = False,
    ) -> Opinions:
        del seeds, std
        probabilities = np.full((len(situations), len(candidates)), 1.0 / len(candidates))
        return Opinions(probabilities, np.ones(len(situations)) if confidence else None)

    def quality(self, *, preferred: bool) -> QualityChecks:
        """The gate's checks beside the votes; `preferred`: the votes prefer it."""
        return quality_checks(self.measured, preferred=preferred)


def read(
    knobs: Mapping[str, Any], tensors: Mapping[str, Any], extra: Mapping[str, Any], encoder: Encoder | None
) -> LanguagePolicy:
    """The policy of a bundle."""
    del knobs, tensors, encoder
    return LanguagePolicy(
        base=str(extra.get("base", "")),
        template=str(extra.get("template", "")),
        measured=dict(extra.get("measured", {})),
    )


_ENOUGH = 20  # held-out ratings of a sign from which the ranking and the likelihood of liked replies are required
_FEW = 5  # from which a ranking that is upside down refuses
_LEAST_SD = 0.05
_DEGENERATE = {"empty": 1.0, "repetition": 1.0, "refusal": 1.0, "ended": -1.0}  # which direction is worse
_WORDS = {
    "empty": "empty replies", "repetition": "repeated words", "refusal": "refusals", "ended": "replies that end",
}  # fmt: skip


class QualityChecks(NamedTuple):
    """Checks that block, and guards."""

    diagnostics: tuple[Diagnostic, ...]
    guards: tuple[Guard, ...]

    @property
    def ok(self) -> bool:
        return all(one.ok for one in self.diagnostics) and all(one.ok for one in self.guards)


def quality_checks(measured: Mapping[str, float], *, preferred: bool = False) -> QualityChecks:
    """The checks of an adapter; `preferred`: the votes prefer it, so its length may differ.

    | check | passes | far beyond |
    |---|---|---|
    | integrity | finite, and generation agrees with training within .02 | |
    | kl | at most .05 nats per token from the base, on general texts | .10 |
    | perplexity | at most 1.05 times the base's on general texts | 1.10 |
    | perplexity_liked | at most the base's on liked replies that were held out; fewer than 20: 1.1 times | 1.10 |
    | ranking | from 20 held-out ratings of each sign: good ones moved up more, 90% interval above ½ | below ½ |
    | empty, repetition, ended, refusals | within 2 deviations (per reply) of the champion | 3 |
    | length | 0.6 to 1.6 times the champion's, unless the votes prefer it | |
    | safety | no more flags on the fixed questions than the champion | |
    """
    if not measured:
        return QualityChecks((_not_measured(),), ())
    return QualityChecks((_integrity(measured),), tuple(_guards(measured, preferred)))


def _not_measured() -> Diagnostic:
    return Diagnostic(
        name="integrity", value=0.0, limit=0.0, ok=False, blocks=True,
        message="nothing was measured after its training", cure="Learn it again.",
    )  # fmt: skip


def _integrity(measured: Mapping[str, float]) -> Diagnostic:
    gap = measured.get("logprob_gap", inf)
    finite = all(isfinite(value) for value in measured.values())
    ok = finite and gap <= 0.02
    agrees = "generation agrees with training" if ok else "generation and training disagree"
    return Diagnostic(
        name="integrity", value=gap if isfinite(gap) else 1e9, limit=0.02, ok=ok, blocks=True,
        message=f"{agrees} within {gap:.4f} in log-probability" if finite else "a measured number is not finite",
        cure="" if ok else "Learn it again; if that does not help, check the model's folder (headway doctor).",
    )  # fmt: skip


def _guards(measured: Mapping[str, float], preferred: bool) -> Iterator[Guard]:
    yield _at_most("kl", measured["kl"], 0.05, 0.10, "nats per token from the base on general texts")
    ratio = measured["perplexity_ratio"]
    yield _at_most("perplexity", ratio, 1.05, 1.10, "times the base's perplexity on general texts")
    if "perplexity_liked" in measured:
        liked, enough = measured["perplexity_liked"], measured.get("held_out_good", 0.0) >= _ENOUGH
        limit = 1.0 if enough else 1.1  # a few replies say little
        yield _at_most("perplexity_liked", liked, limit, 1.1, "times the base's perplexity on liked replies held out")
    yield from _ranking(measured)
    for name, direction in _DEGENERATE.items():
        yield _within(name, measured, direction)
    yield _length(measured, preferred)
    flags, before = measured["probe_flagged"], measured["champion_flagged"]
    count = round(measured["probe_count"])
    yield _guard(
        "safety", flags - before, 0.0, flags <= before,
        f"{round(flags * count)} of {count} fixed questions were answered with a flag, {round(before * count)} by the "
        "champion", count,
    )  # fmt: skip


def _at_most(name: str, value: float, limit: float, hard: float, unit: str) -> Guard:
    far = ", far beyond the limit" if value > hard else ""
    return _guard(name, value, limit, value <= limit, f"{value:.3f} {unit}, at most {limit:g} is allowed{far}", 1)


def _ranking(measured: Mapping[str, float]) -> Iterator[Guard]:
    good, bad = round(measured.get("held_out_good", 0.0)), round(measured.get("held_out_bad", 0.0))
    if "auc" not in measured or min(good, bad) < _FEW:
        return
    area, low, high = measured["auc"], measured["auc_low"], measured["auc_high"]
    ok = high >= 0.5 if min(good, bad) < _ENOUGH else low > 0.5
    yield Guard(
        name="ranking",
        difference=Estimate(
            value=area, low=low, high=high, n=good + bad, ess=float(good + bad), method="AUC", level=0.9
        ),
        tolerance=0.5,
        ok=ok,
        message=f"of {good} good and {bad} bad replies held out, the good one moved up more in {area:.0%} of pairs "
        f"({low:.0%} to {high:.0%})",
    )


def _within(name: str, measured: Mapping[str, float], direction: float) -> Guard:
    value, before = measured[f"probe_{name}"], measured[f"champion_{name}"]
    deviation = max(measured[f"champion_{name}_sd"], _LEAST_SD)
    worse = direction * (value - before) / deviation
    far = ", far beyond the limit" if worse > 3.0 else ""
    return _guard(
        name, worse, 2.0, worse <= 2.0,
        f"{_WORDS[name]}: {value:.0%} on the fixed questions, {before:.0%} by the champion, {worse:+.1f} deviations, "
        f"at most 2 are allowed{far}", round(measured["probe_count"]),
    )  # fmt: skip


def _length(measured: Mapping[str, float], preferred: bool) -> Guard:
    ratio = measured["probe_length"] / max(measured["champion_length"], 1e-9)
    told = f"replies are {ratio:.2f} times as long as the champion's, 0.6 to 1.6 is allowed"
    ok = preferred or 0.6 <= ratio <= 1.6
    return _guard("length", ratio, 1.6, ok, f"{told} unless the votes prefer them", round(measured["probe_count"]))


def _guard(name: str, value: float, tolerance: float, ok: bool, message: str, count: int) -> Guard:
    held = value if isfinite(value) else 1e9
    estimate = Estimate(value=held, low=held, high=held, n=count, ess=float(count), method="measured")
    return Guard(name=name, difference=estimate, tolerance=tolerance, ok=ok, message=message)


def answering(servings: object, task: str, body: Mapping[str, Any], ref: str, digest: str) -> Pipeline:
    """The pipeline of a reply task under a configuration body: the current policy, or the canary on its share."""
    del servings, digest
    if PolicyRef.parse(ref).built_in and ref != "base@0":
        raise errors.UnknownName(
            f"{ref} writes no replies, and {task!r} is a reply task.",
            code="policy_missing",
            hint="Its built-in policy is base@0: the base model without an adapter.",
        )
    canary = body.get("canary")
    return Pipeline(
        baseline("fixed@0", arm=ref),
        floor=0.0,
        canary=baseline("fixed@0", arm=canary["ref"]) if canary else None,
        canary_share=canary["share"] if canary else 0.0,
        canary_name=canary.get("name", "canary") if canary else "canary",
    )


def offers(project: Project, settings: TaskSettings, ask: Ask) -> tuple[Iterable[Offer], int | None]:
    """Who can answer now, unless the caller says whom to compare; and the seed of the conversation.

    The same policy answers all of a conversation while the shares stay as they are. Unlike the decisions of a sticky
    episode, its replies have outcomes of their own.
    """
    candidates, episode = ask.candidates, ask.details.get("episode")
    if candidates is None:
        serving = project.servings.of(settings)
        candidates = (serving.ref, serving.canary) if serving.canary else (serving.ref,)
    if episode is None:
        return candidates, None
    return candidates, int.from_bytes(hashlib.sha256(f"{ask.task}\0{episode}".encode()).digest()[:8], "little")
