"""Evidence from logged decisions: which of them may speak, and in which order.

Rows are decisions in the order in which they were made, up to the maturity mark (`headway.observe.draws`), that neither
policy has read (`unread`). A decision whose outcome is still open or missing counts at its worst value, unless the task
declares `missing = "at random"`. So does one that was deleted, if it could have been one of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import inf
from typing import TYPE_CHECKING, Any

from headway.nouns import HeadwayError, InvalidInput, PolicyRef, Settled, Situation, Waiting, lasting, moment
from headway.observe import DAY, action_code, but, deleted_draws
from headway.project.learn import encoder_spec
from headway.project.prove.actions_today import ActionsToday
from headway.project.prove.change import BEFORE_CHANGE, last_change
from headway.project.prove.episodes import UNDRAWN, PolicyDraws, was_drawn
from headway.project.prove.finality import with_finality
from headway.project.prove.kinds.kind import LOG, ProofQuestion, SeenRows
from headway.project.prove.unread import Unread
from headway.promote import WAITING, still_needed

if TYPE_CHECKING:
    from headway.nouns import Evidence, Plan, Progress
    from headway.observe import Draws
    from headway.project.project.folder import Opened
    from headway.project.prove.checks import RowChecks
    from headway.prove import About, GuardRule, Integers, Log, Planned
    from headway.settings import TaskSettings


_PILOT = 2000  # rows that the features of the reward model are fitted on
_MARK = "A proof reads decisions up to the moment before which 99% of each action's outcomes are in."


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

    def missing(self, question: ProofQuestion) -> HeadwayError | None:
        task, query = question.settings.name, question.project.query
        if query.count_judged(task, known=True, most=1):
            return None
        lacking = {
            "with a mined label": query.count_source(task, "mined"),
            "with unknown propensity": query.count_judged(task, known=False, most=10**9),
        }
        lacking = {name: count for name, count in lacking.items() if count}
        if lacking:
            return _nothing_speaks(task, lacking)
        order = query.draws(task)
        return _too_early(question.settings, order) if len(order) else _nothing_decided(task)

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.project.prove.checks import RowChecks
        from headway.prove import from_log

        checks = RowChecks(question.project, question.settings, question.candidate)
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
        rows = logged(reader, progress=question.progress, checks=checks)
        if about.plan is not None:  # `logged` has left out what came before it
            about = replace(about, plan=replace(about.plan, from_seq=0))
        seen = question.seen
        chunks = rows if seen is None else _kept(rows, seen)
        evidence = from_log(chunks, about, guards=guards, training=lambda: checks.training)
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


def _kept(rows: Iterator[Log], seen: SeenRows) -> Iterator[Log]:
    for chunk in rows:
        seen.chunks.append(chunk)
        yield chunk


def logged(reader: ProofRows, *, progress: Progress | None = None, checks: RowChecks | None = None) -> Iterator[Log]:
    """The rows that may speak for the candidate, as chunks with both policies' probabilities."""
    from headway.encode import fit
    from headway.project.prove.checks import training_window
    from headway.project.prove.rows import ComparedRows
    from headway.prove import DrawnPolicy

    project, settings, candidate = reader.project, reader.settings, reader.candidate
    task = settings.name
    body = project.servings.body(settings)
    encoder = project.servings.encoder(encoder_spec(project, settings))
    rewards = project.rewards(task)
    rows = reader.rows(signals=bool(settings.guards), raters=rewards.counting or True)
    first = list(islice(rows, _PILOT))
    if not first:
        reader.refuse()
        return
    features = fit(_pilot(first, _left_out(project, candidate)), encoder)
    if checks is not None:
        checks.training = training_window(project, settings, candidate, features, encoder)
    compared = ComparedRows(
        arms=project.query.arms(task),
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
    rows = chain(first, rows)
    done = 0
    for chunk in compared.chunks(reader.with_deleted(rows if checks is None else checks.once(rows))):
        yield chunk
        done += len(chunk)
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
    _seqs: list[int] = field(init=False)
    _late: Draws = field(init=False)  # after the maturity mark
    _deleted: list[tuple[float, str]] = field(init=False)  # when they are taken to be made, and the action's code
    _before_change: int = field(init=False)

    def __post_init__(self) -> None:
        self.unread = Unread(self.project, self.settings, self.candidate, self.current)
        self.today = ActionsToday(self.project, self.settings)
        self.draws = None
        if self.settings.unit == "episode" and (
            self.newest is not None or was_drawn(self.project, self.settings.name, self.candidate[1])
        ):
            self.draws = PolicyDraws(self.project, self.settings, self.candidate, self.current)
        order = self.project.query.draws(self.settings.name)
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
        self._seqs = (self._unread(seqs) if self.newest is None else seqs[-self.newest :]).tolist()

    def rows(self, *, signals: bool = False, raters: Any = False) -> Iterator[Settled]:
        """Decisions that neither policy has read and that evidence can rest on."""
        self.left.clear()
        if len(self._late):
            self.left[WAITING] = len(self._late)
        if self._before_change:
            self.left[BEFORE_CHANGE] = self._before_change
        return self._speaking(self.project.query.outcomes(self._seqs, signals=signals, raters=raters), self.left)

    def _unread(self, seqs: Integers) -> Integers:
        """Those that can speak by their columns, in the same order: no other is read."""
        frame = self.project.query.frame(self.settings.name)
        silent = [block.seq[self.unread.silent(frame, block)] for block in frame.blocks()]
        return but(seqs, silent)

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

    def with_deleted(self, rows: Iterable[Settled]) -> Iterator[Settled]:
        """The rows, with one that stands in for each deleted one: it has nothing of it but the action."""
        from headway.prove import GONE

        due, like = deque(self._deleted), dict[str, Settled]()
        unseen: list[str] = []  # actions that no row offered so far
        for row in rows:
            yield row
            if not (due or unseen):
                continue
            decision = row.decision
            for candidate, probability in zip(decision.candidates, decision.probabilities, strict=True):
                known = like.get(action_code(candidate.name))
                if probability > 0.0 and (known is None or known.decision.claimed > decision.claimed):
                    instead = replace(decision, action=candidate.name, propensity=probability)
                    nothing = Settled(seq=GONE, decision=instead, reward=None, status="censored")
                    like[action_code(candidate.name)] = nothing
            while due and due[0][0] <= decision.at:
                unseen.append(due.popleft()[1])
            yield from (like[action] for action in unseen if action in like)
            unseen = [action for action in unseen if action not in like]
        yield from (like[action] for action in (*unseen, *(action for _, action in due)) if action in like)

    def _speaking(self, rows: Iterator[Settled], left: Counter[str]) -> Iterator[Settled]:
        from headway.project.prove.rows import speaking

        settled_after = 0 if self.plan is None else self.plan.from_seq  # of a plan that counts settled rows
        able = speaking(
            (
                row
                for row in rows
                if (not settled_after or row.first > settled_after)
                and (self.newest is not None or self.unread.speaks(row.decision, row.first or None))
            ),
            left,
            self.today,
        )
        if self.draws is None:
            return able
        return self.draws.rows(able, left) if self.newest is None else self.draws.planned(able)

    def waiting(self, more: int) -> Waiting | None:
        """What waits after the maturity mark, and whether it is enough for a test that needs so many rows more."""
        if not len(self._late):
            return None
        rows = self._speaking(self.project.query.outcomes(self._late.seq.tolist()), Counter())
        counting, latest = 0, float(self._late.at[0]) / 1e6
        for row in islice(rows, more):
            counting, latest = counting + 1, row.decision.at
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
            raise _nothing_speaks(self.settings.name, unusable)
        if len(self._late):
            raise _too_early(self.settings, self._late, self.final_s)


def _pilot(rows: Sequence[Settled], left_out: Sequence[str]) -> list[Situation]:
    """Situations that the features of the reward model are fitted on.

    Fields that the candidate was not trained on because they give the outcome away have no place in that model.
    """
    from headway.observe import without

    return [without(row, left_out).decision.situation for row in rows]


def _left_out(project: Opened, candidate: tuple[str, str]) -> Sequence[str]:
    """Fields that the candidate was not trained on."""
    ref, digest = candidate
    if PolicyRef.parse(ref).built_in:
        return ()
    left_out: Sequence[str] = project.registry.header(digest).trained_on.get("left_out", ())
    return left_out


def _nothing_speaks(task: str, counts: Mapping[str, int]) -> InvalidInput:
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return InvalidInput(
        f"No settled decision of {task!r} can be evidence: {listed}.",
        code="propensity_unknown",
        hint="A proof needs decisions over today's actions, and the probability that each was made with: let Headway "
        "decide, or import it (--map propensity=COLUMN).",
    )


def _nothing_decided(task: str) -> InvalidInput:
    return InvalidInput(
        f"No results yet for {task!r}.",
        code="no_evidence",
        hint="Send outcomes with `headway signal`, then prove again.",
    )


def _too_early(settings: TaskSettings, waiting: Draws, final_s: float = 0.0) -> InvalidInput:
    first = moment(float(waiting.at[0]) / 1e6 + max(final_s, settings.reward_after_s))
    if final_s and waiting.final.all():
        first = moment(float(waiting.at[0]) / 1e6 + final_s)
        return InvalidInput(
            f"All {len(waiting):,} decisions of {settings.name!r} that could be evidence may still change: outcomes "
            f"are final after {lasting(final_s)}.",
            code="no_evidence",
            hint=f"Wait: the first of them counts on {first}.",
        )
    return InvalidInput(
        f"All {len(waiting):,} decisions of {settings.name!r} that could be evidence are waiting for outcomes; "
        f"{int((~waiting.final).sum()):,} have none yet.",
        code="no_evidence",
        hint=f"{_MARK} Send the outcomes (`headway signal`), or shorten reward_after_s, after which an outcome counts "
        f"as missing: for the first of them on {first}.",
    )
