"""Files of an agent's folder that somebody has prepared: `connect --write` leaves them alone and says why."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from tests.cli.terminal import headway


def refused(folder: Path, agent: str) -> None:
    done = headway("-C", folder, "connect", agent, "--in", folder, "--write", "--json")
    assert done.error["code"] == "bad_configuration"
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", [".mcp.json", ".claude/settings.json"])
def test_a_link_a_pipe_and_what_is_no_json_are_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    secret = tmp_path / "secret.json"
    secret.write_text('{"token": "hw_1"}')
    path.symlink_to(secret)
    refused(tmp_path, "claude")
    assert path.is_symlink(), "it is not replaced by a copy of what it leads to"
    path.unlink()
    os.mkfifo(path)
    refused(tmp_path, "claude")
    path.unlink()
    for text in (b"[" * 100_000, b"\xff", b"[]", b'{"mcpServers": [], "hooks": []}'):
        path.write_bytes(text)
        refused(tmp_path, "claude")
        assert path.read_bytes() == text


def test_a_configuration_that_names_headway_elsewhere_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for text in (
        "a = ",
        "\xff",
        'mcp_servers = { headway = { command = "x" } }',
        "[mcp_servers.headway.env]\nA = '1'\n",
    ):
        path.write_text(text, "latin-1")
        refused(tmp_path, "codex")
        assert path.read_text("latin-1") == text


def test_a_folder_with_odd_characters_is_written_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "a \"b' \U0001f600\x7f"
    folder.mkdir()
    for agent, name in (("codex", "config.toml"), ("cursor", ".cursor/mcp.json")):
        assert headway("-C", folder, "connect", agent, "--in", folder, "--write").code == 0
        text = (folder / name).read_text("utf-8")
        servers = tomllib.loads(text)["mcp_servers"] if agent == "codex" else json.loads(text)["mcpServers"]
        assert str(folder) in servers["headway"]["args"]
