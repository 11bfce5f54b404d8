"""Fixtures of other rooms that these tests use."""

from __future__ import annotations

from tests.project.conftest import opened

__all__ = ["opened"]
