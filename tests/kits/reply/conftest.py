"""Tiny random models as real Hugging Face folders: 2 layers, 64 wide, one token per byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import kits
from headway.nouns.kit import catalogue
from tests.cli.conftest import empty
from tests.kits.reply.tiny import FAMILIES, make

__all__ = ["empty"]

# Adds the commands of the kit, which is not built in yet.
OFFERED = (
    "import sys; from headway import kits; kits.BUILT_IN += ('reply',)\n"
    "from headway.cli.main import main; sys.argv[0] = 'headway'; main()"
)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The kit's commands, in this process, for one test."""
    monkeypatch.setattr(kits, "BUILT_IN", (*kits.BUILT_IN, "reply"))
    catalogue.cache_clear()
    yield
    monkeypatch.undo()
    catalogue.cache_clear()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama with a chat template and a window of 256 tokens."""
    return make(tmp_path_factory.mktemp("tiny"), "llama")


@pytest.fixture(scope="session", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp(request.param), request.param)
