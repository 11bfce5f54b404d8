"""Tiny random models as real Hugging Face folders: 2 layers, 64 wide, one token per byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import empty
from tests.kits.reply.tiny import FAMILIES, make

__all__ = ["empty"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with a chat template and a window of 256 tokens."""
    return make(tmp_path_factory.mktemp("tiny"), "llama")


@pytest.fixture(scope="session", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp(request.param), request.param)
