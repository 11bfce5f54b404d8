"""The state of a run, computed from its journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headway.kits.next_action.improve.journal import Event, Journal, damaged_line
from headway.kits.next_action.improve.proposals import Proposal, read_proposal
from headway.nouns import errors

RoundVerdict = Literal["kept", "reverted", "failed", "refused", "undecided"]
_RECENT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What became of one proposal.

    kept       shown to be better; the branch has it
    reverted   not shown to be better
    failed     its evaluation crashed, hung or gave no number
    refused    it breaks a rule, or cannot be applied; it was not evaluated
    undecided  the time budget ended first
    """

    round: int
    proposal: str
    type: str
    verdict: RoundVerdict
    why: str
    decision: str
    propensity: float
    predicted: float | None = None
    low: float | None = None  # of the 80% interval
    high: float | None = None
    code: str = ""  # of the rule that refused it
    pairs: int = 0
    before: float | None = None  # mean measurement of the base, and of the proposal
    after: float | None = None
    gain: float | None = None  # more is better, whatever the direction
    reward: float | None = None
    commit: str = ""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RoundResult:
        """The result in a journal; fields of another version are ignored."""
        return cls(**{name: document[name] for name in cls.__slots__ if name in document})


@dataclass(slots=True, kw_only=True)
class OpenRound:
    """A round that has begun and has no verdict yet."""

    number: int
    decision: str
    chosen: Event | None = None  # the proposal, its propensity and its prediction
    pairs: list[tuple[float, float]] = field(default_factory=list)  # candidate, base


class RunState:
    """Where a run stands. `commit` is the best so far; `pending` are proposals that were not tried, by name."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.start: Event = {}
        self.base = self.commit = ""
        self.score = 0.0  # the latest measurement of the best, in the metric's own units
        self.others: Mapping[str, float] = {}
        self.pending: dict[str, Proposal] = {}
        self.known: set[str] = set()
        self.results: list[RoundResult] = []
        self.open: OpenRound | None = None
        self.unrecorded: RoundResult | None = None  # its outcome is known and not yet stored with its decision
        self.spent_s = 0.0
        self.ended = ""
        for number, event in enumerate(journal.events, 1):
            try:
                self.take(event)
            except (AssertionError, KeyError, TypeError, ValueError, errors.HeadwayError):
                raise damaged_line(journal.path, number) from None

    def add(self, event: str, **fields: Any) -> None:
        """Journal an event, then count it."""
        self.take(self.journal.add(event, **fields))

    def take(self, event: Event) -> None:
        self.spent_s = max(self.spent_s, float(event.get("spent_s", 0.0)))
        getattr(self, f"_{event['event']}", self._ignore)(event)

    @property
    def round(self) -> int:
        """The number of the next round."""
        return len(self.results) + 1

    @property
    def begun(self) -> bool:
        """Whether it has proposals; a run without any can start again from the present commit."""
        return bool(self.known)

    @property
    def kept(self) -> Sequence[RoundResult]:
        return [result for result in self.results if result.verdict == "kept"]

    def situation(self, sign: float) -> dict[str, Any]:
        """The state of the project as the ranking task sees it."""
        deltas = [result.reward for result in self.results if result.reward is not None][-_RECENT:]
        state: dict[str, Any] = {"composite_score": sign * self.score, "trajectory_length": len(self.results)}
        if deltas:
            state["recent_deltas"] = deltas
        for name, value in self.others.items():
            known = name in ("tests_passing", "tests_total")
            state[name if known else f"dimension_scores.{name}"[:200]] = value
        return state

    # -- events

    def _start(self, event: Event) -> None:
        self.start = event
        self.base = self.commit = event["base"]
        self.score, self.others = event["score"], event["others"]

    def _proposals(self, event: Event) -> None:
        for document in event["proposals"]:
            proposal = read_proposal(document, "the journal")
            self.known.add(proposal.title)
            self.pending[proposal.title] = proposal

    def _round(self, event: Event) -> None:
        self.open = OpenRound(number=event["round"], decision=event["decision"])

    def _chosen(self, event: Event) -> None:
        assert self.open is not None
        self.open.chosen = event

    def _pair(self, event: Event) -> None:
        assert self.open is not None
        self.open.pairs.append((event["candidate"], event["base"]))
        self.score = event["base"]

    def _outcome(self, event: Event) -> None:
        result = RoundResult.from_json(event["result"])
        self.open, self.unrecorded = None, result
        self.results.append(result)
        self.pending.pop(event["title"], None)
        if result.verdict == "kept":
            self.commit = result.commit
            assert result.after is not None
            self.score = result.after

    def _recorded(self, _: Event) -> None:
        self.unrecorded = None

    def _end(self, event: Event) -> None:
        self.ended = event["why"]

    def _ignore(self, _: Event) -> None:
        """An event of a later version."""
