"""The project token goes to the project's own server, and not to whoever has taken the port of one that was killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headway.loop.address import page_link, running_url
from headway.loop.health import healthy
from tests.cli.terminal import headway

TAKES = """import os, socket
os.setuid(65534)
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
listening.accept()
"""


def left_behind(folder: Path, port: int, pid: int) -> str:
    (folder / ".headway" / "run").mkdir(parents=True, mode=0o700)
    url = f"http://127.0.0.1:{port}"
    address = {"url": url, "host": "127.0.0.1", "port": port, "pid": pid}
    (folder / ".headway" / "run" / "server.json").write_text(json.dumps(address))
    (folder / ".headway" / "token").write_text("hw_" + "0" * 64)
    return url


def hears_nothing(folder: Path, url: str) -> None:
    assert running_url(folder / ".headway") is None
    assert not healthy(folder)
    assert headway("-C", folder, "open", "--json").error["code"] == "no_server"
    with pytest.raises(ValueError, match="no server of this project"):
        page_link(folder / ".headway", url)


def test_the_token_is_not_sent_to_a_port_whose_server_was_killed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        stranger.setblocking(False)
        hears_nothing(tmp_path, left_behind(tmp_path, stranger.getsockname()[1], ended.pid))
        with pytest.raises(BlockingIOError):
            stranger.accept()


@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process of another user")
def test_the_token_is_not_sent_to_a_port_of_another_user(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", TAKES], stdout=subprocess.PIPE, text=True)
    try:
        assert stranger.stdout is not None
        hears_nothing(tmp_path, left_behind(tmp_path, int(stranger.stdout.readline()), os.getpid()))
        assert stranger.poll() is None, "nobody has connected"
    finally:
        stranger.kill()
        stranger.communicate()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": "x", "pid": 1}', '{"port": 1, "pid": 1' + "0" * 30 + "}"])
def test_an_address_that_is_none_is_no_server(tmp_path: Path, text: str) -> None:
    left_behind(tmp_path, 1, 1)
    (tmp_path / ".headway" / "run" / "server.json").write_text(text)
    assert running_url(tmp_path / ".headway") is None
