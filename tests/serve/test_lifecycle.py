"""The life of a server: its port, its signals, its parent, and its loaded modules."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import headway
from headway.client import Client
from headway.nouns.errors import GateRefused
from tests.project.conftest import play
from tests.serve.conftest import ASK, Running


def closed(port: int, within_s: float) -> bool:
    """Wait until the port is free; returns whether it is."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return True
    return False


def test_port_0_takes_a_free_port_and_reports_it(served: Callable[..., Running], tmp_path: Path) -> None:
    running = served()
    report = json.loads((tmp_path / ".headway" / "run" / "server.json").read_text())
    assert report == {"url": running.url, "host": "127.0.0.1", "port": running.port, "pid": running.process.pid}
    assert httpx.get(running.url + "/health").json() == {"status": "ok"}
    assert running.stop() == ""
    assert running.process.returncode == 0
    assert not (tmp_path / ".headway" / "run" / "server.json").exists()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_health_is_not_ok_while_the_store_cannot_be_written(served: Callable[..., Running]) -> None:
    running = served()
    assert running.decide().status_code == 201
    before = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (4096, before[1]))  # like a full disk
    assert running.decide().status_code == 503
    answer = httpx.get(running.url + "/health")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
    assert "space" in answer.json()["error"]["hint"]
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, before)
    assert httpx.get(running.url + "/health").json() == {"status": "ok"}  # it looks again by itself
    assert running.decide().status_code == 201


def test_a_port_in_use_is_an_error_and_not_a_second_server(served: Callable[..., Running], tmp_path: Path) -> None:
    running = served()
    other = tmp_path / "other"
    other.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "headway.serve", str(other), "--port", str(running.port)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("port_in_use: ")
    assert running.decide().status_code == 201


def test_an_address_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headway.serve", str(tmp_path), "--port", "0", "--host", "203.0.113.1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("cannot_listen: ")


def stream(running: Running) -> socket.socket:
    """An open event stream, after its first event."""
    connection = running.raw()
    connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    data = b""
    while b"event: signals" not in data:
        data += connection.recv(4096)
    return connection


def test_sigterm_with_open_streams_and_work_in_flight_drains_and_ends(served: Callable[..., Running]) -> None:
    running = served()
    streams = [stream(running) for _ in range(20)]
    body = json.dumps(ASK).encode()
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    asking = [running.raw() for _ in range(20)]
    for connection in asking:
        connection.sendall(request)
    start = time.monotonic()
    running.process.send_signal(signal.SIGTERM)
    answered = [thread.recv(4096) for thread in asking]
    assert running.process.wait(10) == 0
    assert time.monotonic() - start < 5.0
    for connection in streams:
        received = b""
        while part := connection.recv(4096):
            received += part
        assert b"event: stopping" in received
    accepted = [answer for answer in answered if answer.startswith(b"HTTP/1.1 201")]
    refused = [answer for answer in answered if answer.startswith(b"HTTP/1.1 503")]
    assert len(accepted) + len(refused) == 20
    assert running.stored() == len(accepted)
    for connection in (*streams, *asking):
        connection.close()


def test_a_stopping_server_refuses_new_work_on_open_connections(served: Callable[..., Running]) -> None:
    """A request that started before the signal is finished; the next one on the same connection is refused."""
    running = served()
    body = json.dumps(ASK).encode()
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    slow, other = running.raw(), running.raw()
    slow.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:10])
    other.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert other.recv(4096).startswith(b"HTTP/1.1 200")
    running.process.send_signal(signal.SIGTERM)
    status = b"HTTP/1.1 200"
    while status == b"HTTP/1.1 200":  # until the signal is handled
        other.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        status = other.recv(4096)[:12]
    assert status == b"HTTP/1.1 503"
    slow.sendall(body[10:])
    assert slow.recv(4096).startswith(b"HTTP/1.1 201")
    assert running.process.wait(10) == 0
    assert running.stored() == 1
    slow.close()
    other.close()


PARENT = """
import os, subprocess, sys
read, write = os.pipe()
child = subprocess.Popen(
    [sys.executable, "-m", "headway.client.parent", str(read), "headway.serve", sys.argv[1], "--port", "0"],
    pass_fds=[read],
)
os.close(read)
child.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    report = json.loads(parent.stdout.readline())
    assert httpx.get(report["url"] + "/health").status_code == 200
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    assert closed(report["port"], 1.0)


def test_a_closed_pipe_alone_ends_a_server(tmp_path: Path) -> None:
    """Without a signal from the kernel the server ends when its pipe is closed."""
    read, write = os.pipe()
    running = Running(tmp_path, launcher=("headway.client.parent", str(read)), pass_fds=[read])
    os.close(read)
    assert running.decide().status_code == 201
    os.close(write)
    assert closed(running.port, 2.0)
    running.stop()
    assert running.stored() == 1


LOADED = """
import json, sys, threading, urllib.request
from headway.serve.run import serve
from pathlib import Path

def ask(address, guard):
    def run():
        body = json.dumps({"task": "route", "text": "x", "candidates": ["small", "large"]}).encode()
        for path in ("/v1/decisions", "/v1/tasks", "/v1/policies", "/metrics", "/v1/reports"):
            request = urllib.request.Request(address.url + path, headers={"content-type": "application/json"})
            if path == "/v1/decisions":
                request.data = body
            urllib.request.urlopen(request).read()
        print(json.dumps(sorted(sys.modules)), flush=True)
        import os, signal
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=run).start()

serve(Path(sys.argv[1]), port=0, announce=ask)
"""


def test_deciding_with_a_learned_policy_loads_no_training_code(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    with headway.open(tmp_path, environ={}, seed=3) as project:
        play(project, 300)
        project.promote(project.learn("route"))
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert not rooms & {"torch", "scipy", "headway.learn", "headway.cli"}
    # what `worth` of a task and its next step need, and no examiner
    assert {name for name in loaded if name.startswith("headway.prove.")} <= {
        "headway.prove.worth",
        "headway.prove.look",
        "headway.prove.log",
        "headway.prove.sequential",
    }
    assert "headway.decide.bandit" in loaded


def events(connection: socket.socket, wanted: str) -> Any:
    """The data of the next event of that name."""
    data = b""
    while True:
        ready, _, _ = select.select([connection], [], [], 10)
        assert ready, f"no {wanted} event came: {data!r}"
        data += connection.recv(65536)
        for block in data.decode().split("\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and line[0] != ":")
            if lines.get("event") == wanted:
                return json.loads(lines["data"])


def test_a_promotion_elsewhere_is_served_and_announced_while_requests_run(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    with headway.open(tmp_path, environ={}, seed=3) as project:
        play(project, 300)
        ref = project.learn("route")
        running = Running(tmp_path)
        assert running.decide().json()["policy"] == "uniform@0"
        with stream(running) as listening:
            project.promote(ref)
            ledger_event = events(listening, "ledger")
        assert (ledger_event["kind"], ledger_event["policy"]) == ("promote", ref)
        served = [running.decide(text=str(n)) for n in range(50)]
        assert {server.status_code for server in served} == {201}
        assert served[-1].json()["policy"] == ref
        project.rollback("route")
        until = time.monotonic() + 10
        while running.decide().json()["policy"] != "uniform@0":
            assert time.monotonic() < until, "the rollback is not served"
        swapped = project.query.decision(served[-1].json()["id"])
        assert swapped.policy_hash == project.registry.find(ref)
        assert project.replay(swapped.id).exact is True
    running.stop()
    assert running.process.returncode == 0


def test_promoting_and_rolling_back_over_http(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\n')
    with headway.open(tmp_path, environ={}, seed=3) as project:
        play(project, 300)
        ref = project.learn("route")
    running = Running(tmp_path)
    refused = running.client.post(f"/v1/policies/{ref}/promote", json={}, headers=running.token)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "gate_refused")
    assert all(refused.json()["error"]["reasons"])
    token = running.token["authorization"].removeprefix("Bearer ")
    with Client(running.url, token) as remote, pytest.raises(GateRefused) as again:
        remote.promote(ref)
    assert list(again.value.reasons) == refused.json()["error"]["reasons"]
    header = running.client.get(f"/v1/policies/{ref}").json()
    assert (header["family"], header["task"]) == ("bandit", "route")
    canary = running.client.post(f"/v1/policies/{ref}/canary", json={"share": 0.2}, headers=running.token)
    assert (canary.status_code, canary.json()["kind"], canary.json()["who"]) == (200, "canary", "owner")
    assert running.decide().status_code == 201
    states = {policy["policy"]: policy["state"] for policy in running.client.get("/v1/policies").json()["policies"]}
    assert states[ref] == "canary"
    nothing = running.client.post("/v1/tasks/route/rollback", json={}, headers=running.token)
    assert nothing.status_code == 409
    kinds = [entry["kind"] for entry in running.client.get("/v1/ledger", params={"task": "route"}).json()["ledger"]]
    assert kinds == ["candidate", "canary"]
    report = running.client.get("/v1/reports").json()["reports"][0]
    assert report["decisions"] == 301
    assert sum(day["decisions"] for day in report["days"]) == 301
    running.stop()
