"""`headway up` as real processes: started, used, partly killed, stopped."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import headway
from tests.loop.running import alive, can_bind, until, up

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc")


def decisions(folder: Path, task: str = "route") -> set[str]:
    with headway.open(folder, environ={}) as project:
        return {decision.id for decision in project.query.decisions(task)}


def test_up_starts_everything_in_an_empty_folder_and_stops_with_ctrl_c(tmp_path):
    with up(tmp_path / "new", "--port", "0") as running:
        printed = running.ready().printed()
        assert f"Headway is up at {running.url}" in printed
        assert len(re.findall(r"^  (\S*headway|curl) ", printed, re.MULTILINE)) == 3, "three commands to try"
        link = re.search(r"http://\S+(/open\?code=\S+)", printed)
        assert link is not None
        status, _, headers = running.ask("GET", link[1])
        assert (status, headers["location"].partition("=")[0]) == (303, "/#unlock")
        assert "HttpOnly" in headers["set-cookie"]
        assert running.ask("GET", link[1])[0] == 401, "a link works once"
        made = running.decide()
        until(running.loop_pid, "the loop")
        port, parts = running.port, running.children()
        assert len(parts) == 2
        assert running.stop() == 0
        assert "Stopped." in running.printed()
    assert not [pid for pid in parts if alive(pid)]
    assert can_bind(port)
    assert decisions(tmp_path / "new") == {made}


def test_sigterm_stops_like_ctrl_c(tmp_path):
    with up(tmp_path, "--port", "0", "--no-watch") as running:
        running.ready()
        parts = running.children()
        assert len(parts) == 1, "only the server"
        assert running.stop(signal.SIGTERM) == 0
    assert not any(map(alive, parts))


@pytest.mark.slow
def test_a_second_up_names_the_holder_of_the_project(tmp_path):
    with up(tmp_path, "--port", "0") as running:
        running.ready()
        with up(tmp_path, "--port", "0") as second:
            assert second.process.wait(timeout=60) == 1
            printed = second.printed()
        assert f"`headway up` is running already for this project: process {running.process.pid}" in printed
        assert running.url in printed
        assert running.ask("GET", "/health")[0] == 200
        assert running.stop() == 0


def test_a_taken_port_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with up(tmp_path, "--port", str(port)) as running:
            assert running.process.wait(timeout=60) == 1
            printed = running.printed()
    assert f"Port {port} of 127.0.0.1 is in use." in printed


def test_bad_settings_are_reported_before_anything_starts(tmp_path):
    (tmp_path / "headway.toml").write_text("[servr]\n", "utf-8")
    with up(tmp_path) as running:
        assert running.process.wait(timeout=60) == 1
        assert "servr" in running.printed()


def test_a_killed_server_restarts_on_its_port_and_has_lost_nothing(tmp_path):
    with up(tmp_path, "--port", "0") as running:
        running.ready()
        loop = until(running.loop_pid, "the loop")
        url, before, made = running.url, running.server["pid"], running.decide()
        os.kill(before, signal.SIGKILL)
        until(lambda: running.server["pid"] != before and running.ask("GET", "/health")[0] == 200, "the server")
        assert running.url == url
        assert running.loop_pid() == loop, "the loop is unaffected"
        after = running.decide()
        assert "The server ended (SIGKILL)" in running.wait_for("A new link for the page")
        assert running.stop() == 0
    assert {made, after} <= decisions(tmp_path)


@pytest.mark.slow
def test_a_killed_loop_restarts_and_the_server_is_unaffected(tmp_path):
    with up(tmp_path, "--port", "0") as running:
        running.ready()
        server, loop = running.server["pid"], until(running.loop_pid, "the loop")
        os.kill(loop, signal.SIGKILL)
        assert running.ask("GET", "/health")[0] == 200
        until(lambda: running.loop_pid() not in (0, loop), "the loop")
        assert running.server["pid"] == server
        assert running.stop() == 0


def test_nothing_outlives_a_killed_supervisor(tmp_path):
    with up(tmp_path, "--port", "0") as running:
        running.ready()
        until(running.loop_pid, "the loop")
        port, parts, made = running.port, running.children(), running.decide()
        running.process.kill()
        running.process.wait()
        until(lambda: not any(map(alive, parts)), "the end of its children")
        assert can_bind(port)
    with up(tmp_path, "--port", str(port)) as again:
        again.ready()
        assert again.decide()
        assert again.stop() == 0
    assert made in decisions(tmp_path)


ELSEWHERE = (
    "import sys; sys.platform = 'elsewhere'\n"
    "from headway.client.parent import end_with_parent\n"
    "end_with_parent(int(sys.argv[1])); print('ready', flush=True)\n"
    "import threading; threading.Event().wait()\n"
)


@pytest.mark.parametrize("blocking", [True, False])
def test_without_help_of_the_kernel_children_end_by_the_pipe(blocking):
    read, write = os.pipe()
    os.set_blocking(read, blocking)  # the description is shared: what one child sets, all have
    child = subprocess.Popen([sys.executable, "-c", ELSEWHERE, str(read)], pass_fds=(read,), stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        try:
            assert child.stdout.readline() == b"ready\n"
            assert child.poll() is None
            os.close(write)
            assert child.wait(timeout=60) == 1
        finally:
            os.close(read)
            child.kill()
            child.wait()


def test_a_child_whose_parent_has_ended_never_listens(tmp_path):
    read, write = os.pipe()
    os.close(write)
    command = ["-m", "headway.client.parent", str(read), "headway.serve", str(tmp_path), "--port", "0"]
    try:
        done = subprocess.run(
            [sys.executable, *command], pass_fds=(read,), capture_output=True, check=False, timeout=60
        )
    finally:
        os.close(read)
    assert (done.returncode, done.stdout) == (1, b"")
    assert not (tmp_path / ".headway").exists()


def test_the_supervisor_loads_nothing_heavy():
    code = "import sys, headway.loop.supervisor, headway.settings; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"numpy", "torch", "granian", "starlette", "httpx", "click", "rich", "anyio"}


SUPERVISE = """
import sys
from pathlib import Path
from headway.loop.supervisor import Supervisor

def say(line):
    print(line, flush=True)

workers = {"once": "once", "again": "again"}
sys.exit(Supervisor(Path(sys.argv[1]), say=say, port=0, watch=False, workers=workers).run())
"""
AGAIN = """
import pathlib, sys, threading
mark = pathlib.Path(sys.argv[1], "mark")
if not mark.exists():
    mark.touch()
    sys.exit(3)
print("is back", flush=True)
threading.Event().wait()
"""


def test_workers_of_kits_run_with_the_server_until_they_finish(tmp_path):
    (tmp_path / "once.py").write_text("import sys; print(*sys.argv[1:], flush=True)", "utf-8")
    (tmp_path / "again.py").write_text(AGAIN, "utf-8")
    command, environ = [sys.executable, "-c", SUPERVISE, str(tmp_path)], {**os.environ, "PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as supervisor:
        assert supervisor.stdout is not None
        lines: list[str] = []
        while not any("is back" in line for line in lines) or not any("--url" in line for line in lines):
            lines.append(supervisor.stdout.readline())
            assert lines[-1], f"it ended: {lines}"
        supervisor.send_signal(signal.SIGTERM)
        lines += supervisor.stdout.readlines()
        assert supervisor.wait(timeout=60) == 0
    printed = "".join(lines)
    assert (
        len(re.findall(rf"^once   {re.escape(str(tmp_path))} --url http://127.0.0.1:\d+$", printed, re.MULTILINE)) == 1
    )
    assert "The again ended (status 3); it starts again in 0.2 s." in printed
    assert "The once ended" not in printed, "it has finished"


def test_a_kit_whose_worker_check_fails_does_not_stop_the_others(tmp_path):
    from headway.cli.up import needed_workers
    from headway.nouns.kit import Catalogue, Kit, Worker
    from headway.settings import load

    workers = {
        "good": Worker(module="good", needed="builtins:bool"),
        "idle": Worker(module="idle", needed="operator:not_"),
        "broken": Worker(module="broken", needed="no_such_module:needed"),
    }
    notes: list[str] = []
    kits = Catalogue((Kit(name="odd", summary="Odd.", workers=workers),))
    assert needed_workers(kits, load(tmp_path, {}), notes.append) == {"good": "good"}
    (note,) = notes
    assert note.startswith("The worker 'broken' of the kit 'odd' is not started: ModuleNotFoundError")
