"""What a proof checks in its rows beside the numbers of the test, and what it could not check, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from headway.nouns import CLIPPING, CLIPPING_AGAINST, Diagnostic, Evidence, PolicyRef, ids, lasting, plural
from headway.observe import (
    LEARNED_PARTS,
    dumps,
    first_signals,
    microseconds,
    same_moment,
    shared_results,
    situation_without,
    spread_trained,
    unrepeated,
)
from headway.project.prove.episodes import by_step, was_drawn
from headway.project.prove.fitting import cut_rewards, range_cure
from headway.project.prove.replays import Replays
from headway.prove import RowOrigin, Window

if TYPE_CHECKING:
    from headway.encode import Features
    from headway.nouns import Encoder
    from headway.observe import DrawnRows, TaskFrame
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings

REPEATED = "repeated, counted once"
MOST_REPEATED = 0.2  # of the decisions
MOST_AHEAD = 0.001  # of the decisions
MOST_SHARED = 0.01  # of the decisions; below it, their worst value is all that they can do
MOST_FIELDS = 6  # of the state that are tried as groups
TRAINING_READ, TRAINING_BLOCKS = 2000, 10
SKEW_S = 60.0
_RUNNING = "_vectors", "_fields", "_kept", "_alone", "_first", "_last", "_steps", "_episodes"
WEEK_S = 7 * 86_400.0


class RowChecks:
    """The checks of one proof; its rows pass through `once`, `origin`, `times` and `replays` as they are read."""

    def __init__(self, project: Opened, settings: TaskSettings, candidate: tuple[str, str], frame: TaskFrame) -> None:
        self._project, self._settings, self._candidate = project, settings, candidate
        task, query = settings.name, project.query
        self._decisions, self._frame = query.counts(task).decisions, frame
        self._unrepeated = unrepeated(query, task)
        self.together = same_moment(project.database, frame, but=self._unrepeated)
        soon = microseconds(project.clock() + SKEW_S)
        self._ahead = sum(int((block.leads & (block.at > soon)).sum()) for block in frame.blocks())
        self._seen: set[int] = set()
        self._vectors: dict[tuple[str, int], bool] = {}  # by key and the store's number of a policy
        self._fields: list[str] | None = None
        self._cuts = cut_rewards(project, settings.name, frame)
        self._kept = self._repeated = self._alone = 0
        self._first, self._last = inf, -inf  # times of decisions that count
        counting = project.rewards(task).counting
        counted = [query.name_id("signal", name) for name in (counting and counting | {*settings.guards})]
        self.shared = shared_results(project.database, query.name_id("task", task), counted)
        self._steps = self._episodes = 0
        self._by_step = settings.unit == "episode" and not was_drawn(project, task, candidate[1])
        self.replays = Replays(project, self._frame, self._decisions)
        self.training: Window | None = None

    # -- going on where another proof of the same rows was

    def running(self) -> list[Any]:
        """What these checks know so far, in plain values."""
        return [[getattr(self, name) for name in _RUNNING], self.replays.running(), self._by_step]

    def go_on(self, running: list[Any]) -> bool:
        """Go on from there; False if it would not be the same."""
        for name, value in zip(_RUNNING, running[0], strict=True):
            setattr(self, name, value)
        return self.replays.go_on(running[1]) and running[2] == self._by_step

    # -- rows

    def once(self, batches: Iterable[DrawnRows]) -> Iterator[DrawnRows]:
        """Every decision once: copies under another id are dropped, where copies can be told.

        What came of a decision is unknown where its result belongs to several: it counts at its worst value.
        """
        for drawn in batches:
            if self.together.copies:
                kept = drawn.first_of(self._seen, self._frame.claimed(drawn.rows), self._unrepeated)
                self._repeated += len(drawn) - len(kept)
                drawn = kept
            if not len(drawn):
                continue
            self._kept += len(drawn)
            self._first = min(self._first, float(drawn.rows.at.min()) / 1e6)
            self._last = max(self._last, float(drawn.rows.at.max()) / 1e6)
            shared = drawn.among(self.shared)
            self._steps += int(shared.sum())
            if self._by_step:
                self._episodes += int(drawn.in_unit.sum())
                shared = shared | drawn.in_unit
            yield drawn.without_outcome(shared)

    def origin(self, drawn: DrawnRows, features: Features) -> RowOrigin:
        """Groups, clipping, and which rows have only the chosen action's probability."""
        claimed = self._frame.claimed(drawn.rows)
        alone = drawn.only_chosen(claimed, self._vectors)
        self._alone += int(alone.sum())
        cut: list[int] = (drawn.rows.seq * drawn.rows.clipped).tolist()
        return RowOrigin.of(
            self._groups(drawn),
            chosen_only=alone,
            beyond=[self._cuts.beyond.get(seq, 0.0) for seq in cut],
            stored_cuts=self._cuts.by_action,
            claimed=claimed,
            columns=tuple(features.names),
        )

    def times(self, drawn: DrawnRows) -> tuple[list[float], list[float]]:
        """When each was decided, and when its first signal came; early signals of a minute are no fault."""
        return [at / 1e6 - SKEW_S for at in drawn.rows.at.tolist()], first_signals(self._project.database, drawn.raw)

    def _groups(self, drawn: DrawnRows) -> dict[str, list[str]]:
        """Labels of what decisions may share; a decision without it shares nothing."""
        situations = drawn.situations
        if self._fields is None:
            names = {
                name: None
                for situation in situations
                for name, value in situation.state.items()
                if isinstance(value, (str, int)) and not isinstance(value, bool)
            }
            self._fields = sorted(names)[:MOST_FIELDS]
        groups = {"situation": [situation.text + dumps(situation.state) for situation in situations]}
        if any(situation.episode for situation in situations):
            groups["episode"] = [
                situation.episode or ids.text(raw) for situation, raw in zip(situations, drawn.raw, strict=True)
            ]
        for name in self._fields:
            values = [situation.state.get(name) for situation in situations]
            groups[name] = [
                ids.text(raw) if value is None else str(value) for value, raw in zip(values, drawn.raw, strict=True)
            ]
        return groups

    # -- results

    def added(self, evidence: Evidence) -> Evidence:
        """The evidence with these checks, and with what could not be checked."""
        diagnostics = [self._fitting(diagnostic) for diagnostic in evidence.diagnostics]
        diagnostics += [self._copies(), self._future()]
        diagnostics, claims = [*self._sharing(), *diagnostics], evidence.claims
        counts = {} if claims is None else {"drawn by Headway": claims.drawn, "claimed by a client": claims.rows}
        return replace(
            evidence,
            diagnostics=tuple(diagnostics),
            counts={**evidence.counts, **({REPEATED: self._repeated} if self._repeated else {}), **counts},
            unchecked=(*evidence.unchecked, *self._unchecked()),
        )

    def _sharing(self) -> Iterator[Diagnostic]:
        """Whether decisions have results of their own."""
        total = max(self._kept, 1)
        if self._episodes:
            yield by_step(self._settings.name, self._candidate[0], self._episodes, total)
        if self._steps:
            steps = "Cannot tell: several decisions share one result: "
            steps += f"{self._steps:,} of {total:,} are steps of an episode that is rated as a whole"
            cure = (
                'Set unit = "episode", so that experiments draw a policy per episode and are judged by episode; or '
                "sticky = true, so that an episode keeps to one draw; or rate every decision by itself."
            )
            yield Diagnostic.at_most("episode_result", self._steps / total, MOST_SHARED, steps, cure)

    def _copies(self) -> Diagnostic:
        total = self._kept + self._repeated
        return Diagnostic.at_most(
            "duplicates",
            self._repeated / max(total, 1),
            MOST_REPEATED,
            f"{self._repeated:,} of {plural(total, 'decision repeats', 'decisions repeat')} another one and count once",
            "Find out why decisions are stored twice (a file imported under other ids, a client that sends again "
            "without an id), and delete the copies.",
        )

    def _future(self) -> Diagnostic:
        return Diagnostic.at_most(
            "future",
            self._ahead / max(self._decisions, 1),
            MOST_AHEAD,
            f"{plural(self._ahead, 'decision is', 'decisions are')} dated in the future",
            "Correct the clock of this machine, or delete these decisions and import them with the right time.",
        )

    def _fitting(self, diagnostic: Diagnostic) -> Diagnostic:
        """The check of clipping with the range that would have held every reward."""
        if diagnostic.name not in (CLIPPING, CLIPPING_AGAINST) or not diagnostic.cure:
            return diagnostic
        return replace(diagnostic, cure=range_cure(self._settings.range, self._cuts.reach) or diagnostic.cure)

    def _unchecked(self) -> Iterator[str]:
        if self.replays.elsewhere:
            yield f"{plural(self.replays.elsewhere, 'decision')} made elsewhere could not be replayed"
        for reason, count in self.replays.gone.most_common(3):
            yield f"{plural(count, 'sampled decision')} cannot be asked again: {reason}"
        if self._alone:
            yield (
                f"{plural(self._alone, 'decision')} with the chosen action's probability alone: whether actions depend "
                "on the user, episode or situation (send `probabilities` of all actions)"
            )
        if (span := self._last - self._first) < WEEK_S:
            yield f"the decisions span {lasting(max(0.0, span))}: days of the week that differ are not seen"
        together = self.together
        if together.equal and not together.copies:
            yield "decisions from elsewhere share their times: which of them came first, and whether some are copies"
        if self.training is None and not PolicyRef.parse(self._candidate[0]).built_in:
            yield "drift since training: the training rows of the candidate are not in this store"


def training_window(
    project: Opened, frame: TaskFrame, candidate: tuple[str, str], features: Features, encoder: Encoder | None
) -> Window | None:
    """The features' moments in a sample of what the candidate was trained on; None if it is not in this store."""
    ref, digest = candidate
    if PolicyRef.parse(ref).built_in:
        return None
    header = project.registry.header(digest)
    trained = header.trained_on
    upto, parts = int(trained.get("upto", 0)), trained.get("parts", LEARNED_PARTS)
    by, left_out = header.split.get("by", "group"), trained.get("left_out", ())
    seqs = spread_trained(frame, parts, by, upto=upto, places=TRAINING_BLOCKS, most=TRAINING_READ)
    found = {seq: situation for seq, _, situation in frame.situations(seqs)}
    situations = [situation_without(found[seq], left_out) for seq in seqs if seq in found]
    if len(situations) < 2:
        return None
    vectors = features.vectors(situations, encoder)
    return Window(n=len(situations), mean=vectors.mean(axis=0), std=vectors.std(axis=0))
