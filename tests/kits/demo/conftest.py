"""The fixtures of the rooms that these tests play in."""

from __future__ import annotations

from tests.cli.conftest import empty, played, project
from tests.loop.conftest import watching
from tests.project.conftest import opened

__all__ = ["empty", "opened", "played", "project", "watching"]
