"""`headway backup` and `headway restore`: a project in one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from headway.cli import Output, Session, renders, verb
from headway.nouns import plural

if TYPE_CHECKING:
    from headway.kits.backup.archive import BackupContent


@verb("backup", "headway backup monday.backup", "headway -C demo backup /mnt/backups/demo.backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(session: Session, file: Path) -> None:
    """Copy the project into one file, with checksums.

    The file holds the store, the policies and headway.toml, not the project token. Works while servers decide; the copy
    is consistent. An existing file is not overwritten. What is deleted later stays in earlier backups.
    """
    from headway.kits.backup.archive import write_backup

    with session.project() as project, project.lock():  # no loop learns or prunes at the same time
        content = write_backup(project.database, session.folder, file)
    session.show(_record("written", session, file, content))
    session.out.next(f"headway -C restored restore {quote(str(file))}")


@verb("restore", "headway -C restored restore monday.backup", "headway restore monday.backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def restore(session: Session, file: Path) -> None:
    """Make a folder the project of a backup, after every byte is checked.

    The folder must not hold a project. It is complete or not there at all.
    """
    from headway.kits.backup.archive import read_backup

    content = read_backup(file, session.folder)
    session.show(_record("restored", session, file, content))
    session.next("headway status")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectBackup:
    """A backup that was written or restored."""

    done: str
    file: str
    folder: str
    files: int
    bytes: int
    decisions: int
    policies: int


def _record(done: str, session: Session, file: Path, content: BackupContent) -> ProjectBackup:
    return ProjectBackup(done=done, file=str(file), folder=str(session.folder.resolve()), **asdict(content))


@renders(ProjectBackup)
def _backup(out: Output, record: ProjectBackup) -> None:
    decisions = plural(record.decisions, "decision")
    what = f"{decisions} and {plural(record.policies, 'policy', 'policies')}, {record.bytes / 1e6:,.0f} MB"
    if record.done == "written":
        out.line(f"{record.file} written: {what} from {record.folder}.")
    else:
        out.line(f"{record.folder} restored from {record.file}: {what}, every checksum matches.")
