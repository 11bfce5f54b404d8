"""Fixtures of other rooms that these tests use."""

from __future__ import annotations

from tests.cli.conftest import empty, played, project
from tests.loop.conftest import watching
from tests.project.conftest import opened

__all__ = ["empty", "opened", "played", "project", "watching"]
