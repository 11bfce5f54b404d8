"""Learning: a candidate from what has settled, or one more snapshot of a policy that learns as it goes."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from headway.nouns.checkpoint import Header, PolicyRef
from headway.nouns.errors import InvalidInput
from headway.nouns.protocols import Learned, Progress
from headway.nouns.records import Settled
from headway.observe.experience import PARTS, Recorded, part_of, without
from headway.promote.bundle import specs
from headway.promote.ledger import Entry
from headway.promote.prune import prune

if TYPE_CHECKING:
    from headway.project.facade import Project
    from headway.settings import TaskSettings

__all__ = ["LEARNED_PARTS", "due", "encoder_spec", "fold", "header_of", "learn", "who_is_it"]

LEARNED_PARTS = ("train", "tune")


def learn(
    project: Project,
    task: str,
    *,
    family: str | None,
    seed: int | None,
    progress: Progress | None,
    knobs: Mapping[str, Any],
    trust: Sequence[str] = (),
    mined: bool = False,
) -> str:
    """A candidate. Fields that give the outcome away are left out, unless they are trusted; mined labels likewise."""
    from headway.project.leaking import check

    settings = project.settings.task(task)
    family = family or settings.family
    encoder = project.servings.encoder(encoder_spec(project, settings))
    teach = project.catalogue.learner(family, encoder=encoder)
    project.settle(task)
    upto = project.query.last_settled(task)
    leaky = check(project, task, parts=LEARNED_PARTS, mined=mined).fields
    left_out = [each for each in leaky if each not in trust and each.removesuffix(":numbers") not in trust]
    experience = Recorded(project.query, task, upto=upto, left_out=left_out, mined=mined)
    seed = settings.seed if seed is None else seed
    knobs = dict(knobs)
    resume = knobs.pop("resume", None)
    begun = _begun(project, settings, family, resume)
    learned = teach.learn(experience, {**_knobs(settings), **knobs}, seed, progress, **begun.kept)
    said = ({"left_out": left_out} if left_out else {}) | ({"mined": True} if mined else {})
    if said:
        learned = replace(learned, trained_on={**learned.trained_on, **said})
    header = header_of(settings, learned, encoder.version, seed, upto, LEARNED_PARTS, parent=begun.digest)
    ref = project.registry.add(header, learned.tensors)
    digest = project.registry.find(str(ref))
    if project.ledger.state(task, digest) is None:
        project.ledger.append(
            Entry(
                task=task,
                kind="candidate",
                policy=str(ref),
                policy_hash=digest,
                who=who_is_it(""),
                why=f"learned from {sum(learned.trained_on.get('sources', {}).values()):,} decisions",
                detail={"upto": upto, "seed": seed},
                at=project.clock(),
            )
        )
    return str(ref)


@dataclass(frozen=True, slots=True)
class _Begun:
    """Where learning begins: nowhere, or with a policy to go on from."""

    digest: str | None
    kept: dict[str, Any]


def _begun(project: Project, settings: TaskSettings, family: str, resume: str | None) -> _Begun:
    if resume is None:
        return _Begun(None, {})
    if not project.catalogue.family(family).resumable:
        resumable = [name for name, row in project.catalogue.all("families").items() if row.resumable]
        raise InvalidInput(
            f"The family {family!r} cannot go on from {resume!r}.",
            code="not_resumable",
            hint=f"Learn anew, or use one of: {', '.join(resumable)}.",
        )
    ref, digest = project.servings.resolve(settings, resume)
    policy = project.servings.policy(settings.name, project.servings.body(settings), ref, digest)
    return _Begun(digest, {"resume": policy})


def due(project: Project, task: str) -> int:
    project.settle(task)
    candidate = project.ledger.last(task, "candidate")
    mark = int(candidate.detail.get("upto", 0)) if candidate is not None else 0
    return max(0, project.settings.task(task).retrain_after - project.query.count_settled(task, after=mark))


def fold(project: Project, task: str) -> str | None:
    """The current policy's state, with every row settled since its mark added and every replaced one taken away."""
    settings = project.settings.task(task)
    serving = project.servings.of(settings)
    if PolicyRef.parse(serving.ref).built_in:
        return None
    project.settle(task)
    header = project.registry.header(serving.digest)
    teach = project.catalogue.online_learner(
        header.family, encoder=project.servings.encoder(encoder_spec(project, settings))
    )
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
    new = header_of(
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
            who=who_is_it(""),
            why=f"folded settled rows {mark + 1:,} to {last:,}",
            detail={"upto": last, "origin": trained["origin"]},
            at=project.clock(),
        )
    )
    project.servings.forget(task)
    prune(project.ledger, project.registry, task, now=project.clock())
    return str(ref)


def _changes(project: Project, task: str, mark: int, header: Header) -> Iterator[tuple[Settled, int]]:
    """Rows since the mark, and the rows that they replace taken back first, if the state has read those."""
    first_parts = header.trained_on.get("first_parts", header.trained_on["parts"])
    start = int(header.trained_on.get("folded_from", mark))
    left_out, mined = header.trained_on.get("left_out", ()), header.trained_on.get("mined", False)
    for row in project.query.settled(task, after=mark, corrections=True):
        weak = row.decision.source == "mined" and not mined
        if row.replaces is not None and not weak:
            before = project.query.settled_row(row.replaces)
            read = before.seq > start or part_of(before.decision) in first_parts
            if read and before.reward is not None:
                yield replace(without(before, left_out), seq=row.seq), -1
        yield without(row, left_out), 0 if row.reward is None or weak else 1


def encoder_spec(project: Project, settings: TaskSettings) -> Any:
    return project.servings.body(settings)["encoder_spec"]


def _knobs(settings: TaskSettings) -> dict[str, Any]:
    """What the task's settings say to its learner. Exploring is the pipeline's: the policy itself is greedy."""
    return {"costs": dict(settings.costs), "cost_weight": settings.cost_weight, "explore": "greedy"}


def header_of(
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


def who_is_it(who: str) -> str:
    """The name that a ledger row gets: the one given, or the user of this machine."""
    if who:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
