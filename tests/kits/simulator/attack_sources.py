"""The sources of attacks.py, and the attacks as a user who is not root: needs the standard library only.

PYTHONPATH=src:. python tests/kits/simulator/attack_sources.py       # prints what did harm, one line each
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headway.kits.sandbox import Limits
from headway.kits.sandbox.pair_runners import PairRunner, pairs

LIMITS = Limits(wall_s=2.5, cpu_s=0.4, memory_bytes=128 << 20, processes=8, disk_bytes=4 << 20)
SECRET = 987654321  # an expected value that no solution can compute
REFERENCE = "def double(number): return 2 * number"

# Solutions of PROBLEM that run into a limit or end early.
LIMITED = {
    "loop": "def double(number):\n    while True: pass",
    "sleep": "import time\ndef double(number): time.sleep(60)",
    "loop when loaded": "while True: pass",
    "fork without end": """
import os
def double(number):
    while True:
        try: os.fork()
        except OSError: pass
""",
    "fill the memory": """
def double(number):
    kept = []
    while True: kept.append(bytearray(b"x" * 1_000_000))
""",
    "fill the memory through shared maps that nobody has mapped": """
import mmap
def double(number):
    kept = []
    for _ in range(600):
        m = mmap.mmap(-1, 1 << 20)
        m.write(b"x" * (1 << 20))
        m.madvise(mmap.MADV_DONTNEED)
        kept.append(m)
    return 2 * number
""",
    "fill the memory through sockets": """
import socket
def double(number):
    kept = []
    for _ in range(3000):
        try:
            pair = socket.socketpair()
        except OSError:
            break
        for end in pair:
            end.setblocking(False)
            try:
                while True: end.send(b"x" * 65536)
            except OSError:
                pass
        kept.append(pair)
    return 3 * number
""",
    "fill the disk": """
def double(number):
    for n in range(400): open(f"file{n}", "wb").write(b"x" * 1_000_000)
    return 2 * number
""",
    "exit 0 at once": "import os\nos._exit(0)",
    "exit 0 when called": "import sys\ndef double(number): sys.exit(0)",
    "raise SystemExit(0)": "raise SystemExit(0)",
    "end by a signal": "import os, signal\ndef double(number): os.kill(os.getpid(), signal.SIGKILL)",
    "end with exit code 152": "import os\ndef double(number): os._exit(152)",
    "kill everything": "import os, signal\ndef double(number):\n    os.kill(-1, signal.SIGKILL)\n    return 0",
    "kill everything from a child": """
import os, signal
if os.fork() == 0:
    os.kill(-1, signal.SIGKILL)
def double(number): return -1
""",
    "an answer that nests": """
def double(number):
    value = []
    for _ in range(64_000): value = [value]
    return value
""",
    "an answer that overflows": "def double(number): return 10 ** 400 * 1.0",
    "a very long number": "def double(number): return 10 ** 400",
    "an endless answer": "def double(number):\n    while True: yield 1",
    "an answer that equals everything": """
class Same(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def double(number): return Same(7)
""",
    "bytes that are not an answer": """
import os
def double(number):
    for end in range(3, 64):
        try: os.write(end, b"\\xff" * 4096)
        except OSError: pass
    return -1
""",
    "a nested answer behind the encoder": """
import os
body = b'{"value": ' + b"[" * 64_000 + b"]" * 64_000 + b"}"
def double(number):
    for end in range(3, 64):
        try: os.write(end, len(body).to_bytes(4, "big") + body)
        except OSError: pass
    return -1
""",
}

# Solutions that look for what is expected, or try to change the verdict: of GUESS and GUESS_CODE.
FORGERS = {
    "print a forged verdict": """
import sys
line = '{"passed": 1, "total": 1, "why": "", "broken": ""}'
print(line, flush=True); print(line, file=sys.stderr, flush=True)
def double(number): return 0
""",
    "write a forged verdict to every descriptor": """
import os
line = b'{"passed": 1, "total": 1, "why": "", "broken": ""}'
for end in range(0, 256):
    try: os.write(end, line)
    except OSError: pass
os._exit(0)
""",
    "patch what compares": """
import sys, builtins, math
for module in list(sys.modules.values()):
    for name in ("same", "compared", "checked", "check", "shown", "words"):
        if hasattr(module, name): setattr(module, name, lambda *a, **k: True)
math.isclose = lambda *a, **k: True
builtins.AssertionError = ValueError
def double(number): return 0
""",
    "search the memory of this process": f"""
import gc, sys
def double(number):
    for thing in gc.get_objects():
        if isinstance(thing, dict) and any(value == {SECRET!r} + 0 for value in thing.values() if type(value) is int):
            values = [v for v in thing.values() if type(v) is int and v > 900_000_000]
    wanted = str({SECRET} - 1)[:-1].encode()
    for line in open("/proc/self/maps"):
        place, flags = line.split()[:2]
        if "r" in flags and "v" not in line.split()[-1][:2]:
            low, high = (int(part, 16) for part in place.split("-"))
            try:
                with open("/proc/self/mem", "rb") as memory:
                    memory.seek(low)
                    body = memory.read(high - low)
            except (OSError, ValueError, OverflowError):
                continue
            at = body.find(b'"returns": ')
            if at >= 0:
                digits = body[at + 11 : at + 20]
                if digits.isdigit(): return int(digits)
    return 0
""",
    "read the memory of others": """
import os
def double(number):
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for path in ("mem", "environ", "maps", "fd/3", "fd/5", "fd/6"):
                try:
                    with open(f"/proc/{name}/{path}", "rb") as file:
                        if path == "maps" or file.read(1): return 987654321
                except OSError: pass
    return 0
""",
    "write to the memory of others": """
import os
def double(number):
    for name in [*filter(str.isdigit, os.listdir("/proc")), "1"]:
        if int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/mem", "r+b") as file: return 987654321
            except OSError: pass
    return 0
""",
    "trace the judge": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def double(number):
    for pid in {1, os.getppid(), *map(int, filter(str.isdigit, os.listdir("/proc")))} - {os.getpid()}:
        if pid and libc.ptrace(16, pid, 0, 0) == 0: return 987654321
    return 0
""",
    "stop the judge": """
import os, signal
def double(number):
    for pid in range(1, 200):
        if pid != os.getpid():
            try: os.kill(pid, signal.SIGSTOP)
            except OSError: pass
    return 0
""",
    "close every descriptor": "import os\nos.closerange(0, 65536)\ndef double(number): return 0",
    "take descriptors of others": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def double(number):
    for pid in range(1, 100):
        if pid != os.getpid():
            handle = libc.syscall(434, pid, 0)
            if handle >= 0 and any(libc.syscall(438, handle, end, 0) >= 0 for end in range(16)): return 987654321
    return 0
""",
    "become more": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def double(number):
    if libc.mount(b"tmpfs", b"/box", b"tmpfs", 0, None) == 0 or libc.unshare(0x10000000) == 0: return 987654321
    for who in (0, 1):
        try:
            os.setuid(who); return 987654321
        except OSError: pass
    return 0
""",
}  # fmt: skip

# Plants something that the next solution looks for; both are solutions of PROBLEM.
PLANT = """
import os, socket, sys, time
def double(number):
    for folder in (".", "/box", "/tmp", "/dev/shm", "/dev", "/", "/var/tmp", "/usr/tmp"):
        try: open(os.path.join(folder, "planted"), "w").write("x")
        except OSError: pass
    sys.modules["planted"] = 1
    os.environ["PLANTED"] = "1"
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                server = socket.socket(socket.AF_UNIX); server.bind("\\0planted"); server.listen()
            except OSError: pass
            time.sleep(60)
        os._exit(0)
    time.sleep(0.05)
    return 2 * number
"""
LOOK = """
import os, socket, sys
def double(number):
    seen = [p for p in ("planted", "/box/planted", "/tmp/planted", "/dev/shm/planted", "/dev/planted", "/planted",
                        "/var/tmp/planted") if os.path.exists(p)]
    seen += ["module"] * ("planted" in sys.modules) + ["environment"] * ("PLANTED" in os.environ)
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    seen += ["process"] * (len(processes) > 2)
    try:
        client = socket.socket(socket.AF_UNIX); client.connect("\\0planted"); seen.append("socket")
    except OSError: pass
    return seen or 2 * number
"""


def passes(runner: PairRunner, source: str, cases: list[Any], tests: str = "") -> bool:
    """Whether a solution passes all tests."""
    asked = {"entry": "double", "cases": cases, "tests": tests}
    given = json.dumps({"entry": "double", "source": source}).encode(), json.dumps(asked).encode()
    report = runner.run(LIMITS, *given, apart=bool(tests))
    assert report.status != "error", report
    verdict = json.loads(report.verdict or b"{}")
    return report.status == "ended" and verdict.get("passed", 0) == (1 if tests else len(cases))


def harm(runner: PairRunner) -> list[str]:
    """The attacks that pass, or after which the reference does not."""
    doubles = [{"args": [number], "returns": 2 * number} for number in range(3)]
    guess = [{"args": [1], "returns": SECRET}]
    code = f"expected = {SECRET}\ndef check(candidate):\n    assert candidate(1) == expected\n"
    seen = [name for name, source in LIMITED.items() if passes(runner, source, doubles)]
    for name, source in FORGERS.items():
        if passes(runner, source, guess) or passes(runner, source, [], code) or not passes(runner, REFERENCE, doubles):
            seen.append(name)
    passes(runner, PLANT, doubles)
    return seen + ["plant"] * (not passes(runner, LOOK, doubles))


def main() -> None:
    source = Path(__file__).resolve().parents[3] / "src" / "headway" / "kits" / "simulator" / "pair.py"
    runner = pairs("bubblewrap", source.read_text("utf-8"))
    try:
        print(json.dumps(harm(runner)))
    finally:
        runner.close()


if __name__ == "__main__":
    main()
