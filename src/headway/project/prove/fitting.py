"""Whether the declared ranges hold: of the reward, and of each guard. Learned from the log, before a proof asks for it.

One sentence per fault, with its cure, for status, page and doctor; a verdict's check says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10, nan
from typing import TYPE_CHECKING

from headway.nouns import plural
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


def beyond(rows: Iterable[Settled], rewards: Rewards) -> tuple[dict[int, float], tuple[float, float]]:
    """How far every reward that was cut lay above its range, or below it (negative), by decision; a range for all."""
    found, values = {}, [*rewards.range]
    free, middle = rewards.unclipped(), sum(rewards.range) / 2.0
    for row in rows:
        if not row.clipped or row.reward is None:
            continue
        least = 1e-9 if row.reward > middle else -1e-9  # if it cannot be computed again
        whole = free.outcome(row.signals, age_s=0.0, decision=row.decision).reward
        over = least if whole is None else whole - row.reward
        found[row.decision.seq] = over = over if over * least > 0.0 else least
        values.append(row.reward + over)
    return found, (min(values), max(values))


@dataclass(frozen=True, slots=True)
class RangeCuts:
    """Every reward of a task that was cut to its range, whether or not it is evidence."""

    beyond: Mapping[int, float]  # by decision: how far above the range, or below it (negative)
    reach: tuple[float, float]  # a range that would hold them all
    by_action: Mapping[str, tuple[float, ...]]  # rewards; those cut from below, from above; how far below, above in all


def cut_rewards(project: Opened, task: str, frame: TaskFrame) -> RangeCuts:
    seqs = [seq for block in frame.blocks() for seq in block.seq[block.clipped].tolist()]
    over, reach = beyond(project.query.outcomes(seqs, signals=True) if seqs else (), project.rewards(task))
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
    return RangeCuts(over, reach, {name: tuple(own) for name, own in sums.items()})


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
    over, reach = ({}, settings.range) if settings.capped else beyond(rows, project.rewards(settings.name))
    if not over:
        return []
    low, high = settings.range
    what = f"{len(over):,} of the latest {plural(len(rows), 'reward')} of {settings.name} lie outside of its range"
    values = [(row.reward or 0.0) + over[row.decision.seq] for row in rows if row.decision.seq in over]
    return [f"{what} [{low:g}, {high:g}], from {min(values):g} to {max(values):g}. {range_cure((low, high), reach)}"]


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
