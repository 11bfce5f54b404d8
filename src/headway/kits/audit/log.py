"""A log as arrays: one entry per unit that was assigned an action, in the order of the decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headway.kits.audit.options import AuditOptions
from headway.kits.audit.rows import LISTED, Choice, ChoiceOutcome, LogRows
from headway.kits.audit.shape import LogShape
from headway.nouns import Floats, errors

MOST_MIXED = 0.01  # share of units that were assigned several actions


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLog:
    """What an audit reads; [n] per unit."""

    shape: LogShape
    arms: tuple[str, ...]
    action: NDArray[np.int64]
    reward: Floats  # NaN if there is none
    propensity: Floats | None  # None: the log has none
    probabilities: Floats | None  # [n, arm] if every row has them all
    columns: Mapping[str, Floats]
    group: NDArray[np.int64] | None
    counts: Mapping[str, int]
    mixed: float  # share of units with several actions
    reward_name: str
    notes: tuple[str, ...]
    declared: str  # the declared split in words; empty: propensities are logged

    def __len__(self) -> int:
        return int(self.action.size)

    def count(self, arm: int) -> int:
        return int((self.action == arm).sum())


def log_of(rows: LogRows, shape: LogShape, options: AuditOptions) -> AuditLog:
    """Join outcomes, merge the rows of a unit, and put them into the order of the decisions."""
    _require(rows, shape, options)
    name = _outcome_name(rows, options)
    choices, early = _joined(rows, name, shape)
    units, mixed = _units(choices, summed=shape.outcome is not None and shape.outcome.several == "sum")
    if not units:
        raise errors.InvalidInput(
            f"Every {shape.unit_name} of the log has several actions.",
            code="no_evidence",
            hint="Keep the rows of one decision each: --where FIELD=VALUE.",
        )
    timed = all(unit.at is not None for unit in units)
    if timed:
        units.sort(key=lambda unit: unit.at or 0.0)
    units, unlogged = _with_propensity(units, options)
    several = f"{shape.unit_name}s with several actions"
    counts = {several: mixed, "before the first propensity": unlogged, "outcomes before their choice": early}
    arms = _arms(units, options)
    place = {arm: number for number, arm in enumerate(arms)}
    known = units[0].propensity is not None
    return AuditLog(
        shape=shape,
        arms=arms,
        action=np.array([place[unit.action] for unit in units], dtype=np.int64),
        reward=_rewards(units, options),
        propensity=np.array([unit.propensity for unit in units], dtype=np.float64) if known else None,
        probabilities=_probabilities(units, arms, options) if known else None,
        columns={path: np.array([unit.columns[path] for unit in units]) for path in units[0].columns},
        group=_groups(units),
        counts=_positive(_counts(rows) | counts),
        mixed=mixed / (mixed + len(units)),
        reward_name=options.reward or name or "reward",
        notes=tuple(_notes(rows, timed=timed)),
        declared=_declared(options),
    )


def _counts(rows: LogRows) -> dict[str, int]:
    return {
        "rows": len(rows.choices),
        "duplicates": rows.duplicates,
        "filtered by --where": rows.filtered,
        "invalid": len(rows.skipped),
    }


def _positive(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _notes(rows: LogRows, *, timed: bool) -> Iterator[str]:
    if not timed:
        yield "Rows without a time: the order of the file is taken as the order of the decisions."
    if rows.skipped:
        yield f"{len(rows.skipped):,} invalid rows were skipped: {'; '.join(rows.skipped[:LISTED])}"


def _require(rows: LogRows, shape: LogShape, options: AuditOptions) -> None:
    if not rows.choices:
        left = f" ({rows.filtered:,} rows do not match --where)" if rows.filtered else ""
        raise errors.InvalidInput(
            f"The log has no choice to audit{left}.",
            code="no_evidence",
            hint=f"The format is {shape.name}: name another with --format, or the field of the action with --action.",
        )
    if len(rows.one_of) > 1 and shape.one_of[0] not in options.where:
        known = ", ".join(list(rows.one_of)[:5])
        raise errors.InvalidInput(
            f"The log has several of {shape.one_of[0]}: {known}.",
            code="bad_log_column",
            hint=f"Audit one: --where {shape.one_of[0]}={next(iter(rows.one_of))}",
        )


def _outcome_name(rows: LogRows, options: AuditOptions) -> str:
    """Which metric or score is the reward."""
    wanted = options.reward
    if wanted is not None:
        if wanted not in rows.names and all(choice.reward is None for choice in rows.choices):
            known = [*rows.names, *rows.fields]
            raise errors.UnknownName(
                f"No row has a reward {wanted!r}.", code="bad_log_column", hint=errors.did_you_mean(wanted, known)
            )
        return wanted
    if len(rows.names) > 1:
        raise errors.InvalidInput(
            f"The outcomes have several names: {', '.join(sorted(rows.names)[:8])}.",
            code="bad_log_column",
            hint=f"Name the one that is the reward: --reward {min(rows.names)}",
        )
    return next(iter(rows.names), "")


def _joined(rows: LogRows, name: str, shape: LogShape) -> tuple[list[Choice], int]:
    """The choices with their outcomes, and the number of outcomes that came before their choice."""
    choices, early = [], 0
    for choice in rows.choices:
        if choice.reward is None:
            reward, before = _outcome(rows, choice, name, shape)
            early += before
            choice = replace(choice, reward=reward)
        choices.append(choice)
    return choices, early


def _outcome(rows: LogRows, choice: Choice, name: str, shape: LogShape) -> tuple[float | None, int]:
    """The value of the choice's outcomes, and how many came before the choice."""
    named: list[ChoiceOutcome] = []
    for key in choice.keys:
        named = [outcome for outcome in rows.outcomes.get(key, ()) if outcome.name == name]
        if named:
            break
    late = [outcome for outcome in named if outcome.at is None or choice.at is None or outcome.at >= choice.at - 0.5]
    if not late:
        return None, len(named)
    if shape.outcome is not None and shape.outcome.several == "sum":
        return sum(outcome.value for outcome in late), len(named) - len(late)
    last = max(late, key=lambda outcome: outcome.at or 0.0)
    return last.value, len(named) - len(late)


def _units(choices: Sequence[Choice], *, summed: bool) -> tuple[list[Choice], int]:
    """One choice per unit with the mean of its rewards, or with the first one's where outcomes are summed.

    Units with several actions are counted and left out.
    """
    groups: dict[str, list[Choice]] = {}
    for place, choice in enumerate(choices):
        groups.setdefault(choice.unit or f"\0{place}", []).append(choice)
    units, mixed = [], 0
    for group in groups.values():
        if len(group) == 1:
            units.append(group[0])
        elif len({choice.action for choice in group}) > 1:
            mixed += 1
        else:
            first = min(group, key=lambda choice: choice.at or 0.0)
            rewards = [choice.reward for choice in group if choice.reward is not None]
            mean = sum(rewards) / len(rewards) if rewards else None
            units.append(replace(first, reward=first.reward if summed else mean))
    return units, mixed


def _with_propensity(units: list[Choice], options: AuditOptions) -> tuple[list[Choice], int]:
    """The units from the first propensity on. A log that has none at all is returned whole."""
    known = [unit.propensity is not None for unit in units]
    if not any(known):
        return units, 0
    start = known.index(True)
    gaps = [unit for unit in units[start:] if unit.propensity is None]
    if gaps and not options.skip_invalid:
        raise errors.InvalidInput(
            f"{gaps[0].place}: the propensity is missing ({len(gaps):,} such rows).",
            code="bad_log_value",
            hint="Nothing was estimated. Log it for every choice; rows without one are not a random part of the log. "
            "Only rows before the first propensity are left out by themselves. --on-error skip leaves all of them out.",
        )
    kept = [unit for unit in units[start:] if unit.propensity is not None]
    return kept, start + len(gaps)


def _arms(units: Sequence[Choice], options: AuditOptions) -> tuple[str, ...]:
    """Every action that was chosen, or that had a probability."""
    arms = {unit.action for unit in units}
    for unit in units:
        arms.update(unit.probabilities or ())
    if isinstance(options.split, Mapping):
        arms.update(options.split)
    if isinstance(options.split, float) and abs(options.split * len(arms) - 1.0) > 0.01:
        raise errors.InvalidInput(
            f"--propensity {options.split:g} is an even split of {1.0 / options.split:.3g}, but the log has "
            f"{len(arms)} actions: {', '.join(sorted(arms)[:8])}.",
            code="bad_pair",
            hint="Declare each: " + " ".join(f"--propensity {arm}=P" for arm in sorted(arms)[:3]) + " …",
        )
    return tuple(sorted(arms, key=lambda arm: (len(arm) if arm.isdecimal() else 0, arm)))


def _probabilities(units: Sequence[Choice], arms: tuple[str, ...], options: AuditOptions) -> Floats | None:
    """[n, arm]; None unless every row has all of them."""
    if isinstance(options.split, float):
        return np.full((len(units), len(arms)), 1.0 / len(arms))
    if options.split is not None:
        return np.tile(np.array([options.split.get(arm, 0.0) for arm in arms]), (len(units), 1))
    if not all(unit.probabilities for unit in units):
        return None
    return np.array([[(unit.probabilities or {}).get(arm, 0.0) for arm in arms] for unit in units], dtype=np.float64)


def _rewards(units: Sequence[Choice], options: AuditOptions) -> Floats:
    """Larger is better; NaN is unknown."""
    low, high = options.reward_range or (-np.inf, np.inf)
    for unit in units:
        if unit.reward is not None and not low <= unit.reward <= high:
            raise errors.InvalidInput(
                f"{unit.place}: the reward {unit.reward:g} is outside of --range {low:g} {high:g}.",
                code="bad_log_value",
                hint="Nothing was estimated. Give the range that every reward is in, or correct the row.",
            )
    reward = np.array([np.nan if unit.reward is None else unit.reward for unit in units], dtype=np.float64)
    if isinstance(options.missing, float):
        reward = np.where(np.isnan(reward), options.missing, reward)
    return -reward if options.lower_is_better else reward


def _groups(units: Sequence[Choice]) -> NDArray[np.int64] | None:
    """Who each decision was for, as numbers; None if the log does not say. Those for nobody are each by themselves."""
    if not any(unit.group for unit in units):
        return None
    codes: dict[str, int] = {}
    names = (unit.group or f"\0{place}" for place, unit in enumerate(units))
    return np.array([codes.setdefault(name, len(codes)) for name in names], dtype=np.int64)


def _declared(options: AuditOptions) -> str:
    if isinstance(options.split, float):
        return f"{options.split:g} for every action"
    return ", ".join(f"{arm} {share:g}" for arm, share in (options.split or {}).items())
