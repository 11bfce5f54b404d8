"""Is the router in this log really better? Reads the files, compares, and says what would tell if nothing does."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from pathlib import Path
from typing import Literal

import numpy as np

from headway.kits.audit.log import AuditLog, log_of
from headway.kits.audit.options import AuditOptions
from headway.kits.audit.pairs import LOGGED, AuditComparison, ComparedPairs, compared, pairs_of
from headway.kits.audit.rows import MODEL, fields_of, guess, read_rows
from headway.kits.audit.shape import LogShape, shape_named
from headway.kits.data import digest_of
from headway.nouns import Floats, errors
from headway.prove import About

SHARES = (0.05, 0.1, 0.3)
_UPLIFT = 0.05  # of the range of the rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredTest:
    """The decisions that one way of logging needs for 80% power at the uplift."""

    name: str
    decisions: int
    uplift: float


def decisions_that_tell(
    log: AuditLog,
    *,
    target: Floats | None,
    baseline: Floats | None,
    against: int | None,
    uplift: float | None,
    reward_range: tuple[float, float],
    about: About,
) -> tuple[ExploredTest, ...]:
    """The present way of logging, uniform exploration, and half of the traffic for what is compared with.

    `target`, `baseline` [n]: both policies' probabilities of the logged action. `against`: the arm, if it is one.
    """
    rewards = log.reward[~np.isnan(log.reward)]
    width = reward_range[1] - reward_range[0]
    noise = float(rewards.var()) if rewards.size > 1 else 0.0
    noise = noise or width**2 / 4.0
    gain = _UPLIFT * width if uplift is None else uplift

    def needed(name: str, spread: float, heaviest: float) -> ExploredTest | None:
        decisions = about.still_needed(noise * spread, 0, gain, lowest=-heaviest * width)
        return None if decisions is None else ExploredTest(name=name, decisions=decisions, uplift=gain)

    ways: list[ExploredTest | None] = []
    if log.propensity is not None and target is not None and baseline is not None and _explores(log, target, baseline):
        ways += _logged_ways(log, target, baseline, against, needed)
    elif against is not None:
        ways += _planned_ways(log, against, needed)
    return tuple(way for way in ways if way is not None)


def _explores(log: AuditLog, target: Floats, baseline: Floats) -> bool:
    """Whether every row on which the policies differ had other possible actions."""
    assert log.propensity is not None
    return not ((log.propensity >= 1.0 - 1e-9) & (np.abs(target - baseline) > 1e-6)).any()


Needed = Callable[[str, float, float], ExploredTest | None]


def _logged_ways(
    log: AuditLog, target: Floats, baseline: Floats, against: int | None, needed: Needed
) -> list[ExploredTest | None]:
    """From a log with propensities."""
    logged = log.propensity
    assert logged is not None
    squares = ((target - baseline) / logged) ** 2
    if not squares.any():
        return []

    def way(name: str, other: Floats) -> ExploredTest | None:
        ratio = logged / other
        return needed(name, float((squares * ratio).mean()), float((np.sqrt(squares) * ratio).max()))

    ways = [way("as it is logged now", logged)]
    if not log.shape.experiment:
        for share in SHARES[1:]:
            uniform = (1.0 - share) * logged + share / len(log.arms)
            ways.append(way(f"with {share:.0%} more choices drawn uniformly", uniform))
    if against is not None and not log.shape.experiment:
        half = 0.5 * logged + 0.5 * (log.action == against)
        ways.append(way(f"with half of the choices always {log.arms[against]}", half))
    return ways


def _planned_ways(log: AuditLog, against: int, needed: Needed) -> list[ExploredTest | None]:
    """From a log without propensities, as if the chooser were deterministic."""
    differs = 1.0 - log.count(against) / len(log)
    arms = max(len(log.arms), 2)
    ways = []
    for share in SHARES if not log.shape.experiment else ():
        own, rare = 1.0 - share + share / arms, share / arms
        name = f"with {share:.0%} of the choices drawn uniformly"
        ways.append(needed(name, differs * (1.0 / own + 1.0 / rare), 1.0 / rare))
    name = f"with half of the choices always {log.arms[against]}"
    return [*ways, needed(name, 4.0 * (1.0 if log.shape.experiment else differs), 2.0)]


AuditState = Literal["better", "worse", "undecided", "cannot tell"]
_STATES: dict[str, AuditState] = {"pass": "better", "worse": "worse", "wait": "undecided", "no difference": "undecided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The answer, and everything that a page about it shows."""

    state: AuditState
    name: str  # of the files
    log: AuditLog
    guessed: bool
    question: str
    comparisons: tuple[AuditComparison, ...]
    pairs: ComparedPairs
    lead: AuditComparison | None  # the one that decides
    tests: tuple[ExploredTest, ...]  # what would tell
    missing: tuple[tuple[str, str], ...]  # what the log lacks, and how to add it
    command: str
    data_hash: str

    @property
    def shape(self) -> LogShape:
        return self.log.shape


def audit_files(
    paths: Sequence[Path], *, form: str | None = None, options: AuditOptions | None = None, command: str = ""
) -> Audit:
    """Audit log files; of several, some may have the outcomes of the others' choices.

    audit_files([Path("log.jsonl")])
    audit_files([Path("inferences.jsonl"), Path("feedback.jsonl")], options=AuditOptions(split=0.5))
    """
    options = options or AuditOptions()
    shape = guess(paths) if form is None else shape_named(form)
    digest = _digest(paths)
    log = log_of(read_rows(paths, shape, options, _columns(paths, shape, options)), shape, options)
    pairs = pairs_of(log, options)
    name = " and ".join(path.name for path in paths)
    limits = _range(log, options)
    about = About(
        task=name,
        candidate="",
        against="",
        reward_range=limits,
        declared={"missing": "at random"} if options.missing == "at random" else {},
        data_hash=digest,
        command=command or f"headway audit {shlex.join(map(str, paths))}",
    )
    lacks = _missing(log)
    comparisons = () if lacks or not pairs.pairs else compared(log, pairs, options, about)
    state, lead = _decided(comparisons, pairs)
    return Audit(
        state=state,
        name=name,
        log=log,
        guessed=form is None,
        question=_question(pairs),
        comparisons=comparisons,
        pairs=pairs,
        lead=lead,
        tests=() if state in ("better", "worse") else _tests(log, pairs, lead, options.uplift, limits, about),
        missing=lacks,
        command=about.command,
        data_hash=digest,
    )


def _columns(paths: Sequence[Path], shape: LogShape, options: AuditOptions) -> tuple[str, ...]:
    """The fields that hold a policy's probabilities."""
    fields = fields_of(paths)
    if options.policy is None and options.against is None and shape.name == "columns":
        wanted: tuple[str | None, ...] = ("target_probability", "baseline_probability")
    else:
        wanted = (options.policy, options.against)
    if any(name.startswith("model_estimate") for name in fields):
        _check_model(fields)
        wanted = (*wanted, *MODEL)
    return tuple(dict.fromkeys(name for name in wanted if name in fields and name != LOGGED and name is not None))


def _check_model(fields: set[str]) -> None:
    """A reward model's estimates come together, or not at all."""
    if lacking := [name for name in MODEL if name not in fields]:
        raise errors.InvalidInput(
            f"The log has estimates of a reward model, but not {', '.join(lacking)}.",
            code="bad_log_column",
            hint=f"Add {lacking[0]}, or leave out every column model_estimate_*.",
        )


def _range(log: AuditLog, options: AuditOptions) -> tuple[float, float]:
    """The declared range, or the round numbers around the rewards."""
    if options.reward_range is None:
        known = log.reward[~np.isnan(log.reward)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return (0.0, 1.0) if low >= 0.0 and 0.2 < high <= 1.0 else (-_round(-low), _round(high) or float(low >= 0.0))
    low, high = options.reward_range
    if not low < high:
        raise errors.InvalidInput(
            f"--range {low:g} {high:g} is empty.",
            code="bad_log_value",
            hint="Write --range LOWEST HIGHEST.",
        )
    return (-high, -low) if options.lower_is_better else (low, high)


def _round(size: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, … times a power of ten that is not below the size; 0 for none."""
    if size <= 0.0:
        return 0.0
    power = 10.0 ** floor(log10(size))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= size * (1.0 - 1e-9))


def _missing(log: AuditLog) -> tuple[tuple[str, str], ...]:
    """What the log does not have, and how to add it."""
    lacks = []
    if log.propensity is None:
        lacks.append(("the propensity: with which probability each action was chosen", log.shape.add_propensity))
    if not (log.reward == log.reward).any():
        lacks.append(("the reward: how each choice turned out", log.shape.add_reward))
    if len(log.arms) < 2 and not log.columns:
        only = f"a second action: every choice is {log.arms[0]!r}"
        lacks.append((only, "Explore, or name the field with the action: --action FIELD."))
    return tuple(lacks)


def _decided(comparisons: Sequence[AuditComparison], pairs: ComparedPairs) -> tuple[AuditState, AuditComparison | None]:
    """The state of the whole audit, and the comparison that decides it."""
    if not comparisons:
        return "cannot tell", None

    def ahead(comparison: AuditComparison) -> float:
        return comparison.evidence.statistic - comparison.evidence.threshold

    def behind(comparison: AuditComparison) -> float:
        evidence = comparison.evidence
        return evidence.statistic_worse - (evidence.threshold_worse or evidence.threshold)

    states = [_STATES.get(comparison.verdict.state, "cannot tell") for comparison in comparisons]
    by_state = {state: [c for c, other in zip(comparisons, states, strict=True) if other == state] for state in states}
    if pairs.every:
        if "worse" in by_state:
            return "worse", max(by_state["worse"], key=behind)
        if len(by_state.get("better", ())) == len(comparisons):
            return "better", min(comparisons, key=ahead)
    else:
        if "better" in by_state:
            return "better", max(by_state["better"], key=ahead)
        if len(by_state.get("worse", ())) == len(comparisons):
            return "worse", min(comparisons, key=behind)
    for state in ("cannot tell", "undecided") if pairs.every else ("undecided", "cannot tell"):
        if state in by_state:
            return state, min(by_state[state], key=ahead) if pairs.every else max(by_state[state], key=ahead)
    raise AssertionError(states)


def _question(pairs: ComparedPairs) -> str:
    if not pairs.pairs:
        return "Is the logged router better than always taking one action?"
    policy, against = pairs.pairs[0]
    if len(pairs.pairs) == 1:
        return f"Is {policy.name} better than {against.name}?"
    if pairs.every:
        others = [pair[1].name for pair in pairs.pairs]
        named = f"{', '.join(others[:-1])} and {others[-1]}" if len(others) <= 4 else "always taking any one action"
        return f"Is {policy.name} better than {named}?"
    return f"Is any of {', '.join(pair[0].name for pair in pairs.pairs[:8])} better than {against.name}?"


def _tests(
    log: AuditLog,
    pairs: ComparedPairs,
    lead: AuditComparison | None,
    uplift: float | None,
    limits: tuple[float, float],
    about: About,
) -> tuple[ExploredTest, ...]:
    if not pairs.pairs or (len(log.arms) < 2 and not log.columns):
        return ()
    policy, against = (lead.policy, lead.against) if lead is not None else pairs.pairs[0]
    known = log.propensity is not None
    return decisions_that_tell(
        log,
        target=policy.probability(log) if known else None,
        baseline=against.probability(log) if known else None,
        against=against.arm,
        uplift=uplift,
        reward_range=limits,
        about=about if pairs.every else replace(about, alpha=about.alpha / len(pairs.pairs)),
    )


def _digest(paths: Sequence[Path]) -> str:
    digests = [digest_of(path) for path in paths]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
