"""Fixtures of other rooms that these tests use."""

from __future__ import annotations

from tests.cli.conftest import empty
from tests.serve.conftest import served, server

__all__ = ["empty", "served", "server"]
