"""Evidence for a candidate, from the rows that it has never read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import HeadwayError, InvalidInput
from headway.nouns.evidence import Evidence, Verdict
from headway.nouns.protocols import Progress
from headway.nouns.records import Settled, Situation
from headway.project.learn import encoder_spec
from headway.project.prove.kinds.kind import LOG, ProofQuestion, kind_named, pick
from headway.project.prove.subject import (
    candidate_policy,
    challenger,
    current_policy,
    gate_rules,
    known_raters,
    registered_plan,
)
from headway.project.prove.unread import Unread
from headway.promote import gate

if TYPE_CHECKING:
    from headway.project import Project
    from headway.promote.standing import CandidatePolicy
    from headway.prove.about import About
    from headway.prove.guards import GuardRule
    from headway.prove.log import Log
    from headway.prove.power import Planned
    from headway.settings import TaskSettings

__all__ = ["LOGGED", "Examined", "LogKind", "examine", "logged"]

_PILOT = 2000  # rows that the features of the reward model are fitted on


@dataclass(frozen=True, slots=True)
class Examined:
    """A verdict, with what it was computed with."""

    verdict: Verdict
    about: About
    guards: tuple[GuardRule, ...]
    rules: gate.GateRules
    left: Mapping[str, int]


def examine(
    project: Project,
    policy: str | None,
    *,
    against: str,
    task: str | None,
    progress: Progress | None = None,
    see: Callable[[Log], None] | None = None,
    trust: Sequence[str] = (),
    kind: str | None = None,
) -> Examined:
    """A verdict on a candidate, stored with its evidence.

    `see` is shown every chunk of logged rows. `kind`: of the evidence; by default the one that suits the candidate.
    """
    from headway.prove.guards import GuardRule

    candidate = candidate_policy(project, policy, task)
    settings = project.settings.task(candidate.task)
    trusted = known_raters(project, trust)
    project.settle(settings.name)
    other = _opponent(project, settings, candidate, against)
    about = _about(project, settings, candidate, other, trusted)
    guards = [
        GuardRule(name=name, tolerance=guard.tolerance, better=guard.direction)
        for name, guard in settings.guards.items()
    ]
    question = ProofQuestion(
        project=project,
        settings=settings,
        candidate=(candidate.ref, candidate.digest),
        other=other,
        progress=progress,
        see=see,
    )
    chosen = kind_named(project.catalogue, kind or pick(question))
    absent = chosen.missing(question)
    if absent is not None:
        raise absent
    evidence = chosen.evidence(question, about, guards)
    rules = gate_rules(settings)
    project.ledger.keep_evidence(
        evidence.id, settings.name, candidate.digest, msgspec.to_builtins(evidence), project.clock()
    )
    return Examined(gate.verdict(evidence, rules), about, tuple(guards), rules, dict(question.left))


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
        del question  # what cannot speak is counted while the rows are read
        return None

    def evidence(self, question: ProofQuestion, about: About, guards: Sequence[GuardRule]) -> Evidence:
        from headway.prove.evidence import from_log

        rows = logged(
            question.project,
            question.settings,
            question.candidate,
            question.other,
            after=about.plan.from_seq if about.plan else 0,
            progress=question.progress,
            left=question.left,
        )
        evidence = from_log(_shown(rows, question.see), about, guards=guards)
        return replace(evidence, counts={**evidence.counts, **question.left})

    def plan(self, question: ProofQuestion, about: About, *, uplift: float, power: float) -> Planned:
        from headway.prove.power import plan

        return plan(
            logged(question.project, question.settings, question.candidate, question.other),
            uplift=uplift,
            margin=about.margin,
            power=power,
            challenger=about.challenger,
            from_decision=question.project.query.last_decision(question.settings.name),
            reward_range=about.reward_range,
        )


LOGGED = LogKind()


def _opponent(project: Project, settings: TaskSettings, candidate: CandidatePolicy, against: str) -> tuple[str, str]:
    """(reference, hash) of the policy that the candidate is compared with."""
    if against == "current":
        current = current_policy(project, settings)
        ref, digest = current.ref, current.digest
    else:
        ref, digest = project.servings.resolve(settings, against)
    if digest == candidate.digest:
        raise InvalidInput(
            f"{candidate.ref} is compared with itself.",
            code="same_policy",
            hint=f"Learn a new candidate (headway learn {settings.name}) or name another policy with --against.",
        )
    return ref, digest


def _about(
    project: Project,
    settings: TaskSettings,
    candidate: CandidatePolicy,
    other: tuple[str, str],
    trusted: tuple[str, ...],
) -> About:
    """What the evidence says about itself."""
    from headway.prove.about import About

    task, (against, against_hash) = settings.name, other
    return About(
        task=task,
        candidate=candidate.ref,
        against=against,
        candidate_hash=candidate.digest,
        against_hash=against_hash,
        plan=registered_plan(project, task),
        challenger=challenger(project, task, candidate.digest),
        margin=settings.margin,
        reward_version=project.rewards(task).version,
        reward_range=project.rewards(task).range,
        seed=settings.seed,
        command=f"headway prove {task} --policy {candidate.ref} --against {against}"
        + "".join(f" --trust-key {quote(name)}" for name in trusted),
        trusted=trusted,
    )


def _shown(rows: Iterator[Log], see: Callable[[Log], None] | None) -> Iterator[Log]:
    for chunk in rows:
        if see is not None:
            see(chunk)
        yield chunk


def logged(
    project: Project,
    settings: TaskSettings,
    candidate: tuple[str, str],
    current: tuple[str, str],
    *,
    after: int = 0,
    progress: Progress | None = None,
    left: Counter[str] | None = None,
) -> Iterator[Log]:
    """The rows that may speak for the candidate, as chunks with both policies' probabilities.

    `left` counts what may not: mined labels, and decisions whose propensity is not known.
    """
    from headway.encode.fit import fit
    from headway.project.prove.rows import chunks

    task = settings.name
    body = project.servings.body(settings)
    target = project.servings.pipeline(task, body, *candidate)
    baseline = project.servings.pipeline(task, body, *current)
    encoder = project.servings.encoder(encoder_spec(project, settings))
    unread = Unread(project, settings, candidate, current)
    rewards = project.rewards(task)

    pilot = _pilot(project, settings, unread, _left_out(project, candidate), after)
    if not pilot:
        return
    counted = Counter[str]() if left is None else left
    counted.clear()
    signals, raters = bool(settings.guards), rewards.counting or True
    made = chunks(
        _unread(project, settings, unread, counted, after=after, signals=signals, raters=raters),
        arms=project.query.arms(task),
        target=target,
        baseline=baseline,
        features=fit(pilot, encoder),
        encoder=encoder,
        guards=tuple(settings.guards),
        rewards=rewards,
        unread=unread,
    )
    done = 0
    for chunk in made:
        yield chunk
        done += len(chunk)
        if progress is not None:
            progress("prove", done, None)


def _pilot(
    project: Project, settings: TaskSettings, unread: Unread, left_out: Sequence[str], after: int
) -> list[Situation]:
    """Situations that the features of the reward model are fitted on; none: nothing has settled that may speak.

    Fields that the candidate was not trained on because they give the outcome away have no place in that model.
    """
    from headway.observe.experience import without

    excluded: Counter[str] = Counter()
    rows = zip(_unread(project, settings, unread, excluded, after=after), range(_PILOT), strict=False)
    pilot = [without(row, left_out).decision.situation for row, _ in rows]
    if excluded and not pilot:
        raise _nothing_speaks(settings.name, excluded)
    return pilot


def _left_out(project: Project, candidate: tuple[str, str]) -> Sequence[str]:
    """Fields that the candidate was not trained on."""
    ref, digest = candidate
    if PolicyRef.parse(ref).built_in:
        return ()
    left_out: Sequence[str] = project.registry.header(digest).trained_on.get("left_out", ())
    return left_out


def _unread(
    project: Project,
    settings: TaskSettings,
    unread: Unread,
    counted: Counter[str],
    *,
    after: int,
    signals: bool = False,
    raters: Any = False,
) -> Iterator[Settled]:
    """Settled rows that neither policy has read and that evidence can rest on; `counted` gets the others.

    `after` skips a plan's pilot: decisions that had settled when it was registered.
    """
    from headway.project.prove.rows import speaking

    rows = project.query.settled(settings.name, after=after, signals=signals, raters=raters)
    fresh = (row for row in rows if row.first > after and unread.speaks(row.decision, row.first))
    return speaking(fresh, counted)


def _nothing_speaks(task: str, counts: Mapping[str, int]) -> InvalidInput:
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return InvalidInput(
        f"No settled decision of {task!r} can be evidence: {listed}.",
        code="propensity_unknown",
        hint="A proof needs the probability that each decision was made with: let Headway decide, or import "
        "it (--map propensity=COLUMN).",
    )
