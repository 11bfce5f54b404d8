"""Fixtures of the loop's tests."""

from __future__ import annotations

from tests.loop.conftest import watching

__all__ = ["watching"]
