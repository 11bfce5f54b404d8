"""tests/conftest.py catches leaked processes, ports and threads, and hanging tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.rooms import ROOT

TESTS = """
import os, socket, subprocess, tempfile, threading
import pytest

kept = []

@pytest.fixture(scope="module", autouse=True)
def tidy():
    yield
    kept[0].kill(); kept[0].wait(); kept[1].close(); kept[2].set()

def test_leaves_a_process():
    kept.append(subprocess.Popen(["sleep", "60"]))

def test_leaves_a_port():
    kept.append(socket.create_server(("127.0.0.1", 0)))

def test_leaves_a_thread():
    kept.append(threading.Event())
    threading.Thread(target=kept[2].wait, name="stray").start()

def test_cleans_up():
    subprocess.run(["true"], check=True)
    with socket.create_server(("127.0.0.1", 0)):
        pass
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    threading.Thread(target=kept[2].wait, daemon=True).start()

def test_has_its_own_home():
    assert os.environ["HOME"] == os.path.dirname(tempfile.gettempdir()) != os.environ["OUTER_HOME"]
    assert not [name for name in os.environ if name.startswith("HEADWAY_")]

def test_needs_a_tool(need_tool):
    need_tool("no-such-program", package="nothing")

@pytest.mark.timeout(0.2)
def test_hangs():
    threading.Event().wait()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of pytest for TESTS with our conftest.py and CI set."""
    folder = tmp_path_factory.mktemp("ground")
    conftest = (ROOT / "tests" / "conftest.py").read_text("utf-8")
    assert "GRACE_S = 2.0" in conftest
    (folder / "conftest.py").write_text(conftest.replace("GRACE_S = 2.0", "GRACE_S = 0.05"), "utf-8")
    (folder / "test_inside.py").write_text(TESTS, "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\ntimeout_method = signal\n", "utf-8")
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "pytest_timeout", folder],
        cwd=folder,
        env={
            **outer,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "CI": "1",
            "HEADWAY_POLICY": "off",
            "OUTER_HOME": os.environ["HOME"],
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "line",
    [
        "ERROR test_inside.py::test_leaves_a_process - Failed: left behind: child process",
        "ERROR test_inside.py::test_leaves_a_port - Failed: left behind: listening on ('127.0.0.1', ",
        "ERROR test_inside.py::test_leaves_a_thread - Failed: left behind: thread 'stray'",
        "PASSED test_inside.py::test_cleans_up",
        "PASSED test_inside.py::test_has_its_own_home",
        "FAILED test_inside.py::test_needs_a_tool - Failed: 'no-such-program' is not on PATH",
        "FAILED test_inside.py::test_hangs - Failed: Timeout",
    ],
)
def test_only_the_misbehaving_test_fails(report: str, line: str) -> None:
    assert line in report
    assert "2 failed" in report
    assert "3 errors" in report


def test_a_test_that_hangs_shows_where(report: str) -> None:
    assert "threading.Event().wait()" in report


def test_a_test_run_leaves_no_files(report: str) -> None:
    assert not list(Path(os.environ["TMPDIR"]).glob("headway-test-*"))
