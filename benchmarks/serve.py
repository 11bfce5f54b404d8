"""Decisions over HTTP, each durably logged, compared with servers that do less.

    python benchmarks/serve.py --json [--quick] [--seconds N]

Ours: `python -m headway.serve`, one process, a learned bandit decides, every answer is committed with synchronous=FULL.
(a) constant: raw ASGI on the same granian with the same settings, answering the same number of bytes, storing nothing.
(b) stdlib: http.server with threads, a 384-256-256-128-2 network in torch (or numpy without torch; the result says
which), storing nothing.

The load generator is wrk (one thread, keep-alive, closed loop) if it is on PATH, otherwise a small one in Python in
a separate process; the result names it with its command. Rounds are interleaved; a ratio is the median over rounds of
ours over the peer's in the same round. After the run the rows in the store are compared with the answers. `load` is the
machine's load average at the end: on busy cores the thread that commits has to wait, so ours loses more than the peers,
which use one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

CONNECTIONS = (1, 8, 64)
ASK = {"task": "route", "text": "Prove that sqrt(2) is irrational", "candidates": ["small", "large"]}
ANSWER = b'{"id":"dec_01a1de75d53571f88a579aa442e15579","action":"large","propensity":0.94,"policy":"bandit@4f2a"}'
BODY = json.dumps(ASK, separators=(",", ":")).encode()


# -- the peers, each in a separate process


def constant() -> None:
    """Raw ASGI on the same granian."""
    from granian.constants import Interfaces

    from headway.serve.address import bind
    from headway.serve.run import GranianServer
    from headway.settings import ServerSettings

    headers = [(b"content-type", b"application/json")]

    async def answer(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": ANSWER, "more_body": False})

    async def run() -> None:
        settings = ServerSettings(port=0)
        listening = bind(settings)
        port = listening.getsockname()[1]
        embedded = GranianServer(answer, listening, settings, Interfaces.ASGINL)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, embedded.stop)
        print(json.dumps({"port": port}), flush=True)
        await embedded.serve()

    asyncio.run(run())
    os._exit(0)  # granian's threads would crash at interpreter shutdown


def stdlib() -> None:
    """A server without a framework: http.server, JSON, a network, a draw."""
    import http.server
    import random
    import zlib

    import numpy as np

    widths = (384, 256, 256, 128, 2)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((a, b)).astype(np.float32) / a**0.5 for a, b in pairwise(widths)]
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        layers: list[Any] = []
        for weight in weights:
            linear = torch.nn.Linear(weight.shape[0], weight.shape[1], bias=False)
            linear.weight.data = torch.from_numpy(weight.T.copy())
            layers += [linear, torch.nn.ReLU()]
        network = torch.nn.Sequential(*layers[:-1])

        def probabilities(vector: Any) -> list[float]:
            with torch.inference_mode():
                return torch.softmax(network(torch.from_numpy(vector)), 0).tolist()  # type: ignore[no-any-return]
    else:

        def probabilities(vector: Any) -> list[float]:
            for weight in weights[:-1]:
                vector = np.maximum(vector @ weight, 0.0)
            scores = np.exp(vector @ weights[-1])
            return (scores / scores.sum()).tolist()  # type: ignore[no-any-return]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one write per answer

        def do_POST(self) -> None:
            ask = json.loads(self.rfile.read(int(self.headers["content-length"])))
            vector = np.zeros(384, np.float32)
            for word in ask["text"].split():
                vector[zlib.crc32(word.encode()) % 384] += 1.0
            shares = probabilities(vector)
            index = 0 if random.random() < shares[0] else 1
            body = json.dumps({"action": ask["candidates"][index], "propensity": shares[index]}).encode()
            self.send_response(201)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Threads(http.server.ThreadingHTTPServer):
        request_queue_size = 1024

        def handle_error(self, *_: Any) -> None:  # wrk resets its connections at the end
            pass

    server = Threads(("127.0.0.1", 0), Handler)
    print(json.dumps({"port": server.server_address[1]}), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


# -- the load


@dataclass(frozen=True)
class Load:
    """The result of one round against one server."""

    requests: int
    per_s: float
    median_ms: float
    errors: int
    cpu_us: float  # of the server, per request


class Wrk:
    """wrk: https://github.com/wg/wrk."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "ask.lua"
        self._script.write_text(
            f"wrk.method = 'POST'\nwrk.body = [[{BODY.decode()}]]\nwrk.headers['Content-Type'] = 'application/json'\n"
        )
        output = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
        self.name = f"{' '.join(output.split()[:2])}: wrk -t1 -cN -dSECONDS --latency -s ask.lua"

    def run(self, port: int, connections: int, seconds: float) -> tuple[int, float, float, int]:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency", "-s", str(self._script)]
        output = subprocess.run(
            [*command, f"http://127.0.0.1:{port}/v1/decisions"], capture_output=True, text=True, check=True
        ).stdout
        count = int(_found(r"(\d+) requests in", output))
        value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)\n", output).groups()  # type: ignore[union-attr]
        failed = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
        lost = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", output)
        errors = int(failed[1]) if failed else 0
        errors += sum(map(int, lost.groups())) if lost else 0
        median = float(value) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[unit]
        return count, float(_found(r"Requests/sec:\s+([\d.]+)", output)), median, errors


class Python:
    """A closed loop over raw sockets in a separate process: slower than wrk, so fast servers look slower."""

    name = "python asyncio, raw sockets, keep-alive (wrk is not on PATH)"

    def run(self, port: int, connections: int, seconds: float) -> tuple[int, float, float, int]:
        command = [sys.executable, __file__, "--role", "load", "--port", str(port), "--connections", str(connections)]
        output = subprocess.run(
            [*command, "--seconds", str(seconds)], capture_output=True, text=True, check=True
        ).stdout
        count, per_s, median, errors = json.loads(output)
        return count, per_s, median, errors


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match[1]


async def _hammer(port: int, connections: int, seconds: float) -> tuple[int, float, float, int]:
    request = (
        b"POST /v1/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
    )
    until = time.perf_counter() + seconds
    times: list[float] = []
    errors = 0

    async def one() -> None:
        nonlocal errors
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (start := time.perf_counter()) < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))  # type: ignore[index]
            errors += not head.startswith(b"HTTP/1.1 20")
            times.append(time.perf_counter() - start)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return len(times), len(times) / seconds, statistics.median(times) * 1000, errors


# -- the run


class Peer:
    """A server process."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["port"])

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, generator: Wrk | Python, connections: int, seconds: float) -> Load:
        before = self.cpu_s()
        count, per_s, median, errors = generator.run(self.port, connections, seconds)
        spent = self.cpu_s() - before
        return Load(count, per_s, median, errors, spent / max(1, count) * 1e6)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


def prepare(folder: Path) -> None:
    """A project whose current policy is a learned bandit."""
    import headway

    (folder / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\ngate = "off"\n')
    with headway.open(folder, environ={}, seed=7) as project:
        for ask in headway.sample("route", n=1000, seed=7):
            pick = project.decide("route", ask.text, ["small", "large"])
            project.signal(pick.id, reward=ask.outcome(pick.action))
        project.promote(project.learn("route"))


def fsync_us(folder: Path) -> float:
    handle = os.open(folder / "probe", os.O_CREAT | os.O_RDWR)
    times = []
    for _ in range(100):
        os.write(handle, b"x" * 4096)
        start = time.perf_counter()
        os.fdatasync(handle)
        times.append(time.perf_counter() - start)
    os.close(handle)
    return statistics.median(times) * 1e6


def stored(folder: Path) -> int:
    import headway

    with headway.open(folder, environ={}) as project:
        return project.query.counts("route").decisions


def measure(folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    prepare(folder)
    before = stored(folder)
    generator = Wrk(folder) if shutil.which("wrk") else Python()
    own = Peer("headway", ["-m", "headway.serve", str(folder), "--port", "0"])
    peers = [own, Peer("constant", [__file__, "--role", "constant"]), Peer("stdlib", [__file__, "--role", "stdlib"])]
    results: dict[tuple[str, int], list[Load]] = {}
    try:
        for peer in peers:
            peer.load(generator, 8, 1)  # warm
        answers = own_warm = stored(folder) - before
        for at in range(rounds):
            for connections in CONNECTIONS:
                for peer in peers:
                    round_load = peer.load(generator, connections, seconds)
                    results.setdefault((peer.name, connections), []).append(round_load)
                    answers += round_load.requests if peer is own else 0
                    print(f"round {at + 1}: {peer.name:8} c={connections:<2} {round_load}", flush=True)
        rows = stored(folder) - before
    finally:
        for peer in peers:
            peer.stop()
    assert sum(load.errors for loads in results.values() for load in loads) == 0, "a request was refused"
    # Requests in flight when the generator stops are stored too; every answered decision is stored.
    most = answers + sum(CONNECTIONS) * rounds
    assert answers <= rows <= most, f"{answers} answered, {rows} stored (at most {most}); {own_warm} while warming up"
    figures: dict[str, float] = {"answered": answers, "stored": rows, "fsync_us": round(fsync_us(folder), 1)}
    for (name, connections), loads in results.items():
        kind = "decisions" if name == "headway" else name
        figures[f"{kind}_per_s_{connections}"] = round(statistics.median(load.per_s for load in loads), 1)
        figures[f"{kind}_median_ms_{connections}"] = round(statistics.median(load.median_ms for load in loads), 3)
        figures[f"{kind}_cpu_us_{connections}"] = round(statistics.median(load.cpu_us for load in loads), 1)
    figures["per_cpu_s_vs_constant_64"] = round(figures["constant_cpu_us_64"] / figures["decisions_cpu_us_64"], 3)
    return {
        "benchmark": "serve",
        "host": {
            "cpu": platform.machine(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "load": round(os.getloadavg()[0], 1),
        },
        "versions": {
            "python": platform.python_version(),
            "granian": version("granian"),
            "durability": "power: SQLite WAL, synchronous=FULL",
            "generator": generator.name,
            "stdlib_server": f"http.server + {_network()}",
        },
        "figures": figures,
        "ratios": {"vs_constant_64": _ratio(results, "constant"), "vs_stdlib_server_64": _ratio(results, "stdlib")},
    }


def _network() -> str:
    return f"torch {version('torch')}" if importlib.util.find_spec("torch") else "numpy (torch is not installed)"


def _ratio(results: dict[tuple[str, int], list[Load]], peer: str) -> float:
    pairs = zip(results["headway", 64], results[peer, 64], strict=True)
    return round(statistics.median(ours.per_s / theirs.per_s for ours, theirs in pairs), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure served decisions.")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 2 s instead of 7 of 5 s")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")
    parser.add_argument("--seconds", type=float, default=None, help="per server, connections and round")
    parser.add_argument("--role", choices=["constant", "stdlib", "load"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--connections", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "load":
        print(json.dumps(asyncio.run(_hammer(options.port, options.connections, options.seconds))))
        return
    if options.role is not None:
        {"constant": constant, "stdlib": stdlib}[options.role]()
        return
    rounds, seconds = (3, 2.0) if options.quick else (7, 5.0)
    with tempfile.TemporaryDirectory(prefix="headway-serve-", dir=Path.cwd()) as folder:
        result = measure(Path(folder), rounds, options.seconds or seconds)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in (result["figures"] | result["ratios"]).items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
