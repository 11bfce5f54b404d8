"""Fixtures for all tests.

- HOME and TMPDIR are separate for each worker; HEADWAY_* is removed from the environment. They and `tmp_path` are in
  memory (/dev/shm) if that has room and TMPDIR is not set: then no test waits for a disk.
- Hypothesis is deterministic; `HYPOTHESIS_PROFILE=explore` tries more and different examples on each run.
- A test fails if it leaves a child process, a listening port or a non-daemon thread running.
- `model_cache` is the folder of models, downloaded once per checkout and shared by all runs; HEADWAY_CACHE names it.
- `shared_data` is the folder of real data; `need_tool` finds a program. Both skip the test if missing (CI: fail).
- `engine` runs a test once on SQLite and once on a real PostgreSQL server, and `place` is the test's store there. A
  test for only one of them is marked `@pytest.mark.engines("sqlite", why="…")`. Outside the folders of the store and
  the ledger, the run on PostgreSQL is slow; `tests/project/test_engines.py` compares both in the fast tests.
- A test marked `@pytest.mark.kits("reply")` needs that kit, `kits("*")` all; so does a file that imports a kit. Without
  them the tests of the core pass: `tests/architecture/test_core_alone.py`.
- Servers bind port 0 and report the port they got: with a "free port" fixture two workers would race for it.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from httpx._transports import default as transports
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from tests.postgres import Server

ROOT = Path(__file__).resolve().parent.parent
_OF_THE_STORE = {"observe", "promote", "compatibility"}  # folders whose fast tests use both databases
ROOM_BYTES = 4 << 30
GRACE_S = 2.0  # how long processes and threads may take to end
_data = os.environ.get("HEADWAY_DATA")
_home = pytest.StashKey[Path]()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background ignores SIGINT, and every child would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, database=None, print_blob=True, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))
if hypothesis.settings().derandomize:
    # Hypothesis parses every imported module of ours for constants to try: six seconds for each worker, and examples
    # that depend on what the worker imported before.
    providers.is_local_module_file = lambda _: False
if coverage := getattr(sys.modules.get("slipcover.pytest_plugin"), "_slipcover_instance", None):
    # slipcover removes its probes from lines that were reached 50 times, and looks at every function of the package
    # each time: an eighth of the time of all tests. Reaching a probe costs little.
    coverage.d_miss_threshold = 20_000
# Each of the thousands of clients would read the certificates of the system again, for 20 ms.
transports.create_ssl_context = functools.cache(transports.create_ssl_context)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "engines(*names, why, slow): the databases that a test runs on, both by default; `slow`: one of them"
    )
    config.addinivalue_line("markers", "kits(*names): the kits that a test needs beside the core, * for all")
    # tmp_path stays in pytest's folder, so that the files of a failed test can be inspected.
    temporary = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _temporary())
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return  # the process that distributes the tests runs none of them
    gc.disable()  # until the tests are collected: little of what importing makes is garbage
    # short: a Unix socket's path has 108 bytes at most
    home = Path(tempfile.mkdtemp(prefix="headway-test-", dir=temporary))
    config.stash[_home] = home
    (home / "tmp").mkdir()
    for name in [name for name in os.environ if name.startswith(("HEADWAY_", "XDG_"))]:
        del os.environ[name]
    os.environ.update(HOME=str(home), TMPDIR=str(home / "tmp"), NO_COLOR="1", COLUMNS="120", MPLBACKEND="Agg")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    tempfile.tempdir = None  # it was cached before TMPDIR moved
    set_hypothesis_home_dir(home / "hypothesis")


def _temporary() -> str:
    """A folder in memory if there is one with room, from which programs may run; else the system's own folder."""
    memory = "/dev/shm"
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free <= ROOM_BYTES:
        return tempfile.gettempdir()
    barred = os.statvfs(memory).f_flag & os.ST_NOEXEC  # as in most containers
    return tempfile.gettempdir() if barred else memory


@functools.cache
def _missing_kits() -> frozenset[str]:
    """The kits of the repository that this installation is without; none but in `test_core_alone.py`."""
    from headway.kits import BUILT_IN

    here = {path.parent.name for path in (ROOT / "src/headway/kits").glob("*/__init__.py")}
    return frozenset(here - set(BUILT_IN))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if not _missing_kits() or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    needed = re.findall(r"^from (?:headway|tests)\.kits\.(\w+)", text, re.MULTILINE)
    needed += re.findall(r"^from headway\.kits import (\w+)", text, re.MULTILINE)
    needed += re.findall(r'^pytestmark = pytest\.mark\.kits\("(\w+)"\)', text, re.MULTILINE)
    return True if _missing_kits().intersection(needed) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if _missing_kits() else ():
        needed = {name for mark in item.iter_markers("kits") for name in mark.args}
        absent = _missing_kits() if "*" in needed else needed & _missing_kits()
        if absent:
            item.add_marker(pytest.mark.skip(reason=f"needs the kits {', '.join(sorted(absent))}"))


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # half a million objects that no collection needs to visit again


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("engines")
        names = mark.args if mark and mark.args else ("sqlite", "postgresql")
        slow = mark.kwargs.get("slow") if mark else None
        if "postgres" in _missing_kits():
            names = tuple(name for name in names if name != "postgresql")
        if len(names) > 1 and not _OF_THE_STORE.intersection(metafunc.definition.path.relative_to(ROOT).parts):
            slow = "postgresql"
        chosen = [pytest.param(name, marks=pytest.mark.slow) if name == slow else name for name in names]
        metafunc.parametrize("engine", chosen, indirect=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if home := config.stash.get(_home, None):
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data for tests: $HEADWAY_DATA, or ../shared/data beside the repository; skips the test if neither exists."""
    folder = Path(_data) if _data else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder (set HEADWAY_DATA)")
    return folder


@pytest.fixture(scope="session")
def model_cache() -> Iterator[Path]:
    """A cache with every known model, inside .venv; sets HEADWAY_CACHE on first use.

    The first test that needs the models downloads them; the others wait for the lock of the cache. A test that damages
    or removes a model uses a separate cache.
    """
    from headway.kits import models
    from headway.nouns.errors import Unavailable

    cache = ROOT / ".venv" / "headway-cache"
    try:
        for name in models.KNOWN:
            models.add(name, cache)
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"{error}, and CI is set", pytrace=False)
        pytest.skip(f"the models could not be downloaded: {error}")
    os.environ["HEADWAY_CACHE"] = str(cache)
    yield cache
    os.environ.pop("HEADWAY_CACHE", None)


@pytest.fixture(scope="session")
def need_tool() -> Callable[..., str]:
    """Find a program: `need_tool("bwrap", package="bubblewrap")` returns its path.

    The test is skipped if it is missing, and fails under CI, where a skip could go unnoticed.
    """

    def find(name: str, *, package: str = "") -> str:
        path = shutil.which(name)
        if path is None:
            reason = f"{name!r} is not on PATH (install the package {package or name!r})"
            if os.environ.get("CI"):
                pytest.fail(f"{reason}, and CI is set", pytrace=False)
            pytest.skip(reason)
        return path

    return find


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL server for this worker; skips the test if none can be started (fails under CI)."""
    from tests.postgres import Server, ServerUnavailable

    with ExitStack() as stack:
        try:
            server = stack.enter_context(Server.started())
        except ServerUnavailable as error:
            if os.environ.get("CI"):
                pytest.fail(f"no PostgreSQL, and CI is set: {error}", pytrace=False)
            pytest.skip(f"no PostgreSQL: {error}")
        yield server


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """ "sqlite" or "postgresql": every test that uses it runs on both."""
    return str(request.param)


@pytest.fixture
def place(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Path | str:
    """The path or URL of this test's store, for `open_database`."""
    if engine == "sqlite":
        return tmp_path / "headway.db"
    url: str = request.getfixturevalue("postgres").store()
    return url


@pytest.fixture
def environ(engine: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of a project on this engine: `headway.open(folder, environ=environ)`."""
    return {} if engine == "sqlite" else {"HEADWAY_STORE_URL": request.getfixturevalue("postgres").store()}


@pytest.fixture(autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    """Fail a test that leaves a child process, a listening port or a non-daemon thread. Takes well under 1 ms."""
    children, sockets, threads = _children(), _sockets(), set(threading.enumerate())
    yield

    def left() -> list[str]:
        new = [f"child process {pid}: {name}" for pid, name in _children().items() if pid not in children]
        new += [f"listening on {where}" for where in _listening(_sockets(), sockets)]
        return new + [
            f"thread {thread.name!r} (not a daemon)"
            for thread in threading.enumerate()
            if thread not in threads and not thread.daemon and thread.is_alive()
        ]

    until = time.monotonic() + GRACE_S
    while (leftovers := left()) and time.monotonic() < until:
        time.sleep(0.02)
    if leftovers:
        pytest.fail("left behind: " + "; ".join(leftovers), pytrace=False)


def _children() -> dict[int, str]:
    """Living children of this process by id (not zombies, and not Python's resource tracker)."""
    tracker = getattr(resource_tracker._resource_tracker, "_pid", None)
    children: dict[int, str] = {}
    try:
        pids = [
            int(pid)
            for task in Path("/proc/self/task").iterdir()
            for pid in (task / "children").read_text("ascii").split()
        ]
    except (FileNotFoundError, ProcessLookupError):  # a thread just ended, or this is not Linux
        import psutil

        pids = [child.pid for child in psutil.Process().children()]
    for pid in pids:
        if pid == tracker:
            continue
        try:
            state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
            if state != "Z":
                children[pid] = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return children


def _sockets() -> dict[int, int]:
    """Sockets that this process holds: inode → descriptor."""
    sockets: dict[int, int] = {}
    for name in os.listdir("/dev/fd"):  # noqa: PTH208  (names only: a Path per descriptor costs more than the rest)
        try:
            info = os.fstat(int(name))
        except OSError:  # the descriptor that listed the folder
            continue
        if stat.S_ISSOCK(info.st_mode):
            sockets[info.st_ino] = int(name)
    return sockets


def _listening(now: dict[int, int], before: dict[int, int]) -> Iterator[str]:
    for inode in now.keys() - before.keys():
        try:
            with socket.socket(fileno=os.dup(now[inode])) as duplicate:
                if duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    yield str(duplicate.getsockname())
        except OSError:  # closed meanwhile
            continue
