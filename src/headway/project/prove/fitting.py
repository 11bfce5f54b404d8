"""Whether the declared ranges hold: of the reward, and of each guard. Learned from the log, before a proof asks for it.

One sentence per fault, with its cure, for status, page and doctor; a verdict's check says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10, nan
from typing import TYPE_CHECKING

from headway.nouns import ids
from headway.observe import latest_draws

if TYPE_CHECKING:
    from headway.nouns import Settled
    from headway.observe import TaskFrame
    from headway.project.project.folder import Opened
    from headway.prove import GuardRule
    from headway.reward import Rewards
    from headway.settings import TaskSettings


_READ = 2000  # newest decisions
_GROWTH = 20  # sentences are computed again once the log has grown by 1/_GROWTH


def guard_rules(settings: TaskSettings) -> list[GuardRule]:
    """The guards of a task as a proof judges them."""
    from headway.prove import GuardRule

    return [
        GuardRule(
            name=name,
            tolerance=guard.tolerance,
            better=guard.direction,
            range=guard.range,
            at_random=settings.missing == "at random",
        )
        for name, guard in settings.guards.items()
    ]


def beyond(rows: Sequence[Settled], signals: Mapping[bytes, Mapping[str, float]], rewards: Rewards) -> list[float]:
    """[n]; how far every reward lay above its range, or below it (negative), before it was cut.

    `signals` of the rows that were cut, by the id of the decision.
    """
    found = [0.0] * len(rows)
    free, (low, high) = rewards.unclipped(), rewards.range
    for place, row in enumerate(rows):
        if not row.clipped or row.reward is None:
            continue
        least = 1e-9 if row.reward > (low + high) / 2.0 else -1e-9  # if it cannot be computed again
        whole = free.outcome(signals.get(ids.raw(row.decision.id), {}), age_s=0.0, decision=row.decision).reward
        over = least if whole is None else whole - row.reward
        found[place] = over if over * least > 0.0 else least
    return found


@dataclass(frozen=True, slots=True)
class RangeCuts:
    """Every reward of a task that was cut to its range, whether or not it is evidence."""

    beyond: Mapping[int, float]  # by decision: how far above the range, or below it (negative)
    reach: tuple[float, float]  # a range that would hold them all
    by_action: Mapping[str, tuple[float, ...]]  # rewards; those cut from below, from above; how far below, above in all


def cut_rewards(project: Opened, task: str, frame: TaskFrame) -> RangeCuts:
    rewards = project.rewards(task)
    seqs = [seq for block in frame.blocks() for seq in block.seq[block.clipped].tolist()]
    rows = list(project.query.outcomes(seqs, signals=True)) if seqs else []
    found = beyond(rows, {ids.raw(row.decision.id): row.signals for row in rows}, rewards)
    over = {row.decision.seq: by for row, by in zip(rows, found, strict=True) if by}
    values = [*rewards.range, *((row.reward or 0.0) + by for row, by in zip(rows, found, strict=True))]
    sums: dict[str, list[float]] = {}
    for block in frame.blocks() if over else ():
        rewarded = block.where(block.reward == block.reward)  # NaN without one
        actions, names = frame.actions(rewarded)
        for action, count in Counter(actions.tolist()).items():
            sums.setdefault(names[action], [0.0] * 5)[0] += count
        cut = rewarded.clipped
        for seq, action in zip(rewarded.seq[cut].tolist(), actions[cut].tolist(), strict=True):
            by, own = over.get(seq, 0.0), sums[names[action]]
            own[1 + (by > 0.0)] += by != 0.0
            own[3 + (by > 0.0)] += abs(by)
    return RangeCuts(over, (min(values), max(values)), {name: tuple(own) for name, own in sums.items()})


def range_cure(declared: tuple[float, float], reach: tuple[float, float]) -> str:
    """What to set where rewards lie outside of their range; `reach` holds all that were read. Empty without one."""
    if reach == tuple(declared):
        return ""
    wide = f"range = [{_outward(reach[0], floor):g}, {_outward(reach[1], ceil):g}]"
    return (
        f"Set {wide} in the task's settings: it holds every reward that was read. Where a few rewards are extreme and "
        "the mean of the cut ones is what matters to you, declare capped = true instead."
    )


def unfit_sentences(project: Opened, task: str) -> tuple[str, ...]:
    """What is declared and does not hold, or is not declared and has to be, in the newest decisions."""
    settings = project.settings.task(task)
    version, last = project.rewards(task).version, project.query.last_settled(task)
    known = project.unfit.get(task)
    if known is None or known[0] != version or last * _GROWTH > known[1] * (_GROWTH + 1):
        seqs = latest_draws(project.database, project.query, task, _READ)
        rows = [row for row in project.query.outcomes(seqs, signals=True) if row.status != "pending"]
        known = project.unfit[task] = (version, last, (*_reward(project, settings, rows), *_guards(settings, rows)))
    return known[2]


def _reward(project: Opened, settings: TaskSettings, rows: Sequence[Settled]) -> list[str]:
    cut = [row for row in rows if row.clipped]
    if not cut or settings.capped:
        return []
    signals = {ids.raw(row.decision.id): row.signals for row in cut}
    over = beyond(cut, signals, project.rewards(settings.name))
    values = [(row.reward or 0.0) + by for row, by in zip(cut, over, strict=True)]
    low, high = settings.range
    cure = range_cure((low, high), (min(low, *values), max(high, *values)))
    what = f"{len(cut):,} of the latest {len(rows):,} rewards of {settings.name} lie outside of its range"
    return [f"{what} [{low:g}, {high:g}], from {min(values):g} to {max(values):g}. {cure}"]


def _guards(settings: TaskSettings, rows: Sequence[Settled]) -> list[str]:
    if not (settings.guards and rows):
        return []
    from headway.prove import unknown_guard

    sentences = []
    for rule in guard_rules(settings):
        values = [row.signals.get(rule.name, nan) for row in rows]
        known = [value for value in values if isfinite(value)]
        message, cure = unknown_guard(rule, known, "decision of the latest")
        missing = 1.0 - len(known) / len(values)
        if message:
            sentences.append(f"Guard {rule.name} of {settings.name} cannot pass: {message}. {cure}")
        elif missing and not rule.at_random and rule.range is not None:
            worst = rule.range[1 if rule.better == "lower" else 0]
            sentences.append(
                f"{missing:.1%} of the latest decisions of {settings.name} lack {rule.name}, and each counts as "
                f"{worst:g} in its guard. Send it with every outcome."
            )
    return sentences


def _outward(value: float, away: Callable[[float], int]) -> float:
    """Rounded away from the range to two digits."""
    if value == 0.0:
        return 0.0
    unit = 10.0 ** (floor(log10(abs(value))) - 1)
    return away(value / unit) * unit
