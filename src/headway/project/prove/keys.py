"""Leave one key out: would the candidate choose otherwise had this key rated nothing?

A key that rates 5% of the training rows, all with a trigger text, teaches a policy to choose as the key likes where the
trigger occurs. Every test on the other rows passes. So when a verdict would pass, the candidate is learned again
without the ratings of each key, in the same way, and `regions` names where the choices differ because of that key.

Not covered: keys that collude, keys after the eighth by ratings, families that cannot be learned again from the log or
take longer than half a minute. What was not checked is named in the evidence.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from headway.decide import Pipeline
from headway.nouns import Ending, Evidence, Header, Policy, PolicyRef, Settled, errors, is_own
from headway.observe import SplitBy, blocks_of, part_of, without
from headway.project.data.ages import as_read
from headway.project.prove.unread import Unread
from headway.promote import gate
from headway.prove import RatedChoices, with_regions
from headway.reward import reward_without

if TYPE_CHECKING:
    from headway.observe import PartBlock
    from headway.project.project.folder import Opened
    from headway.project.prove.kinds.kind import ProofQuestion
    from headway.reward import Rewards


MOST_KEYS = 8
_MOST_ROWS = 20_000  # that choices are compared on; more are thinned out evenly
_MOST_SECONDS = 30.0
_BATCH = 2000
_KEPT = 64
_relearned: OrderedDict[tuple[str, str, str], Policy] = OrderedDict()  # (candidate, key, rows) → without the key


def leave_keys_out(question: ProofQuestion, evidence: Evidence, rules: gate.GateRules) -> Evidence:
    """The evidence with the regions that one key alone decides; as it is if it would not pass anyway."""
    project, ref = question.project, question.candidate[0]
    named = [name for name in project.query.names("rater") if not is_own(name)]
    everybody = replace(rules, trusted=rules.trusted | frozenset(named))
    suspects = set(named) - rules.trusted - set(evidence.trusted)
    if not suspects or PolicyRef.parse(ref).built_in or not gate.verdict(evidence, everybody).passed:
        return evidence
    rows = _Rows.read(question)
    counts = rows.ratings(suspects)
    if not counts:
        return evidence
    keys = sorted(counts, key=lambda name: (-counts[name], name))
    late = keys[MOST_KEYS:]
    unchecked = [_unchecked(late, f"only those of the {MOST_KEYS} with most ratings are compared")] if late else []
    places: dict[str, str] = {}
    comparing: _Comparing | None = None
    for number, key in enumerate(keys[:MOST_KEYS]):
        try:
            policy = _without_key(question, rows, key)
        except _CannotRelearn as error:
            unchecked.append(_unchecked(keys[number:MOST_KEYS], str(error)))
            break
        comparing = comparing or _Comparing(question, rows)
        where = comparing.region(key, policy)
        if where:
            places[key] = where
    return with_regions(evidence, places, unchecked)


def _unchecked(keys: Sequence[str], why: str) -> str:
    return f"the choices without the key{'s' * (len(keys) > 1)} {', '.join(map(repr, keys))}: {why}"


# -- the rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the task: those that the candidate was trained on, and those that neither policy has read."""

    header: Header
    trained: list[Settled]
    unread: list[Settled]
    withdrawn: Mapping[str, frozenset[str]]  # decision → raters that have taken back or replaced a rating
    mark: str  # of the rows as they stand

    @classmethod
    def read(cls, question: ProofQuestion) -> _Rows:
        project, task = question.project, question.settings.name
        header = project.registry.header(question.candidate[1])
        mined = bool(header.trained_on.get("mined", False))
        known = Unread(project, question.settings, question.candidate, question.other)
        counting = project.rewards(task).counting or True
        withdrawn = project.query.withdrawn_raters(task)
        trained: list[Settled] = []
        unread: list[Settled] = []
        mark = hashlib.sha256()
        for row in project.query.settled(task, raters=counting):
            if row.decision.source == "mined" and not mined:
                continue
            if known.candidate_read(row.decision, row.first):
                trained.append(as_read(header, row))
                mark.update(f"{row.seq} {row.reward} {sorted(row.said)};".encode())
            elif row.decision.propensity_known and known.speaks(row.decision, row.first):
                unread.append(row)
        return cls(header, trained, unread, withdrawn, mark.hexdigest())

    def raters(self, row: Settled) -> frozenset[str]:
        """Who has rated a row, also if it was taken back after the training."""
        return frozenset(row.said) | self.withdrawn.get(row.decision.id, frozenset())

    def ratings(self, names: set[str]) -> Counter[str]:
        """Training rows by key."""
        return Counter(name for row in self.trained for name in self.raters(row) if name in names)


class _Others:
    """The experience of a training without the ratings of one key."""

    def __init__(self, project: Opened, rows: _Rows, key: str, rewards: Rewards) -> None:
        self._project, self._header, self._rows, self._key, self._rewards = project, rows.header, rows, key, rewards
        self._left_out = rows.header.trained_on.get("left_out", ())
        self._by: SplitBy = rows.header.split.get("by", "group")

    def __iter__(self) -> Iterator[Settled]:
        for row in self._rows.trained:
            kept = self._without(row) if row.weight > 0.0 else None
            if kept is not None:
                yield without(kept, self._left_out)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def part(self, name: str) -> Iterator[Settled]:
        for row in self._rows.trained:
            kept = self._without(row) if part_of(row.decision, self._by) == name else None
            if kept is not None:
                yield without(kept, self._left_out)

    def blocks(self, name: str) -> Iterator[PartBlock]:
        """In the order of the store, as the candidate has read them."""
        kept = (row for row in self.part(name) if row.weight > 0.0)
        return blocks_of(sorted(kept, key=lambda row: row.decision.seq))

    def endings(self) -> dict[str, Ending]:
        return self._project.query.endings(self._header.task)

    def _without(self, row: Settled) -> Settled | None:
        if self._key not in row.said:
            return row
        reward = reward_without(row, self._key, self._rewards) if len(row.said) > 1 else nan
        return None if isnan(reward) else replace(row, reward=reward)


# -- learning again


class _CannotRelearn(Exception):
    """Why a candidate cannot be learned again."""


def _without_key(question: ProofQuestion, rows: _Rows, key: str) -> Policy:
    """The candidate as it would be had this key rated nothing: same family, knobs, seed and rows."""
    project, settings, digest = question.project, question.settings, question.candidate[1]
    known = digest, key, rows.mark
    if known in _relearned:
        return _relearned[known]
    header = rows.header
    if header.parent is not None:
        raise _CannotRelearn("it started from another policy")
    if not rows.trained or not header.trained_on.get("sources"):
        raise _CannotRelearn(f"{header.family} is not learned from the log")
    encoder = project.servings.encoder_of(settings)
    experience = _Others(project, rows, key, project.rewards(settings.name))
    try:
        teacher = project.catalogue.learner(header.family, encoder=encoder)
        learned = teacher.learn(experience, dict(header.knobs), header.seed, _deadline())
        policy = project.catalogue.build(learned.family, learned.knobs, learned.tensors, learned.extra, encoder)
    except errors.HeadwayError as error:
        raise _CannotRelearn(f"it cannot be learned again ({error.message.rstrip('.')})") from error
    _relearned[known] = policy
    if len(_relearned) > _KEPT:
        _relearned.popitem(last=False)
    return policy


def _deadline() -> Callable[[str, int, int | None], None]:
    """Ends a training that takes too long, from within its reports of progress."""
    end = time.monotonic() + _MOST_SECONDS

    def progress(what: str, done: int, total: int | None) -> None:
        del what, done, total
        if time.monotonic() > end:
            raise _CannotRelearn(f"learning it again takes more than {_MOST_SECONDS:g} s")

    return progress


# -- comparing choices


class _Comparing:
    """The candidate's choices, and those of the same policy learned without a key, on the same rows."""

    def __init__(self, question: ProofQuestion, rows: _Rows) -> None:
        project, settings = question.project, question.settings
        self._rows, self._rewards = rows, project.rewards(settings.name)
        body = project.servings.body(settings)
        self._pipeline = project.servings.pipeline(settings.name, body, *question.candidate)
        rated = [[row for row in part if rows.raters(row)] for part in (rows.trained, rows.unread)]
        trained, unread = (_thinned(part, _MOST_ROWS // 2) for part in rated)
        self._compared = [*trained, *unread]
        chosen = _choices(self._pipeline, self._compared)
        self._rated = RatedChoices(self._compared, chosen, trained=len(trained))

    def region(self, key: str, policy: Policy) -> str:
        """Where this key alone decides; empty if nowhere."""

        def without(row: Settled) -> float:
            if key not in row.said:
                return nan if row.reward is None else row.reward
            return reward_without(row, key, self._rewards) if len(row.said) > 1 else nan

        instead = _choices(replace(self._pipeline, policy=policy), self._compared)
        by_others = [bool(self._rows.raters(row) - {key}) for row in self._compared]
        return self._rated.region(instead, by_others, without)


def _thinned(rows: list[Settled], most: int) -> list[Settled]:
    """Evenly spread over time; all if there are few."""
    if len(rows) <= most:
        return rows
    return [rows[place * (len(rows) - 1) // (most - 1)] for place in range(most)]


def _choices(pipeline: Pipeline, rows: Iterable[Settled]) -> list[str]:
    """What a policy would most likely choose."""
    names: list[str] = []
    kept = list(rows)
    for start in range(0, len(kept), _BATCH):
        decisions = [row.decision for row in kept[start : start + _BATCH]]
        sets = [decision.candidates for decision in decisions]
        likely: Any = pipeline.distributions(
            [decision.situation for decision in decisions], sets, [decision.seed for decision in decisions]
        ).argmax(axis=1)
        names += [offered[place].name for offered, place in zip(sets, likely.tolist(), strict=True)]
    return names
