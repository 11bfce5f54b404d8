"""Closes the connections of slow readers and of crowds, as the kernel sees them.

Granian ends a connection whose request does not arrive in time. It has no limit on the time that an answer takes to
leave, none per peer, and stops accepting anybody once its slots are taken. So it gets more slots than we want
connections, and this module looks at the sockets of this process a few times a second. It closes

- a connection that has unsent data and took less than 64 kB of it within `write_timeout_s`;
- the most silent connections of a peer above `connections_per_peer`, and of everybody above `connections`.
  One that has sent a valid key is never closed for its number, so that places remain for those who have keys.

Programs on this machine share one address and are only counted in total. An IPv6 peer is its /64 network.

Not covered: anything but Linux, where the kernel does not tell; use a proxy there.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from headway.settings import ServerSettings

_DESCRIPTORS = Path("/proc/self/fd")
_SLICE = 1000  # descriptors per call: about 10 ms
_REST_S = 1.0  # between two passes: looking at 64 connections five times a second took 2% of a loaded server
_LEAST_BYTES = 65_536  # that a reader must take within `write_timeout_s`
_OTHER_FILES = 256  # descriptors that are not connections
_LARGEST = 65_536
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: drop unsent data
# struct tcp_info of linux/tcp.h
_INFO_SIZE = 192
_UNACKED, _LAST_SENT, _LAST_RECEIVED, _ACKED, _UNSENT = 24, 44, 52, 120, 144


def capacity(settings: ServerSettings) -> tuple[int, int]:
    """How many connections to keep, and how many to let granian accept before it makes others wait.

    Raises this process's limit on open files as far as it may.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _LARGEST if hard == resource.RLIM_INFINITY else min(hard, _LARGEST)
    if files > soft != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    slots = max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OTHER_FILES)
    most = min(settings.connections, slots * 2 // 3)
    return most, min(slots, most * 3)


@dataclass(frozen=True, slots=True)
class PeerConnection:
    """One connection, as the kernel sees it."""

    descriptor: int
    client: str  # as granian names it
    peer: str  # empty: this machine
    waiting: bool  # has data that the client does not take
    silent_ms: int

    @property
    def place(self) -> tuple[bool, int]:
        """The largest is closed first."""
        return self.waiting, self.silent_ms


class Connections:
    """The connections to one port. Call `sweep` a few times a second, from one thread."""

    def __init__(self, settings: ServerSettings, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._port = settings.port
        self._most = most
        self._per_peer = settings.connections_per_peer
        self._timeout_s = settings.write_timeout_s
        self._clock = clock
        self._next_pass = float("-inf")
        self._pending: list[int] = []  # descriptors that this pass has not looked at
        self._seen: dict[str, PeerConnection] = {}  # in this pass
        self._progress: dict[str, tuple[float, int]] = {}  # when a waiting client last took enough, and its total then
        self._keyed: set[str] = set()
        self.open = 0
        self.closed = 0

    def know(self, client: str) -> None:
        """This client has sent a valid key."""
        self._keyed.add(client)

    def sweep(self) -> None:
        """Looks at some descriptors; after the last one, closes what is too many, and rests if there is no crowd."""
        now = self._clock()
        if not self._pending:
            if now < self._next_pass or not _DESCRIPTORS.is_dir():
                return
            self._next_pass = now + (_REST_S if self.open <= self._most // 2 else 0.0)
            with os.scandir(_DESCRIPTORS) as entries:
                self._pending = [int(entry.name) for entry in entries]
        part, self._pending = self._pending[:_SLICE], self._pending[_SLICE:]
        for descriptor in part:
            with contextlib.suppress(OSError), _borrowed(descriptor) as connection:
                self._look(descriptor, connection, now)
        if not self._pending:
            self._end_pass()

    def _look(self, descriptor: int, connection: socket.socket, now: float) -> None:
        own = connection.getsockname()
        if not isinstance(own, tuple) or own[1] != self._port:
            return
        client = _client(connection)
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
        waiting = _number(info, _UNACKED) > 0 or _number(info, _UNSENT) > 0
        silent_ms = min(_number(info, _LAST_SENT), _number(info, _LAST_RECEIVED))
        if waiting and self._stalled(client, int(struct.unpack_from("=Q", info, _ACKED)[0]), now):
            self._close(connection)
            return
        if not waiting:
            self._progress.pop(client, None)
        self._seen[client] = PeerConnection(descriptor, client, _peer(client), waiting, silent_ms)

    def _stalled(self, client: str, taken: int, now: float) -> bool:
        since, before = self._progress.get(client, (now, -_LEAST_BYTES))
        if taken - before >= _LEAST_BYTES:
            self._progress[client] = (now, taken)
            return False
        return now - since > self._timeout_s

    def _end_pass(self) -> None:
        seen, self._seen = self._seen, {}
        self.open = len(seen)
        self._progress = {client: value for client, value in self._progress.items() if client in seen}
        if len(self._keyed) > 2 * self._most:
            self._keyed.intersection_update(seen)
        keyless = [connection for connection in seen.values() if connection.client not in self._keyed]
        for connection in surplus(keyless, most=self._most - len(seen) + len(keyless), per_peer=self._per_peer):
            with contextlib.suppress(OSError), _borrowed(connection.descriptor) as same:
                if _client(same) == connection.client:
                    self._close(same)

    def _close(self, connection: socket.socket) -> None:
        """Granian sees the end of the connection and gives up the rest."""
        self.closed += 1
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.shutdown(socket.SHUT_RDWR)


def surplus(keyless: Iterable[PeerConnection], *, most: int, per_peer: int) -> list[PeerConnection]:
    """The connections to close: those above the limit of their peer, then those above the limit of all."""
    worst_first = sorted(keyless, key=attrgetter("place"), reverse=True)
    peers = Counter(connection.peer for connection in worst_first)
    chosen: list[PeerConnection] = []
    kept: list[PeerConnection] = []
    for connection in worst_first:
        over = connection.peer and peers[connection.peer] > per_peer
        peers[connection.peer] -= bool(over)
        (chosen if over else kept).append(connection)
    return chosen + kept[: max(0, len(kept) - max(0, most))]


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """The socket behind a descriptor, neither duplicated nor closed: closing even a copy of a descriptor of the store
    would end SQLite's locks on it. An error for anything but a socket.
    """
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def _client(connection: socket.socket) -> str:
    """As granian names it; an error for the listening socket."""
    host, port = connection.getpeername()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _number(info: bytes, offset: int) -> int:
    return int(struct.unpack_from("=I", info, offset)[0])


@lru_cache(4096)
def _peer(client: str) -> str:
    """Whose connection it is; empty for this machine."""
    address = ipaddress.ip_address(client.rpartition(":")[0].strip("[]").partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return "" if address.is_loopback else str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return "" if address.is_loopback else str(address)
