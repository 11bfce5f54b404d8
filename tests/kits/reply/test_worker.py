"""The language worker: requests over its socket from threads, tasks and processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as some
import pytest

from headway.kits.models.language import Prompt, Turn
from headway.kits.reply.client import AsyncLanguageWorker, LanguageWorker
from headway.kits.reply.model import LanguageModel
from headway.kits.reply.wire import Generate, frame, socket_of
from headway.kits.reply.worker import WorkerServer
from headway.nouns.errors import Conflict, InvalidInput, Unavailable, UnknownName
from tests.kits.reply.tiny import make
from tests.loop.running import alive, until, up

LONG = 4000  # generating these tokens takes seconds: a caller must not have to wait for all of them
PROMPTS = [Prompt(text=text, max_tokens=12, seed=at) for at, text in enumerate(["a", "bcd", "Grüße " * 6, "x" * 40])]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("endless"), "llama", window=4096, endless=True)


@pytest.fixture(scope="module")
def here(model: Path) -> LanguageModel:
    """The same model in this process."""
    return LanguageModel.load(model, device="cpu")


@contextlib.contextmanager
def working(folder: Path, **settings: Any) -> Iterator[WorkerServer]:
    """A worker in a thread of this process."""
    folder.mkdir(exist_ok=True, parents=True)
    work = WorkerServer(folder, device="cpu", environ={}, **settings)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work.run()
        except BaseException as error:
            failed.append(error)
            work.ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert work.ready.wait(60)
    if failed:
        thread.join()
        raise failed[0]
    try:
        yield work
    finally:
        work.stop()
        thread.join()
    assert not failed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("project")
    with working(folder):
        yield folder


@pytest.fixture
def _module_worker_stays(project: Path) -> None:
    """Starts the module's worker before the check for leaked processes takes its first snapshot."""


def test_a_worker_gives_the_same_text_as_the_model(project: Path, model: Path, here: LanguageModel) -> None:
    made = LanguageWorker(project, model).generate(PROMPTS)
    for served, local in zip(made, here.generate(PROMPTS), strict=True):
        assert served.text == local.text
        assert served.tokens == local.tokens
        assert served.logprob_model == pytest.approx(local.logprob_model, abs=1e-4)
        assert served.seed == local.seed


def test_the_lock_of_a_language_worker_is_not_that_of_the_loop(project: Path) -> None:
    """Otherwise the loop of `headway up` waits for the language worker to end."""
    import headway
    from headway.observe.jobs import at_work, worker_there

    with headway.open(project) as opened:
        assert not worker_there(opened.database)
        with at_work(opened.database):
            assert worker_there(opened.database)


def test_a_stream_adds_up_to_the_reply(project: Path, model: Path) -> None:
    worker = LanguageWorker(project, model)
    prompt = Prompt(turns=(Turn("user", "Grüße"),), max_tokens=50, seed=3)
    deltas = list(worker.stream(prompt))
    (whole,) = worker.generate([prompt])
    assert deltas[-1].completion == whole
    assert "".join(delta.text for delta in deltas) == whole.text
    assert len(deltas) > 10


def test_a_worker_scores(project: Path, model: Path, here: LanguageModel) -> None:
    prompt = Prompt(text="abc", max_tokens=9)
    for reply in ("def", (1, 2, 3)):
        served, local = LanguageWorker(project, model).score(prompt, reply), here.score(prompt, reply)
        assert served.tokens == local.tokens
        assert served.logprobs == pytest.approx(local.logprobs, abs=1e-4)


def test_questions_of_several_threads_are_answered_together(project: Path, model: Path, here: LanguageModel) -> None:
    worker = LanguageWorker(project, model)
    streams = [worker.stream(Prompt(text=f"{at}", max_tokens=LONG, seed=at)) for at in range(5)]
    with ThreadPoolExecutor(5) as threads:
        list(threads.map(next, streams))
        assert worker.health().running == 5, "one batch"
        short = [Prompt(text=f"{at}", max_tokens=10, seed=at) for at in range(5)]
        replies = list(threads.map(lambda prompt: worker.generate([prompt])[0], short))
        assert worker.health().running == 5, "the short requests have joined the batch and left it"
    assert [reply.tokens for reply in replies] == [reply.tokens for reply in here.generate(short)]
    for stream in streams:
        stream.close()
    until(lambda: worker.health().running == 0, "the end of the abandoned questions")


def test_a_cancelled_question_generates_no_more_tokens(project: Path, model: Path) -> None:
    worker = LanguageWorker(project, model)
    before = worker.health().made
    stream = worker.stream(Prompt(text="x", max_tokens=LONG))
    assert next(stream)
    assert worker.health().running == 1
    stream.close()
    until(lambda: worker.health().running == 0, "the end of the abandoned questions")
    assert worker.health().made == before


def test_a_deadline_bounds_the_answer(project: Path, model: Path) -> None:
    worker = LanguageWorker(project, model, deadline_s=0.2)
    with pytest.raises(Unavailable) as caught:
        worker.generate([Prompt(text="x", max_tokens=LONG)])
    assert caught.value.code == "deadline"
    until(lambda: LanguageWorker(project, model).health().running == 0, "the end of the abandoned questions")


def test_errors_arrive_as_they_were_raised(project: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as wrong:
        LanguageWorker(project, model).generate([Prompt(text="x", temperature=-1)])
    assert wrong.value.code == "bad_prompt"
    with pytest.raises(InvalidInput) as long:
        LanguageWorker(project, model).generate([Prompt(text="x", max_tokens=5000)])
    assert long.value.code == "prompt_too_long"
    with pytest.raises(Unavailable) as missing:
        LanguageWorker(project, "smollm2").generate([Prompt(text="x")])
    assert missing.value.code == "model_missing"
    assert "headway models add smollm2" in missing.value.hint
    with pytest.raises(UnknownName):
        LanguageWorker(project, tmp_path / "none").generate([Prompt(text="x")])
    assert LanguageWorker(project, model).generate([]) == []


def test_tasks_of_an_event_loop_can_ask(project: Path, model: Path, here: LanguageModel) -> None:
    async def everything() -> None:
        worker = AsyncLanguageWorker(project, model)
        made = await asyncio.gather(*(worker.generate([text]) for text in PROMPTS))
        expected = here.generate(PROMPTS)
        assert [one.tokens for (one,) in made] == [reply.tokens for reply in expected]
        assert "".join([event.text async for event in worker.stream(PROMPTS[2])]) == expected[2].text
        scored = await worker.score(PROMPTS[0], expected[0].tokens)
        assert scored.logprobs == pytest.approx(expected[0].logprob_model, abs=1e-4)
        before = (await worker.health()).made
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await worker.generate([Prompt(text="x", max_tokens=LONG)])
        while (await worker.health()).running:
            await asyncio.sleep(0.01)
        assert (await worker.health()).made == before, "a cancelled task cancels its question"
        with pytest.raises(InvalidInput):
            await worker.generate([Prompt()])

    asyncio.run(everything())


@pytest.mark.usefixtures("_module_worker_stays")
def test_without_a_worker_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        LanguageWorker(tmp_path, "smollm2").generate([Prompt(text="x")])
    assert caught.value.code == "worker_missing"
    assert "headway worker" in caught.value.hint
    with pytest.raises(Unavailable) as late:
        asyncio.run(AsyncLanguageWorker(tmp_path, "smollm2").generate([Prompt(text="x")]))
    assert late.value.code == "worker_missing"


@pytest.mark.usefixtures("_module_worker_stays")
def test_a_second_worker_is_refused(project: Path) -> None:
    with pytest.raises(Conflict) as caught, working(project):
        pass
    assert caught.value.code == "already_running"
    assert LanguageWorker(project, "x").health().pid == os.getpid(), "the first one is still there"


def test_only_its_user_can_reach_it(project: Path) -> None:
    path = socket_of(project)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@hypothesis.settings(max_examples=40, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(body=some.one_of(some.binary(max_size=64), some.just(b"\x91" * 5000)), honest=some.booleans())
def test_invalid_bytes_are_refused_and_the_worker_survives(project: Path, body: bytes, honest: bool) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(socket_of(project)))
        connection.sendall((len(body).to_bytes(4, "big") if honest else b"\xff\xff\xff\xff") + body)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert LanguageWorker(project, "x").health().pid == os.getpid()


def test_a_long_path_works(tmp_path: Path, model: Path) -> None:
    folder = tmp_path / ("d" * 120) / "project"
    with working(folder):
        (made,) = LanguageWorker(folder, model).generate([Prompt(text="x", max_tokens=3)])
        assert len(made.tokens) == 3
        assert asyncio.run(AsyncLanguageWorker(folder, model).health()).pid == os.getpid()


def test_an_idle_model_is_unloaded_and_loaded_again(tmp_path: Path, model: Path) -> None:
    lines: list[str] = []
    with working(tmp_path, idle_s=0.05, say=lines.append):
        worker = LanguageWorker(tmp_path, model)
        first = worker.generate([Prompt(text="x", max_tokens=3)])
        until(lambda: worker.health().models == (), "the model to be let go")
        assert worker.generate([Prompt(text="x", max_tokens=3)]) == first
    assert sum("is loaded" in reply for reply in lines) == 2


@pytest.mark.slow
def test_two_models_are_held_and_a_third_replaces_the_oldest(tmp_path: Path, model: Path) -> None:
    with working(tmp_path / "project"):
        for name in ("one", "two", "three"):
            shutil.copytree(model, tmp_path / name)
            LanguageWorker(tmp_path / "project", tmp_path / name).generate([Prompt(text="x", max_tokens=1)])
        held = LanguageWorker(tmp_path / "project", "x").health().models
    assert [Path(reply.folder).name for reply in held] == ["two", "three"]


def test_stopping_reports_an_error_to_waiting_clients(tmp_path: Path, model: Path) -> None:
    with working(tmp_path, grace_s=0.2) as work:
        stream = LanguageWorker(tmp_path, model).stream(Prompt(text="x", max_tokens=LONG))
        next(stream)
        work.stop()
        with contextlib.suppress(Unavailable):
            assert list(stream)[-1].completion is not None, "it finished within the grace period"
        with pytest.raises(Unavailable):
            LanguageWorker(tmp_path, model).health()
    assert not socket_of(tmp_path).exists()


# -- in separate processes


def spawned(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headway.kits.reply.worker", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow  # test_generate.py asks a real process in every run
def test_a_killed_worker_is_detected_and_replaced_by_the_next_one(tmp_path: Path, model: Path) -> None:
    with spawned(tmp_path) as process:
        try:
            assert process.stdout is not None
            assert b"listens" in process.stdout.readline()
            worker = LanguageWorker(tmp_path, model)
            stream = worker.stream(Prompt(text="x", max_tokens=LONG))
            next(stream)
            process.kill()
            process.wait()
            with pytest.raises(Unavailable) as lost:
                list(stream)
            assert lost.value.code == "worker_lost"
            with pytest.raises(Unavailable) as missing:
                worker.health()
            assert missing.value.code == "worker_missing", "its socket file still exists"
        finally:
            process.kill()
    with working(tmp_path):
        assert LanguageWorker(tmp_path, model).generate([Prompt(text="x", max_tokens=2)])


def test_sigterm_ends_a_worker_with_status_0(tmp_path: Path) -> None:
    with spawned(tmp_path) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    assert not socket_of(tmp_path).exists()


# As `headway up` does for a kit with a worker.
SUPERVISE = """
import sys
from pathlib import Path
from headway.loop.supervisor import Supervisor
workers = {"worker": "headway.kits.reply.worker"}
say = lambda line: print(line, flush=True)
ready = lambda url, link: say(f"Headway is up at {url} {link}")
sys.exit(Supervisor(Path(sys.argv[1]), say=say, ready=ready, port=0, watch=False, workers=workers).run())
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc")
def test_a_supervisor_keeps_a_worker_running_and_stops_it(tmp_path: Path, model: Path) -> None:
    with up(tmp_path, program=("-c", SUPERVISE, str(tmp_path))) as running:
        running.wait_for("Headway is up")
        worker = LanguageWorker(tmp_path, model)

        def pid() -> int:
            with contextlib.suppress(Unavailable):
                return worker.health().pid
            return 0

        first = until(pid, "the worker")
        assert first in running.children()
        os.kill(first, signal.SIGKILL)
        second = until(lambda: pid() not in (0, first) and pid(), "another worker")
        running.process.kill()
        running.process.wait()
        until(lambda: not alive(second), "the end of the worker")


def test_asking_a_worker_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, headway.kits.reply.client; print(*sorted({each.partition('.')[0] for each in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "transformers", "numpy"}


def test_an_unused_worker_has_loaded_nothing_heavy() -> None:
    code = "import sys, headway.kits.reply.worker; print(*sorted({each.partition('.')[0] for each in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "transformers"}


def test_an_unencodable_question_is_refused_before_it_is_sent(project: Path, model: Path) -> None:
    with pytest.raises(InvalidInput, match="bytes"):
        LanguageWorker(project, model).generate([Prompt(text="x" * 33_000_000)])
    for prompt in (Prompt(text="\ud83c"), Prompt(text="x", seed=1 << 70)):
        with pytest.raises(InvalidInput) as caught:
            frame(Generate("x", (prompt,)))
        assert caught.value.code == "bad_prompt"
