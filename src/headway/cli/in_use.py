"""The kits of the folder that a command line works in.

    known()                          # the catalogue: built-in kits, and those that the folder or HEADWAY_KITS names
    with working_in(arguments): …    # around every command line

Commands are looked up before click has read -C, so that is read here. Settings are imported only if the folder or the
environment names a kit: --help stays light. Invalid settings add no kit here; the command reports their error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import click

from headway.files import read_regular
from headway.nouns import Catalogue, catalogue, errors

_FILE = "headway.toml"
_HERE = Path()
_folder: ContextVar[Path] = ContextVar("folder", default=_HERE)
# Only checks whether it is set: its value is read by the settings.
_NAMED = click.Option(["--kits"], envvar="HEADWAY_KITS", expose_value=False)
_DIRECTORY = click.Option(["--project"], envvar="HEADWAY_DIR", expose_value=False)


@contextmanager
def working_in(arguments: Sequence[str]) -> Iterator[None]:
    """Look up kits in the folder that -C, --project or HEADWAY_DIR names, or in the current one."""
    token = _folder.set(_named_folder(arguments))
    try:
        yield
    finally:
        _folder.reset(token)


def known(folder: Path | None = None) -> Catalogue:
    """The catalogue of a folder; by default the folder of this command line."""
    where = _folder.get() if folder is None else folder
    if not _names_kits(where):
        return catalogue()
    from headway.settings import kits_in_use

    try:
        return catalogue(kits_in_use(where))
    except errors.HeadwayError:
        return catalogue()


def _names_kits(folder: Path) -> bool:
    if _in_environment(_NAMED):
        return True
    try:
        return b"kits" in read_regular(folder / _FILE)
    except OSError:
        return False


def _named_folder(arguments: Sequence[str]) -> Path:
    for place, word in enumerate(arguments):
        if word == "--":
            break
        if word in ("-C", "--project"):
            return Path(*arguments[place + 1 : place + 2])
        if word.startswith("--project="):
            return Path(word.removeprefix("--project="))
        if word.startswith("-C"):
            return Path(word.removeprefix("-C"))
    return Path(_in_environment(_DIRECTORY) or _HERE)


def _in_environment(option: click.Option) -> str | None:
    return option.resolve_envvar_value(click.Context(click.Command("headway")))
