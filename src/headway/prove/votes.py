"""Evidence from blind comparisons: how often the candidate was preferred.

- A comparison that was shown and not answered may have been lost: who dislikes what wins may not vote at all. For a
  pass it counts as lost, and for "worse" as won (`unanswered`), unless the task declares `missing = "at random"`.
- A pass must hold without any one rater, and without a group of raters who agree with one another far more than with
  the rest: the raters are split in two by how often each preferred the candidate, where the parts differ most. The
  smaller part is treated like one rater if it differs beyond chance.

Not covered: colluders who are most of the raters, and more than two of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, lgamma, log
from typing import NamedTuple

from headway.nouns.errors import InvalidInput
from headway.nouns.evidence import Diagnostic, Estimate, Evidence, RaterShare
from headway.nouns.records import is_own
from headway.prove import intervals, sequential
from headway.prove.about import About, compose

__all__ = ["UNANSWERED", "BlindComparison", "counted", "from_preferences", "from_votes"]

UNANSWERED = "unanswered"
_WORSE = 10.0  # the e-value from which the votes are against a candidate; a policy that acts is taken back
_CHANCE = 0.05  # a split that raters who are all alike show more often than this is none


class BlindComparison(NamedTuple):
    """What came of one comparison: 1 for the candidate, 0 for the other policy, ½ for neither; None: no answer."""

    value: float | None
    by: Mapping[str, float]  # rater → value
    asked_by: str = ""


def counted(values: Sequence[float]) -> tuple[int, int]:
    """Wins and losses."""
    return sum(value > 0.5 for value in values), sum(value < 0.5 for value in values)


def from_votes(comparisons: Sequence[BlindComparison], about: About) -> Evidence:
    """Evidence from comparisons in the order of their decisions, with every rater's share."""
    answered = [each.value for each in comparisons if each.value is not None]
    wins, losses = counted(answered)
    unanswered = len(comparisons) - len(answered)
    evidence = from_preferences(wins, losses, about, ties=len(answered) - wins - losses, unanswered=unanswered)
    askers = Counter(each.asked_by for each in comparisons if each.value is None)
    return replace(
        evidence,
        raters=tuple(_shares(comparisons, evidence)),
        diagnostics=tuple(_named(check, askers) for check in evidence.diagnostics),
    )


def from_preferences(wins: int, losses: int, about: About, *, ties: int = 0, unanswered: int = 0) -> Evidence:
    """Evidence from a blind comparison: how often the candidate's reply was preferred. Ties are dropped.

    The e-process may be read after every vote; `about.alpha` is replaced by the one for preferences, under which the
    first challenger passes at E ≥ 20. The interval is for display only: Wilson's, at the worst case of the unanswered.
    """
    if min(wins, losses, ties, unanswered) < 0:
        raise InvalidInput(
            f"{wins!r} wins, {losses!r} losses, {ties!r} ties, {unanswered!r} unanswered: counts cannot be negative.",
            code="bad_preferences",
            hint="Count votes for the candidate, for the current policy, undecided ones, and pairs without a vote.",
        )
    alpha = sequential.challenger_alpha(sequential.PREFERENCE_ALPHA, about.challenger, about.promotions)
    open_ = 0 if _at_random(about.declared) else unanswered
    n = wins + losses
    low, high = intervals.wilson(wins, n + open_)[0], intervals.wilson(wins + open_, n + open_)[1]
    rate, threshold = wins / n if n else 0.5, log(1.0 / alpha)
    estimate = Estimate(value=rate - 0.5, low=low - 0.5, high=high - 0.5, n=n, ess=float(n), method="win rate − ½")
    better, worse = _sides(wins, losses, open_)
    check = _unanswered(about, unanswered, n, decisive=sequential.e_process(wins, losses) > threshold >= better)
    return compose(
        about,
        kind="preference",
        n=n,
        difference=estimate,
        values={"candidate": replace(estimate, value=rate, low=low, high=high, method="win rate")},
        statistic=better,
        statistic_worse=worse,
        threshold=threshold,
        threshold_worse=log(_WORSE),
        rule=sequential.E_PROCESS,
        alpha=alpha,
        counts={"wins": wins, "losses": losses, "ties": ties} | ({UNANSWERED: unanswered} if unanswered else {}),
        data_hash=hashlib.sha256(f"{wins} {losses} {ties}{f' {unanswered}' * bool(unanswered)}".encode()).hexdigest(),
        needed=_votes_needed(wins, losses + open_, threshold),
        diagnostics=(check,) if open_ else (),
    )


def _at_random(declared: Mapping[str, str]) -> bool:
    return declared.get("missing") == "at random"


def _sides(wins: int, losses: int, unanswered: int) -> tuple[float, float]:
    """ln E that the candidate is better, and that it is worse, where each unanswered one speaks against that."""
    return sequential.e_process(wins, losses + unanswered), sequential.e_process(losses, wins + unanswered)


def _unanswered(about: About, unanswered: int, n: int, *, decisive: bool) -> Diagnostic:
    of = f"{unanswered:,} of {n + unanswered:,} comparisons were shown and not answered"
    counts = f"they count against {about.candidate}"
    return Diagnostic(
        name=UNANSWERED,
        value=unanswered / (n + unanswered),
        limit=0.0,
        ok=not decisive,
        blocks=True,
        message=f"{of}; {counts}, and it is proven better only without them" if decisive else f"{of}; {counts}",
        cure="Ask for a vote on every pair that is shown (0.5 if neither is better), and collect more votes. If "
        'whether somebody votes does not depend on the two replies, set missing = "at random" in the task\'s settings.',
    )


def _named(check: Diagnostic, askers: Counter[str]) -> Diagnostic:
    """The check of unanswered comparisons with the keys that they were shown to."""
    names = [f"{name!r} {count:,}" for name, count in askers.most_common(3) if name]
    if check.name != UNANSWERED or not names:
        return check
    return replace(check, message=f"{check.message} (shown to {', '.join(names)})")


# -- raters


def _shares(comparisons: Sequence[BlindComparison], evidence: Evidence) -> Iterator[RaterShare]:
    """The share of each rater and of a group that agrees, and what the votes say without them."""
    given = Counter(rater for each in comparisons for rater in each.by)
    parties = [(rater,) for rater, _ in given.most_common()]
    worst = not _at_random(evidence.declared)
    for members in (*parties, *_groups(comparisons)):
        rest = [[value for name, value in each.by.items() if name not in members] for each in comparisons]
        wins, losses = counted([sum(values) / len(values) for values in rest if values])
        left = sum(each.value is None and each.asked_by not in members for each in comparisons) if worst else 0
        better, worse = _sides(wins, losses, left)
        rows = sum(not set(members).isdisjoint(each.by) for each in comparisons)
        yield RaterShare(
            name=", ".join(members),
            rows=rows,
            share=rows / len(comparisons),
            uplift=None,
            own=len(members) == 1 and is_own(members[0]),
            others=wins + losses,
            statistic=better,
            threshold=evidence.threshold,
            statistic_worse=worse,
            threshold_worse=log(_WORSE),
            members=members if len(members) > 1 else (),
        )


def _groups(comparisons: Sequence[BlindComparison]) -> Iterator[tuple[str, ...]]:
    """The raters who prefer the candidate, or the other policy, far more often than the rest do; at most one each."""
    said: dict[str, list[float]] = {}
    for each in comparisons:
        for rater, value in each.by.items():
            if value != 0.5 and not is_own(rater):
                said.setdefault(rater, []).append(value)
    votes = {rater: counted(values) for rater, values in said.items()}
    falling = sorted(votes, key=lambda rater: (-(votes[rater][0] + 1) / (sum(votes[rater]) + 2), rater))
    for ordered, side in ((falling, 0), (falling[::-1], 1)):
        splits = []
        for size in range(1, len(ordered)):
            parts = ordered[:size], ordered[size:]
            sums = [[sum(votes[rater][place] for rater in part) for place in (side, 1 - side)] for part in parts]
            splits.append((_tail(*sums), size))
        chance, size = min(splits, default=(1.0, 0))
        if chance < _CHANCE and 2 <= size <= max(2, len(ordered) // 2):
            yield tuple(sorted(ordered[:size]))


def _tail(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Fisher's exact test: the chance that we have so many of all wins if both parts are alike."""
    n, total, won = sum(ours), sum(ours) + sum(theirs), ours[0] + theirs[0]

    def choose(of: int, some: int) -> float:
        return lgamma(of + 1) - lgamma(some + 1) - lgamma(of - some + 1)

    whole = choose(total, n)
    return sum(exp(choose(won, k) + choose(total - won, n - k) - whole) for k in range(ours[0], min(n, won) + 1))


def _votes_needed(wins: int, losses: int, threshold: float) -> int | None:
    """Votes still needed at the present win rate; None if it is not above one half."""
    if wins <= losses:
        return None
    n = wins + losses
    rate = wins / n
    low, high = n, n
    while sequential.e_process(round(high * rate), high - round(high * rate)) < threshold:
        low, high = high, high * 2
        if high > 10_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        won = round(middle * rate)
        if sequential.e_process(won, middle - won) < threshold:
            low = middle
        else:
            high = middle
    return max(0, high - n)
