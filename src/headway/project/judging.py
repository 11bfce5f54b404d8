"""Proving: evidence for a candidate from the rows that it has never read, and the plan of a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import InvalidInput, UnknownName, did_you_mean
from headway.nouns.evidence import Evidence, Plan, Verdict
from headway.nouns.protocols import Progress
from headway.nouns.records import Settled
from headway.project.learning import LEARNED_PARTS, encoder_spec, who_is_it
from headway.project.serving import baseline_ref
from headway.promote import gate
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.project.facade import Project
    from headway.prove.about import About
    from headway.prove.guards import GuardRule
    from headway.prove.log import Log
    from headway.prove.power import Planned
    from headway.settings import TaskSettings

__all__ = [
    "Examined",
    "Live",
    "candidate_of",
    "examine",
    "gate_rules",
    "known_raters",
    "live",
    "logged",
    "plan",
    "prove",
    "registered",
    "stored_evidence",
]


@dataclass(frozen=True, slots=True)
class Examined:
    """A verdict, with what it was computed with."""

    verdict: Verdict
    about: About
    guards: tuple[GuardRule, ...]
    rules: gate.Rules
    left: Mapping[str, int]


def prove(
    project: Project,
    policy: str | None,
    *,
    against: str,
    task: str | None,
    progress: Progress | None,
    trust: Sequence[str] = (),
) -> Verdict:
    return examine(project, policy, against=against, task=task, progress=progress, trust=trust).verdict


def examine(
    project: Project,
    policy: str | None,
    *,
    against: str,
    task: str | None,
    progress: Progress | None = None,
    see: Callable[[Log], None] | None = None,
    trust: Sequence[str] = (),
) -> Examined:
    """`prove`, and everything that its numbers follow from; `see` is shown each chunk of rows."""
    from headway.prove.evidence import About, from_log
    from headway.prove.guards import GuardRule

    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    trusted = known_raters(project, trust)
    project.settle(task)
    if against == "current":
        current = live(project, settings)
        other, other_digest = current.ref, current.digest
    else:
        other, other_digest = project.servings.resolve(settings, against)
    if digest == other_digest:
        raise InvalidInput(
            f"{ref} is compared with itself.",
            code="same_policy",
            hint=f"Learn a new candidate (headway learn {task}) or name another policy with --against.",
        )
    plan = registered(project, task)
    about = About(
        task=task,
        candidate=ref,
        against=other,
        candidate_hash=digest,
        against_hash=other_digest,
        plan=plan,
        challenger=_challenger(project, task, digest),
        margin=settings.margin,
        reward_version=project.rewards(task).version,
        seed=settings.seed,
        command=f"headway prove {task} --policy {ref} --against {other}"
        + "".join(f" --trust-key {quote(each)}" for each in trusted),
        trusted=trusted,
    )
    guards = [
        GuardRule(name=name, tolerance=each.tolerance, better=each.direction) for name, each in settings.guards.items()
    ]
    after = plan.from_seq if plan else 0
    left: Counter[str] = Counter()
    rows = logged(project, settings, (ref, digest), (other, other_digest), after=after, progress=progress, left=left)
    evidence = from_log(_shown(rows, see), about, guards=guards)
    evidence = replace(evidence, counts={**evidence.counts, **left})
    rules = gate_rules(settings)
    verdict = gate.verdict(evidence, rules)
    project.ledger.keep_evidence(evidence.id, task, digest, msgspec.to_builtins(evidence), project.clock())
    return Examined(verdict, about, tuple(guards), rules, dict(left))


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
    from headway.encode.fitting import fit
    from headway.observe.experience import without
    from headway.project.proving import chunks, speaking, unseen

    task = settings.name
    body = project.servings.body(settings)
    target = project.servings.pipeline(task, body, *candidate)
    baseline = project.servings.pipeline(task, body, *current)
    encoder = project.servings.encoder(encoder_spec(project, settings))
    trained: Mapping[str, Any] = {}
    if not PolicyRef.parse(candidate[0]).built_in:
        trained = project.registry.header(candidate[1]).trained_on
    upto, parts = int(trained.get("upto", 0)), trained.get("parts", LEARNED_PARTS)

    rewards = project.rewards(task)

    def rows(whole: bool) -> Iterator[Settled]:
        signals, raters = whole and bool(settings.guards), rewards.counting or True if whole else False
        found = project.query.settled(task, after=after, signals=signals, raters=raters)
        return speaking(unseen(found, upto=upto, parts=parts, after=after), counted)

    counted: Counter[str] = Counter()
    # Fields that the candidate was not trained on because they give the outcome away have no place in the reward model.
    leaky = trained.get("left_out", ())
    pilot = [without(row, leaky).decision.situation for row, _ in zip(rows(False), range(2000), strict=False)]
    if not pilot:
        if counted:
            raise InvalidInput(
                f"No settled decision of {task!r} can be evidence: {_listed(counted)}.",
                code="propensity_unknown",
                hint="A proof needs the probability that each decision was made with: let Headway decide, or import "
                "it (--map propensity=COLUMN).",
            )
        return
    counted = Counter() if left is None else left
    counted.clear()
    made = chunks(
        rows(True),
        arms=project.query.arms(task),
        target=target,
        baseline=baseline,
        features=fit(pilot, encoder),
        encoder=encoder,
        guards=tuple(settings.guards),
        rewards=rewards,
    )
    done = 0
    for chunk in made:
        yield chunk
        done += len(chunk)
        if progress is not None:
            progress("prove", done, None)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def plan(project: Project, task: str, *, uplift: float, power: float, register: bool, policy: str | None) -> Planned:
    """How many decisions a test of this size needs; `register` fixes the horizon in the ledger beforehand."""
    from headway.prove.power import plan as planned

    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    project.settle(task)
    current = live(project, settings)
    if digest == current.digest:
        raise InvalidInput(
            f"{ref} is current already: there is nothing to test.",
            code="same_policy",
            hint=f"Learn a new candidate first: headway learn {task}",
        )
    last = project.query.last_settled(task)
    found = planned(
        logged(project, settings, (ref, digest), (current.ref, current.digest)),
        uplift=uplift,
        margin=settings.margin,
        power=power,
        challenger=_challenger(project, task, digest),
        from_seq=last,
    )
    if register:
        project.ledger.append(
            Entry(
                task=task,
                kind="plan",
                policy=ref,
                policy_hash=digest,
                who=who_is_it(""),
                why=f"test for an uplift of {uplift:+g} over {found.plan.horizon:,} decisions",
                detail=msgspec.to_builtins(found.plan),
                at=project.clock(),
            )
        )
    return found


def registered(project: Project, task: str) -> Plan | None:
    entry = project.ledger.plan(task)
    return None if entry is None else msgspec.convert(entry.detail, Plan)


def gate_rules(settings: TaskSettings, trust: Sequence[str] = ()) -> gate.Rules:
    return gate.Rules(margin=settings.margin, trusted=frozenset({*settings.trust_keys, *trust}))


def known_raters(project: Project, trust: Sequence[str]) -> tuple[str, ...]:
    """Names that are to be trusted, each once; one that has rated nothing is a mistake."""
    raters = project.query.names("rater") if trust else ()
    for each in trust:
        if each not in raters:
            named = [name for name in raters if name]
            raise UnknownName(
                f"Nobody called {each!r} has rated anything.",
                code="unknown_rater",
                hint=did_you_mean(each, named) or "`headway rewards analyze TASK` lists who has.",
            )
    return tuple(sorted(set(trust)))


def stored_evidence(project: Project, identifier: str) -> Evidence:
    body = project.ledger.evidence(identifier)
    if body is None:
        raise UnknownName(
            f"There is no evidence {identifier!r}.", code="unknown_evidence", hint="`headway prove` makes some."
        )
    return msgspec.convert(body, Evidence)


@dataclass(frozen=True, slots=True)
class Live:
    """Who is current by the ledger, whatever HEADWAY_POLICY says for this process."""

    ref: str
    digest: str
    expects: str  # what a change of the ledger must name; empty before the first one


def live(project: Project, settings: TaskSettings) -> Live:
    entry = project.ledger.current(settings.name)
    if entry is not None:
        return Live(entry.policy, entry.policy_hash, entry.policy_hash)
    body = project.servings.body(settings)
    ref = baseline_ref(body)
    return Live(ref, project.servings.baseline_digest(ref, body), "")


def candidate_of(project: Project, policy: str | None, task: str | None) -> tuple[str, str, str]:
    """(task, ref, hash) of a policy: the one named, or the newest candidate of the task."""
    if policy is not None:
        parsed = PolicyRef.parse(policy)
        if parsed.built_in:
            if task is None:
                raise InvalidInput(f"{policy} belongs to every task.", code="task_missing", hint="Name the task too.")
            ref, digest = project.servings.resolve(project.settings.task(task), policy)
            return task, ref, digest
        digest = project.registry.find(policy)
        header = project.registry.header(digest)
        if task is not None and header.task != task:
            project.registry.load(digest, task=task)
        return header.task, str(project.registry.ref(digest)), digest
    if task is None:
        raise InvalidInput("Neither a policy nor a task is named.", code="task_missing", hint="Name one of them.")
    project.settings.task(task)
    candidate = project.ledger.last(task, "candidate")
    if candidate is None:
        raise UnknownName(
            f"Nothing was learned for {task!r} yet.", code="no_candidate_policy", hint=f"Run: headway learn {task}"
        )
    return task, candidate.policy, candidate.policy_hash


def _challenger(project: Project, task: str, digest: str) -> int:
    hashes = [each.policy_hash for each in project.ledger.challengers(task)]
    return hashes.index(digest) + 1 if digest in hashes else len(hashes) + 1
