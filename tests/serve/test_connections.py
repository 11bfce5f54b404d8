"""Slow readers, crowds and bursts take places from nobody else."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import headway
from headway.nouns.errors import Busy
from headway.serve.connections import Connections, PeerConnection, capacity, surplus
from headway.serve.state import Server
from headway.settings import ServerSettings
from tests.serve.conftest import Running

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the kernel does not tell")


class Pairs:
    """Connections to a port of this process: (ours, the client's)."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.settings = ServerSettings(port=self.listening.getsockname()[1], write_timeout_s=10.0)
        self.now = 0.0
        self._open: list[socket.socket] = [self.listening]

    def connect(self) -> tuple[socket.socket, socket.socket]:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(self.listening.getsockname())
        ours = self.listening.accept()[0]
        self._open += [client, ours]
        return ours, client

    def watch(self, most: int = 100) -> Connections:
        return Connections(self.settings, most, clock=lambda: self.now)

    def close(self) -> None:
        for connection in self._open:
            connection.close()


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    made = Pairs()
    yield made
    made.close()


def fill(ours: socket.socket) -> None:
    """Writes until the client's window and our buffer are full."""
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    ours.setblocking(False)
    while True:
        try:
            ours.send(b"x" * 65_536)
        except BlockingIOError:
            return


def is_open(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return not poll.poll(0)


def test_a_client_that_reads_nothing_is_closed_after_the_write_timeout(pairs: Pairs) -> None:
    connections, (slow, _), (idle, _) = pairs.watch(), pairs.connect(), pairs.connect()
    fill(slow)
    for now in (0.0, 5.0, 9.0):
        pairs.now = now
        connections.sweep()
    assert (is_open(slow), connections.open) == (True, 2)
    pairs.now = 10.1
    connections.sweep()
    assert not is_open(slow)
    assert is_open(idle)
    assert (connections.open, connections.closed) == (1, 1)


def test_a_client_that_reads_enough_keeps_its_connection(pairs: Pairs) -> None:
    connections, (ours, client) = pairs.watch(), pairs.connect()
    for pairs.now in range(0, 100, 9):
        fill(ours)
        connections.sweep()
        taken = 0
        while taken < 300_000:
            taken += len(client.recv(65_536))
            fill(ours)
    assert is_open(ours)


def test_looking_at_connections_leaves_no_descriptor_open(pairs: Pairs) -> None:
    connections = pairs.watch()
    pairs.connect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 — only the number counts
    for _ in range(20):
        connections.sweep()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    assert connections.open == 1


def test_looking_at_connections_keeps_the_locks_of_the_store(pairs: Pairs, tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as store:
        store.execute("BEGIN EXCLUSIVE")
        pairs.watch().sweep()
        other = f"import sqlite3; sqlite3.connect({str(file)!r}, timeout=0).execute('BEGIN EXCLUSIVE')"
        refused = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False)
    assert "database is locked" in refused.stderr


def test_above_the_limit_the_keyless_are_closed_and_the_keyed_stay(pairs: Pairs) -> None:
    connections = pairs.watch(most=3)
    made = [pairs.connect() for _ in range(6)]
    keyed, stalled = made[0], made[5]
    connections.know("{}:{}".format(*keyed[1].getsockname()))
    fill(stalled[0])
    connections.sweep()
    left = [ours for ours, _ in made if is_open(ours)]
    assert len(left) == 3
    assert keyed[0] in left
    assert stalled[0] not in left


def test_a_peer_above_its_limit_loses_its_most_silent_connections() -> None:
    crowd = [
        PeerConnection(number, f"192.0.2.1:{number}", "192.0.2.1", waiting=False, silent_ms=number)
        for number in range(1, 301)
    ]
    local = [replace(connection, client=f"127.0.0.1:{connection.descriptor}", peer="") for connection in crowd]
    waiting = replace(crowd[0], waiting=True)
    closed = surplus([*crowd[1:], waiting, *local], most=1000, per_peer=256)
    assert waiting in closed
    assert sorted(connection.silent_ms for connection in closed) == [1, *range(258, 301)]
    assert len(surplus([*crowd, *local], most=100, per_peer=256)) == 500


def test_the_server_accepts_more_connections_than_it_keeps() -> None:
    most, slots = capacity(ServerSettings())
    assert most < slots
    assert capacity(ServerSettings(connections=40_000))[0] < capacity(ServerSettings(connections=40_000))[1]


def test_a_slow_reader_of_a_server_is_closed_and_health_answers(served: Callable[..., Running]) -> None:
    running = served("[server]\nwrite_timeout_s = 0.3\n")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    slow.connect(("127.0.0.1", running.port))
    with slow:
        slow.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        poll = select.poll()
        poll.register(slow, select.POLLRDHUP)  # without reading
        assert poll.poll(30_000)
    assert running.client.get("/health").status_code == 200
    assert "headway_closed_connections 1.0" in running.client.get("/metrics").text


def test_a_burst_of_streams_gets_no_more_places_than_there_are(served: Callable[..., Running]) -> None:
    running = served()
    request = b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
    burst = [running.raw() for _ in range(300)]
    for connection in burst:
        connection.sendall(request % b"")
    statuses = [connection.recv(12)[-3:] for connection in burst]
    assert (statuses.count(b"200"), statuses.count(b"429")) == (150, 150)
    key = f"Authorization: {running.token['authorization']}\r\n".encode()
    with running.raw() as keyed:  # places for keys remain
        keyed.sendall(request % key)
        assert keyed.recv(12).endswith(b"200")
    for connection in burst:
        connection.close()
    with running.client.stream("GET", "/v1/events", headers=running.token) as events:
        assert events.status_code == 200


def test_large_bodies_that_arrive_at_once_are_limited(served: Callable[..., Running]) -> None:
    running = served()
    head = b"POST /v1/decisions/batch HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n%s"
    head += b"Content-Length: 16000000\r\n\r\n{"
    arriving = [running.raw() for _ in range(60)]  # of 16 MB each; 50 are three quarters of 1 GiB
    for connection in arriving:
        connection.sendall(head % b"")
    refused, _, _ = select.select(arriving, [], [], 30)
    assert refused[0].recv(12).endswith(b"429")
    key = f"Authorization: {running.token['authorization']}\r\n".encode()
    with running.raw() as keyed:
        keyed.sendall(head % key)
        assert running.decide().status_code == 201
        assert not select.select([keyed], [], [], 0)[0]  # not refused
    for connection in arriving:
        connection.close()


def test_callers_without_a_key_wait_in_threads_of_their_own(tmp_path: Path) -> None:
    release = threading.Event()

    async def crowd(server: Server) -> None:
        waiting = [asyncio.ensure_future(server.in_open_thread(release.wait)) for _ in range(512)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await server.in_open_thread(release.wait)
        assert await server.in_thread(lambda: "answered") == "answered"
        release.set()
        await asyncio.gather(*waiting)

    server = Server(headway.open(tmp_path), ServerSettings(), log_requests=False)
    asyncio.run(crowd(server))
    server.close()


def test_calls_to_other_servers_have_places_of_their_own_and_some_are_for_keys(tmp_path: Path) -> None:
    release = threading.Event()

    async def crowd(server: Server) -> None:
        waiting = [asyncio.ensure_future(server.in_far_thread(release.wait, keyed=False)) for _ in range(48)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # its client is gone, and its thread still waits
        with pytest.raises(Busy):
            await server.in_far_thread(release.wait, keyed=False)
        assert await server.in_far_thread(lambda: "answered", keyed=True) == "answered"
        assert await server.in_open_thread(lambda: "answered") == "answered"
        release.set()
        await asyncio.gather(*waiting[1:])
        assert await server.in_far_thread(lambda: "answered", keyed=False) == "answered"

    server = Server(headway.open(tmp_path), ServerSettings(), log_requests=False)
    asyncio.run(crowd(server))
    server.close()
