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
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Required, TypedDict, Unpack

from headway.nouns import Header, PolicyRef, errors
from headway.observe import PARTS, SplitBy
from headway.promote import Entry, EntryKind, specs, surplus_candidates

if TYPE_CHECKING:
    from headway.nouns import Learned
    from headway.project.project.folder import Opened


_LONGEST_NAME = 60  # characters


def split_of(by: SplitBy) -> dict[str, Any]:
    """What a header says about how rows were split into parts."""
    return {"by": by, **{str(name): share for name, share in PARTS.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A bundle in the registry, and its reference."""

    ref: str
    digest: str
    header: Header = field(repr=False)


class BundleDetails(TypedDict, total=False):
    """What the header of a bundle says beside what was learned; task, kind, encoder and seed always."""

    task: Required[str]
    kind: Required[str]
    encoder: Required[str]
    seed: Required[int]
    upto: int  # the settled rows up to this one, of these parts, were read: the others can prove it
    parts: Sequence[str]
    split: Mapping[str, Any] | None
    packages: Sequence[str]
    parent: str | None


def publish_policy(
    project: Opened,
    learned: Learned,
    *,
    why: str,
    detail: Mapping[str, Any] | None = None,
    shadow: bool = False,
    who: str = "",
    **about: Unpack[BundleDetails],
) -> Published:
    """Store a learned policy and add it to the task's candidates, or to those that are next.

    A policy learned before has the same hash and gets no second row. For an undeclared task, only the bundle is stored.
    """
    published = add_bundle(project, learned, **about)
    detail = {"upto": about.get("upto", 0), "seed": about["seed"], **_does(project, published), **(detail or {})}
    add_candidate(project, published, why=why, detail=detail, who=who, kind="shadow" if shadow else "candidate")
    return published


def _does(project: Opened, published: Published) -> dict[str, Any]:
    """What the policy prefers, for its name."""
    from headway.project.inspect.names import deeds

    with suppress(errors.HeadwayError):  # the task is not declared
        shares = deeds(project, project.settings.task(published.header.task), published.ref, published.digest)
        return {"does": shares} if shares else {}
    return {}


def add_bundle(
    project: Opened, learned: Learned, *, uncounted: str | None = None, **about: Unpack[BundleDetails]
) -> Published:
    """Store only header and bundle: for a policy whose ledger row is not a candidate's.

    Tensors whose names start with `uncounted` belong to an optimiser and are not counted as parameters.
    """
    tensors = specs(learned.tensors)
    header = Header(
        task=about["task"],
        family=learned.family,
        kind=about["kind"],
        encoder=about["encoder"],
        knobs=learned.knobs,
        tensors=tensors,
        parameters=sum(prod(spec.shape) for spec in tensors if not uncounted or not spec.name.startswith(uncounted)),
        trained_on={**learned.trained_on, "upto": about.get("upto", 0), "parts": list(about.get("parts", ()))},
        split=about.get("split") or {},
        metrics=learned.metrics,
        baselines=learned.baselines,
        seed=about["seed"],
        versions=versions(*about.get("packages", ())),
        parent=about.get("parent"),
        extra=learned.extra,
    )
    ref = str(project.registry.add(header, learned.tensors))
    return Published(ref=ref, digest=project.registry.find(ref), header=header)


def add_candidate(
    project: Opened,
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
    except errors.UnknownName:
        return None
    if project.ledger.state(task, published.digest) is not None:
        return None
    added = record_change(project, task, kind, published.ref, published.digest, why=why, who=who, detail=detail)
    for ref, digest in surplus_candidates(project.ledger, project.registry, task, now=project.clock()):
        record_change(project, task, "retire", ref, digest, why="never proven, and many newer candidates wait", who=who)
        project.registry.remove(digest)
    return added


class EntryDetails(TypedDict, total=False):
    """What a row of the ledger says beside the policy; `why` always."""

    why: Required[str]
    who: str  # empty: the user of this machine
    expects: str
    evidence_id: str | None
    detail: Mapping[str, Any] | None


def record_change(
    project: Opened, task: str, kind: EntryKind, ref: str, digest: str, **row: Unpack[EntryDetails]
) -> Entry:
    """Write one row of the ledger; the next decision reads the live policy again."""
    return record_together(project, new_entry(project, task, kind, ref, digest, **row))[0]


def record_together(project: Opened, *entries: Entry) -> list[Entry]:
    """Write several rows at once, all of them or none."""
    with project.database.transaction() as connection:
        written = [project.ledger.write(connection, entry) for entry in entries]
    for task in {entry.task for entry in entries}:
        project.servings.forget(task)
    return written


def name_policy(project: Opened, policy: str, name: str, *, who: str = "") -> Entry:
    """Give a learned policy a name; a row of the ledger. The last one counts."""
    from headway.project.inspect.names import REFERENCE, policy_names
    from headway.project.prove.subject import candidate_policy

    name = " ".join(name.split())
    if not name or len(name) > _LONGEST_NAME or REFERENCE.search(name):
        raise errors.InvalidInput(
            f"{name[:80]!r} is not a name for a policy, expected 1 to {_LONGEST_NAME} characters without a reference.",
            code="bad_name",
            hint=f'For example: headway name {policy} "cheap first"',
        )
    if PolicyRef.parse(policy).built_in:
        raise errors.InvalidInput(
            f"{policy} is built in and keeps its name.", code="bad_name", hint="Name a policy that was learned."
        )
    chosen = candidate_policy(project, policy, None)
    for other in policy_names(project, chosen.task).values():
        if other.name == name and other.policy_hash != chosen.digest:
            raise errors.Conflict(
                f"{other.policy} is called {name!r} already.", code="name_taken", hint="Choose another name."
            )
    return record_change(project, chosen.task, "name", chosen.ref, chosen.digest, why=name, who=who)


def new_entry(project: Opened, task: str, kind: EntryKind, ref: str, digest: str, **row: Unpack[EntryDetails]) -> Entry:
    """A row that is not written yet."""
    return Entry(
        task=task,
        kind=kind,
        policy=ref,
        policy_hash=digest,
        expects=row.get("expects", ""),
        who=who_is_it(row.get("who", "")),
        why=row["why"],
        evidence_id=row.get("evidence_id"),
        detail=dict(row.get("detail") or {}),
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
