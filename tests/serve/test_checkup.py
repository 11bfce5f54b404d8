"""`GET /v1/doctor`: calls that come together are answered by one check."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import headway
from headway.serve.routes.installation import _checked
from tests.serve.conftest import Running

ROOT = Path(__file__).resolve().parents[2]


def test_a_module_in_the_folder_where_the_server_was_started_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m` looks there first: a `click.py` in somebody's repository would run with the server's rights."""
    headway.open(tmp_path / "project", environ={}).close()
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "click.py").write_text("open('it-ran', 'w').close()\nraise SystemExit(0)\n")
    monkeypatch.chdir(strange)
    assert _checked(str(tmp_path / "project"), False).checks
    assert [path.name for path in strange.iterdir()] == ["click.py"]


def test_every_program_of_ours_is_started_without_the_current_folder() -> None:
    lines = [
        (path.name, line.strip())
        for path in (ROOT / "src").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if "sys.executable" in line and '"-m"' in line
    ]
    assert len(lines) >= 5
    assert [line for line in lines if '"-P", "-m"' not in line[1]] == []


@pytest.mark.slow
def test_checkups_that_are_asked_for_together_are_one_process(served: Callable[..., Running]) -> None:
    server = served("")
    me, running = psutil.Process(), threading.Event()
    seen: set[int] = set()

    def ask(_: int) -> Any:
        answer = server.client.get("/v1/doctor", headers=server.token, timeout=60)
        assert answer.status_code == 200
        return answer.json()

    def look() -> None:
        while not running.wait(0.01):
            seen.update(child.pid for child in me.children(recursive=True) if "doctor" in _line(child))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        with ThreadPoolExecutor(6) as threads:
            first, *others = threads.map(ask, range(6))
    finally:
        running.set()
        watching.join()
    assert all(other == first for other in others)
    assert len(seen) == 1


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
