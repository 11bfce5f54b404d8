"""`headway doctor`: check the installation and the project."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.in_use import known
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, verb
from headway.cli.written import NONE
from headway.nouns import REPAIR, Catalogue, Finding, errors, plural, served
from headway.reward import not_executed

if TYPE_CHECKING:
    from headway.observe import Database
    from headway.project import Project, Serving
    from headway.settings import Settings

EXTRAS = {  # extra → one of its modules, and its purpose
    "text": ("onnxruntime", "better text encoders"),
    "parquet": ("pyarrow", "Parquet files"),
    "plot": ("matplotlib", "plots"),
    "learn": ("torch", "neural policies"),
    "language": ("transformers", "local language models"),
    "postgres": ("psycopg", "a PostgreSQL store"),
    "wordllama": ("wordllama", "the wordllama encoder"),
}
LEAST_FREE = 1 << 30
SQLITE = (3, 35, 0)  # RETURNING


@verb("doctor", "headway doctor", "headway doctor --quick --json")
@click.option("--quick", is_flag=True, help="Do not read the decisions: no search for damage and leaks in a long log.")
@click.option("--repair", is_flag=True, help="Store damaged and missing columns again, from their rows.")
def doctor(session: Session, quick: bool, repair: bool) -> int:
    """Check the installation, the settings and the project.

    Exit status 1 if a check fails. Without --repair nothing is changed; no reward function is run.
    """
    if repair:
        with session.project() as project:
            for task, blocks in _repair(project).items():
                session.out.note(f"repaired: {blocks} {'block' if blocks == 1 else 'blocks'} of {task} stored again.")
    with not_executed():
        report = Checkup(checks=tuple(_checks(session.folder, quick=quick)))
    session.show(report)
    if report.failed:
        return 1
    session.next("headway status" if (session.folder / ".headway").is_dir() else "headway init")
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """All checks of this installation and project."""

    checks: Sequence[Finding]

    @property
    def failed(self) -> list[Finding]:
        return [check for check in self.checks if check.ok is False]

    @served
    def ok(self) -> bool:
        return not self.failed


_STATES = {True: "ok", False: "WRONG", None: NONE}
_CHECKS = RecordTable[Finding](
    Column.text("", lambda check: _STATES[check.ok]),
    Column.text("check", lambda check: check.name),
    Column.text("found", lambda check: check.found),
)


@renders(Checkup)
def _checkup(out: Output, report: Checkup) -> None:
    _CHECKS.print(out, report.checks)
    for check in report.failed:
        if check.cure:
            out.line(f"{check.name}: {check.cure}", style="bold red")
    if not report.failed:
        out.line("All checks passed.", style="green")
        return
    failed = len(report.failed)
    out.line(f"{failed} of {plural(len(report.checks), 'check')} failed.", style="bold red")


def _checks(folder: Path, *, quick: bool = False) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(
        name="python", ok=sys.version_info >= (3, 11), found=version, cure="Headway needs Python 3.11 or newer."
    )
    yield Finding(
        name="sqlite",
        ok=sqlite3.sqlite_version_info >= SQLITE,
        found=sqlite3.sqlite_version,
        cure="Headway needs SQLite 3.35 or newer; it comes with Python.",
    )
    kits = known(folder)
    settings, check = _settings(folder)
    yield check
    yield from _disk(folder)
    home = folder / ".headway"
    if not home.is_dir():
        yield Finding(name="project", ok=None, found=f"none in {folder.resolve()}")
    else:
        yield _permissions(home)
        if settings is not None:
            yield from _project(folder, quick=quick)
    if settings is not None:
        yield from _encoders(settings, kits)
        yield from _kit_checks(settings, kits)
    yield from _kits(kits)
    yield from _extras()


def _settings(folder: Path) -> tuple[Settings | None, Finding]:
    from headway.settings import load

    try:
        settings = load(folder)
        for name in settings.tasks:
            settings.rewards(name)  # reads reward functions, to report their errors here
    except errors.HeadwayError as error:
        return None, Finding(name="settings", ok=False, found=error.message, cure=error.hint or "Correct headway.toml.")
    where = "headway.toml" if settings.file else "no headway.toml: tasks are created on first use"
    tasks = f", tasks: {', '.join(settings.tasks)}" if settings.tasks else ""
    return settings, Finding(name="settings", ok=True, found=f"{where}{tasks}")


def _disk(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding(name="folder", ok=False, found=f"{folder} is not a folder", cure="Name another with -C.")
        return
    free = shutil.disk_usage(folder).free
    yield Finding(
        name="disk",
        ok=free >= LEAST_FREE,
        found=f"{free / (1 << 30):,.1f} GiB free",
        cure="Less than 1 GiB is free: make room before writes to the store fail.",
    )


_PRIVATE = ("token", "headway.db", "headway.db-wal", "headway.db-shm", "policies")  # below .headway


def _permissions(home: Path) -> Finding:
    """Whether others can read what users wrote, or change what decides; the folder first, then what is in it."""
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        cure = f"Others can read what users wrote. Run: chmod 700 {home}"
        return Finding(name="permissions", ok=False, found=f".headway is {mode:04o}", cure=cure)
    places = [path for path in (home / name for name in _PRIVATE) if path.exists()]
    places += [path for path in (home / "policies").rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o022]
    for path in places:
        inner = stat.S_IMODE(path.lstat().st_mode)
        if inner & (0o077 if path.name in _PRIVATE and path.parent == home else 0o022) and not path.is_symlink():
            right = "700" if path.is_dir() else "600"
            cure = f"Others could read or change it if the folder were opened. Run: chmod {right} {path}"
            return Finding(name="permissions", ok=False, found=f"{path.name} is {inner:04o}", cure=cure)
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        cure = f"This user cannot write there. Run as its owner: ls -ld {home}"
        return Finding(name="permissions", ok=False, found=f".headway is {mode:04o}, of another user", cure=cure)
    return Finding(name="permissions", ok=True, found=f".headway is {mode:04o}")


def _project(folder: Path, *, quick: bool) -> Iterator[Finding]:
    from headway.project import Project

    try:
        project = Project(folder)
    except errors.HeadwayError as error:
        yield Finding(name="store", ok=False, found=error.message, cure=error.hint)
        return
    with project:
        try:
            problems = [] if quick else project.database.check()
        except errors.HeadwayError as error:
            problems = [error.message]
        yield Finding(
            name="store",
            ok=not problems,
            found="; ".join(problems)[:300] or f"{'opens' if quick else 'sound'}, {_store(project.database)}",
            cure="Restore .headway/headway.db from a backup."
            if project.settings.store.embedded
            else "Restore the database from a backup (pg_restore), or move its sequences past the rows.",
        )
        if problems:
            return
        yield _bundles(project)
        yield from _current(project)
        if not quick:
            yield from _columns(project)
            yield from _leaks(project)
        yield from _unread(project)


def _store(database: Database) -> str:
    where = database.server() if database.engine == "sqlite" else f"{database.server()} at {database.name}"
    return f"{where}, {database.size():,} bytes"


def _bundles(project: Project) -> Finding:
    digests = list(project.registry.digests())
    broken = []
    for digest in digests:
        try:
            project.registry.read(digest)
        except errors.HeadwayError as error:
            broken.append(error.message)
    return Finding(
        name="policies",
        ok=not broken,
        found=" ".join(broken)[:300] or f"{plural(len(digests), 'bundle')}, every hash matches",
        cure="Learn again, or restore .headway/policies from a backup.",
    )


def _columns(project: Project) -> Iterator[Finding]:
    """Blocks of columns that cannot be read: a damaged one may be the first that is seen of a failing disk."""
    from headway.observe import unreadable

    for task in project.tasks():
        blocks = unreadable(project.database, project.query.name_id("task", task))
        damaged = sum(blocks.values())
        if blocks:
            yield Finding(
                name=f"columns of {task}",
                ok=False if damaged else None,
                found=f"{damaged} blocks damaged, {len(blocks) - damaged} not stored: read from their rows instead",
                cure="Run: headway doctor --repair. If it happens again, check the disk.",
            )


def _repair(project: Project) -> dict[str, int]:
    """How many blocks were stored again, by task."""
    from headway.observe import seal

    with project.lock():
        stored = {
            task: seal(project.database, project.query.name_id("task", task), check=True) for task in project.tasks()
        }
    return {task: blocks for task, blocks in stored.items() if blocks}


def _current(project: Project) -> Iterator[Finding]:
    for task in project.tasks():
        try:
            serving = project.servings.of(project.settings.task(task))
        except errors.HeadwayError as error:
            yield Finding(
                name=f"current of {task}", ok=False, found=error.message, cure=error.hint or f"headway rollback {task}"
            )
        else:
            yield _deciding(project, task, serving)


def _deciding(project: Project, task: str, serving: Serving) -> Finding:
    name = f"current of {task}"
    if not serving.kit_missing:
        return Finding(name=name, ok=True, found=f"{serving.ref} loads and can decide")
    current = project.current(task).ref
    return Finding(
        name=name,
        ok=False,
        found=f"kit_missing: no kit has the family {serving.kit_missing!r} of {current}; {serving.ref} decides",
        cure=f"Install the kit and name it in [kits] use, or run: headway rollback {task}",
    )


def _unread(project: Project) -> Iterator[Finding]:
    """Signals that nothing reads, ranges that do not hold, results of whole episodes, and outcomes that change."""
    from headway.project import changing_outcomes, unfit_sentences, unit_sentences

    for task in project.tasks():
        try:
            warnings = project.unread_names(task)
            unfit, changing = unfit_sentences(project, task), changing_outcomes(project, task)
            whole = unit_sentences(project, task)
        except errors.HeadwayError:  # settings that cannot be used, or a damaged store: findings of their own
            continue
        if warnings:
            yield Finding(
                name=f"signals of {task}",
                ok=None,
                found=" ".join(warnings)[:300],
                cure="Send the name that the reward reads, or add this one to `reward` or `guards` in headway.toml.",
            )
        for sentence in whole:
            yield Finding(name=f"unit of {task}", ok=None, found=sentence)
        for sentence in unfit:
            yield Finding(name=f"ranges of {task}", ok=None, found=sentence)
        if changing:
            yield Finding(name=f"outcomes of {task}", ok=None, found=" ".join(changing))


def _leaks(project: Project) -> Iterator[Finding]:
    """Fields that give the outcome away; learning leaves them out."""
    for task in project.tasks():
        try:
            leaks = project.leaks(task)
        except errors.HeadwayError:
            continue  # recorded once, no longer declared
        if leaks.found:
            what = "; ".join(leak.message for leak in leaks.found)
            yield Finding(name=f"leaks of {task}", ok=None, found=f"{what[:280]}: left out when learning")


def _encoders(settings: Settings, kits: Catalogue) -> Iterator[Finding]:
    """Encoders that need a model, a package or a key: loaded as for a decision."""
    from msgspec import structs

    from headway.encode import encoder

    for name, task in settings.tasks.items():
        if task.encoder == "hashing":
            continue
        spec = task.encoder if isinstance(task.encoder, str) else structs.asdict(task.encoder)
        try:
            loaded = encoder(spec, find=kits.encoder, models=settings.cache, keys=settings.keys)
            getattr(loaded, "load", bool)()
        except errors.HeadwayError as error:
            yield Finding(name=f"encoder of {name}", ok=False, found=error.message, cure=error.hint)
        else:
            yield Finding(name=f"encoder of {name}", ok=True, found=f"{loaded.version} can be used")


def _kit_checks(settings: Settings, kits: Catalogue) -> Iterator[Finding]:
    """The checks of kits; a check that fails to run is reported and stops no other."""
    paths = [(kit, path) for kit in kits for path in kit.checks]
    for kit, check in kits.usable(paths):
        try:
            yield from check(settings)
        except Exception as error:
            if kit.built_in:
                raise
            yield Finding(name=f"check of {kit.name}", ok=False, found=f"{type(error).__name__}: {error}", cure=REPAIR)


def _kits(kits: Catalogue) -> Iterator[Finding]:
    from headway.serve import kit_problems

    for broken in kits.broken:
        yield Finding(name=f"kit {broken.name}", ok=False, found=broken.reason, cure=REPAIR)
    for kit in kits:
        if not kit.built_in:
            problems = kit_problems(kit)
            outcome = "; ".join(problems) or "everything that it names can be loaded"
            yield Finding(name=f"kit {kit.name}", ok=not problems, found=outcome[:300], cure=REPAIR)


def _extras() -> Iterator[Finding]:
    for extra, (module, what) in EXTRAS.items():
        installed = find_spec(module) is not None
        state = "installed" if installed else f"not installed; for {what}: pip install 'headway[{extra}]'"
        yield Finding(name=f"extra {extra}", ok=True if installed else None, found=state)
