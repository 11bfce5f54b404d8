"""Publishing: the only module that makes headers, bundles and rows of the ledger.

    published = publish_policy(project, learned, task="route", kind="choice", encoder=version, seed=7, why="…")
    record_change(project, "route", "promote", published.ref, published.digest, why="…", expects=current.expects)

A learner returns tensors and numbers; only this module turns them into files. Every row of the ledger is made
here too. Not covered: whether a change is allowed, which `promote` decides.
"""

from __future__ import annotations

import getpass
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from headway.nouns.checkpoint import Header
from headway.nouns.errors import UnknownName
from headway.observe.experience import PARTS, SplitBy
from headway.promote.bundle import specs
from headway.promote.ledger import Entry, EntryKind
from headway.promote.prune import surplus_candidates

if TYPE_CHECKING:
    from headway.nouns.protocols import Learned
    from headway.project import Project

__all__ = [
    "Published",
    "add_bundle",
    "add_candidate",
    "new_entry",
    "publish_policy",
    "record_change",
    "record_together",
    "split_of",
    "versions",
    "who_is_it",
]


def split_of(by: SplitBy) -> dict[str, Any]:
    """What a header says about how rows were split into parts."""
    return {"by": by, **{str(name): share for name, share in PARTS.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A bundle in the registry, and its reference."""

    ref: str
    digest: str
    header: Header = field(repr=False)


def publish_policy(
    project: Project,
    learned: Learned,
    *,
    task: str,
    kind: str,
    encoder: str,
    seed: int,
    why: str,
    upto: int = 0,
    parts: Sequence[str] = (),
    split: Mapping[str, Any] | None = None,
    packages: Sequence[str] = (),
    parent: str | None = None,
    detail: Mapping[str, Any] | None = None,
    shadow: bool = False,
    who: str = "",
) -> Published:
    """Store a learned policy and add it to the task's candidates, or to those that are next.

    `upto` and `parts` are the settled rows that it has read: the others can prove it. A policy learned before has
    the same hash and gets no second row. For an undeclared task, only the bundle is stored.
    """
    published = add_bundle(
        project, learned, task=task, kind=kind, encoder=encoder, seed=seed, upto=upto, parts=parts, split=split,
        packages=packages, parent=parent,
    )  # fmt: skip
    detail = {"upto": upto, "seed": seed, **(detail or {})}
    add_candidate(project, published, why=why, detail=detail, who=who, kind="shadow" if shadow else "candidate")
    return published


def add_bundle(
    project: Project,
    learned: Learned,
    *,
    task: str,
    kind: str,
    encoder: str,
    seed: int,
    upto: int = 0,
    parts: Sequence[str] = (),
    split: Mapping[str, Any] | None = None,
    packages: Sequence[str] = (),
    parent: str | None = None,
    uncounted: str | None = None,
) -> Published:
    """Store only header and bundle: for a policy whose ledger row is not a candidate's.

    Tensors whose names start with `uncounted` belong to an optimiser and are not counted as parameters.
    """
    tensors = specs(learned.tensors)
    header = Header(
        task=task,
        family=learned.family,
        kind=kind,
        encoder=encoder,
        knobs=learned.knobs,
        tensors=tensors,
        parameters=sum(prod(spec.shape) for spec in tensors if not uncounted or not spec.name.startswith(uncounted)),
        trained_on={**learned.trained_on, "upto": upto, "parts": list(parts)},
        split=split or {},
        metrics=learned.metrics,
        baselines=learned.baselines,
        seed=seed,
        versions=versions(*packages),
        parent=parent,
        extra=learned.extra,
    )
    ref = str(project.registry.add(header, learned.tensors))
    return Published(ref=ref, digest=project.registry.find(ref), header=header)


def add_candidate(
    project: Project,
    published: Published,
    *,
    why: str,
    detail: Mapping[str, Any],
    who: str = "",
    kind: Literal["candidate", "shadow"] = "candidate",
) -> Entry | None:
    """Add the candidate's row to the ledger; None if it exists already, or the task is not declared."""
    task = published.header.task
    try:
        project.settings.task(task)
    except UnknownName:
        return None
    if project.ledger.state(task, published.digest) is not None:
        return None
    added = record_change(project, task, kind, published.ref, published.digest, why=why, who=who, detail=detail)
    for ref, digest in surplus_candidates(project.ledger, project.registry, task, now=project.clock()):
        record_change(project, task, "retire", ref, digest, why="never proven, and many newer candidates wait", who=who)
        project.registry.remove(digest)
    return added


def record_change(
    project: Project,
    task: str,
    kind: EntryKind,
    ref: str,
    digest: str,
    *,
    why: str,
    who: str = "",
    expects: str = "",
    evidence_id: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Entry:
    """Write one row of the ledger; the next decision reads the live policy again."""
    entry = new_entry(
        project, task, kind, ref, digest, why=why, who=who, expects=expects, evidence_id=evidence_id, detail=detail
    )
    return record_together(project, entry)[0]


def record_together(project: Project, *entries: Entry) -> list[Entry]:
    """Write several rows at once, all of them or none."""
    with project.database.transaction() as connection:
        written = [project.ledger.write(connection, entry) for entry in entries]
    for task in {entry.task for entry in entries}:
        project.servings.forget(task)
    return written


def new_entry(
    project: Project,
    task: str,
    kind: EntryKind,
    ref: str,
    digest: str,
    *,
    why: str,
    who: str = "",
    expects: str = "",
    evidence_id: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> Entry:
    """A row that is not written yet."""
    return Entry(
        task=task,
        kind=kind,
        policy=ref,
        policy_hash=digest,
        expects=expects,
        who=who_is_it(who),
        why=why,
        evidence_id=evidence_id,
        detail=dict(detail or {}),
        at=project.clock(),
    )


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and packages, for a bundle's header."""
    known = {"python": platform.python_version()}
    for package in ("headway", "numpy", "safetensors", *packages):
        try:
            known[package] = version(package)
        except PackageNotFoundError:  # run from a source tree without installation
            known[package] = "unknown"
    return known


def who_is_it(who: str) -> str:
    """The name for a ledger row: the given one, or the user of this machine."""
    if who:
        return who
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "unknown"
