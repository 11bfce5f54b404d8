"""Evidence from blind comparisons: how often the candidate was preferred.

- A comparison that was shown and not answered may have been lost: who dislikes what wins may not vote at all. For a
  pass it counts as lost, and for "worse" as won (`unanswered`), unless the task declares `missing = "at random"`.
  Who asks and never answers cannot block a proof: the unanswered ones of one asker count up to the answered ones of
  the asker who has most of those. Who reaches this limit counts with at least as many losses as wins.
- A verdict must hold without any two raters. Without two who collude, what the others say is a valid test by itself.
  In these tests, the comparisons of askers who have answered none are left out: the test of all has counted them.
- It must hold without a larger group that agrees far more than the rest: the raters are split in two by how often each
  preferred the candidate, where the parts differ most. The smaller part is left out if it differs beyond chance.

Not covered: three colluders or more who hide among others or are most of the raters.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, lgamma, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

from headway.nouns import Diagnostic, Estimate, Evidence, RaterShare, errors, is_own
from headway.prove import E_PROCESS, About, e_process

UNANSWERED = "unanswered"
PREFERENCE_ALPHA = 0.05  # promote at E ≥ 20
_WORSE = 10.0  # the e-value from which the votes are against a candidate; a policy that acts is taken back
_CHANCE = 0.05  # a split that raters who are all alike show more often than this is none
_MOST_PAIRED = 32  # raters whose pairs are left out: those without whom the votes say least


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
    silent, spoken = _askers(comparisons)
    most = max(spoken.values(), default=0)
    unanswered = sum(min(count, most) for count in silent.values())
    evidence = from_preferences(wins, losses, about, ties=len(answered) - wins - losses, unanswered=unanswered)
    return replace(
        evidence,
        raters=tuple(_shares(comparisons, evidence)),
        diagnostics=tuple(_named(check, silent, most) for check in evidence.diagnostics),
    )


def _askers(comparisons: Sequence[BlindComparison]) -> tuple[Counter[str], Counter[str]]:
    """How many comparisons of each asker are unanswered, and how many are answered."""
    silent = Counter(each.asked_by for each in comparisons if each.value is None)
    return silent, Counter(each.asked_by for each in comparisons if each.value is not None)


def from_preferences(wins: int, losses: int, about: About, *, ties: int = 0, unanswered: int = 0) -> Evidence:
    """Evidence from a blind comparison: how often the candidate's reply was preferred. Ties are dropped.

    The e-process may be read after every vote; `about.alpha` is replaced by the one for preferences, under which the
    first challenger passes at E ≥ 20. The interval is for display only: Wilson's, at the worst case of the unanswered.
    """
    if min(wins, losses, ties, unanswered) < 0:
        raise errors.InvalidInput(
            f"{wins!r} wins, {losses!r} losses, {ties!r} ties, {unanswered!r} unanswered: counts cannot be negative.",
            code="bad_preferences",
            hint="Count votes for the candidate, for the current policy, undecided ones, and pairs without a vote.",
        )
    alpha = replace(about, alpha=PREFERENCE_ALPHA).share
    open_ = 0 if _at_random(about.declared) else unanswered
    n = wins + losses
    low, high = wilson(wins, n + open_)[0], wilson(wins + open_, n + open_)[1]
    rate, threshold = wins / n if n else 0.5, log(1.0 / alpha)
    estimate = Estimate(value=rate - 0.5, low=low - 0.5, high=high - 0.5, n=n, ess=float(n), method="win rate − ½")
    better, worse = _sides(wins, losses, open_)
    check = _unanswered(about, unanswered, n, decisive=e_process(wins, losses) > threshold >= better)
    return about.compose(
        kind="preference",
        n=n,
        difference=estimate,
        values={"candidate": replace(estimate, value=rate, low=low, high=high, method="win rate")},
        statistic=better,
        statistic_worse=worse,
        threshold=threshold,
        threshold_worse=log(_WORSE),
        rule=E_PROCESS,
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
    return e_process(wins, losses + unanswered), e_process(losses, wins + unanswered)


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


def _named(check: Diagnostic, silent: Counter[str], most: int) -> Diagnostic:
    """The check of unanswered comparisons with the keys that they were shown to, and what was set aside."""
    names = [f"{name!r} {count:,}" for name, count in silent.most_common(3) if name]
    aside = sum(max(0, count - most) for count in silent.values())
    more = f"; {aside:,} more are set aside, as nobody else has answered more than {most:,}" if aside else ""
    if check.name != UNANSWERED or not names:
        return check
    return replace(check, message=f"{check.message} (shown to {', '.join(names)}{more})")


# -- raters


def _shares(comparisons: Sequence[BlindComparison], evidence: Evidence) -> Iterator[RaterShare]:
    """The share of each rater and of a group that agrees, and of each two who decide, with what the rest says."""
    given = Counter(rater for each in comparisons for rater in each.by)
    shares = [_share(comparisons, evidence, (rater,)) for rater, _ in given.most_common()]
    yield from shares
    for members in _groups(comparisons):
        yield _share(comparisons, evidence, members)
    better = evidence.shows_better
    if not better and not evidence.shows_worse:
        return

    def beyond(share: RaterShare) -> float:
        """How far what the others say is beyond the threshold; who decides alone is refused without a second one."""
        return share.statistic - share.threshold if better else share.statistic_worse - share.threshold_worse

    able = sorted((share for share in shares if not share.own and beyond(share) > 0.0), key=beyond)
    for pair in combinations(able[:_MOST_PAIRED], 2):
        share = _share(comparisons, evidence, tuple(sorted(each.name for each in pair)))
        if beyond(share) <= 0.0:
            yield share


def _share(comparisons: Sequence[BlindComparison], evidence: Evidence, members: tuple[str, ...]) -> RaterShare:
    """The share of these raters, and what the votes say without them."""
    rest = [[value for name, value in each.by.items() if name not in members] for each in comparisons]
    wins, losses = counted([sum(values) / len(values) for values in rest if values])
    silent, spoken = _askers(comparisons)
    most = max(spoken.values(), default=0)
    left = sum(min(count, most) for asker, count in silent.items() if asker not in members and spoken[asker])
    better, worse = _sides(wins, losses, 0 if _at_random(evidence.declared) else left)
    rows = sum(not set(members).isdisjoint(each.by) for each in comparisons)
    return RaterShare(
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
    """Three raters or more who prefer one policy far more often than the rest do; at most one group for each policy."""
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
        if chance < _CHANCE and 3 <= size <= len(ordered) // 2:
            yield tuple(sorted(ordered[:size]))


def _tail(ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Fisher's exact test: the chance of at least our share of all wins if both parts are alike."""
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
    while e_process(round(high * rate), high - round(high * rate)) < threshold:
        low, high = high, high * 2
        if high > 10_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        won = round(middle * rate)
        if e_process(won, middle - won) < threshold:
            low = middle
        else:
            high = middle
    return max(0, high - n)


def wilson(wins: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    p = wins / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    wide = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, centre - wide), min(1.0, centre + wide)
