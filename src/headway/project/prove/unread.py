"""Which decisions may speak: those that neither policy of a comparison has read, known by identity.

    unread = Unread(project, settings, candidate, other)
    unread.speaks(decision, first_settled)       # whether the decision may be evidence
    unread.candidate_stood(decisions)            # what one that learns online did then; None: ask the pipeline

A bundle that was trained up to row `upto` of the outcome log has read the decisions of its parts that had settled by
then. That does not change when their rewards are derived, rated, completed or withdrawn later, so a decision is known
by the number of the *first* row that settled it. Two things do not keep that number:

- A decision that was deleted and imported again. So what is dated before the training, or has no date of its own,
  counts as read, unless it is in a part that the bundle does not read. This holds for a decision that was still open
  then, too: if only the late outcomes of a part could speak, an arm that fails late would be judged by its failures.
- A bundle that the ledger of this store does not know: its numbers belong to another store, or to a time before this
  one was restored. It counts as having read all of its parts.

A policy that learns online has read every row up to its last snapshot, and asking that snapshot about them would
flatter it. On decisions that it made itself it counts as it stood *then*: with the logged probabilities, without the
share of a canary and without the wider exploration of an alarm. Decisions under another configuration do not speak for
it, because it would act differently now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.decide import without_canary
from headway.nouns import Decision, PolicyRef, errors
from headway.observe import DAY, LEARNED_PARTS, PARTS, DeletedDraws, SplitBy, dumps, loads, part_of, read_by
from headway.project.decide.serving import acting_floor

if TYPE_CHECKING:
    from headway.decide import Pipeline
    from headway.nouns import Floats, Header
    from headway.observe import Block, DrawnRows, Flags, TaskFrame
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings

MINED, UNKNOWN = "with a mined label", "with unknown propensity"  # rows that no evidence can rest on
Stood = Sequence[tuple[float, ...] | None]  # by decision: the probabilities at that time; None: ask the pipeline


class Unread:
    """What may speak in a comparison of two policies, each given as (reference, hash)."""

    def __init__(
        self, project: Opened, settings: TaskSettings, candidate: tuple[str, str], other: tuple[str, str]
    ) -> None:
        self._candidate = _ComparedPolicy(project, settings, candidate)
        self._other = _ComparedPolicy(project, settings, other)

    def speaks(self, decision: Decision, first_settled: int | None) -> bool:
        """Whether neither policy has read this decision; `first_settled` is None while it is open."""
        return self._candidate.can_judge(decision, first_settled) and self._other.can_judge(decision, first_settled)

    @property
    def online(self) -> bool:
        """Whether one of the two learns as it decides."""
        return bool(self._candidate.states or self._other.states)

    def silent(self, frame: TaskFrame, block: Block) -> Flags:
        """Which rows of a whole block cannot speak."""
        return self._candidate.silent(frame, block) | self._other.silent(frame, block)

    def missing(self, deleted: DeletedDraws) -> bool:
        """Whether these decisions could speak if they had not been deleted."""
        return not any(policy.had_read(deleted) for policy in (self._candidate, self._other))

    def candidate_read(self, decision: Decision, first_settled: int | None) -> bool:
        """Whether the candidate was trained on this decision."""
        return self._candidate.read(decision, first_settled)

    def both_stood(self, frame: TaskFrame, drawn: DrawnRows) -> tuple[Stood, Stood]:
        """How the candidate and the other policy stood in each row of a log."""
        return self._candidate.stood_in(frame, drawn), self._other.stood_in(frame, drawn)

    def candidate_stood(self, decisions: Sequence[Decision]) -> Stood:
        """How the candidate stood: a guard asks whether the current policy, which may learn online, got worse."""
        return self._candidate.stood(decisions)


@dataclass(frozen=True, slots=True)
class _TrainingRead:
    """One training: every decision of these parts that had settled by then."""

    upto: float  # 0: it read no decisions
    parts: frozenset[str]
    by: SplitBy
    at: float  # what was decided before then counts as read; infinite for a bundle of another store

    def covers(self, decision: Decision, first_settled: int | None) -> bool:
        if not self.upto or not self.parts:
            return False
        settled = first_settled is not None and first_settled <= self.upto
        known = settled or _dated_before(decision, self.at)
        if not known:
            return False
        return len(self.parts) == len(PARTS) or part_of(decision, self.by) in self.parts

    def covered(self, frame: TaskFrame, block: Block) -> Flags:
        """The same for every row of a whole block."""
        return read_by(frame, block, self.parts, self.by, upto=self.upto, before=self.at)

    def covers_deleted(self, deleted: DeletedDraws) -> bool:
        """Of decisions of a day, those before the training's day."""
        known = bool(self.upto) and (deleted.day + 1) * DAY <= self.at * 1e6
        return known and deleted.parts[self.by] in self.parts


def _dated_before(decision: Decision, moment: float) -> bool:
    """Whether a decision may have been made by that moment; one from elsewhere without a date of its own may."""
    undated = decision.claimed and decision.exploration != "elsewhere"
    return decision.at < moment or undated


def _readings(project: Opened, task: str, digest: str) -> Iterator[_TrainingRead]:
    """What a bundle was trained on, with the bundles that its training started from."""
    upto = math.inf
    while digest:
        try:
            header = project.registry.header(digest)
        except errors.Damaged:  # a snapshot that was removed since: it has read every part
            yield _TrainingRead(upto, frozenset(PARTS), "group", math.inf)
            return
        reading = _reading(project, task, digest, header)
        yield reading
        if len(reading.parts) == len(PARTS):
            return
        upto, digest = reading.upto, header.parent or ""


def _reading(project: Opened, task: str, digest: str, header: Header) -> _TrainingRead:
    trained = header.trained_on
    entry = project.ledger.first(task, digest)
    return _TrainingRead(
        upto=float(trained.get("upto", 0)),
        parts=frozenset(trained.get("parts", LEARNED_PARTS)),
        by=header.split.get("by", "group"),
        at=math.inf if entry is None else entry.at,
    )


class _Acting(NamedTuple):
    """What acted beside a live policy under one configuration."""

    share: float
    canary: Pipeline | None
    floor: float  # the share of uniform choices then, and usually
    usual_floor: float

    @property
    def as_usual(self) -> bool:
        return self.canary is None and self.floor == self.usual_floor


class _ComparedPolicy:
    """One of the two policies: what it has read, and how it stood if it learns online."""

    def __init__(self, project: Opened, settings: TaskSettings, policy: tuple[str, str]) -> None:
        ref, digest = policy
        self._project, self._task = project, settings.name
        self._present = dumps(project.servings.body(settings))
        built_in = PolicyRef.parse(ref).built_in
        self._readings = () if built_in else tuple(_readings(project, settings.name, digest))
        self.states = frozenset() if built_in else _states(project, settings.name, digest)
        self._configurations: dict[str, _Acting | None] = {}

    def read(self, decision: Decision, first_settled: int | None) -> bool:
        return any(reading.covers(decision, first_settled) for reading in self._readings)

    def silent(self, frame: TaskFrame, block: Block) -> Flags:
        """What it has read, but for what it decided itself as one that learns online, if it would do so now."""
        nothing = read_by(frame, block, (), "group", upto=0.0, before=0.0)
        read = reduce(or_, (reading.covered(frame, block) for reading in self._readings), nothing)
        return read & ~self._own(frame, block) if self.states else read

    def _own(self, frame: TaskFrame, block: Block) -> Flags:
        """Which rows it decided itself, and would decide in the same way now."""
        made = frame.made_by(block, self.states)
        return frame.under(block, made, lambda config: self._acting_under(config) is not None)

    def stood_in(self, frame: TaskFrame, drawn: DrawnRows) -> Stood:
        """How it stood in each row; empty if it made none of them online."""
        if not self.states or not (own := self._own(frame, drawn.rows)).any():
            return ()
        made = [row.decision for row in self._project.query.outcomes(drawn.rows.seq[own].tolist())]
        then = {decision.seq: stood for decision, stood in zip(made, self.stood(made), strict=True)}
        return [then.get(seq) for seq in drawn.rows.seq.tolist()]

    def had_read(self, deleted: DeletedDraws) -> bool:
        """Not if it learns online: it would be judged by its own decisions too."""
        return not self.states and any(reading.covers_deleted(deleted) for reading in self._readings)

    def can_judge(self, decision: Decision, first_settled: int | None) -> bool:
        return not self.read(decision, first_settled) or self._acting(decision) is not None

    def stood(self, decisions: Sequence[Decision]) -> Stood:
        if not self.states:
            return (None,) * len(decisions)
        stood: list[tuple[float, ...] | None] = [None] * len(decisions)
        otherwise: dict[str, list[int]] = {}
        for place, decision in enumerate(decisions):
            acting = self._acting(decision)
            if acting is None:
                continue
            if acting.as_usual:
                stood[place] = decision.probabilities
            else:
                otherwise.setdefault(decision.config_hash, []).append(place)
        for config_hash, places in otherwise.items():
            acting = self._configurations[config_hash]
            assert acting is not None
            for place, own in zip(places, _as_usual([decisions[place] for place in places], acting), strict=True):
                stood[place] = own
        return stood

    def _acting(self, decision: Decision) -> _Acting | None:
        """How this policy acted in a decision of its own, if it would act in the same way now."""
        return self._acting_under(decision.config_hash) if decision.policy_hash in self.states else None

    def _acting_under(self, config_hash: str) -> _Acting | None:
        if config_hash not in self._configurations:
            self._configurations[config_hash] = self._read_configuration(config_hash)
        return self._configurations[config_hash]

    def _read_configuration(self, config_hash: str) -> _Acting | None:
        body: dict[str, Any] = loads(self._project.query.config(config_hash))
        canary: Mapping[str, Any] | None = body.pop("canary", None)
        widened = dict(body)
        body.pop("alarm", None)
        if dumps(body) != self._present:
            return None
        floors = acting_floor(widened), acting_floor(body)
        if canary is None:
            return _Acting(0.0, None, *floors)
        if canary.get("per") == "episode":  # it did not draw the candidate's episodes
            return None
        try:
            pipeline = self._project.servings.pipeline(self._task, widened, canary["ref"], canary["hash"])
        except errors.HeadwayError:  # its bundle is gone: the share cannot be taken out
            return None
        return _Acting(float(canary["share"]), pipeline, *floors)


def _states(project: Opened, task: str, digest: str) -> frozenset[str]:
    """The hashes of a policy that learns online, from its origin to this snapshot; none for any other policy."""
    parents = project.ledger.snapshot_parents(task)
    states: set[str] = set()
    while digest in parents and digest not in states:
        states.add(digest)
        digest = parents[digest]
    return frozenset({*states, digest} if states else ())


def _as_usual(decisions: Sequence[Decision], acting: _Acting) -> list[tuple[float, ...]]:
    """What the live policy alone would have drawn from, with its usual exploration."""
    share = 0.0 if acting.canary is None else acting.share
    canary: Iterable[Sequence[float] | Floats] = [(0.0,) * len(decision.probabilities) for decision in decisions]
    if acting.canary is not None:
        canary = acting.canary.distributions(
            [decision.situation for decision in decisions],
            [decision.candidates for decision in decisions],
            [decision.seed for decision in decisions],
        )
    return [
        without_canary(decision.probabilities, theirs, share, acting.floor, acting.usual_floor)
        for decision, theirs in zip(decisions, canary, strict=True)
    ]
