"""Evidence from logged decisions: which of them may speak, and in which order.

Rows are decisions in the order in which they were made, up to the maturity mark (`headway.observe.draws`), that neither
policy has read (`unread`). A decision whose outcome is still open or missing counts at its worst value, unless the task
declares `missing = "at random"`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.records import Settled, Situation
from headway.project.learn import encoder_spec
from headway.project.prove.change import BEFORE_CHANGE, last_change
from headway.project.prove.kinds.kind import LOG, ProofQuestion, SeenRows
from headway.project.prove.unread import Unread
from headway.promote.gate import WAITING

if TYPE_CHECKING:
    from headway.nouns.evidence import Evidence, Plan
    from headway.nouns.protocols import Progress
    from headway.project import Project
    from headway.project.prove.checks import RowChecks
    from headway.prove.about import About
    from headway.prove.guards import GuardRule
    from headway.prove.log import Log
    from headway.prove.power import Planned
    from headway.settings import TaskSettings

__all__ = ["LOGGED", "LogKind", "logged"]

_PILOT = 2000  # rows that the features of the reward model are fitted on


class LogKind:
    """Evidence from logged decisions and their probabilities."""

    name, grows = LOG, True

    def applies(self, question: ProofQuestion) -> bool:
        """Unless the history has no probabilities and there are too few decisions that do."""
        from headway.prove.diagnostics import Floors

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
        waiting = len(query.draws(task))
        return _too_early(task, waiting) if waiting else _nothing_decided(task)

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.project.prove.checks import RowChecks
        from headway.prove.evidence import from_log

        checks = RowChecks(question.project, question.settings, question.candidate)
        rows = logged(
            question.project,
            question.settings,
            question.candidate,
            question.other,
            plan=about.plan,
            progress=question.progress,
            left=question.left,
            checks=checks,
            since=question.since,
            after=question.after,
        )
        if about.plan is not None:  # `logged` has left out what came before it
            about = replace(about, plan=replace(about.plan, from_seq=0))
        seen = question.seen
        chunks = rows if seen is None else _kept(rows, seen)
        evidence = from_log(chunks, about, guards=guards, training=lambda: checks.training)
        if seen is not None:
            seen.training = checks.training
        return checks.added(replace(evidence, counts={**evidence.counts, **question.left}))

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        from headway.prove.power import plan

        return plan(
            logged(question.project, question.settings, question.candidate, question.other),
            uplift=uplift,
            margin=about.margin,
            power=power,
            challenger=about.challenger,
            promotions=about.promotions,
            from_decision=question.project.query.last_decision(question.settings.name),
            reward_range=about.reward_range,
        )


LOGGED = LogKind()


def _kept(rows: Iterator[Log], seen: SeenRows) -> Iterator[Log]:
    for chunk in rows:
        seen.chunks.append(chunk)
        yield chunk


def logged(
    project: Project,
    settings: TaskSettings,
    candidate: tuple[str, str],
    current: tuple[str, str],
    *,
    plan: Plan | None = None,
    progress: Progress | None = None,
    left: Counter[str] | None = None,
    checks: RowChecks | None = None,
    newest: int | None = None,
    since: float = 0.0,
    after: int | None = None,
) -> Iterator[Log]:
    """The rows that may speak for the candidate, as chunks with both policies' probabilities.

    `left` counts what may not: open outcomes after the maturity mark, decisions before outcomes changed, mined labels,
    unknown propensities. `newest`: so many of the newest rows, also those that a policy has read: to plan a test from,
    never as evidence. `since`: only decisions after this time. `after`: only those after this one, because the
    candidate's experiment began then.
    """
    from headway.encode.fit import fit
    from headway.project.prove.checks import training_window
    from headway.project.prove.rows import ComparedRows

    task = settings.name
    body = project.servings.body(settings)
    encoder = project.servings.encoder(encoder_spec(project, settings))
    rewards = project.rewards(task)
    unread = Unread(project, settings, candidate, current)
    reader = _ProofRows(project, task, unread, plan, Counter() if left is None else left, newest, since, after)
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
        baseline=project.servings.pipeline(task, body, *current),
        features=features,
        encoder=encoder,
        guards=tuple(settings.guards),
        rewards=rewards,
        unread=unread,
        at_random=settings.missing == "at random",
        checks=checks,
    )
    rows = chain(first, rows)
    done = 0
    for chunk in compared.chunks(rows if checks is None else checks.once(rows)):
        yield chunk
        done += len(chunk)
        if progress is not None:
            progress("prove", done, None)


@dataclass(slots=True)
class _ProofRows:
    """The rows of one proof; `left` counts those that may not speak, by what they lack."""

    project: Project
    task: str
    unread: Unread
    plan: Plan | None
    left: Counter[str]
    newest: int | None = None  # so many, whether they were read or not: to plan from
    since: float = 0.0  # only later ones
    after: int | None = None  # the last decision that does not count
    _seqs: list[int] = field(init=False)
    _waiting: int = field(init=False)
    _before_change: int = field(init=False)

    def __post_init__(self) -> None:
        order = self.project.query.draws(self.task)
        mature = order.mature()
        changed = last_change(self.project, self.task)
        later = order.at[:mature] > max(changed, self.since) * 1e6
        seqs = order.seq[:mature][later]
        self._before_change = int((order.at[:mature] <= changed * 1e6).sum())
        self._waiting = len(order) - mature
        if self.plan is not None and self.plan.from_decision is not None:
            seqs = seqs[seqs > self.plan.from_decision]
        if self.after is not None:
            seqs = seqs[seqs > self.after]
        self._seqs = (seqs if self.newest is None else seqs[-self.newest :]).tolist()

    def rows(self, *, signals: bool = False, raters: Any = False) -> Iterator[Settled]:
        """Decisions that neither policy has read and that evidence can rest on."""
        from headway.project.prove.rows import speaking

        self.left.clear()
        if self._waiting:
            self.left[WAITING] = self._waiting
        if self._before_change:
            self.left[BEFORE_CHANGE] = self._before_change
        settled_after = 0 if self.plan is None else self.plan.from_seq  # of a plan that counts settled rows
        rows = self.project.query.outcomes(self._seqs, signals=signals, raters=raters)
        return speaking(
            (
                row
                for row in rows
                if (not settled_after or row.first > settled_after)
                and (self.newest is not None or self.unread.speaks(row.decision, row.first or None))
            ),
            self.left,
        )

    def refuse(self) -> None:
        """The error of a proof without rows, with the cure."""
        unusable = {name: count for name, count in self.left.items() if name not in (WAITING, BEFORE_CHANGE)}
        if unusable:
            raise _nothing_speaks(self.task, unusable)
        if self._waiting:
            raise _too_early(self.task, self._waiting)


def _pilot(rows: Sequence[Settled], left_out: Sequence[str]) -> list[Situation]:
    """Situations that the features of the reward model are fitted on.

    Fields that the candidate was not trained on because they give the outcome away have no place in that model.
    """
    from headway.observe.experience import without

    return [without(row, left_out).decision.situation for row in rows]


def _left_out(project: Project, candidate: tuple[str, str]) -> Sequence[str]:
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
        hint="A proof needs the probability that each decision was made with: let Headway decide, or import "
        "it (--map propensity=COLUMN).",
    )


def _nothing_decided(task: str) -> InvalidInput:
    return InvalidInput(
        f"There is no settled decision of {task!r} to compute a proof from.",
        code="no_evidence",
        hint="Send outcomes with `headway signal`, then prove again.",
    )


def _too_early(task: str, waiting: int) -> InvalidInput:
    return InvalidInput(
        f"All {waiting:,} decisions of {task!r} that could be evidence are waiting for outcomes.",
        code="no_evidence",
        hint="A proof reads decisions up to the moment before which nearly all outcomes are in. Send outcomes for "
        "every decision (`headway signal`), or shorten reward_after_s, after which an outcome counts as missing.",
    )
