"""Several processes behind one port, over one PostgreSQL store."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.serve.auth import project_token
from headway.serve.request_log import RequestLog
from tests.loop.running import alive, until
from tests.postgres import Server
from tests.project.conftest import play
from tests.serve.conftest import ASK, Running
from tests.serve.test_lifecycle import closed, stream

pytestmark = [
    pytest.mark.kits("postgres"),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc"),
]
ARMS = ["small", "large"]
SETTINGS = """
[tasks.route]
actions = ["small", "large"]
gate = "off"

[tasks.talk]
actions = ["small", "large"]
sticky = true
"""


def processes(parent: int) -> dict[int, int]:
    """The workers of a server: number → process id."""
    pids = {}
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            continue
        if "--worker" in words:
            pids[int(words[words.index("--worker") + 1])] = int(pid)
    return pids


def halt(pid: int) -> None:
    """Stop a process and wait until all its threads are stopped: a running thread could accept a connection."""

    def stands(task: Path) -> bool:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"

    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(stands(task) for task in Path(f"/proc/{pid}/task").iterdir()), f"process {pid} stands still")


@contextmanager
def at(running: Running, worker: int) -> Iterator[httpx.Client]:
    """A client with one connection to this worker: the others were stopped while it connected."""
    others = [pid for number, pid in processes(running.process.pid).items() if number != worker]
    one = httpx.Limits(max_connections=1, keepalive_expiry=None)
    with httpx.Client(base_url=running.url, timeout=30, limits=one) as client:
        try:
            for pid in others:
                halt(pid)
            text = client.get("/metrics").text
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)
        assert f'headway_uptime_seconds{{worker="{worker}"}}' in text
        yield client


def start(folder: Path, postgres: Server, toml: str = SETTINGS, *more: str, **environ: str) -> Running:
    (folder / "headway.toml").write_text(toml)
    env = {**os.environ, "HEADWAY_STORE_URL": postgres.store(), **environ}
    return Running(folder, "--workers", "2", *more, env=env)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Running]:
    """One server of two workers for the tests that kill no process."""
    running = start(tmp_path_factory.mktemp("pair"), postgres)
    yield running
    assert running.stop() == ""
    assert running.process.returncode == 0


@pytest.fixture
def own(tmp_path: Path, postgres: Server) -> Iterator[Callable[..., Running]]:
    """A server of two workers for one test."""
    started: list[Running] = []

    def make(*arguments: str) -> Running:
        started.append(start(tmp_path, postgres, *arguments))
        return started[-1]

    yield make
    for running in started:
        running.stop()


def counted(text: str, name: str) -> dict[int, int]:
    """A counter, by worker."""
    counts: dict[int, int] = {}
    for worker, value in re.findall(rf'^{name}\{{.*worker="(\d)"\}} (\d+)\.0$', text, re.MULTILINE):
        counts[int(worker)] = counts.get(int(worker), 0) + int(value)
    return counts


def test_decisions_over_many_connections_are_stored_once_by_both(pair: Running) -> None:
    def ask(number: int) -> list[str]:
        with at(pair, number % 2) as client:
            answers = [client.post("/v1/decisions", json={**ASK, "text": f"{number} {n}"}) for n in range(10)]
        assert {answer.status_code for answer in answers} == {201}
        return [answer.json()["id"] for answer in answers]

    before = pair.stored()
    ids = [made for number in range(4) for made in ask(number)]

    def ask_anybody(number: int) -> list[str]:
        with httpx.Client(base_url=pair.url, timeout=30) as client:
            return [client.post("/v1/decisions", json={**ASK, "text": f"{number} {n}"}).json()["id"] for n in range(10)]

    with ThreadPoolExecutor(16) as pool:
        ids += [made for batch in pool.map(ask_anybody, range(16)) for made in batch]
    assert len(set(ids)) == 200
    with pair.open() as project:
        stored = {decision.id: decision for decision in project.query.decisions("route")}
        assert set(ids) <= set(stored)
        assert pair.stored() - before == 200
        for decision in map(stored.__getitem__, ids):
            assert sum(decision.probabilities) == pytest.approx(1.0)
            index = [candidate.name for candidate in decision.candidates].index(decision.action)
            assert decision.propensity == decision.probabilities[index]

    def both_counted() -> dict[int, int]:
        counts = counted(pair.client.get("/metrics").text, "headway_decisions_total")
        return counts if sum(counts.values()) >= 200 else {}

    by_worker = until(both_counted, "/metrics counts for both workers")
    assert min(by_worker[0], by_worker[1]) >= 20


def test_metrics_of_all_workers_are_one_valid_document(pair: Running) -> None:
    text = until(
        lambda: text if (text := pair.client.get("/metrics").text).count("headway_uptime_seconds{") == 2 else "",
        "metrics of both workers",
    )
    assert {'worker="0"', 'worker="1"'} <= set(re.findall(r'worker="\d"', text))
    heads = [line for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(heads) == len(set(heads)), "a family appears once"
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) .+|[a-z_]+(\{([a-z]+=\"[^\"]*\",?)+\})? \S+", line), line


def test_an_episode_keeps_its_action_on_every_worker(pair: Running) -> None:
    def ask(client: httpx.Client, name: str) -> str:
        body = {"task": "talk", "text": "x", "episode": name}
        return str(client.post("/v1/decisions", json=body).json()["action"])

    with at(pair, 0) as zero, at(pair, 1) as one, ThreadPoolExecutor(2) as pool:
        for name in map(str, range(8)):
            both = {*pool.map(ask, (zero, one), (name, name)), ask(zero, name), ask(one, name)}
            assert len(both) == 1


def test_an_id_is_decided_once_across_workers(pair: Running) -> None:
    body = {**ASK, "id": "0197c1f2-a3b4-7000-a1b2-c3d4e5f60718"}
    with at(pair, 0) as zero, at(pair, 1) as one, ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda client: client.post("/v1/decisions", json=body), (zero, one)))
    assert sorted(answer.status_code for answer in both) == [200, 201]
    assert both[0].json() == both[1].json()


def test_a_link_of_one_worker_opens_the_page_once_at_another(pair: Running) -> None:
    with at(pair, 0) as zero, at(pair, 1) as one:
        path = zero.post("/v1/links", json={}, headers=pair.token).json()["path"]
        opened = one.get(path)
        assert opened.status_code == 303
        proof = opened.headers["location"].partition("=")[2]
        page = {"cookie": opened.headers["set-cookie"].partition(";")[0], "x-headway-page": proof}
        for client in (zero, one):
            client.cookies.clear()
            assert client.get(path).status_code == 401
            assert client.post("/v1/links", json={}, headers=page).status_code == 201
            changed = {**page, "cookie": page["cookie"][:-1] + ("0" if page["cookie"][-1] != "0" else "1")}
            assert client.post("/v1/links", json={}, headers=changed).status_code == 401
        again = zero.post("/v1/links", json={}, headers=page).json()["path"]
        assert one.post(
            "/v1/links", json={}, headers={**page, "cookie": page["cookie"].partition("=")[0] + again[15:]}
        ).is_error
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: httpx.get(pair.url + again).status_code, range(8)))
    assert sorted(statuses) == [303] + [401] * 7


def test_a_promotion_by_one_worker_is_served_by_all(pair: Running) -> None:
    with pair.open() as project:
        play(project, 300)
        ref = project.learn("route")
    with at(pair, 0) as zero, at(pair, 1) as one:
        assert zero.post(f"/v1/policies/{ref}/promote", json={}, headers=pair.token).status_code == 200
        until(
            lambda: {client.post("/v1/decisions", json=ASK).json()["policy"] for client in (zero, one)} == {ref},
            "the promotion is served by both",
        )
        zero.post("/v1/tasks/route/rollback", json={}, headers=pair.token)


def test_the_request_log_has_complete_lines_of_both_workers(pair: Running) -> None:
    log = pair.folder / ".headway" / "run" / "requests.log"
    for worker in (0, 1):
        with at(pair, worker) as client:
            client.get("/health")

    def rows() -> list[Any]:
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
        return lines if {line["worker"] for line in lines} == {0, 1} else []

    assert all(line["route"] for line in until(rows, "both workers have written"))


def test_a_shared_log_is_rotated_once_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.serve.request_log._LARGEST", 120_000)
    path = tmp_path / "requests.log"

    def write(worker: int) -> None:
        log = RequestLog(path, worker)
        for turn in range(50):
            for number in range(5):
                log.add(1e9, "GET", f"/{worker}/{turn}/{number}", 200, 0.001, 1, "", "")
            log.flush()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    files = [path.with_suffix(".log.1"), path]
    routes = [json.loads(line)["route"] for file in files for line in file.read_text().splitlines()]
    assert sorted(routes) == sorted(f"/{w}/{turn}/{n}" for w in range(8) for turn in range(50) for n in range(5))


def test_the_parent_loads_neither_numpy_nor_the_web_server_and_reports_its_own_address(pair: Running) -> None:
    parent = pair.process.pid
    assert not re.search(r"numpy|granian|psycopg", Path(f"/proc/{parent}/maps").read_text())
    (child, _) = processes(parent).values()
    assert re.search(r"granian", Path(f"/proc/{child}/maps").read_text())
    address = json.loads((pair.folder / ".headway" / "run" / "server.json").read_text())
    assert (address["pid"], address["url"]) == (parent, pair.url)


def test_a_port_in_use_is_an_error_for_several_workers_too(pair: Running, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headway.serve", str(tmp_path), "--port", str(pair.port), "--workers", "2"],
        capture_output=True, text=True, check=False, env={**os.environ, "HEADWAY_STORE_URL": "postgresql://x/y"},
    )  # fmt: skip
    assert (done.returncode, done.stderr[:13]) == (1, "port_in_use: ")
    assert pair.decide().status_code == 201


def test_several_workers_need_a_shared_store(tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("headway"), "-C", tmp_path, "serve", "--port", "0", "--workers", "2", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    error = json.loads(done.stdout or done.stderr)["error"]
    assert error["code"] == "one_worker"
    assert "postgresql://" in error["hint"]
    assert not (tmp_path / ".headway").exists()


def test_workers_that_start_together_agree_on_the_projects_token(tmp_path: Path) -> None:
    for turn in range(20):
        home = tmp_path / str(turn)
        home.mkdir()
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(project_token, [home] * 8))) == 1
        assert [(file.name, stat.S_IMODE(file.stat().st_mode)) for file in home.iterdir()] == [("token", 0o600)]


def test_the_reason_why_no_worker_can_start_is_reported(tmp_path: Path) -> None:
    store = f"postgresql://nobody@/none?host={tmp_path}"
    with pytest.raises(AssertionError, match="store_unreachable: "):
        Running(tmp_path, "--workers", "2", env={**os.environ, "HEADWAY_STORE_URL": store})


def test_sigterm_drains_every_worker(own: Callable[..., Running]) -> None:
    running = own()
    streams = [stream(running) for _ in range(6)]
    body = json.dumps(ASK).encode()
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    asking = [running.raw() for _ in range(20)]
    for connection in asking:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answered = [asking[0].recv(4096)]
    running.process.send_signal(signal.SIGTERM)
    answered += [connection.recv(4096) for connection in asking[1:]]
    assert running.process.wait(10) == 0
    for connection in streams:
        events = b""
        while part := connection.recv(4096):
            events += part
        assert b"event: stopping" in events
    accepted = [answer for answer in answered if answer.startswith(b"HTTP/1.1 201")]
    refused = [answer for answer in answered if answer.startswith(b"HTTP/1.1 503")]
    assert len(accepted) + len(refused) == 20
    assert running.stored() == len(accepted)
    assert running.stop() == ""
    assert not list((running.folder / ".headway" / "run").glob("*.json"))
    assert closed(running.port, 1.0)
    for connection in (*streams, *asking):
        connection.close()


@pytest.mark.slow
def test_workers_end_with_their_parent(own: Callable[..., Running]) -> None:
    running = own()
    workers = processes(running.process.pid)
    assert set(workers) == {0, 1}
    running.process.kill()
    running.process.wait()
    assert closed(running.port, 1.0)
    until(lambda: not any(map(alive, workers.values())), "the workers are gone")
    with socket.create_server(("127.0.0.1", running.port)):
        pass


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_while_the_port_answers(own: Callable[..., Running]) -> None:
    running = own(f"{SETTINGS}\n[server]\nrate_per_s = 0\n")
    before = processes(running.process.pid)
    os.kill(before[0], signal.SIGKILL)
    for number in range(20):
        assert httpx.post(running.url + "/v1/decisions", json={**ASK, "text": str(number)}).status_code == 201
    until(lambda: (now := processes(running.process.pid).get(0)) and now != before[0], "another worker 0 is started")
    assert processes(running.process.pid)[1] == before[1]
    with at(running, 0) as client:
        assert client.post("/v1/decisions", json=ASK).status_code == 201
    assert running.stored() == 21
    log = running.stop()
    assert f"worker=0 pid={before[0]} ended (SIGKILL), starts again in 0.1 s" in log
    assert running.process.returncode == 0


@pytest.mark.slow
def test_each_worker_has_its_own_rate_limit(own: Callable[..., Running]) -> None:
    running = own(f"{SETTINGS}\n[server]\nrate_per_s = 0.001\n")
    for worker in (0, 1):
        with at(running, worker) as client:  # which uses up the allowed request
            answer = client.get("/health")
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")


DYING = """
import sys
from pathlib import Path
from headway.client.process import Backoff
from headway.serve import workers
from headway.settings import ServerSettings

folder = Path(sys.argv[1])

class Dying(workers.Workers):
    def _arguments(self, *_):
        return ["dying", str(folder / ".headway" / "run" / "server.json")]

workers._BACKOFF = Backoff(first_s=0.001)
sys.exit(Dying(folder, ServerSettings(port=0, workers=2), announce=lambda address, keys: None).run())
"""
CHILD = """
import os, sys
print('{"pid": 1}', flush=True)
while not os.path.exists(sys.argv[1]):
    pass
sys.exit(3)
"""


@pytest.mark.slow
def test_a_parent_whose_workers_all_die_gives_up(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(CHILD)
    done = subprocess.run(
        [sys.executable, "-c", DYING, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("ended (status 3)") >= 10
    assert done.stderr.endswith("times in a row, and no other answers\n")
    assert not list(tmp_path.glob(".headway/run/*"))


RAMP = """
[tasks.route]
actions = ["small", "large"]
range = [0, 1]
final_after_s = 0
encoder = "structure"
experiment = "off"
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_worker_takes_the_same_step_of_a_promotion(own: Callable[..., Running]) -> None:
    running, rng = own(RAMP), random.Random(5)

    def reward(action: str) -> float:
        return float(rng.random() < (0.9 if action == "large" else 0.3))

    def ask(worker: int, count: int) -> set[str]:
        """Decisions of one worker with their outcomes; by which promotion they were drawn."""
        with at(running, worker) as client, running.open() as project:
            made = [client.post("/v1/decisions", json={"task": "route", "text": f"{n}"}).json() for n in range(count)]
            for answer in made:
                sent = client.post(f"/v1/decisions/{answer['id']}/signals", json={"reward": reward(answer["action"])})
                assert sent.status_code == 204, sent.text
            drawn = [project.query.decision(answer["id"]) for answer in made]
        assert all(row.propensity == row.probabilities[ARMS.index(row.action)] for row in drawn)
        return {row.exploration.rpartition(", ")[2] for row in drawn}

    with running.open() as project:
        learned = []
        for number in range(600):
            pick = project.decide("route", f"ask {number}")
            project.signal(pick.id, reward=reward(pick.action))
            learned += [project.learn("route")] if number == 299 else []
        (policy,) = learned
        project.promote(policy, because=project.prove(policy), task="route")
        steps = []
        for _ in range(40):
            (row,) = project.status().tasks
            if row.ramp is None:
                break
            steps.append(f"ramp {row.ramp.share:g}")
            until(lambda: ask(0, 1) == ask(1, 1) == {steps[-1]}, f"both workers are at {steps[-1]}")
            assert ask(0, 40) | ask(1, 40) == {steps[-1]}
            project.guard("route")
        assert list(dict.fromkeys(steps)) == ["ramp 0.1", "ramp 0.25", "ramp 0.5", "ramp 0.95"]
        assert project.current("route").ref == policy
        until(lambda: "ramp" not in "".join(ask(0, 1) | ask(1, 1)), "both workers have left the ramp")
