"""What the current policy of a task saves, and how much quality it keeps: the first sentence of status and report.

The newest decisions before the maturity mark speak, as in a proof: those that the current policy made since it was
promoted, once there are enough; before that, those that it was not trained on, with the probabilities that it would
have drawn from. What is missing is bounded, and nothing is cut to the range of the reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from typing import TYPE_CHECKING

from headway.nouns import TaskWorth, day, errors, gap as signed, ids, money, plural, rfc3339, worth_text
from headway.observe import count_since, draws_of, latest_draws, unpriced
from headway.project.prove.finality import final_before
from headway.project.prove.subject import current_policy, stored_evidence
from headway.reward import PRESETS, Costs, weight_text

if TYPE_CHECKING:
    from headway.nouns import Settled
    from headway.project.project.folder import Opened
    from headway.promote import CurrentPolicy, Entry
    from headway.prove import ComparedWorth, WorthRows
    from headway.reward import Rewards
    from headway.settings import TaskSettings


_NEWEST = 4000  # decisions that are read
_LATEST = 20_000  # among which these are sought
_OWN = 400  # decisions of its own that a policy is judged by alone
_STALE = 0.01  # of the rows: so many new ones before a long-running process computes it again
_PER = 1000.0


def task_worth(project: Opened, task: str) -> TaskWorth:
    """What the current policy is worth against always taking one action; says so where that is not known."""
    settings = project.settings.task(task)
    current = current_policy(project, settings)
    entry = project.ledger.current(task)
    rewards = project.rewards(task)
    of, settled = (current.digest, rewards.version, settings.kind), project.query.last_settled(task)
    known = project.worths.get(task)
    if known is None or known[0] != of or settled - known[1] >= max(1.0, _STALE * known[2].decisions):
        known = project.worths[task] = of, settled, _compute(project, settings, current, entry, rewards)
    return _counted(project, task, known[2], entry)


def _compute(
    project: Opened, settings: TaskSettings, current: CurrentPolicy, entry: Entry | None, rewards: Rewards
) -> TaskWorth:
    task = settings.name
    start = TaskWorth(
        state="unknown", text="", policy=current.ref, promoted=entry is not None, weight=weight_text(rewards)
    )
    if settings.kind != "choice" or settings.unit == "episode":  # what always taking one action would be is not known
        return replace(start, text=_from_evidence(project, task, current, entry))
    measured = _Quality.of(settings, rewards)
    cost, unit, _ = Costs.of(rewards, project.query.signal_names(task))
    rows = _rows(project, settings, current, entry, measured, cost)
    if rows is None:
        return replace(start, text=_from_evidence(project, task, current, entry))
    from headway.prove import compare_worth

    compared = compare_worth(rows)
    if compared.moving:
        return replace(start, text=_from_evidence(project, task, current, entry))
    worth = replace(
        start,
        state="too early" if compared.short else "known",
        against=compared.against,
        unit=unit,
        cost=cost,
        saved=None if compared.saved is None else compared.saved.times(_PER),
        ratio=compared.ratio,
        gap=compared.gap,
        decisions=int(rows.action.size),
        cost_known=compared.cost_known,
    )
    return replace(
        worth, text=_sentence(worth, task, compared, measured, entry is not None, _priceless(project, settings))
    )


def _priceless(project: Opened, settings: TaskSettings) -> str:
    """An upstream that the task may choose and of which nobody knows what it costs."""
    known = project.settings.upstreams.items()
    return next((name for name, one in known if not one.priced and name in (settings.actions or (name,))), "")


def _sentence(
    worth: TaskWorth, task: str, compared: ComparedWorth, measured: _Quality, promoted: bool, priceless: str
) -> str:
    if compared.short:
        return f"Savings of {task} unknown: only {compared.short} needed."
    if worth.saved is None and worth.ratio is None and worth.gap is None:
        rated = f" Quality unknown: {_unrated(compared)}." if compared.unrated else ""
        return f"Savings of {task} unknown: {_unknown(worth, compared, priceless)}.{rated}"
    text = worth_text(worth, task, same=compared.same, quality=measured.name)
    if compared.same:
        return text
    if worth.saved is None:
        text += f" Savings unknown: {_unknown(worth, compared, priceless)}."
    elif compared.unpriced_most:
        missing, most = 1.0 - compared.cost_known, money(compared.unpriced_most, worth.unit)
        text += f" {missing:.1%} of {worth.cost} is missing: the interval allows for up to {most} each."
    if compared.unrated:
        text += f" Quality unknown: {_unrated(compared)}."
    elif worth.ratio is None and worth.gap is None:
        text += " The reward has no term but cost, so nothing is known about quality."
    if compared.unchosen:
        text += f" Not counted: {plural(compared.unchosen, 'request')} without a choice."
    return text if promoted else f"{text} Nothing is promoted yet: {worth.policy} decides."


def _unknown(worth: TaskWorth, compared: ComparedWorth, priceless: str) -> str:
    if priceless:
        return f"{priceless} has no price; set price_in and price_out in [upstreams.{priceless}] (0: free)"
    if compared.unpriced:
        return (
            f"{worth.cost} is missing on too many decisions that took {compared.unpriced}; send it with every outcome, "
            'declare its range in guards, or set missing = "at random" if it is missing by chance'
        )
    if compared.heavy:
        return (
            f"a few decisions make up most of {worth.cost}, so that {worth.decisions:,} are too few to say what an "
            "average one costs"
        )
    if compared.free:
        return f"{worth.cost} is 0 on every decision; set price_in and price_out of the upstreams"
    return "send cost_usd with each outcome"


def _unrated(compared: ComparedWorth) -> str:
    return (
        f"outcomes are missing on too many decisions that took {compared.unrated}; report failures, or set on_censored "
        "to what a missing one is worth"
    )


# -- since the promotion


def _counted(project: Opened, task: str, worth: TaskWorth, entry: Entry | None) -> TaskWorth:
    """With the requests since the promotion, and about what they saved."""
    if entry is None or worth.state == "unknown":
        return worth
    promoted = project.ledger.last(task, "promote", "rollback") or entry
    requests, choices = count_since(project.database, project.query, task, promoted.at, worth.against)
    saved = None if worth.saved is None else worth.saved.value / _PER * choices
    counted = replace(worth, since=rfc3339(promoted.at), requests=requests, saved_since=saved)
    if saved is None or not requests:
        return counted
    word, amount = ("saved", saved) if saved >= 0.0 else ("more spent", -saved)
    total = money(amount, worth.unit) + ("" if worth.unit else f" of {worth.cost}")
    had = "" if choices == requests else f", {choices:,} of them with a choice"
    end = f" Since {day(promoted.at)}: {plural(requests, 'request')}{had}, about {total} {word}."
    return replace(counted, text=worth.text + end)


def _from_evidence(project: Opened, task: str, current: CurrentPolicy, entry: Entry | None) -> str:
    """The evidence that promoted the current policy, where no fixed action can be compared with."""
    if entry is None:
        return f"Nothing is promoted yet for {task}: {current.ref} decides."
    if not entry.evidence_id:
        return f"{current.ref} decides {task} since {day(entry.at)}, promoted without evidence."
    try:
        evidence = stored_evidence(project, entry.evidence_id)
    except errors.HeadwayError:
        return f"{current.ref} decides {task} since {day(entry.at)}."
    shown = evidence.difference
    return (
        f"{current.ref} decides {task} since {day(entry.at)}: {signed(shown.value)} "
        f"[{signed(shown.low)}, {signed(shown.high)}] reward against {evidence.against} when it was promoted."
    )


# -- rows


@dataclass(frozen=True, slots=True)
class _Quality:
    """The reward without its cost terms; None if nothing else is in it."""

    rewards: Rewards | None
    name: str  # "quality", or "reward" where cost cannot be taken out: of a function, or a signal called reward

    @classmethod
    def of(cls, settings: TaskSettings, rewards: Rewards) -> _Quality:
        if isinstance(settings.reward, str) and settings.reward not in PRESETS:
            return cls(rewards.unclipped(), "reward")
        without = rewards.without(Costs.of(rewards).terms).unclipped()
        return cls(without if without.signals else None, "reward" if without.signals == {"reward"} else "quality")

    def value(self, row: Settled) -> float:
        """NaN while it is open or missing, unless the task declares what a missing outcome is worth."""
        assert self.rewards is not None
        age_s = inf if row.status == "censored" else 0.0
        reward = self.rewards.outcome(row.signals, age_s=age_s, decision=row.decision).reward
        return nan if reward is None else reward


def _rows(
    project: Opened,
    settings: TaskSettings,
    current: CurrentPolicy,
    entry: Entry | None,
    quality: _Quality,
    cost: str,
) -> WorthRows | None:
    """The newest decisions that may speak, with quality and cost; None if the policy cannot be asked about them."""
    from headway.prove import WorthRows

    seqs = _mature(project, settings)
    rows, target = _target(
        project,
        settings,
        current,
        entry,
        [
            row
            for row in project.query.outcomes(seqs, signals=True)
            if row.decision.propensity_known and row.decision.source != "mined"
        ],
    )
    if target is None:
        return None
    priced = settings.guards.get(cost)
    return WorthRows.of(
        [row.decision for row in rows],
        target,
        goods=None if quality.rewards is None else [quality.value(row) for row in rows],
        prices=_prices(project, rows, cost),
        at_random=settings.missing == "at random",
        quality_range=settings.range,
        cost_range=None if priced is None else priced.range,
    )


def _prices(project: Opened, rows: Sequence[Settled], cost: str) -> list[float]:
    """What each request cost, all of its attempts together; NaN where the cost of one is unknown."""
    raw = [ids.raw(row.decision.id) for row in rows]
    unknown = unpriced(project.database, raw, project.query.name_id("signal", cost))
    return [nan if one in unknown else row.signals.get(cost, 0.0) for one, row in zip(raw, rows, strict=True)]


def _mature(project: Opened, settings: TaskSettings) -> list[int]:
    """The store's numbers of the newest decisions with final outcomes, sought among the latest ones first."""
    task, before = settings.name, final_before(project, settings)
    if not project.query.last_settled(task):  # an import that nothing has settled yet: no need to read it
        return []
    latest = latest_draws(project.database, project.query, task, _LATEST)
    for after in [latest[0] - 1, 0] if len(latest) == _LATEST else [0]:
        order = draws_of(project.query.frame(task), after=after)
        if (mature := order.mature(before)) >= _NEWEST:
            break
    seqs: list[int] = order.seq[:mature][-_NEWEST:].tolist()
    return seqs


def _target(
    project: Opened, settings: TaskSettings, current: CurrentPolicy, entry: Entry | None, rows: list[Settled]
) -> tuple[list[Settled], Sequence[Sequence[float]] | None]:
    """The rows that speak for the current policy, and the probabilities that it draws from in each."""
    from headway.project.prove.unread import Unread

    since = 0.0 if entry is None else entry.at
    own = [
        row
        for row in rows
        if row.decision.policy_hash == current.digest and not row.decision.assigned and row.decision.at >= since
    ]
    if len(own) >= _OWN or entry is None or settings.name in project.servings.slow:
        return own, [row.decision.probabilities for row in own]
    mine = (current.ref, current.digest)
    unread = Unread(project, settings, mine, mine)
    able = [row for row in rows if unread.speaks(row.decision, row.first or None)]
    decisions = [row.decision for row in able]
    if not decisions:
        return [], []
    try:
        pipeline = project.servings.pipeline(settings.name, project.servings.body(settings), *mine)
        asked = pipeline.distributions(
            [decision.situation for decision in decisions],
            [decision.candidates for decision in decisions],
            [decision.seed for decision in decisions],
        ).tolist()
    except errors.HeadwayError:  # its bundle or kit is gone
        return [], None
    for place, stood in enumerate(unread.candidate_stood(decisions)):
        if stood is not None:
            asked[place] = list(stood)
    return able, asked
