"""Fixtures of the store's tests."""

from __future__ import annotations

from tests.observe.conftest import decision, ground

__all__ = ["decision", "ground"]
