"""Learn → prove → promote, and the way back. Each step reads what the one before wrote down, never its memory."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import msgspec

from headway.nouns.checkpoint import Header, PolicyRef
from headway.nouns.errors import Conflict, GateRefused, InvalidInput, UnknownName
from headway.nouns.evidence import Evidence, Plan, Verdict
from headway.nouns.protocols import Learned, Progress
from headway.nouns.records import Settled
from headway.observe.experience import PARTS, Recorded, part_of
from headway.promote import gate
from headway.promote.bundle import specs
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.project.facade import Project
    from headway.prove.log import Log
    from headway.settings import TaskSettings

_LEARNED_PARTS = ("train", "tune")


# -- learn


def learn(
    project: Project,
    task: str,
    *,
    family: str | None,
    seed: int | None,
    progress: Progress | None,
    knobs: Mapping[str, Any],
) -> str:
    from headway.learn.families import learner

    settings = project.settings.task(task)
    family = family or settings.family
    encoder = project.servings.encoder(_encoder_spec(project, settings))
    teach = learner(family, encoder=encoder)
    project.settle(task)
    upto = project.query.last_settled(task)
    experience = Recorded(project.query, task, upto=upto)
    seed = settings.seed if seed is None else seed
    learned = teach.learn(experience, {**_knobs(settings), **knobs}, seed, progress)
    header = _header(settings, learned, encoder.version, seed, upto, _LEARNED_PARTS, parent=None)
    ref = project.registry.add(header, learned.tensors)
    digest = project.registry.find(str(ref))
    if digest not in project.ledger.states(task):
        project.ledger.append(
            Entry(
                task=task,
                kind="candidate",
                policy=str(ref),
                policy_hash=digest,
                who=_who(""),
                why=f"learned from {sum(learned.trained_on.get('rows', {}).values()):,} decisions",
                detail={"upto": upto, "seed": seed},
                at=project.clock(),
            )
        )
    return str(ref)


def due(project: Project, task: str) -> int:
    project.settle(task)
    candidates = [each for each in project.ledger.entries(task) if each.kind == "candidate"]
    mark = int(candidates[-1].detail.get("upto", 0)) if candidates else 0
    return max(0, project.settings.task(task).retrain_after - project.query.count_settled(task, after=mark))


def fold(project: Project, task: str) -> str | None:
    """The current policy's state, with every row settled since its mark added and every replaced one taken away."""
    from headway.learn.families import online_learner

    settings = project.settings.task(task)
    serving = project.servings.of(settings)
    if PolicyRef.parse(serving.ref).built_in:
        return None
    project.settle(task)
    header = project.registry.header(serving.digest)
    teach = online_learner(header.family, encoder=project.servings.encoder(_encoder_spec(project, settings)))
    mark = int(header.trained_on["upto"])
    policy = project.servings.policy(task, project.servings.body(settings), serving.ref, serving.digest)
    state = teach.state_from(policy)
    last = mark
    for row, sign in _changes(project, task, mark, header):
        if sign:
            teach.update(state, row, sign)
        last = max(last, row.seq)
    if last == mark:
        return None
    trained = {
        **header.trained_on,
        "origin": header.trained_on.get("origin", serving.digest),
        "first_parts": header.trained_on.get("first_parts", header.trained_on["parts"]),
        "folded_from": header.trained_on.get("folded_from", mark),
    }
    learned = teach.learned(state, trained)
    new = _header(
        settings,
        learned,
        header.encoder,
        header.seed,
        last,
        ("train", "tune", "prove"),
        parent=serving.digest,
    )
    ref = project.registry.add(new, learned.tensors)
    digest = project.registry.find(str(ref))
    project.ledger.append(
        Entry(
            task=task,
            kind="snapshot",
            policy=str(ref),
            policy_hash=digest,
            expects=serving.digest,
            who=_who(""),
            why=f"folded settled rows {mark + 1:,} to {last:,}",
            detail={"upto": last, "origin": trained["origin"]},
            at=project.clock(),
        )
    )
    project.servings.forget(task)
    return str(ref)


def _changes(project: Project, task: str, mark: int, header: Header) -> Iterator[tuple[Settled, int]]:
    """Rows since the mark, and the rows that they replace taken back first, if the state has read those."""
    first_parts = header.trained_on.get("first_parts", header.trained_on["parts"])
    start = int(header.trained_on.get("folded_from", mark))
    for row in project.query.settled(task, after=mark, corrections=True):
        if row.replaces is not None:
            before = project.query.settled_row(row.replaces)
            read = before.seq > start or part_of(before.decision) in first_parts
            if read and before.reward is not None:
                yield replace(before, seq=row.seq), -1
        yield row, 0 if row.reward is None else 1


# -- prove


def prove(
    project: Project, policy: str | None, *, against: str, task: str | None, progress: Progress | None
) -> Verdict:
    from headway.prove.evidence import About, from_log
    from headway.prove.guards import GuardRule

    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    project.settle(task)
    if against == "current":
        current = project.servings.of(settings)
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
        command=f"headway prove {task} --policy {ref} --against {other}",
    )
    guards = [
        GuardRule(name=name, tolerance=each.tolerance, better=each.direction) for name, each in settings.guards.items()
    ]
    after = plan.from_seq if plan else 0
    rows = logged(project, settings, (ref, digest), (other, other_digest), after=after, progress=progress)
    evidence = from_log(rows, about, guards=guards)
    verdict = gate.verdict(evidence, gate_rules(settings))
    project.ledger.keep_evidence(evidence.id, task, digest, msgspec.to_builtins(evidence), project.clock())
    return verdict


def logged(
    project: Project,
    settings: TaskSettings,
    candidate: tuple[str, str],
    current: tuple[str, str],
    *,
    after: int = 0,
    progress: Progress | None = None,
) -> Iterator[Log]:
    """The rows that may speak for the candidate, as chunks with both policies' probabilities."""
    from headway.encode.fitting import fit
    from headway.project.proving import chunks, unseen

    task = settings.name
    body = project.servings.body(settings)
    target = project.servings.pipeline(task, body, *candidate)
    baseline = project.servings.pipeline(task, body, *current)
    encoder = project.servings.encoder(_encoder_spec(project, settings))
    trained: Mapping[str, Any] = {}
    if not PolicyRef.parse(candidate[0]).built_in:
        trained = project.registry.header(candidate[1]).trained_on
    upto, parts = int(trained.get("upto", 0)), trained.get("parts", _LEARNED_PARTS)

    def rows(signals: bool) -> Iterator[Settled]:
        found = project.query.settled(task, after=after, signals=signals)
        return unseen(found, upto=upto, parts=parts, after=after)

    pilot = [row.decision.situation for row, _ in zip(rows(False), range(2000), strict=False)]
    if not pilot:
        return
    made = chunks(
        rows(bool(settings.guards)),
        arms=project.query.arms(task),
        target=target,
        baseline=baseline,
        features=fit(pilot, encoder),
        encoder=encoder,
        guards=tuple(settings.guards),
    )
    done = 0
    for chunk in made:
        yield chunk
        done += len(chunk)
        if progress is not None:
            progress("prove", done, None)


def plan(project: Project, task: str, *, uplift: float, power: float, register: bool, policy: str | None) -> Any:
    """How many decisions a test of this size needs; `register` fixes the horizon in the ledger beforehand."""
    from headway.prove.power import plan as planned

    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    project.settle(task)
    current = project.servings.of(settings)
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
                who=_who(""),
                why=f"test for an uplift of {uplift:+g} over {found.plan.horizon:,} decisions",
                detail=msgspec.to_builtins(found.plan),
                at=project.clock(),
            )
        )
    return found


def registered(project: Project, task: str) -> Plan | None:
    entry = project.ledger.plan(task)
    return None if entry is None else msgspec.convert(entry.detail, Plan)


def gate_rules(settings: TaskSettings) -> gate.Rules:
    return gate.Rules(margin=settings.margin)


def stored_evidence(project: Project, identifier: str) -> Evidence:
    body = project.ledger.evidence(identifier)
    if body is None:
        raise UnknownName(
            f"There is no evidence {identifier!r}.", code="unknown_evidence", hint="`headway prove` makes some."
        )
    return msgspec.convert(body, Evidence)


# -- promote


def promote(project: Project, policy: str | None, *, because: Verdict | None, task: str | None, who: str) -> Entry:
    task, ref, digest = candidate_of(project, policy, task)
    settings = project.settings.task(task)
    project.registry.load(digest, task=task)  # verified before anybody depends on it
    current = project.servings.of(settings)
    if digest == current.digest:
        raise Conflict(f"{ref} is current already.", code="already_current", hint=f"Undo: headway rollback {task}")
    why, evidence_id = "gate off", None
    if settings.gate == "on":
        given = because.evidence if because is not None else None
        evidence_id = given.id if given is not None else project.ledger.latest_evidence(task, digest)
        if evidence_id is None:
            raise GateRefused(
                f"There is no evidence for {ref} yet.",
                reasons=("nothing was proven",),
                hint=f"Prove it first: headway prove {task}",
            )
        evidence = stored_evidence(project, evidence_id)
        if evidence.candidate_hash != digest:
            raise InvalidInput(f"That evidence is about {evidence.candidate}, not {ref}.", code="wrong_evidence")
        if evidence.against_hash != current.digest:
            raise Conflict(
                f"{ref} was proven against {evidence.against}; {current.ref} is current of {task!r} now.",
                code="stale_evidence",
                hint=f"Prove it again: headway prove {task}",
            )
        verdict = gate.verdict(evidence, gate_rules(settings))
        if not verdict.passed:
            raise GateRefused(" ".join(verdict.reasons), reasons=verdict.reasons, hint=verdict.hint.strip())
        why = str(verdict)
    return _become(project, settings, "promote", ref, digest, why=why, who=who, evidence_id=evidence_id)


def rollback(project: Project, task: str, *, to: str | None, why: str, who: str) -> Entry:
    settings = project.settings.task(task)
    current = project.servings.of(settings)
    if to is not None:
        ref, digest = project.servings.resolve(settings, to)
    else:
        previous = project.ledger.previous(task)
        if previous is not None:
            ref, digest = previous.policy, previous.policy_hash
        else:
            from headway.project.serving import baseline_ref

            body = project.servings.body(settings)
            ref = baseline_ref(body)
            digest = project.servings.baseline_digest(ref, body)
    if digest == current.digest:
        raise Conflict(
            f"{ref} is current already; there is nothing to roll back to.",
            code="already_current",
            hint=f"`headway status` shows the ledger of {task!r}.",
        )
    if not PolicyRef.parse(ref).built_in:
        project.registry.load(digest, task=task)
    return _become(project, settings, "rollback", ref, digest, why=why or f"back from {current.ref}", who=who)


def _become(
    project: Project,
    settings: TaskSettings,
    kind: Any,
    ref: str,
    digest: str,
    *,
    why: str,
    who: str,
    evidence_id: str | None = None,
) -> Entry:
    last = project.ledger.current(settings.name)
    entry = project.ledger.append(
        Entry(
            task=settings.name,
            kind=kind,
            policy=ref,
            policy_hash=digest,
            expects=last.policy_hash if last else "",
            who=_who(who),
            why=why,
            evidence_id=evidence_id,
            detail={"was": last.policy if last else ""},
            at=project.clock(),
        )
    )
    project.servings.forget(settings.name)
    served = project.servings.of(settings)
    if not project.settings.policy_override:
        assert served.digest == digest, "what is served is what was promoted"
    return entry


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
    candidates = [each for each in project.ledger.entries(task) if each.kind == "candidate"]
    if not candidates:
        raise UnknownName(
            f"Nothing was learned for {task!r} yet.", code="no_candidate_policy", hint=f"Run: headway learn {task}"
        )
    return task, candidates[-1].policy, candidates[-1].policy_hash


# -- small parts


def _challenger(project: Project, task: str, digest: str) -> int:
    hashes = [each.policy_hash for each in project.ledger.challengers(task)]
    return hashes.index(digest) + 1 if digest in hashes else len(hashes) + 1


def _encoder_spec(project: Project, settings: TaskSettings) -> Any:
    return project.servings.body(settings)["encoder_spec"]


def _knobs(settings: TaskSettings) -> dict[str, Any]:
    """What the task's settings say to its learner. Exploring is the pipeline's: the policy itself is greedy."""
    return {"costs": dict(settings.costs), "cost_weight": settings.cost_weight, "explore": "greedy"}


def _header(
    settings: TaskSettings,
    learned: Learned,
    encoder: str,
    seed: int,
    upto: int,
    parts: tuple[str, ...],
    parent: str | None,
) -> Header:
    tensors = specs(learned.tensors)
    sizes = [1] * len(tensors)
    for index, each in enumerate(tensors):
        for size in each.shape:
            sizes[index] *= size
    return Header(
        task=settings.name,
        family=learned.family,
        kind=settings.kind,
        encoder=encoder,
        knobs=learned.knobs,
        tensors=tensors,
        parameters=sum(sizes),
        trained_on={**learned.trained_on, "upto": upto, "parts": list(parts)},
        split={"by": "group", **{str(name): share for name, share in PARTS.items()}},
        metrics=learned.metrics,
        baselines=learned.baselines,
        seed=seed,
        versions=_versions(),
        parent=parent,
        extra=learned.extra,
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("headway", "numpy", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a source tree that was never installed
            found[package] = "unknown"
    return found


def _who(who: str) -> str:
    if who:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
