"""Permanent deletion: rows, their contribution to online policies, caches; and a list of affected bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headway.nouns import Header, PolicyRef, Settled, errors, plural, rfc3339
from headway.observe import DeletionFilter, Erasing, MatchedRows, Waiting, erase as rows, part_of
from headway.project.data.words import forget, said
from headway.project.publish import add_bundle, new_entry
from headway.promote import Entry

if TYPE_CHECKING:
    from headway.project.project.folder import Opened


_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReport:
    """The deleted rows, and files that may still contain some of their data."""

    decisions: int = 0
    signals: int = 0
    episodes: int = 0
    outcomes: int = 0
    candidate_sets: int = 0
    raters: int = 0
    jobs: int = 0
    experiences: int = 0
    details: int = 0  # data of kits about the decisions
    copies: int = 0  # of deleted texts, that kits kept elsewhere
    tasks: tuple[str, ...] = ()
    snapshots: Mapping[str, str] = field(default_factory=dict)  # online policies without the deleted rows, by task
    bundles: tuple[str, ...] = ()  # learned from deleted rows
    remains: tuple[str, ...] = ()  # files that may still contain deleted data
    dry_run: bool = False


class _RollBack(Exception):
    """Ends a dry run: the transaction is rolled back."""


def erase(
    project: Opened,
    wanted: DeletionFilter,
    *,
    dry_run: bool = False,
    rewrite: bool = True,
    waiting: Waiting | None = None,
) -> DeletionReport:
    """Delete decisions, or the signals of one rater, permanently.

    project.erase(DeletionFilter(rater="ann"))
    project.erase(DeletionFilter(before=time.time() - 90 * 86_400, task="route"), dry_run=True)

    It happens in one transaction; draws that lost signals are settled again, and the disk is cleaned. Nothing else
    settles at the same time. If an online policy publishes a snapshot meanwhile, it starts over. `dry_run` does
    everything and rolls back, so that its counts are exact. `rewrite` returns the space to the disk. `waiting` is
    told why, if somebody else has to finish first.
    """
    for attempt in range(_ATTEMPTS):
        try:
            return _erase(project, wanted, dry_run, rewrite, waiting)
        except errors.Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _erase(
    project: Opened, wanted: DeletionFilter, dry_run: bool, rewrite: bool, waiting: Waiting | None
) -> DeletionReport:
    with _alone(project, waiting):
        project.registry.finish()  # what a killed deletion left
        matched = rows.plan_deletion(project.database, wanted)
        bundles = _bundles(project, matched)
        snapshots = [] if dry_run else _snapshots(project, matched)
        with suppress(_RollBack), project.database.transaction() as connection:
            words = said(project, connection, matched)
            copies = _erase_copies(project, Erasing(connection, wanted, matched, dry_run))
            deleted = rows.erase(connection, wanted, matched)
            for snapshot in snapshots:
                project.ledger.write(connection, snapshot)
            if dry_run:
                raise _RollBack
            headers, kept = forget(project, connection, words)
            for task in sorted({*matched.tasks, *headers}):
                entry = _deletion(project, task, deleted, len(matched.tasks), headers.get(task))
                project.ledger.write(connection, entry)
    report = DeletionReport(
        decisions=deleted["decisions"],
        signals=deleted["signals"],
        episodes=deleted["episodes"],
        outcomes=deleted["settled"],
        candidate_sets=deleted["candidate_sets"],
        raters=deleted["raters"],
        jobs=deleted["jobs"],
        experiences=deleted.get("experiences", 0),
        details=deleted["details"],
        copies=copies,
        tasks=tuple(matched.tasks),
        snapshots={snapshot.task: snapshot.policy for snapshot in snapshots},
        bundles=tuple(bundles),
        dry_run=dry_run,
    )
    if dry_run:
        return report
    project.registry.finish()
    project.servings.forget_vectors()
    for task in matched.tasks:
        project.servings.forget(task)
        with suppress(errors.HeadwayError):  # no longer declared: there is no reward definition
            project.settle(task)
    return replace(report, remains=(*kept, *project.database.purge(rewrite=rewrite, waiting=waiting)))


def _erase_copies(project: Opened, going: Erasing) -> int:
    """What kits hold of the deleted rows outside them: files, and details of other decisions."""
    paths = [(kit, path) for kit in project.catalogue for path in kit.erases]
    return sum(erase_copies(project, going) for _, erase_copies in project.catalogue.usable(paths))


def _has_copies(project: Opened, wanted: DeletionFilter, matched: MatchedRows) -> bool:
    copies = 0
    with suppress(_RollBack), project.database.transaction() as connection:
        copies = _erase_copies(project, Erasing(connection, wanted, matched, True))
        raise _RollBack
    return copies > 0


@contextmanager
def _alone(project: Opened, waiting: Waiting | None) -> Iterator[None]:
    """Nobody else settles, learns or folds meanwhile."""
    with project.database.lock("project", wait=False) as free:
        if free:
            yield
            return
    if waiting is not None:
        waiting("another process is learning or settling")
    with project.lock():
        yield


def retain(project: Opened, *, dry_run: bool = False) -> DeletionReport | None:
    """Delete rows older than `[store] keep_days`; None if that is not set or no row is that old.

    Refuses if no decision would remain: more likely, the clock is wrong.
    """
    days = project.settings.store.keep_days
    if not days:
        return None
    now = project.clock()
    wanted = DeletionFilter(before=now - days * 86_400.0)
    planned = rows.plan_deletion(project.database, wanted)
    if planned.nothing and not _has_copies(project, wanted, planned):
        return None
    count, latest = rows.extent(project.database)
    if count and planned.decisions == count:
        raise errors.Conflict(
            f"Every decision ({count:,}) is older than keep_days = {days:g}: by this clock it is {rfc3339(now)}, and "
            f"the latest decision is from {rfc3339(latest)}. Nothing was deleted.",
            code="nothing_would_remain",
            hint=f"Check the clock. If it is right, `headway data delete --before {rfc3339(now)}` deletes them.",
        )
    return erase(project, wanted, dry_run=dry_run, rewrite=False)


def _deletion(
    project: Opened, task: str, deleted: Mapping[str, int], tasks: int, headers: Mapping[str, str] | None
) -> Entry:
    """The row of the ledger that tells of a deletion: how many rows, and nothing about whose."""
    last = project.ledger.current(task)
    decisions, signals = deleted["decisions"], deleted["signals"]
    where = "" if tasks <= 1 else f" in {tasks:,} tasks together"
    return new_entry(
        project,
        task,
        "deletion",
        "" if last is None else last.policy,
        "" if last is None else last.policy_hash,
        why=f"{_counted_rows(decisions, 'decision')} and {_counted_rows(signals, 'signal')} were deleted{where}",
        detail={"decisions": decisions, "signals": signals, **({"headers": headers} if headers else {})},
    )


def _counted_rows(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# -- learned policies


def _counted(header: Header, row: Settled) -> bool:
    """Whether a bundle has read a row of the log."""
    trained: Mapping[str, Any] = header.trained_on
    if row.reward is None or row.seq > int(trained.get("upto", 0)):
        return False
    if row.seq > int(trained.get("folded_from", trained.get("upto", 0))):
        return True  # folded, in any part
    if row.decision.source == "mined" and "mined" not in trained.get("sources", {}):
        return False
    parts = trained.get("first_parts", trained.get("parts", ()))
    return part_of(row.decision, header.split.get("by", "group")) in parts


def _bundles(project: Opened, matched: MatchedRows) -> list[str]:
    """References of the bundles that were learned from matched rows."""
    headers: dict[str, dict[str, Header]] = {}
    for digest in project.registry.digests():
        with suppress(errors.Damaged):
            header = project.registry.header(digest)
            headers.setdefault(header.task, {})[digest] = header
    touched = []
    for task in matched.tasks:
        left = headers.get(task, {})
        for row in rows.outcomes(project.database, matched, task) if left else ():
            hit = [digest for digest, header in left.items() if _counted(header, row)]
            touched += hit
            for digest in hit:
                del left[digest]
            if not left:
                break
    return sorted(str(project.registry.ref(digest)) for digest in touched)


def _snapshots(project: Opened, matched: MatchedRows) -> list[Entry]:
    entries = [_snapshot_without(project, task, matched) for task in matched.tasks]
    return [entry for entry in entries if entry is not None]


def _snapshot_without(project: Opened, task: str, matched: MatchedRows) -> Entry | None:
    """A snapshot of an online task's current policy without the matched rows; None if it has read none of them."""
    from headway.project.data.ages import as_read

    if task not in project.settings.tasks and project.settings.declared:
        return None
    settings = project.settings.task(task)
    serving = project.servings.of(settings)
    if settings.online != "live" or PolicyRef.parse(serving.ref).built_in:
        return None
    header = project.registry.header(serving.digest)
    encoder = project.servings.encoder_of(settings)
    teacher = project.catalogue.online_learner(header.family, encoder=encoder)
    policy = project.servings.policy(task, project.servings.body(settings), serving.ref, serving.digest)
    state = teacher.state_from(policy)
    upto = int(header.trained_on["upto"])
    read = [row for row in _standing_rows(project, matched, task, upto) if _counted(header, row)]
    if not read:
        return None
    for row in (as_read(header, row) for row in read):
        if row.weight > 0.0:
            teacher.update(state, row, -1)
    published = add_bundle(
        project,
        teacher.learned(state, dict(header.trained_on)),
        task=task,
        kind=settings.kind,
        encoder=header.encoder,
        seed=header.seed,
        upto=upto,
        parts=header.trained_on["parts"],
        split=header.split,
        parent=serving.digest,
    )
    return new_entry(
        project,
        task,
        "snapshot",
        published.ref,
        published.digest,
        expects=serving.digest,
        why=f"took back {plural(len(read), 'deleted row')}",
        detail={"upto": upto, "origin": header.trained_on.get("origin", serving.digest)},
    )


def _standing_rows(project: Opened, matched: MatchedRows, task: str, upto: int) -> Iterator[Settled]:
    """For every draw its row when the log was at `upto`: the one that a fold up to there has counted."""
    last: dict[int, Settled] = {}
    for row in rows.outcomes(project.database, matched, task):
        if row.seq <= upto:
            last[row.decision.seq] = row
    yield from last.values()
