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


def test_nothing_is_written_through_a_link_among_the_folders(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for agent, name in (("claude", ".claude"), ("cursor", ".cursor")):
        (tmp_path / name).symlink_to(elsewhere)
        refused(tmp_path, agent)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
        '{"mcpServers": {}, "mcpServers": {"b": {}}}',
        '{"limit": 1.00000000000000000001}',
        '{"limit": NaN}',
        '{"limit": 1e400}',
        '{"name": "\\ud800"}',
        "\ufeff{}",
        '{"a": 1} // a comment',
    ],
)
def test_json_that_would_not_be_the_same_afterwards_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text, "utf-8")
    refused(tmp_path, "claude")
    assert path.read_text("utf-8") == text


def test_what_is_not_ours_in_toml_is_kept_or_the_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    for text in (
        'doc = """\n[mcp_servers.headway]\ncommand = 1\n"""\n',
        '[mcp_servers.headway]\ncommand = "x"\nargs = [\n  "a",\n]\n',
        '[mcp_servers.headway]\ncommand = "x"\nenv = { A = "1" }\n',
        "# " + "x" * (17 << 20) + "\n[last]\ny = 1\n",
    ):
        path.write_text(text)
        refused(tmp_path, "codex")
        assert path.read_text() == text


def test_comments_beside_our_table_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("a = 1\n")
    for _ in range(2):
        assert headway("-C", tmp_path, "connect", "codex", "--in", tmp_path, "--write").code == 0
        if "mine" not in path.read_text():
            path.write_text(path.read_text() + "\n# mine\n[other]\nx = 1\n")
    assert "# mine\n[other]\nx = 1" in path.read_text()
    assert path.read_text().count("mcp_servers.headway") == 1
