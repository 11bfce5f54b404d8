"""Deleting for good: rows, what online policies had learned from them, caches; and which bundles remember them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.nouns.checkpoint import Header, PolicyRef
from headway.nouns.errors import Conflict, Damaged, HeadwayError
from headway.nouns.records import Settled
from headway.observe import erase as rows
from headway.observe.erase import Doomed, Found
from headway.observe.experience import part_of
from headway.promote.ledger import Entry

if TYPE_CHECKING:
    from headway.project.facade import Project

__all__ = ["Erased", "erase", "retain"]

_TRIES = 5


@dataclass(slots=True, kw_only=True)
class Erased:
    """What went, and what may still hold some of it."""

    decisions: int = 0
    signals: int = 0
    episodes: int = 0
    outcomes: int = 0
    candidate_sets: int = 0
    raters: int = 0
    jobs: int = 0
    experiences: int = 0
    details: int = 0  # what kits kept beside the decisions
    tasks: list[str] = field(default_factory=list)
    snapshots: dict[str, str] = field(default_factory=dict)  # online policies without what was deleted, by task
    bundles: list[str] = field(default_factory=list)  # that were learned from deleted rows
    remains: list[str] = field(default_factory=list)
    dry_run: bool = False


class _NotReally(Exception):
    """Ends a rehearsal: everything is rolled back."""


def erase(project: Project, wanted: Doomed, *, dry_run: bool = False, rewrite: bool = True) -> Erased:
    """Delete what is wanted, in one transaction; then settle again what lost signals, and clean the disk.

    Nothing else settles meanwhile. If an online policy published a snapshot in between, it is done over from the start.
    `dry_run` does all of it and rolls back, so that its counts are exact. `rewrite` gives the space back to the disk.
    """
    for attempt in range(_TRIES):
        try:
            return _erase(project, wanted, dry_run, rewrite)
        except Conflict:
            if attempt == _TRIES - 1:
                raise
    raise AssertionError("unreachable")


def _erase(project: Project, wanted: Doomed, dry_run: bool, rewrite: bool) -> Erased:
    with project.lock():
        found = rows.look(project.database, wanted)
        done = Erased(tasks=found.tasks, dry_run=dry_run, bundles=_bundles(project, found))
        snapshots = [] if dry_run else [each for task in found.tasks if (each := _without(project, task, found))]
        with suppress(_NotReally), project.database.transaction() as connection:
            gone = rows.erase(connection, wanted, found)
            for each in snapshots:
                project.ledger.write(connection, each)
            if dry_run:
                raise _NotReally
    done.outcomes, done.signals, done.decisions = gone["settled"], gone["signals"], gone["decisions"]
    done.episodes, done.candidate_sets = gone["episodes"], gone["candidate_sets"]
    done.raters, done.jobs, done.experiences = gone["raters"], gone["jobs"], gone.get("experiences", 0)
    done.details = gone["details"]
    if dry_run:
        return done
    done.snapshots = {each.task: each.policy for each in snapshots}
    project.servings.forget_vectors()
    for task in found.tasks:
        project.servings.forget(task)
        with suppress(HeadwayError):  # recorded once, no longer declared: there is no reward to settle by
            project.settle(task)
    done.remains = project.database.purge(rewrite=rewrite)
    return done


def retain(project: Project, *, dry_run: bool = False) -> Erased | None:
    """Delete what is older than `[store] keep_days`; None where nothing is said or nothing is that old."""
    days = project.settings.store.keep_days
    if not days:
        return None
    wanted = Doomed(before=project.clock() - days * 86_400.0)
    if rows.look(project.database, wanted).nothing:
        return None
    return erase(project, wanted, dry_run=dry_run, rewrite=False)


# -- what was learned


def _counted(header: Header, row: Settled) -> bool:
    """Whether a bundle has read a row of the log."""
    trained: Mapping[str, Any] = header.trained_on
    if row.reward is None or row.seq > int(trained.get("upto", 0)):
        return False
    if row.seq > int(trained.get("folded_from", trained.get("upto", 0))):
        return True  # folded in, whatever its part
    if row.decision.source == "mined" and "mined" not in trained.get("sources", {}):
        return False
    return part_of(row.decision) in trained.get("first_parts", trained.get("parts", ()))


def _bundles(project: Project, found: Found) -> list[str]:
    """References of the bundles that were learned from rows that go."""
    headers: dict[str, dict[str, Header]] = {}
    for digest in project.registry.digests():
        with suppress(Damaged):
            header = project.registry.header(digest)
            headers.setdefault(header.task, {})[digest] = header
    touched = []
    for task in found.tasks:
        left = headers.get(task, {})
        for row in rows.outcomes(project.database, found, task) if left else ():
            hit = [digest for digest, header in left.items() if _counted(header, row)]
            touched += hit
            for digest in hit:
                del left[digest]
            if not left:
                break
    return sorted(str(project.registry.ref(digest)) for digest in touched)


def _without(project: Project, task: str, found: Found) -> Entry | None:
    """The snapshot of an online task's current policy less the rows that go; None where it has read none of them."""
    from headway.project.learning import encoder_spec, header_of, who_is_it

    if task not in project.settings.tasks and project.settings.declared:
        return None
    settings = project.settings.task(task)
    serving = project.servings.of(settings)
    if settings.online != "live" or PolicyRef.parse(serving.ref).built_in:
        return None
    header = project.registry.header(serving.digest)
    teach = project.catalogue.online_learner(
        header.family, encoder=project.servings.encoder(encoder_spec(project, settings))
    )
    policy = project.servings.policy(task, project.servings.body(settings), serving.ref, serving.digest)
    state = teach.state_from(policy)
    count = 0
    for row in _standing(project, found, task, int(header.trained_on["upto"])):
        if _counted(header, row):
            teach.update(state, row, -1)
            count += 1
    if not count:
        return None
    learned = teach.learned(state, dict(header.trained_on))
    upto, parts = int(header.trained_on["upto"]), tuple(header.trained_on["parts"])
    new = header_of(settings, learned, header.encoder, header.seed, upto, parts, parent=serving.digest)
    ref = str(project.registry.add(new, learned.tensors))
    return Entry(
        task=task,
        kind="snapshot",
        policy=ref,
        policy_hash=project.registry.find(ref),
        expects=serving.digest,
        who=who_is_it(""),
        why=f"took back {count:,} deleted rows",
        detail={"upto": upto, "origin": header.trained_on.get("origin", serving.digest)},
        at=project.clock(),
    )


def _standing(project: Project, found: Found, task: str, upto: int) -> Iterator[Settled]:
    """The row of each draw that stood when the log was at `upto`: the one that a fold up to there has counted."""
    last: dict[int, Settled] = {}
    for row in rows.outcomes(project.database, found, task):
        if row.seq <= upto:
            last[row.decision.seq] = row
    yield from last.values()
