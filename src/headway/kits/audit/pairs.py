"""What is audited against what, and the evidence on each pair.

A router must beat every action that it could always take: "better" means that each of these tests passes, which needs
no correction (an intersection-union test); "worse" means that one action is proven better, and these share the error.
The other way round for experiments: one arm that beats the control makes it "better", so these share the error.

The score of "logged against always X" is (1 − 1[A = X]/μ(X)) (r − q), with q the mean of the earlier rewards of X. Its
mean is exactly the difference of the two values, and it needs the probability of the chosen action only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headway.kits.audit.evidence import ROWS, ForeignChunk, from_chunks
from headway.kits.audit.log import MOST_MIXED, AuditLog
from headway.kits.audit.options import AuditOptions
from headway.kits.audit.rows import MODEL
from headway.nouns import Diagnostic, Evidence, Floats, Verdict, errors
from headway.promote import gate
from headway.prove import About, Checks, Log, RowOrigin

LOGGED = "logged"
LEAST = 30  # rows of an arm before "always this arm" is compared
MOST_ARMS = 50
CHECKED = 20_000  # rows per piece of the checks
_CONTROLS = ("control", "baseline", "0", "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPolicy:
    """The logged chooser, one arm always, or a policy whose probability of the logged action is a field."""

    name: str
    arm: int | None = None
    column: str | None = None

    def probability(self, log: AuditLog) -> Floats:
        """[n]; of the logged action."""
        if self.arm is not None:
            return np.where(log.action == self.arm, 1.0, 0.0)
        if self.column is not None:
            return log.columns[self.column]
        assert log.propensity is not None
        return log.propensity


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditComparison:
    """One pair, and the gate's verdict on it."""

    policy: ComparedPolicy
    against: ComparedPolicy
    verdict: Verdict

    @property
    def evidence(self) -> Evidence:
        assert self.verdict.evidence is not None
        return self.verdict.evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPairs:
    """The pairs of an audit. `every`: all must pass to be better; else one is enough."""

    pairs: tuple[tuple[ComparedPolicy, ComparedPolicy], ...]
    every: bool
    too_few: tuple[str, ...] = ()  # arms with too few rows to be compared


def pairs_of(log: AuditLog, options: AuditOptions) -> ComparedPairs:
    """What is compared, by the options or the kind of log."""
    default = _default_pair(log, options)
    if default is not None:
        return default
    if options.policy is None and log.shape.experiment:
        control = _named(log, options.against) if options.against is not None else _control(log)
        kept, few = _arms_beside(log, control)
        names = tuple(log.arms[arm] for arm in few)
        return ComparedPairs(pairs=tuple((_always(log, arm), control) for arm in kept), every=False, too_few=names)
    policy = _named(log, options.policy)
    if options.against is not None or (policy.column is not None and len(log.arms) < 2):
        return ComparedPairs(pairs=((policy, _named(log, options.against)),), every=True)
    kept, few = _arms_beside(log, policy)
    names = tuple(log.arms[arm] for arm in few if arm not in kept)
    return ComparedPairs(pairs=tuple((policy, _always(log, arm)) for arm in kept), every=True, too_few=names)


def _default_pair(log: AuditLog, options: AuditOptions) -> ComparedPairs | None:
    """A table with the column target_probability brings both policies."""
    if options.policy is not None or options.against is not None or "target_probability" not in log.columns:
        return None
    against = "baseline_probability" if "baseline_probability" in log.columns else LOGGED
    return ComparedPairs(pairs=((_named(log, "target_probability"), _named(log, against)),), every=True)


def _arms_beside(log: AuditLog, policy: ComparedPolicy) -> tuple[list[int], list[int]]:
    """The other arms that are compared with a policy, and those with too few rows; if all have, all are compared."""
    arms = [arm for arm in range(len(log.arms)) if arm != policy.arm]
    few = [arm for arm in arms if log.count(arm) < LEAST]
    kept = [arm for arm in arms if arm not in few] or arms
    if len(kept) > MOST_ARMS:
        raise errors.InvalidInput(
            f"The log has {len(kept):,} different actions.",
            code="bad_log_column",
            hint="Name the field with the action (--action FIELD), or the one to compare with (--against ACTION).",
        )
    return kept, few


def _control(log: AuditLog) -> ComparedPolicy:
    for name in _CONTROLS:
        if name in log.arms:
            return _always(log, log.arms.index(name))
    return _always(log, int(np.bincount(log.action, minlength=len(log.arms)).argmax()))


def _always(log: AuditLog, arm: int) -> ComparedPolicy:
    return ComparedPolicy(name=f"{log.shape.arm_word} {log.arms[arm]}", arm=arm)


def _named(log: AuditLog, name: str | None) -> ComparedPolicy:
    if name is None or name == LOGGED:
        return ComparedPolicy(name="the logged router" if not log.shape.experiment else "the logged split")
    if name in log.arms:
        return _always(log, log.arms.index(name))
    if name in log.columns:
        return ComparedPolicy(name=name, column=name)
    known = [LOGGED, *log.arms]
    raise errors.UnknownName(
        f"{name!r} is not an action of the log or a field of it.",
        code="bad_log_column",
        hint=errors.did_you_mean(name, known),
    )


def compared(log: AuditLog, pairs: ComparedPairs, options: AuditOptions, about: About) -> tuple[AuditComparison, ...]:
    """The evidence on every pair, and the gate's verdict."""
    assert log.propensity is not None
    checks = (*_origin(log), *_mixed(log))
    unchecked = [f"the propensities are declared, not logged: {log.declared}"] if log.declared else []
    if options.reward_range is None and about.reward_range is not None:
        low, high = about.reward_range
        unchecked.append(
            "the range of the rewards is taken from the rows: a reward outside it would change the result "
            f"({low:g} to {high:g}; declare it with --range)"
        )
    comparisons = []
    for policy, against in pairs.pairs:
        if policy == against:
            raise errors.InvalidInput(
                f"{policy.name} cannot be compared with itself.", code="bad_log_column", hint="Name another --against."
            )
        of = replace(
            about,
            candidate=policy.name,
            against=against.name,
            alpha=about.alpha if pairs.every else about.alpha / len(pairs.pairs),
            alpha_worse=about.alpha / len(pairs.pairs) if pairs.every else about.alpha,
        )
        evidence = from_chunks(_chunks(log, policy, against), of)
        diagnostics = tuple(_cured(diagnostic) for diagnostic in (*evidence.diagnostics, *checks))
        evidence = replace(evidence, diagnostics=diagnostics, unchecked=(*unchecked, *evidence.unchecked))
        comparisons.append(AuditComparison(policy=policy, against=against, verdict=gate.verdict(evidence)))
    return tuple(comparisons)


def _chunks(log: AuditLog, policy: ComparedPolicy, against: ComparedPolicy) -> Iterator[ForeignChunk]:
    """The log in the pieces that the proof expects."""
    assert log.propensity is not None
    arm = against.arm if policy.arm is None and policy.column is None else None
    q = None if arm is None else _earlier_mean(log, arm)
    model = None if q is None else (q, q, q)
    if MODEL[0] in log.columns:
        model = (log.columns[MODEL[0]], log.columns[MODEL[1]], log.columns[MODEL[2]])
    ours, theirs = policy.probability(log), against.probability(log)
    for start in range(0, len(log), ROWS):
        cut = slice(start, start + ROWS)
        yield ForeignChunk(
            reward=log.reward[cut],
            propensity=log.propensity[cut],
            target=ours[cut],
            baseline=theirs[cut],
            model=None if model is None else (model[0][cut], model[1][cut], model[2][cut]),
        )


def _earlier_mean(log: AuditLog, arm: int) -> Floats:
    """[n]; the mean of the rewards of this arm in earlier rows, from 5 rows' worth of the mean of all earlier rows."""
    known = ~np.isnan(log.reward)
    reward = np.where(known, log.reward, 0.0)
    total, count = np.cumsum(reward) - reward, np.cumsum(known) - known
    overall = total / np.maximum(count, 1)
    of = known & (log.action == arm)
    own = np.where(of, log.reward, 0.0)
    mean: Floats = (np.cumsum(own) - own + 5.0 * overall) / (np.cumsum(of) - of + 5.0)
    return mean


def _origin(log: AuditLog) -> tuple[Diagnostic, ...]:
    """Whether the actions can have been drawn with the propensities, each by itself."""
    if len(log.arms) < 2 or len(log.arms) > MOST_ARMS:
        return ()
    assert log.propensity is not None
    n, k = len(log), len(log.arms)
    logged = log.probabilities
    alone = logged is None and k > 2  # of two actions, the other one has the rest
    if logged is None:
        logged = np.repeat(((1.0 - log.propensity) / (k - 1))[:, None], k, axis=1)
        logged[np.arange(n), log.action] = log.propensity
    checks = Checks(k, 0).origin
    for start in range(0, n, CHECKED):
        cut = slice(start, start + CHECKED)
        piece = Log.of(reward=log.reward[cut], action=log.action[cut], logged=logged[cut], target=logged[cut])
        groups = {} if log.group is None else {"user": log.group[cut]}
        origin = RowOrigin(groups=groups, chosen_only=np.full(len(piece), alone))
        checks.add(replace(piece, origin=origin))
    return tuple(checks.diagnostics(log.arms))


def _mixed(log: AuditLog) -> tuple[Diagnostic, ...]:
    if not log.shape.unit:
        return ()
    name, wrong = log.shape.unit_name, log.mixed > MOST_MIXED
    return (
        Diagnostic.at_most(
            "mixed_units",
            log.mixed,
            MOST_MIXED,
            f"{'Cannot tell: ' if wrong else ''}{log.mixed:.1%} of the {name}s have several actions and are left out",
            f"An action is assigned once per {name}. Keep the rows of one decision: --where FIELD=VALUE.",
        ),
    )


def _cured(diagnostic: Diagnostic) -> Diagnostic:
    """The cure in terms of an audit, where the core's speaks of a project."""
    cures = {
        "missing_width": "Add the missing outcomes. If a missing outcome has a known worth, declare it (--missing 0); "
        'if outcomes are missing by chance, declare that (--missing "at random").',
        "missing_depends_on_action": "Give choices without an outcome a worth: --missing 0.",
        "unlogged_actions": "A choice with propensity 1 says nothing about other actions. Draw the action at random, "
        "each with a probability above 0, and log that probability.",
        "speaking_rows": "Explore more, so that the compared actions are both taken.",
        "ess": "Explore more, so that the compared actions are both taken.",
        "calibration": "The propensities are not those that the actions were drawn with, or not every action was "
        "possible in every row: keep one kind of row with --where FIELD=VALUE, or correct the propensities.",
        "repetition": "Every choice must be drawn by itself. If one draw holds for a user, log it once.",
    }
    return diagnostic if diagnostic.ok else replace(diagnostic, cure=cures.get(diagnostic.name, diagnostic.cure))
