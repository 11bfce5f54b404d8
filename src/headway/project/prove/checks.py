"""What a proof checks in its rows beside the numbers of the test, and what it could not check, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from headway.nouns import CLIPPING, Decision, Diagnostic, Evidence, PolicyRef, Settled, id_bytes, lasting
from headway.observe import (
    LEARNED_PARTS,
    ahead,
    cut_rewards,
    dumps,
    first_signals,
    same_moment,
    shared_results,
    situation_without,
    spread_trained,
    unrepeated,
)
from headway.project.prove.episodes import by_step, was_drawn
from headway.project.prove.fitting import beyond, range_cure
from headway.project.prove.replays import Replays
from headway.prove import RowOrigin, Window

if TYPE_CHECKING:
    from headway.encode import Features
    from headway.nouns import Encoder
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings

REPEATED = "repeated, counted once"
MOST_REPEATED = 0.2  # of the decisions
MOST_AHEAD = 0.001  # of the decisions
MOST_SHARED = 0.01  # of the decisions; below it, their worst value is all that they can do
MOST_FIELDS = 6  # of the state that are tried as groups
TRAINING_READ, TRAINING_BLOCKS = 2000, 10
SKEW_S = 60.0
WEEK_S = 7 * 86_400.0


class RowChecks:
    """The checks of one proof; its rows pass through `once`, `origin`, `times` and `replays` as they are read."""

    def __init__(self, project: Opened, settings: TaskSettings, candidate: tuple[str, str]) -> None:
        self._project, self._settings, self._candidate = project, settings, candidate
        task, query = settings.name, project.query
        self._decisions = query.counts(task).decisions
        self._unrepeated = unrepeated(query, task)
        self._together = same_moment(project.database, query, task, but=self._unrepeated)
        self._ahead = ahead(project.database, query, task, project.clock() + SKEW_S)
        self._seen: set[int] = set()
        self._vectors: dict[tuple[str, str], bool] = {}
        self._fields: list[str] | None = None
        self._cuts = cut_rewards(project.database, query.name_id("task", task), sum(settings.range) / 2.0)
        self._reach = settings.range  # of the rewards as they would be without the range
        self._kept = self._repeated = self._alone = 0
        self._first, self._last = inf, -inf  # times of decisions that count
        counting = project.rewards(task).counting
        self._shared = shared_results(project.database, query, task, counting | {*settings.guards} if counting else ())
        self._steps = self._episodes = 0
        self._by_step = settings.unit == "episode" and not was_drawn(project, task, candidate[1])
        self.replays = Replays(project, self._decisions)
        self.training: Window | None = None

    # -- rows

    def once(self, rows: Iterable[Settled]) -> Iterator[Settled]:
        """Every decision once: copies under another id are dropped, where copies can be told.

        What came of a decision is unknown where its result belongs to several: it counts at its worst value.
        """
        self._seen.clear()
        self._kept = self._repeated = self._steps = self._episodes = 0
        for row in rows:
            if self._together.copies and row.decision.claimed:
                code = _content(row, self._unrepeated)
                if code in self._seen:
                    self._repeated += 1
                    continue
                self._seen.add(code)
            self._kept += 1
            self._first, self._last = min(self._first, row.decision.at), max(self._last, row.decision.at)
            step = row.decision.seq in self._shared
            self._steps += step
            if self._by_step and row.decision.unit:
                self._episodes += 1
                step = True
            yield replace(row, reward=None, status="pending", clipped=False, said={}) if step else row

    def origin(self, batch: Sequence[Settled], features: Features) -> RowOrigin:
        """Groups, clipping, and which rows have only the chosen action's probability."""
        decisions = [row.decision for row in batch]
        alone = [self._chosen_only(decision) for decision in decisions]
        self._alone += sum(alone)
        return RowOrigin.of(
            self._groups(decisions),
            chosen_only=alone,
            beyond=self._beyond(batch),
            stored_cuts=self._cuts,
            claimed=[decision.claimed for decision in decisions],
            columns=tuple(features.names),
        )

    def _beyond(self, batch: Sequence[Settled]) -> list[float]:
        cut = [row for row in batch if row.clipped]
        signals = self._project.query.values([id_bytes(row.decision.id) for row in cut]) if cut else {}
        over = beyond(batch, signals, self._project.rewards(self._settings.name))
        values = [*self._reach, *((row.reward or 0.0) + by for row, by in zip(batch, over, strict=True) if by != 0.0)]
        self._reach = min(values), max(values)
        return over

    def times(self, decisions: Sequence[Decision]) -> tuple[list[float], list[float]]:
        """When each was decided, and when its first signal came; early signals of a minute are no fault."""
        first = first_signals(self._project.database, [decision.id for decision in decisions])
        return [decision.at - SKEW_S for decision in decisions], list(first)

    def _chosen_only(self, decision: Decision) -> bool:
        """Whether the client of this decision sends only the probability of its choice, by its earlier decisions.

        The store then holds equal probabilities for all other actions. A client that once sent others sends them all.
        """
        if not decision.claimed or len(decision.probabilities) < 3:
            return False
        who = (decision.key, decision.policy)
        alone = self._vectors.get(who, False)
        rest = [value for place, value in enumerate(decision.probabilities) if place != decision.index]
        if max(rest) - min(rest) > 1e-12:
            self._vectors[who] = False
        elif abs(decision.propensity - rest[0]) > 1e-12:
            self._vectors.setdefault(who, True)
        return alone

    def _groups(self, decisions: Sequence[Decision]) -> dict[str, list[str]]:
        """Labels of what decisions may share; a decision without it shares nothing."""
        if self._fields is None:
            names = {
                name: None
                for decision in decisions
                for name, value in decision.situation.state.items()
                if isinstance(value, (str, int)) and not isinstance(value, bool)
            }
            self._fields = sorted(names)[:MOST_FIELDS]
        groups = {"situation": [decision.situation.text + dumps(decision.situation.state) for decision in decisions]}
        if any(decision.situation.episode for decision in decisions):
            groups["episode"] = [decision.situation.episode or decision.id for decision in decisions]
        for name in self._fields:
            values = [decision.situation.state.get(name) for decision in decisions]
            groups[name] = [
                decision.id if value is None else str(value) for value, decision in zip(values, decisions, strict=True)
            ]
        return groups

    # -- results

    def added(self, evidence: Evidence) -> Evidence:
        """The evidence with these checks, and with what could not be checked."""
        diagnostics = [self._fitting(diagnostic) for diagnostic in evidence.diagnostics]
        diagnostics += [self._copies(), self._future()]
        diagnostics = [*self._sharing(), *diagnostics]
        return replace(
            evidence,
            diagnostics=tuple(diagnostics),
            counts={**evidence.counts, **({REPEATED: self._repeated} if self._repeated else {}), **_origins(evidence)},
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
            f"{self._repeated:,} of {total:,} decisions repeat another one and count once",
            "Find out why decisions are stored twice (a file imported under other ids, a client that sends again "
            "without an id), and delete the copies.",
        )

    def _future(self) -> Diagnostic:
        return Diagnostic.at_most(
            "future",
            self._ahead / max(self._decisions, 1),
            MOST_AHEAD,
            f"{self._ahead:,} decisions are dated in the future",
            "Correct the clock of this machine, or delete these decisions and import them with the right time.",
        )

    def _fitting(self, diagnostic: Diagnostic) -> Diagnostic:
        """The check of clipping with the range that would have held every reward."""
        if diagnostic.name != CLIPPING or diagnostic.ok:
            return diagnostic
        return replace(diagnostic, cure=range_cure(self._settings.range, self._reach) or diagnostic.cure)

    def _unchecked(self) -> Iterator[str]:
        if self.replays.elsewhere:
            yield f"{self.replays.elsewhere:,} decisions made elsewhere could not be replayed"
        for reason, count in self.replays.gone.most_common(3):
            yield f"{count:,} sampled decisions cannot be asked again: {reason}"
        if self._alone:
            yield (
                f"{self._alone:,} decisions have the probability of the chosen action only: whether actions depend on "
                "the user, episode or situation (send `probabilities` of all actions)"
            )
        if (span := self._last - self._first) < WEEK_S:
            yield f"the decisions span {lasting(max(0.0, span))}: days of the week that differ are not seen"
        together = self._together
        if together.equal and not together.copies:
            yield "decisions from elsewhere share their times: which of them came first, and whether some are copies"
        if self.training is None and not PolicyRef.parse(self._candidate[0]).built_in:
            yield "drift since training: the training rows of the candidate are not in this store"


def training_window(
    project: Opened, settings: TaskSettings, candidate: tuple[str, str], features: Features, encoder: Encoder | None
) -> Window | None:
    """The features' moments in a sample of what the candidate was trained on; None if it is not in this store."""
    ref, digest = candidate
    if PolicyRef.parse(ref).built_in:
        return None
    header = project.registry.header(digest)
    trained = header.trained_on
    upto, parts = int(trained.get("upto", 0)), trained.get("parts", LEARNED_PARTS)
    by, left_out = header.split.get("by", "group"), trained.get("left_out", ())
    frame = project.query.frame(settings.name)
    seqs = spread_trained(frame, parts, by, upto=upto, places=TRAINING_BLOCKS, most=TRAINING_READ)
    found = {seq: situation for seq, _, situation in frame.situations(seqs)}
    situations = [situation_without(found[seq], left_out) for seq in seqs if seq in found]
    if len(situations) < 2:
        return None
    vectors = features.vectors(situations, encoder)
    return Window(n=len(situations), mean=vectors.mean(axis=0), std=vectors.std(axis=0))


def _origins(evidence: Evidence) -> dict[str, int]:
    """Whose draws the decisions were, where some were not Headway's."""
    claims = evidence.claims
    return {} if claims is None else {"drawn by Headway": claims.drawn, "claimed by a client": claims.rows}


def _content(row: Settled, unrepeated: Sequence[str]) -> int:
    """A number for everything that two copies share; also the seed, by which our own draws differ.

    A field that is another one in every decision, such as a request's number, is not part of it.
    """
    decision = row.decision
    situation = decision.situation
    names = tuple(candidate.name for candidate in decision.candidates)
    state = {name: value for name, value in situation.state.items() if name not in unrepeated}
    what = (situation.text, dumps(state), situation.step, names, decision.probabilities, decision.action)
    return hash((decision.at, what, decision.seed, row.reward, row.status))
