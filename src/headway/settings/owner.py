"""Whose project it is: settings and store of somebody else could make this user run their code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headway.nouns.errors import InvalidSettings
from headway.settings.file import FILE

__all__ = ["check_owner"]

_ALLOWED = "allow"


def check_owner(directory: Path, environ: Mapping[str, str]) -> None:
    """Raises `foreign_owner` unless headway.toml and .headway belong to this user, root, or whoever called sudo."""
    if environ.get("HEADWAY_FOREIGN_OWNER") == _ALLOWED:
        return
    user = os.geteuid()
    trusted = {user, 0}
    caller = environ.get("SUDO_UID", "")
    if user == 0 and caller.isdecimal():
        trusted.add(int(caller))
    for path in (directory / FILE, directory / ".headway"):
        for status in (os.lstat, os.stat):
            try:
                owner = status(path).st_uid
            except OSError:
                continue  # it does not exist
            if owner not in trusted:
                raise InvalidSettings(
                    f"{path} belongs to another user (uid {owner}, you are {user}).",
                    code="foreign_owner",
                    hint="Its settings can name code to run. If you trust its owner, set HEADWAY_FOREIGN_OWNER=allow.",
                )
