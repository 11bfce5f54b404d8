"""Fixtures of the command line's tests."""

from __future__ import annotations

from tests.cli.conftest import played, project

__all__ = ["played", "project"]
