"""Child processes: one, several, and those whose parent dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.client.children import Children
from headway.client.process import Backoff, Child, exit_words, run
from headway.nouns.errors import Unavailable
from tests.loop.running import alive, until

needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc")
FOREVER = "import threading; threading.Event().wait()"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules children can run."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def module(folder: Path, name: str, source: str) -> str:
    (folder / f"{name}.py").write_text(textwrap.dedent(source), "utf-8")
    return name


@pytest.fixture
def pipe() -> Iterator[int]:
    read, write = os.pipe()
    yield read
    os.close(read)
    os.close(write)


# -- one child


def test_a_child_that_dies_early_is_restarted_with_growing_pauses(tmp_path: Path, pipe: int) -> None:
    child = Child("broken", ["headway.no_such_module"], pipe=pipe, log=tmp_path / "run" / "broken.log")
    now, waits = 100.0, []
    for _ in range(3):
        child.start(now)
        until(lambda: child.ended, "its end")
        assert child.bury(now) == 1
        waits.append(child.start_after - now)
        now = child.start_after
    assert waits == pytest.approx([0.2, 0.4, 0.8])
    assert "no_such_module" in child.failure().message
    child.start(now)
    until(lambda: child.ended, "its end")
    child.bury(now + 61)
    assert child.start_after == pytest.approx(now + 61.2), "it had run for a minute"


def test_the_wait_before_a_restart_doubles_up_to_a_limit() -> None:
    backoff = Backoff()
    waits = [backoff.wait_s(deaths) for deaths in range(1, 11)]
    assert waits == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
    assert backoff.wait_s(1000) == 30.0


def test_the_first_line_is_the_report_and_the_others_are_output(modules: Path, pipe: int) -> None:
    name = module(modules, "reporting", """print('{"url": "x"}'); print("one"); print("two")""")
    child = Child("reporter", [name], pipe=pipe, reports=True)
    child.start(0.0)
    until(lambda: child.ended, "its end")
    assert child.lines() == ["one", "two"]
    assert child.report == {"url": "x"}
    assert child.output is None, "the output has ended"
    assert child.bury(1.0) == 0
    assert not child.ready


def test_the_reason_of_a_failed_start_comes_from_the_report_the_log_or_the_status(modules: Path, pipe: int) -> None:
    source = """import json, sys; print(json.dumps({"code": "port_in_use", "message": "Taken.", "hint": "Wait."}))"""
    reporting = Child("reporter", [module(modules, "reporting", source)], pipe=pipe, reports=True)
    logging = Child(
        "logger",
        [module(modules, "logging_child", "import sys; sys.exit('bad_port: Port 0 is bad.')")],
        pipe=pipe,
        log=modules / "child.log",
    )
    silent = Child("worker 1", [module(modules, "silent", "import sys; sys.exit(3)")], pipe=pipe)
    for child in (reporting, logging, silent):
        child.start(0.0)
        until(lambda: child.ended, "its end")  # noqa: B023
        child.lines()
        assert not child.ready
        child.bury(0.0)
    failures = [child.failure() for child in (reporting, logging, silent)]
    assert [(failure.code, failure.message) for failure in failures] == [
        ("port_in_use", "Taken."),
        ("bad_port", "Port 0 is bad."),
        ("child_failed", "The worker 1 ended (status 3) before it was ready."),
    ]


@needs_proc
@pytest.mark.parametrize("ending", ["kill", "bury"])
def test_processes_of_a_child_end_with_it(modules: Path, pipe: int, ending: str) -> None:
    source = f"""
        import json, subprocess, sys, threading
        inner = subprocess.Popen([sys.executable, "-c", "{FOREVER}"])
        print(json.dumps({{"inner": inner.pid}}), flush=True)
        threading.Event().wait()
    """
    child = Child("outer", [module(modules, "outer", source)], pipe=pipe, reports=True)
    child.start(0.0)
    until(lambda: child.lines() or child.ready, "its report")
    inner = child.report["inner"]
    assert alive(inner)
    if ending == "kill":
        child.kill()
        assert child.status == -signal.SIGKILL
    else:
        os.kill(child.pid, signal.SIGKILL)
        until(lambda: child.ended, "its end")
        assert child.bury(0.0) == -signal.SIGKILL
    until(lambda: not alive(inner), "the end of what it started")


def test_an_exit_status_has_a_name() -> None:
    assert [exit_words(status) for status in (0, 3, -9, -15, -250)] == [
        "status 0",
        "status 3",
        "SIGKILL",
        "SIGTERM",
        "signal 250",
    ]


# -- several


def test_children_become_ready_end_and_start_again(modules: Path) -> None:
    source = """
        import os, pathlib, sys, threading
        print('{"pid": %d}' % os.getpid(), flush=True)
        print("hello", flush=True)
        mark = pathlib.Path(sys.argv[1])
        if mark.exists():
            threading.Event().wait()
        mark.touch()
        sys.exit(5)
    """
    name = module(modules, "second_time_lucky", source)
    printed: list[str] = []
    backoff = Backoff(first_s=0.01)
    with Children(stop_timeout_s=30.0, say=lambda child, line: printed.append(f"{child.name}: {line}")) as children:
        child = children.add("one", [name, str(modules / "mark")], reports=True, backoff=backoff)
        children.start(child)
        seen: list[int | None] = []

        def ready_again() -> bool:
            for event in children.wait():
                seen.append(event.status)
            children.restart()
            return bool(child.ready and child.deaths)

        until(ready_again, "the second start")
        until(lambda: children.wait() or len(printed) == 2, "its second line")
        assert 5 in seen
        pid = child.pid
    assert printed == ["one: hello", "one: hello"]
    assert not child.running
    assert child.status == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_that_ends_before_it_is_ready_is_an_error(modules: Path) -> None:
    with Children(stop_timeout_s=30.0) as children:
        broken = children.add("broken", [module(modules, "broken", "raise SystemExit(4)")], reports=True)
        waiting = children.add("waiting", [module(modules, "waiting", FOREVER)], reports=True)
        children.start(broken, waiting)
        with pytest.raises(Unavailable, match=r"The broken ended \(status 4\) before it was ready"):
            children.wait_until_ready(broken, waiting, timeout_s=60.0)
        children.remove(broken)
        with pytest.raises(Unavailable, match="The waiting did not answer within 0 s"):
            children.wait_until_ready(waiting, timeout_s=0.0)
    assert not waiting.running


STUBBORN = """
    import signal, threading
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print('{"pid": 1}', flush=True)
    threading.Event().wait()
"""
POLITE = """
    import signal, sys, threading
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print('{"pid": 1}', flush=True)
    threading.Event().wait()
"""
ASKING = """
    import os, signal, threading

    def ask(*_):
        os.kill(os.getppid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, ask)
    print('{"pid": 1}', flush=True)
    ask()
    threading.Event().wait()
"""


def test_a_stop_is_clean_if_all_children_end_by_themselves(modules: Path) -> None:
    with Children(stop_timeout_s=60.0) as children:
        polite = children.add("polite", [module(modules, "polite", POLITE)], reports=True)
        children.start(polite)
        assert children.wait_until_ready(polite, timeout_s=60.0)
        assert children.stop()
    assert polite.status == 0


def test_a_child_that_does_not_stop_is_killed(modules: Path) -> None:
    with Children(stop_timeout_s=0.05) as children:
        stubborn = children.add("stubborn", [module(modules, "stubborn", STUBBORN)], reports=True)
        children.start(stubborn)
        assert children.wait_until_ready(stubborn, timeout_s=60.0)
        assert not children.stop()
    assert stubborn.status == -signal.SIGKILL


def test_a_second_stop_does_not_wait(modules: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Children(stop_timeout_s=1e6, impatient=True) as children:
        asking = children.add("asking", [module(modules, "asking", ASKING)], reports=True)
        children.start(asking)
        children.wait_until_ready(asking, timeout_s=60.0)
        until(lambda: children.wait() or children.stop_requests, "its request to stop")
        assert not children.stop(), "the child requests a second stop when it is stopped"
    assert asking.status == -signal.SIGKILL
    assert signal.getsignal(signal.SIGTERM) is before


PARENT = """
import sys
from headway.client.children import Children

with Children(stop_timeout_s=60.0) as children:
    child = children.add("polite", ["polite"], reports=True)
    children.start(child)
    children.wait_until_ready(child, timeout_s=60.0)
    print(child.pid, flush=True)
    while not children.stop_requests:
        children.wait()
        children.restart()
"""


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_end_with_their_parent(modules: Path, number: signal.Signals) -> None:
    module(modules, "polite", POLITE)
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.send_signal(number)
        assert parent.wait(timeout=60) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    until(lambda: not alive(child), "the end of the child")


# -- a program that ends by itself


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-c", textwrap.dedent(source)]


def test_a_program_receives_its_input_and_returns_its_output() -> None:
    data = os.urandom(1_000_000)
    source = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d); sys.stderr.write('x'); sys.exit(7)"
    output = run(python(source), data, timeout_s=60.0)
    assert (output.status, output.stderr, output.timed_out) == (7, b"x", False)
    assert output.stdout == data


def test_a_program_that_does_not_read_its_input_does_not_block() -> None:
    output = run(python("print(1)"), b"x" * 1_000_000, timeout_s=60.0)
    assert (output.status, output.stdout) == (0, b"1\n")


def test_output_beyond_the_limit_is_dropped() -> None:
    output = run(python("print('x' * 1_000_000)"), timeout_s=60.0, most_bytes=1000)
    assert (output.status, output.stdout) == (0, b"x" * 1000)


def test_a_program_that_takes_too_long_is_terminated_then_killed(tmp_path: Path) -> None:
    def wait_for_mark() -> None:
        until(lambda: (tmp_path / "mark").exists(), "the program")

    source = f"""
        import pathlib, signal, sys
        signal.signal(signal.SIGTERM, {{}})
        pathlib.Path({str(tmp_path / "mark")!r}).touch()
        while True:
            print("x" * 1000)
    """
    polite = python(source.format("lambda *_: sys.exit(9)"))
    output = run(polite, timeout_s=0.0, grace_s=60.0, most_bytes=10, before_stop=wait_for_mark)
    assert (output.status, output.stdout, output.timed_out) == (9, b"x" * 10, True)
    (tmp_path / "mark").unlink()
    stubborn = python(source.format("signal.SIG_IGN"))
    output = run(stubborn, timeout_s=0.0, grace_s=0.1, most_bytes=10, before_stop=wait_for_mark)
    assert (output.status, output.timed_out) == (-signal.SIGKILL, True)


@needs_proc
def test_a_program_ends_on_an_interrupt(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    write = f"pathlib.Path({str(mark)!r}).write_text(f'{{os.getpid()}}.')"
    inner = f"import os, pathlib, signal, sys; sys.stdin.read(); {write}; signal.pause()"
    code = f"run([sys.executable, '-c', {inner!r}], b'go', timeout_s=600)"  # what it reads is sent once `run` listens
    outer = f"import sys\nfrom headway.client.process import run\n{code}"
    with subprocess.Popen([sys.executable, "-c", outer], stderr=subprocess.DEVNULL) as process:
        text = until(
            lambda: mark.read_text() if mark.exists() and mark.read_text().endswith(".") else "", "the program"
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) != 0
    assert not alive(int(text.rstrip(".")))


def test_starting_processes_loads_no_http_client() -> None:
    code = "import json, sys, headway.client.children; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"httpx", "numpy", "asyncio"} & set(json.loads(done.stdout))
