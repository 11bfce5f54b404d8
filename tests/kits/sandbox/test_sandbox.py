"""Sandboxes: one interface, real limits, real escapes, and no run at all without a sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from headway.kits.sandbox import Limits, Sandbox, Workspace, sandbox
from headway.kits.sandbox.launch import interpreter, keeper_source, spec
from headway.kits.sandbox.seccomp import FORBIDDEN, filter_program
from headway.nouns.errors import InvalidInput, Unavailable, UnknownName
from tests.kits.sandbox import escapes
from tests.loop.running import until

QUICK = Limits(wall_s=5, cpu_s=2, memory_bytes=256 << 20, processes=12, disk_bytes=4 << 20, output_bytes=1000)


@pytest.fixture(params=["process", "bubblewrap"])
def box(request: pytest.FixtureRequest, need_tool: Callable[..., str]) -> Sandbox:
    if request.param == "bubblewrap":
        need_tool("bwrap", package="bubblewrap")
    return sandbox(request.param)


@pytest.fixture
def wrapped(need_tool: Callable[..., str]) -> Sandbox:
    need_tool("bwrap", package="bubblewrap")
    return sandbox("bubblewrap")


def test_source_runs_with_its_files_and_its_stdin(box: Sandbox) -> None:
    source = "import sys; print(open('in/notes.txt').read() + sys.stdin.read()); open('out.txt', 'w').write('x')"
    result = box.run(source, files={"in/notes.txt": "hello "}, stdin="world", limits=QUICK)
    assert (result.status, result.exit_code, result.stdout) == ("passed", 0, "hello world\n"), result
    assert result.sandbox == box.name
    assert 0 < result.seconds < 5
    assert result.peak_memory_bytes > 1 << 20


def test_a_command_runs_and_its_exit_code_is_kept(box: Sandbox) -> None:
    result = box.run(["sh", "-c", "echo oops >&2; exit 3"], limits=QUICK)
    assert (result.status, result.exit_code, result.stderr) == ("failed", 3, "oops\n")
    assert result.why == "it ended with exit code 3"


def test_a_signal_is_a_failure_and_is_named(box: Sandbox) -> None:
    result = box.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", limits=QUICK)
    assert (result.status, result.exit_code, result.why) == ("failed", -11, "it ended by signal 11")


def test_a_missing_program_is_an_error_and_not_a_verdict(box: Sandbox) -> None:
    result = box.run(["no-such-program"], limits=QUICK)
    assert result.status == "error"
    assert "no-such-program" in result.why


def test_the_environment_has_only_six_harmless_variables(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sesame")
    result = box.run("import os, json; print(json.dumps(dict(os.environ)))", limits=QUICK)
    names = set(json.loads(result.stdout))
    assert names <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONNOUSERSITE",
        "PWD",
        "LC_CTYPE",
        "HEADWAY_RUN",
    }, names


def test_output_beyond_the_limit_is_dropped_and_reported(box: Sandbox) -> None:
    result = box.run("print('x' * 100_000)", limits=QUICK)
    assert result.status == "passed"
    assert len(result.stdout) == QUICK.output_bytes
    assert result.truncated


def test_bytes_that_are_not_text_do_not_break_the_report(box: Sandbox) -> None:
    result = box.run("import sys; sys.stdout.buffer.write(bytes(range(256)))", limits=QUICK)
    assert result.status == "passed"
    assert "\ufffd" in result.stdout


def test_a_program_that_never_reads_does_not_block_its_stdin(box: Sandbox) -> None:
    assert box.run("print(1)", stdin=b"x" * 1_000_000, limits=QUICK).stdout == "1\n"


def test_a_sleeping_program_is_ended_by_wall_time(box: Sandbox) -> None:
    result = box.run("import time; print('here', flush=True); time.sleep(60)", limits=Limits(wall_s=0.8))
    assert (result.status, result.exit_code, result.stdout) == ("timeout", None, "here\n")
    assert result.why == "it ran for longer than 0.8 s"


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "a//b", "a\x00b"])
def test_a_file_cannot_be_placed_outside(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        sandbox("process").run("print(1)", files={name: "x"})
    assert caught.value.code == "bad_file"


@pytest.mark.parametrize("wrong", [{"wall_s": 0.0}, {"memory_bytes": 1}, {"processes": 0}, {"cpu_s": float("nan")}])
def test_a_limit_that_limits_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Limits(**wrong)  # type: ignore[arg-type]
    assert caught.value.code == "bad_limit"


def test_an_unknown_sandbox_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="bubblewrap"):
        sandbox("bublewrap")


# The table of docs/explanation/sandbox.md


FAST_COLUMN = ("bubblewrap", "root" if os.getuid() == 0 else "user")  # always tried; the others are slow


@pytest.mark.parametrize(
    ("name", "who"),
    [pytest.param(*column, marks=[] if column == FAST_COLUMN else [pytest.mark.slow]) for column in escapes.COLUMNS],
)
def test_every_escape_ends_as_documented(name: str, who: str, need_tool: Callable[..., str]) -> None:
    if name == "bubblewrap":
        need_tool("bwrap", package="bubblewrap")
    if who == "root" and os.getuid() != 0:
        pytest.skip("only root can try what root's sandbox does")
    if who == "user" and os.getuid() == 0:
        need_tool("setpriv", package="util-linux")
        _user_can_run()
    try:
        seen = escapes.observe_as(name, who)
    except RuntimeError as error:
        if "sandbox_missing" in str(error) or "does not start here" in str(error):
            pytest.skip(f"this machine gives users no namespaces: {error}")
        raise
    assert seen == escapes.documented()[name, who]
    if name == "bubblewrap":
        assert not set(seen.values()) & escapes.ESCAPED


def _user_can_run() -> None:
    """Another user than root must be able to read this repository and to start a supported Python."""
    done = subprocess.run(
        [
            *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"),
            *(interpreter(for_everybody=True), "-c"),
            *("import sys; sys.exit(sys.version_info < (3, 11) or not open(sys.argv[1]))", escapes.__file__),
        ],
        capture_output=True,
        check=False,
        cwd="/",
    )
    if done.returncode:
        pytest.skip("a user that is not root cannot read this repository, or has no Python 3.11")


# What only a sandbox stops


def test_nothing_but_a_small_folder_can_be_written(wrapped: Sandbox) -> None:
    source = """
import os
for folder in ("/", "/dev", "/usr", "/etc", "/proc", "/sys", "/var", "/run", "/home"):
    try:
        with open(os.path.join(folder, "planted"), "w") as file:
            file.write("x")
        print("written:", folder)
    except OSError:
        pass
for folder in (".", "/dev/shm", "/tmp"):
    written = 0
    try:
        while written < 100:
            with open(os.path.join(folder, f"f{written}"), "wb") as file:
                file.write(b"x" * 1_000_000)
            written += 1
    except OSError as error:
        print(folder, written <= 4, error.errno)
"""
    result = wrapped.run(source, limits=QUICK)
    assert "written:" not in result.stdout, result
    assert result.stdout.splitlines() == [". True 28", "/dev/shm True 28", "/tmp True 28"]


def test_only_the_system_and_the_interpreter_are_visible(wrapped: Sandbox, root: Path) -> None:
    source = f"""
import os
print(sorted(os.listdir("/")))
print(os.path.exists({str(root / "pyproject.toml")!r}), os.path.exists("/etc/shadow"), os.path.exists("/etc/passwd"))
print(len([name for name in os.listdir("/proc") if name.isdigit()]) <= 4, os.getpid() < 10)
"""
    lines = wrapped.run(source, limits=QUICK).stdout.splitlines()
    assert {"home", "srv", "var", "mnt", "run", "sys", "boot"}.isdisjoint(eval(lines[0], {}))
    assert lines[1:] == ["False False False", "True True"]


def test_memory_that_no_process_owns_is_refused(wrapped: Sandbox) -> None:
    source = """
import ctypes, os
try:
    os.memfd_create("x")
    print("memfd")
except PermissionError:
    pass
libc = ctypes.CDLL(None, use_errno=True)
print(libc.shmget(0, 4096, 0o1600), libc.unshare(0x10000000), libc.ptrace(0, 0, 0, 0))
"""
    result = wrapped.run(source, limits=QUICK)
    assert result.stdout == "-1 -1 -1\n", result


def test_memory_of_a_whole_tree_is_summed(box: Sandbox) -> None:
    source = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        kept = bytearray(os.urandom(1)) * 90_000_000
        time.sleep(30)
time.sleep(30)
"""
    result = box.run(source, limits=QUICK)
    assert (result.status, result.why) == ("failed", "it used more than 268,435,456 bytes of memory")
    assert 256 << 20 < result.peak_memory_bytes < 700 << 20


def test_threads_work_within_the_limit(box: Sandbox) -> None:
    source = "import threading as t; a = [t.Thread(target=print, args=(n,)) for n in range(4)]; [x.start() for x in a]"
    result = box.run(source, limits=QUICK)
    assert result.status == "passed", result
    assert sorted(result.stdout.split()) == ["0", "1", "2", "3"]


def test_nothing_outlives_a_caller_that_is_killed(tmp_path: Path, wrapped: Sandbox) -> None:
    mark = f"mark{os.getpid()}x{tmp_path.name}"
    source = f"import sys, time; time.sleep(600)  # {mark}"
    for name in ("process", wrapped.name):
        caller = subprocess.Popen(
            [
                *(sys.executable, "-c"),
                f"from headway.kits.sandbox import *\nsandbox({name!r}).run(input(), limits=Limits(wall_s=99))",
            ],
            stdin=subprocess.PIPE,
        )
        assert caller.stdin is not None
        caller.stdin.write(source.encode())
        caller.stdin.close()
        until(lambda: _running(mark), "the program")
        caller.kill()
        caller.wait()
        until(lambda: not _running(mark), "its end")


def test_an_exit_code_is_kept_where_the_caller_ignores_its_children() -> None:
    code = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
    code += "from headway.kits.sandbox import *\nprint(sandbox('process').run(['false']).exit_code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "1\n"


def test_a_supervisor_whose_parent_has_ended_runs_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    document = spec(["touch", str(made)], QUICK, cwd=str(tmp_path), home=str(tmp_path))
    for parent, ran in ((1, False), (os.getpid(), True)):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", keeper_source()],
            input=json.dumps({**document, "parent": parent}).encode(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, bool(done.stdout), made.exists()) == (0, ran, ran), done.stderr


def _running(mark: str) -> list[str]:
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if mark.encode() in (process / "cmdline").read_bytes():
                pids.append(process.name)
    return pids


# The filter


def test_the_filter_is_whole_instructions_and_covers_both_architectures() -> None:
    for machine in ("x86_64", "aarch64"):
        program = filter_program(machine)
        assert len(program) % 8 == 0
        assert len(program) // 8 > 2 * len(FORBIDDEN)
    assert filter_program("riscv64") == b""


def test_without_any_sandbox_auto_refuses_rather_than_running_on_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    from headway.kits.sandbox import bubblewrap

    bubblewrap._program.cache_clear()
    try:
        with pytest.raises(Unavailable) as caught:
            sandbox("auto")
    finally:
        bubblewrap._program.cache_clear()
    assert caught.value.code == "sandbox_missing"
    assert "not a sandbox" in caught.value.hint


# -- a workspace


@pytest.fixture
def lent(tmp_path: Path) -> Workspace:
    """A folder with a file to change, a file and a folder that are read-only, and a link that leads out."""
    folder = tmp_path / "private" / "lent"
    (folder / "fixed").mkdir(parents=True)
    folder.parent.chmod(0o700)
    for name in ("open.txt", "fixed/a.txt", "fixed.txt"):
        (folder / name).write_text("old")
    (folder / "away").symlink_to(tmp_path)
    return Workspace(path=folder, read_only=("fixed", "fixed.txt"))


def test_a_program_works_in_the_folder_that_it_is_lent(wrapped: Sandbox, lent: Workspace) -> None:
    source = (
        "import os; open('open.txt', 'w').write('new'); os.mkdir('made'); print(os.getcwd(), open('fixed.txt').read())"
    )
    result = wrapped.run(source, limits=QUICK, workspace=lent)
    assert (result.status, result.stdout) == ("passed", "/work old\n"), result
    assert (lent.path / "open.txt").read_text() == "new"
    assert (lent.path / "made").is_dir()


@pytest.mark.parametrize(
    "command",
    [
        "echo x > fixed.txt", "echo x > fixed/a.txt", "echo x > fixed/new", "rm -f fixed.txt", "rm -rf fixed",
        "mv fixed elsewhere", "mv fixed.txt elsewhere", "chmod 777 fixed.txt", "ln -f fixed.txt link && echo x > link",
        "echo x > away/outside", "echo x > ../outside", "umount fixed", "mount -o remount,rw fixed",
    ],
)  # fmt: skip
def test_nothing_else_can_be_changed(wrapped: Sandbox, lent: Workspace, tmp_path: Path, command: str) -> None:
    result = wrapped.run(["sh", "-c", command], limits=QUICK, workspace=lent)
    assert result.status == "failed", result
    assert [(lent.path / name).read_text() for name in ("fixed.txt", "fixed/a.txt")] == ["old", "old"]
    assert sorted(path.name for path in (lent.path / "fixed").iterdir()) == ["a.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private"]


def test_the_disk_limit_is_for_what_a_program_adds(wrapped: Sandbox, lent: Workspace) -> None:
    (lent.path / "large").write_bytes(b"x" * (6 << 20))
    assert wrapped.run("print(1)", limits=QUICK, workspace=lent).status == "passed"
    source = "for n in range(40): open(str(n), 'wb').write(bytes(1 << 20))"
    result = wrapped.run(source, limits=QUICK, workspace=lent)
    assert (result.status, result.why) == ("failed", "it wrote more than 4,194,304 bytes")


def test_links_in_a_lent_folder_are_not_followed_when_it_changes_hands(wrapped: Sandbox, lent: Workspace) -> None:
    outside = lent.path.parent.parent
    before = outside.stat().st_uid, (outside / "private").stat().st_uid
    wrapped.run("print(1)", limits=QUICK, workspace=lent)
    assert (outside.stat().st_uid, (outside / "private").stat().st_uid) == before


def test_only_bubblewrap_is_chosen_for_a_workspace(wrapped: Sandbox) -> None:
    assert sandbox("auto", workspace=True).name == wrapped.name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs code as another user")
def test_process_lends_no_folder_when_root_runs_it(lent: Workspace) -> None:
    with pytest.raises(Unavailable) as error:
        sandbox("process").run("print(1)", workspace=lent)
    assert error.value.code == "sandbox_missing"
