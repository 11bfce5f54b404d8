"""README from top to bottom in one folder: the demo, seven commands to a first learned policy, and the Python lines."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.command_line import parse
from tests.conftest import ROOT
from tests.loop.adder import adder
from tests.loop.running import up

README = (ROOT / "README.md").read_text("utf-8")


def commands() -> list[str]:
    """The commands of the section, without their prompts."""
    section = README.partition("## Your own two models")[2].partition("\n## ")[0]
    block = re.search(r"```console\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [line.removeprefix("$ ") for line in block[1].splitlines()]


def test_there_are_at_most_seven_commands_and_ours_parse() -> None:
    lines = commands()
    assert len(lines) <= 7
    for line in lines:
        if line.startswith("headway "):
            parse(line.removesuffix(" &"))
    assert "setup:" in (ROOT / "Makefile").read_text("utf-8")
    assert (ROOT / "examples" / "first_hour" / "traffic.py").is_file()


@pytest.fixture
def model_server() -> Iterator[str]:
    with adder() as url:
        yield url


def send_sums(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    """One sum by the example, to the server at `url`."""
    command = [sys.executable, str(ROOT / "examples" / "first_hour" / "traffic.py"), "1"]
    env = {**os.environ, "HEADWAY_URL": url}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_the_traffic_says_what_the_server_said(tmp_path: Path) -> None:
    class Refuses(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "No upstream answered.", "hint": "Start one."}}')

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    refused = send_sums(tmp_path, url)
    server.shutdown()
    server.server_close()
    assert refused.returncode == 1
    assert "answered 502" in refused.stderr
    assert "No upstream answered." in refused.stderr
    down = send_sums(tmp_path, url)
    assert down.returncode == 1
    assert f"No server answers at {url}" in down.stderr
    assert "headway up" in down.stderr
    assert "Traceback" not in refused.stderr + down.stderr


def test_the_traffic_says_that_it_waits_for_the_server(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "first_hour" / "traffic.py"), "1"]
    env = {name: value for name, value in os.environ.items() if name != "HEADWAY_URL"}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "Waiting for `headway up` in this folder.\n"
        waiting.kill()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_readme_works_from_top_to_bottom_in_one_folder(
    tmp_path: Path, model_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("headway", "python"):
        (tmp_path / ".venv" / "bin" / name).symlink_to(Path(sys.executable).with_name(name))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with up(tmp_path, program=("-m", "headway", "up", "--demo", "--port", "0")) as demo:
        demo.wait_for("Ctrl-C stops everything.")
        assert "headway-demo: this one stays as it is" in demo.printed()
        assert demo.stop() == 0
    assert not (tmp_path / "headway.toml").exists()
    lines = ["set -e"]
    for line in commands():
        if line == "make setup":  # this environment is set up
            continue
        line = re.sub(r"http://[\w.:]+/v1", model_server, line)
        if line == "headway up &":
            line = "headway up --port 0 >up.txt 2>&1 & echo $! >up.pid"
        lines += [f"echo '$' {shlex.quote(line)}", line]
    script = tmp_path / "first_hour.sh"
    script.write_text("\n".join(lines) + "\n", "utf-8")
    try:
        done = subprocess.run(
            ["bash", str(script)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
    finally:
        os.kill(int((tmp_path / "up.pid").read_text("utf-8")), signal.SIGTERM)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ of 300 sums were right", done.stdout)
    assert re.search(r"bandit@\w+  learned from", done.stdout)
    status = done.stdout.partition("$ headway status")[2]
    assert "of the quality of large" in status
    assert "route saves $0.00" in status
    assert "Next: headway" in status
    code = README.partition("## In Python")[2].partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.match(r"bandit@\w+ \+0\.\d+ \[\+.*BETTER", done.stdout)
