"""Attempts to escape from the sandboxes of this machine, and their results.

    python tests/kits/sandbox/escapes.py bubblewrap            # a JSON object: attempt → result
    python tests/kits/sandbox/escapes.py --write               # (as root) the table of docs/explanation/sandbox.md

Needs PYTHONPATH=src and the standard library only, so that any user's interpreter can run it. Limits come first: every
attempt runs with a few processes, half a second of CPU time and little memory.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headway.kits.sandbox import Limits, Result, Sandbox, sandbox
from headway.kits.sandbox.launch import interpreter

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "explanation" / "sandbox.md"
NOBODY = 65534
LIMITS = Limits(wall_s=3, cpu_s=0.5, memory_bytes=256 << 20, processes=12, disk_bytes=8 << 20, output_bytes=10_000)
Seen = tuple[str, Callable[[Result], str]]  # the program, and what its result means


def read_a_private_file(folder: Path) -> Seen:
    secret = folder / "secret"
    secret.write_text("sesame", "utf-8")
    secret.chmod(0o600)
    return f"print(open({str(secret)!r}).read())", lambda result: "read" if "sesame" in result.stdout else "refused"


def read_a_public_file(folder: Path) -> Seen:
    public = folder / "public"
    public.write_text("sesame", "utf-8")
    public.chmod(0o644)
    return f"print(open({str(public)!r}).read())", lambda result: "read" if "sesame" in result.stdout else "refused"


def write_outside(folder: Path) -> Seen:
    open_to_all = folder / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    path = open_to_all / "planted"
    return f"open({str(path)!r}, 'w').write('x')", lambda _: "written" if path.exists() else "refused"


def open_a_socket(folder: Path) -> Seen:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.2)
    port = server.getsockname()[1]

    def seen(result: Result) -> str:
        with server:
            try:
                server.accept()[0].close()
            except TimeoutError:
                return "refused"
            return "connected"

    return f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)", seen


def fork_bomb(folder: Path) -> Seen:
    source = """
import os, time
def forever():
    while True:
        try:
            os.fork()
        except OSError:
            print("refused", flush=True)
            while True:
                try: os.fork()
                except OSError: pass
forever()
"""

    def seen(result: Result) -> str:
        held = "refused" in result.stdout or "processes" in result.why
        return "stopped at the limit" if held and result.status in {"timeout", "failed"} else f"ran: {result.why}"

    return source, seen


def fill_the_disk(folder: Path) -> Seen:
    source = """
for n in range(400):
    with open(f"file{n}", "wb") as file:
        file.write(b"x" * 1_000_000)
print("wrote it all")
"""
    return source, lambda result: "wrote 400 MB" if "all" in result.stdout else "stopped at the limit"


def allocate_10_gb(folder: Path) -> Seen:
    source = """
import os
kept = []
while len(kept) < 1000:
    kept.append(bytearray(os.urandom(1)) * 10_000_000)
print("allocated it all")
"""
    return source, lambda result: "allocated" if "all" in result.stdout else "stopped at the limit"


def spin(folder: Path) -> Seen:
    return "while True: pass", lambda result: "ended by CPU time" if result.status == "timeout" else result.why


def ignore_sigterm(folder: Path) -> Seen:
    source = """
import signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
time.sleep(60)
"""
    return source, lambda result: "killed" if result.status == "timeout" else result.why


def reach_the_parents_environment(folder: Path) -> Seen:
    source = f"""
import os
os.environ["PLANTED"] = "x"
for pid in {{os.getppid(), {os.getpid()}}}:
    for path, mode in ((f"/proc/{{pid}}/environ", "rb"), (f"/proc/{{pid}}/mem", "r+b")):
        try:
            with open(path, mode) as file:
                if mode == "r+b" or b"PATH=" in file.read():
                    print(path, "reached", pid == {os.getpid()})
        except OSError:
            pass
"""

    def seen(result: Result) -> str:
        assert "PLANTED" not in os.environ
        return "reached" if "reached True" in result.stdout else "refused"

    return source, seen


def leave_a_process_behind(folder: Path) -> Seen:
    mark = f"mark-{secrets.token_hex(8)}"
    source = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for n in range(3): os.close(n)
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", "{mark}"])
    os._exit(0)
time.sleep(0.3)
"""

    def seen(result: Result) -> str:
        assert result.status == "passed", result
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if mark.encode() in path.read_bytes() and path.parent.name != str(os.getpid()):
                    return "lives on"
            except OSError:
                continue
        return "killed with the run"

    return source, seen


ATTEMPTS = {
    "read a private file of the caller": read_a_private_file,
    "read a file that everybody may read": read_a_public_file,
    "write a file outside": write_outside,
    "open a socket to the host": open_a_socket,
    "fork bomb": fork_bomb,
    "fill the disk": fill_the_disk,
    "allocate 10 GB": allocate_10_gb,
    "spin": spin,
    "ignore SIGTERM and all that can be ignored": ignore_sigterm,
    "read or write the parent's environment": reach_the_parents_environment,
    "leave a background process": leave_a_process_behind,
}
COLUMNS = (("process", "root"), ("process", "user"), ("bubblewrap", "root"), ("bubblewrap", "user"))
ESCAPED = {"read", "written", "connected", "reached", "allocated", "lives on", "wrote 400 MB"}


def observe(box: Sandbox) -> dict[str, str]:
    """Runs every attempt as the current user."""
    cells_seen = {}
    for name, prepare in ATTEMPTS.items():
        folder = Path(tempfile.mkdtemp(prefix="headway-escape-"))
        folder.chmod(0o755)
        try:
            source, seen = prepare(folder)
            result = box.run(source, limits=LIMITS)
            assert result.status != "error", f"{name}: {result.why}"
            assert result.seconds < LIMITS.wall_s + 5, f"{name}: {result}"
            cells_seen[name] = seen(result)
        finally:
            shutil.rmtree(folder)
    return cells_seen


def observe_as(name: str, who: str) -> dict[str, str]:
    """The same as root or as another user, in a separate process."""
    python, start = sys.executable, []
    if who == "user" and os.getuid() == 0:
        python = interpreter(for_everybody=True)
        start = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"]
    done = subprocess.run(
        [*start, python, "-B", str(Path(__file__).resolve()), name],
        cwd="/",
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": os.environ["PATH"], "TMPDIR": "/tmp"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout))


def table(cells: dict[tuple[str, str], dict[str, str]]) -> str:
    heads = [f"{name}, run by {'root' if who == 'root' else 'a user'}" for name, who in COLUMNS]
    lines = ["| attempt | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for attempt in ATTEMPTS:
        row = [cells[column][attempt] for column in COLUMNS]
        lines.append(f"| {attempt} | " + " | ".join(f"**{cell}**" if cell in ESCAPED else cell for cell in row) + " |")
    return "\n".join(lines) + "\n"


def documented() -> dict[tuple[str, str], dict[str, str]]:
    """The table in the page."""
    cells_seen: dict[tuple[str, str], dict[str, str]] = {column: {} for column in COLUMNS}
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip().strip("*") for cell in line.strip("|").split("|")]
        if cells[0] in ATTEMPTS:
            for column, cell in zip(COLUMNS, cells[1:], strict=True):
                cells_seen[column][cells[0]] = cell
    return cells_seen


def write() -> None:
    begin, end = "<!-- escapes -->\n", "<!-- /escapes -->\n"
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    cells = {column: observe_as(*column) for column in COLUMNS}
    PAGE.write_text(before + begin + "\n" + table(cells) + "\n" + end + after, "utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        write()
    else:
        started = time.monotonic()
        print(json.dumps(observe(sandbox(sys.argv[1]))))
