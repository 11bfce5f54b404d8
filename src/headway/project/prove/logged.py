"""Evidence from logged decisions: which of them may speak, and in which order.

Rows are decisions in the order in which they were made, up to the maturity mark (`headway.observe.draws`), that neither
policy has read (`unread`). A decision whose outcome is still open or missing counts at its worst value, unless the task
declares `missing = "at random"`. So does one that was deleted, if it could have been one of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any

from headway.nouns import SOURCES, PolicyRef, Waiting, errors
from headway.observe import (
    DAY,
    RaterSignals,
    action_code,
    deleted_draws,
    draws_of,
    join_drawn,
    lacking,
    ordered,
    read_drawn,
    situation_without,
)
from headway.project.prove.actions_today import ActionsToday
from headway.project.prove.change import BEFORE_CHANGE, last_change
from headway.project.prove.episodes import UNDRAWN, PolicyDraws, was_drawn
from headway.project.prove.finality import nothing_decided, nothing_speaks, too_early, with_finality
from headway.project.prove.kinds.kind import LOG, ProofQuestion
from headway.project.prove.unread import MINED, UNKNOWN, Unread
from headway.promote import WAITING, still_needed

if TYPE_CHECKING:
    from headway.nouns import Evidence, Plan, Progress
    from headway.observe import Block, DrawnRows, Draws, TaskFrame
    from headway.project.project.folder import Opened
    from headway.project.prove.checks import RowChecks
    from headway.prove import About, GuardRule, Integers, Log, Planned
    from headway.settings import TaskSettings


CHUNK = 2000  # rows that are read at once; the features of the reward model are fitted on the first ones


class LogKind:
    """Evidence from logged decisions and their probabilities."""

    name, grows = LOG, True

    def applies(self, question: ProofQuestion) -> bool:
        """Unless the history has no probabilities and there are too few decisions that do."""
        from headway.prove import Floors

        least, task, query = Floors().rows, question.settings.name, question.project.query
        return query.count_judged(task, known=True, most=least) >= least or not query.count_judged(
            task, known=False, most=1
        )

    def missing(self, question: ProofQuestion) -> errors.HeadwayError | None:
        task, query = question.settings.name, question.project.query
        if query.count_judged(task, known=True, most=1):
            return None
        lacking = {
            MINED: query.count_source(task, "mined"),
            UNKNOWN: query.count_judged(task, known=False, most=10**9),
        }
        lacking = {name: count for name, count in lacking.items() if count}
        if lacking:
            return nothing_speaks(task, lacking)
        order = draws_of(query.frame(task))
        return too_early(question.settings, order) if len(order) else nothing_decided(task)

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.project.prove.checkpoints import Checkpoints
        from headway.project.prove.checks import RowChecks
        from headway.prove import LogStream

        signals = question.project.query.last_signal()
        reader = ProofRows(
            question.project,
            question.settings,
            question.candidate,
            question.other,
            plan=about.plan,
            left=question.left,
            since=question.since,
            after=question.after,
            final_s=question.final_s,
            until=question.lags.until if question.lags is not None else 0.0,
        )
        checks = RowChecks(question.project, question.settings, question.candidate, reader.frame)
        if about.plan is not None:  # `logged` leaves out what came before it
            about = replace(about, plan=replace(about.plan, from_seq=0))
        seen, project = question.seen, question.project
        stream, start, places = LogStream(about, guards), 0, None
        if seen is None and reader.each_alone and not checks.together.copies:
            encoder, settings = project.servings.encoder_of(question.settings), question.settings
            rules = settings.missing, *reader.arms, "" if encoder is None else encoder.version
            places = Checkpoints(reader.able(), checks, reader.frame, about, guards, rules, signals=signals, size=CHUNK)
            stream, start = places.resumed(project.database)
        for chunk in logged(reader, progress=question.progress, checks=checks, start=start):
            stream.add(chunk)
            if places is not None:
                places.keep(stream, reader.done)
            if seen is not None:
                seen.chunks.append(chunk)
        evidence = stream.evidence(training=checks.training)
        if seen is not None:
            seen.training = checks.training
        evidence = replace(evidence, counts={**evidence.counts, **question.left})
        evidence = checks.added(replace(evidence, waiting=reader.waiting(still_needed(evidence))))
        return evidence if question.lags is None else with_finality(question, question.lags, evidence)

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        from headway.prove import plan

        ways: dict[str, Any] = {"canaries": (), "exploration": ()} if question.settings.unit == "episode" else {}
        planned = plan(
            logged(ProofRows(question.project, question.settings, question.candidate, question.other)),
            uplift=uplift,
            margin=about.margin,
            power=power,
            challenger=about.challenger,
            promotions=about.promotions,
            from_decision=question.project.query.last_decision(question.settings.name),
            reward_range=about.reward_range,
            **ways,
        )
        return replace(planned, unit="episodes") if ways else planned


LOGGED = LogKind()


def logged(
    reader: ProofRows, *, progress: Progress | None = None, checks: RowChecks | None = None, start: int = 0
) -> Iterator[Log]:
    """The rows that may speak for the candidate, as chunks with both policies' probabilities.

    `start`: only those after so many; the features of the reward model are those of the first rows in any case.
    """
    from headway.encode import Tracker
    from headway.project.prove.checks import training_window
    from headway.project.prove.rows import ComparedRows
    from headway.prove import DrawnPolicy

    project, settings, candidate = reader.project, reader.settings, reader.candidate
    checked = iter if checks is None else checks.once
    task = settings.name
    body = project.servings.body(settings)
    encoder = project.servings.encoder_of(settings)
    rewards = project.rewards(task)
    rows = reader.rows(rewards.counting, start)
    first = next(rows, None)
    if first is None:
        reader.refuse()
        return
    left_out = _left_out(project, candidate)  # what gives the outcome away has no place in the reward model
    features = Tracker([situation_without(situation, left_out) for situation in first.situations]).features(encoder)
    if checks is not None:
        checks.training = training_window(project, reader.frame, candidate, features, encoder)
    compared = ComparedRows(
        project=project,
        frame=reader.frame,
        arms=reader.arms,
        target=project.servings.pipeline(task, body, *candidate),
        baseline=project.servings.pipeline(task, body, *reader.current),
        features=features,
        encoder=encoder,
        guards=tuple(settings.guards),
        rewards=rewards,
        unread=reader.unread,
        today=reader.today,
        at_random=settings.missing == "at random",
        checks=checks,
    )
    if (draws := reader.draws) is not None:
        mine, theirs = DrawnPolicy(0), DrawnPolicy(1)
        compared = replace(compared, arms=draws.arms, target=mine, baseline=theirs, unread=None, today=draws)
    done = start
    for drawn in reader.with_deleted(checked(rows if start else chain((first,), rows))):
        chunk = compared.chunk(drawn, done)
        done += len(drawn)
        yield chunk
        if progress is not None:
            progress("prove", done, None)


@dataclass(slots=True)
class ProofRows:
    """The rows of one proof.

    `left` counts what may not speak: open outcomes after the maturity mark, decisions before outcomes changed, mined
    labels, unknown propensities.
    """

    project: Opened
    settings: TaskSettings
    candidate: tuple[str, str]
    current: tuple[str, str]
    plan: Plan | None = None
    left: Counter[str] = field(default_factory=Counter)
    newest: int | None = None  # so many, whether they were read or not: to plan from, never as evidence
    since: float = 0.0  # only decisions after this time
    after: int | None = None  # the last decision that does not count, because the candidate's experiment began then
    final_s: float = 0.0  # the age from which decisions count …
    until: float = 0.0  # … at this time
    unread: Unread = field(init=False)
    today: ActionsToday = field(init=False)
    draws: PolicyDraws | None = field(init=False)  # if the rows are whole episodes
    frame: TaskFrame = field(init=False)
    arms: list[str] = field(init=False)  # every action that was ever a candidate
    _rows: Block | None = field(init=False)  # those that are read, by time
    _late: Draws = field(init=False)  # after the maturity mark
    _deleted: list[tuple[float, str]] = field(init=False)  # when they are taken to be made, and the action's code
    _before_change: int = field(init=False)
    _able: Block | None = field(init=False, default=None)
    done: int = field(init=False, default=0)  # rows that were read so far

    def __post_init__(self) -> None:
        self.unread = Unread(self.project, self.settings, self.candidate, self.current)
        self.today = ActionsToday(self.project, self.settings)
        self.draws = None
        if self.settings.unit == "episode" and (
            self.newest is not None or was_drawn(self.project, self.settings.name, self.candidate[1])
        ):
            self.draws = PolicyDraws(self.project, self.settings, self.candidate, self.current)
        self.frame = self.project.query.frame(self.settings.name)
        self.arms = self.project.query.arms(self.settings.name)
        order = draws_of(self.frame)
        changed = last_change(self.project, self.settings.name)
        counts = order.at > max(changed, self.since) * 1e6
        if self.plan is not None and self.plan.from_decision is not None:
            counts &= order.seq > self.plan.from_decision
        if self.after is not None:
            counts &= order.seq > self.after
        mature = order.first(order.mature(self.until - self.final_s if self.final_s else inf))
        self._before_change = int((order.at[mature] <= changed * 1e6).sum())
        self._late = order.where(counts & ~mature)
        self._deleted = [] if self.newest is not None else self._missing(order.at[counts & mature], order.at[~counts])
        seqs = order.seq[counts & mature]
        self._rows = self._ordered(seqs if self.newest is None else seqs[-self.newest :])

    @property
    def each_alone(self) -> bool:
        """Whether what a row says depends on itself and the policies' bundles alone."""
        return not self._deleted and self.draws is None and not self.unread.online

    def able(self) -> Block:
        """Decisions that neither policy has read and that evidence can rest on; `left` counts the others."""
        if self._able is None:
            assert self._rows is not None
            self.left.clear()
            if len(self._late):
                self.left[WAITING] = len(self._late)
            if self._before_change:
                self.left[BEFORE_CHANGE] = self._before_change
            self._able, self._rows = self._speaking(self._rows, self.left), None
        return self._able

    def rows(self, counting: Collection[str], start: int = 0) -> Iterator[DrawnRows]:
        """The same, the first ones and those after `start`; `counting`: the reward's signals."""
        rows, database = self.able(), self.project.database
        raters = RaterSignals(database, counting or None)
        for place in (0, *range(max(start, CHUNK), len(rows), CHUNK)) if len(rows) else ():
            self.done = min(place + CHUNK, len(rows))
            drawn = read_drawn(database, self.frame, rows.part(place, place + CHUNK), raters=raters)
            if self.draws is not None:
                drawn = self.draws.choices(self.frame, drawn) if self.newest is None else self.draws.planned(drawn)
            if len(drawn):
                yield drawn

    def _ordered(self, seqs: Integers) -> Block:
        """These rows in this order, without those that one of the policies has read."""
        if self.newest is not None:
            return ordered(self.frame, seqs)
        return ordered(self.frame, seqs, but=self.unread.silent)

    def _missing(self, read: Integers, earlier: Integers) -> list[tuple[float, str]]:
        """Deleted decisions that could speak, by whole days, spread like those of their day that are read."""
        if not len(read):
            return []
        first, last = min(read[0], earlier.max(initial=0)) // DAY, read[-1] // DAY
        found: list[tuple[float, str]] = []
        for deleted in deleted_draws(self.project.database, self.project.query, self.settings.name):
            if first <= deleted.day <= last and self.unread.missing(deleted):
                same_day = read[read // DAY == deleted.day].tolist() or [deleted.day * DAY]
                places = [int((number + 0.5) / deleted.count * len(same_day)) for number in range(deleted.count)]
                # Whose episode it was is not known: it counts as one of either policy, each at its worst.
                actions = [deleted.action] if self.draws is None else map(action_code, self.draws.arms)
                found += [(same_day[place] / 1e6, action) for action in actions for place in places]
        return sorted(found)

    def with_deleted(self, batches: Iterable[DrawnRows]) -> Iterator[DrawnRows]:
        """The rows, with one that stands in for each deleted one: it has nothing of it but the action."""
        if not self._deleted:
            yield from batches
            return
        due = deque(self._deleted)
        like: dict[str, tuple[bool, DrawnRows]] = {}  # by action: a row for it, and whether something else drew that
        unseen: list[str] = []  # actions that no row offered so far
        for drawn in batches:
            start = 0
            pieces: list[DrawnRows] = []
            claimed, times = self.frame.claimed(drawn.rows).tolist(), drawn.rows.at.tolist()
            for place, (candidates, logged) in enumerate(zip(drawn.candidates, drawn.logged.tolist(), strict=True)):
                if not (due or unseen):
                    break
                for action, candidate in enumerate(candidates):
                    known = like.get(action_code(candidate.name))
                    if logged[action] > 0.0 and (known is None or known[0] > claimed[place]):
                        like[action_code(candidate.name)] = claimed[place], drawn.stand_in(place, action)
                while due and due[0][0] <= times[place] / 1e6:
                    unseen.append(due.popleft()[1])
                if any(action in like for action in unseen):
                    pieces += [drawn.part(start, place + 1), *(like[action][1] for action in unseen if action in like)]
                    unseen, start = [action for action in unseen if action not in like], place + 1
            yield join_drawn([*pieces, drawn.part(start, len(drawn))])
        rest = [like[action][1] for action in (*unseen, *(action for _, action in due)) if action in like]
        if rest:
            yield join_drawn(rest)

    def _speaking(self, rows: Block, left: Counter[str]) -> Block:
        """Those that evidence can rest on; `left` counts the others by what they lack."""
        if self.plan is not None and self.plan.from_seq:  # of a plan that counts settled rows
            rows = rows.where(rows.first > self.plan.from_seq)
        lacks = lacking(self.frame, rows, self.today.lacks)
        lacks[MINED] = rows.source == SOURCES.index("mined")
        lacks[UNKNOWN] = ~rows.known
        if self.draws is not None and self.newest is None:
            lacks[UNDRAWN] = ~self.draws.drawn_between(self.frame, rows)
        able = rows.seq > 0
        for name, lack in lacks.items():
            if count := int((able & lack).sum()):
                left[name] += count
            able &= ~lack
        return rows.where(able)

    def waiting(self, more: int) -> Waiting | None:
        """What waits after the maturity mark, and whether it is enough for a test that needs so many rows more."""
        if not len(self._late):
            return None
        at = self._speaking(self._ordered(self._late.seq), Counter()).at[:more]
        counting, latest = len(at), float(at[-1] if len(at) else self._late.at[0]) / 1e6
        still_open = int((~self._late.final).sum())
        return Waiting(
            decisions=len(self._late),
            open=still_open,
            counting=counting,
            until=latest + max(self.final_s, self.settings.reward_after_s if still_open else 0.0),
            final_s=self.final_s,
        )

    def refuse(self) -> None:
        """The error of a proof without rows, with the cure."""
        unusable = {name: count for name, count in self.left.items() if name not in (WAITING, BEFORE_CHANGE, UNDRAWN)}
        if unusable:
            raise nothing_speaks(self.settings.name, unusable)
        if len(self._late):
            raise too_early(self.settings, self._late, self.final_s)


def _left_out(project: Opened, candidate: tuple[str, str]) -> Sequence[str]:
    """Fields that the candidate was not trained on."""
    ref, digest = candidate
    if PolicyRef.parse(ref).built_in:
        return ()
    left_out: Sequence[str] = project.registry.header(digest).trained_on.get("left_out", ())
    return left_out
