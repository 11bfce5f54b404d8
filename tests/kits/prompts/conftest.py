"""The fixtures of the rooms that these tests play in."""

from __future__ import annotations

from tests.cli.conftest import empty
from tests.serve.conftest import served, server

__all__ = ["empty", "served", "server"]
