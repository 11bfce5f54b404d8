"""The fixtures of the rooms that these tests play in."""

from __future__ import annotations

from tests.project.conftest import opened

__all__ = ["opened"]
