"""Thirty kills of each part: what is stored is exactly what was read or answered, and no process is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from headway.kits.models.language import Prompt
from headway.kits.reply.client import LanguageWorker
from headway.kits.sandbox import Limits, sandbox
from headway.kits.simulator.problem import sealed, write_problems
from headway.nouns.errors import Unavailable
from tests.cli.terminal import headway
from tests.kits.reply.test_worker import spawned
from tests.kits.reply.tiny import make
from tests.kits.simulator.test_run import numbered, rows_of
from tests.loop.running import until
from tests.loop.test_kills import storm
from tests.loop.test_watch import kill_at_random
from tests.project.imports import INTERACTION, lines
from tests.project.test_import import kill_and_resume
from tests.serve.conftest import Running, served  # noqa: F401 — a fixture
from tests.serve.test_parity import killed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
KILLS = 30


def test_thirty_kills_of_an_import_lose_nothing_and_add_nothing_twice(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [{**INTERACTION, "prompt": f"{n}"} for n in range(40_000)])
    folder = tmp_path / "project"
    folder.mkdir()
    limits = sorted(1000 * place for place in random.Random(23).choices(range(1, 38), k=KILLS))
    kill_and_resume(folder, path, 40_000, limits)


def test_thirty_kills_of_the_server_lose_no_answered_decision(served: Callable[..., Running]) -> None:  # noqa: F811
    killed(served, KILLS, seed=23)


def test_thirty_kills_each_of_loop_server_and_supervisor_lose_nothing(tmp_path: Path) -> None:
    kills = ["loop", "server", "up"] * KILLS
    random.Random(23).shuffle(kills)
    storm(tmp_path, kills, seed=23)


def test_a_watch_that_is_killed_thirty_times_promotes_once(tmp_path: Path) -> None:
    kill_at_random(tmp_path, KILLS, seed=23)


def test_thirty_kills_of_a_run_of_problems_give_every_result_once(
    tmp_path: Path, need_tool: Callable[..., str]
) -> None:
    need_tool("bwrap", package="bubblewrap")
    slow = "import time\ndef double(number):\n    time.sleep(0.02)\n    return {factor} * number"
    problems = [
        sealed(msgspec.structs.replace(problem, reference=slow.format(factor=3 if place % 7 == 0 else 2)))
        for place, problem in enumerate(numbered(600))
    ]
    tasks, out, whole = (tmp_path / name for name in ("problems.jsonl", "results.jsonl", "whole.jsonl"))
    write_problems(tasks, problems)
    rng = random.Random(23)

    def size() -> int:
        return out.read_bytes().count(b"\n") if out.exists() else 0

    command = [sys.executable, "-m", "headway", "sim", "run", "--tasks", str(tasks), "--workers", "2", "--out"]
    for _ in range(KILLS):
        goal = size() + rng.randint(1, 18)
        run = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: size() >= goal, "more results")  # noqa: B023
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    assert size() < len(problems), "every kill interrupted the run"
    for path in (out, whole):
        headway(*command[3:], str(path))
    assert rows_of(out) == rows_of(whole)
    assert [row["id"] for row in rows_of(out)] == [problem.id for problem in problems]
    assert [row["status"] for row in rows_of(out)[:3]] == ["failed", "passed", "passed"]


@pytest.mark.parametrize("name", ["process", "bubblewrap"])
def test_a_run_whose_keeper_is_killed_never_passes_and_leaves_no_process(
    tmp_path: Path, need_tool: Callable[..., str], name: str
) -> None:
    if name == "bubblewrap":
        need_tool("bwrap", package="bubblewrap")
    box, limits, rng = sandbox(name), Limits(wall_s=60), random.Random(23)
    with ThreadPoolExecutor(1) as pool:
        for number in range(KILLS):
            mark = f"mark{os.getpid()}x{number}x{tmp_path.name}"
            source = f"import time\nwhile True: time.sleep(0.01)  # {mark}"
            run = pool.submit(box.run, source, limits=limits)
            (keeper,) = until(
                lambda: [pid for pid in children(os.getpid()) if "PR_SET_CHILD_SUBREAPER" in words(pid)], "the keeper"
            )
            if rng.random() < 0.7:  # otherwise it is killed while it starts
                until(lambda: [pid for pid in descendants(keeper) if mark in words(pid)], "the program")  # noqa: B023
            below = list(descendants(keeper))
            os.kill(keeper, signal.SIGKILL)
            result = run.result(timeout=60)
            assert result.status in {"failed", "error"}, result
            until(lambda: not [pid for pid in below if mark in words(pid)], "the end of the program")  # noqa: B023


def test_thirty_kills_of_the_language_worker_end_no_answer_half(tmp_path: Path) -> None:
    model = make(tmp_path / "model", "llama", window=4096, endless=True)
    folder = tmp_path / "project"
    folder.mkdir()
    prompt = Prompt(text="x", max_tokens=24, temperature=0)
    client, rng = LanguageWorker(folder, model), random.Random(23)
    replies = set()
    for _ in range(KILLS):
        with spawned(folder) as worker:
            assert worker.stdout is not None
            assert b"listens" in worker.stdout.readline()
            replies.add(client.generate([prompt])[0].text)
            stream = client.stream(prompt)
            heard, ended = "", False
            for _, delta in zip(range(rng.randint(0, 5)), stream, strict=False):
                heard += delta.text
            worker.kill()
            with suppress(Unavailable):
                for delta in stream:
                    heard += delta.text
                    ended = delta.completion is not None
        (whole,) = replies
        assert whole.startswith(heard)
        assert not ended or heard == whole


def children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            yield from map(int, task.read_text("ascii").split())
        except OSError:  # it has just ended
            continue


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""
