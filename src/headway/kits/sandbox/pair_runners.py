"""Run a solution beside its tests in a sandbox: two processes that exchange nothing but questions and answers.

    with pairs("auto", source) as runner:                # docker, bubblewrap, process, auto; `source`: see server.py
        report = runner.run(Limits(wall_s=3), solution_input, tests_input)
        report.verdict                                    # the bytes that the tests wrote

Under bubblewrap one start serves many pairs (`WarmPairs`); each program of a pair is forked into its own pid, mount and
ipc namespace. Elsewhere each pair is one run of the sandbox (`SinglePairs`).

Not covered: under `docker` and `process` both programs have the same user id. The tests' process cannot be read or
changed by the solution, but it can be killed; then there is no verdict, which counts as failed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from io import FileIO
from typing import Literal, Protocol

from headway.kits.sandbox.bubblewrap import BOX, Bubblewrap
from headway.kits.sandbox.cgroup import JOIN, memory_group, memory_parent
from headway.kits.sandbox.launch import GRACE_S, environment, free_uid, group_bytes, script, why_ended
from headway.kits.sandbox.process import sandbox
from headway.kits.sandbox.records import Limits, Sandbox
from headway.kits.sandbox.seccomp import filter_program
from headway.kits.sandbox.tree import user_tasks

VERDICT_BYTES = 65_536
_NAMESPACE_PROCESSES = 1  # ours, beside the solution: the tests
_START_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """How a pair ended.

    ended     the tests ended; `verdict` is what they wrote, if anything
    failed    it exceeded a limit, or ended its sandbox
    timeout   it used up its wall time or its CPU time
    error     the sandbox could not run it
    """

    status: Literal["ended", "failed", "timeout", "error"]
    verdict: bytes = b""
    why: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_memory_bytes: int = 0


class PairRunner(Protocol):
    """Runs one pair after the other. Not thread-safe. `apart`: the tests are code, which gets namespaces too."""

    @property
    def name(self) -> str: ...

    def run(self, limits: Limits, solution: bytes, tests: bytes, *, apart: bool = True) -> PairReport: ...

    def close(self) -> None: ...


def pairs(name: str, source: str, *, warm: bool = True) -> PairRunner:
    """The runner in the sandbox of that name; `sandbox_missing` if this machine does not have it.

    `source` is a module with the functions `solution` and `tests`. Without `warm`, each pair is a run of its own.
    """
    box = sandbox(name)
    if warm and isinstance(box, Bubblewrap):
        return WarmPairs(box, source)
    return SinglePairs(box, source)


class SinglePairs:
    """One run of a sandbox for each pair."""

    def __init__(self, box: Sandbox, source: str) -> None:
        self._box, self._source = box, script("tree", "server", pair=source)
        self.name = box.name

    def run(self, limits: Limits, solution: bytes, tests: bytes, *, apart: bool = True) -> PairReport:  # noqa: ARG002
        settings = {
            "control": None, "uid": None, "namespaces": False, "own": 1, "tasks_before": limits.processes + 8,
            "folder": "", "watch": "", "filter": "", "limits": asdict(limits) | {"apart": False},
        }  # fmt: skip
        document = {"solution": solution.decode(), "tests": tests.decode()}
        python = "python3" if self._box.name == "docker" else self._python()
        ran = self._box.run(
            [python, "-s", "-P", "-c", self._source, json.dumps(settings)],
            stdin=json.dumps(document),
            # The server inside enforces the pair's limits; these are for a pair that ends it, and for its own needs.
            limits=replace(
                limits, wall_s=limits.wall_s + 2.0, cpu_s=limits.cpu_s + 2.0, processes=limits.processes + 8,
                memory_bytes=limits.memory_bytes + (64 << 20), output_bytes=2 * VERDICT_BYTES,
            ),
        )  # fmt: skip
        used = PairReport(
            status="failed", why=ran.why or "it ended its sandbox", seconds=ran.seconds, cpu_s=ran.cpu_s,
            peak_memory_bytes=ran.peak_memory_bytes,
        )  # fmt: skip
        if ran.status in ("error", "timeout"):
            return replace(used, status=ran.status)
        try:
            report = json.loads(ran.stdout)
            verdict = base64.b64decode(report["verdict"])
        except (ValueError, KeyError):
            return used
        return read_report(report, verdict, limits)

    @staticmethod
    def _python() -> str:
        from headway.kits.sandbox.launch import interpreter

        return interpreter(for_everybody=os.geteuid() == 0)

    def close(self) -> None:
        pass


class WarmPairs:
    """One start of bubblewrap for many pairs, while their limits are the same."""

    name = "bubblewrap"

    def __init__(self, box: Bubblewrap, source: str) -> None:
        self._box, self._source = box, source
        self._warm: WarmBox | None = None

    def run(self, limits: Limits, solution: bytes, tests: bytes, *, apart: bool = True) -> PairReport:
        report = self._run(limits, solution, tests, apart)
        if report is None:  # the box ended. Alone in a new one it shows whether this pair is why.
            report = self._run(limits, solution, tests, apart)
        return report or PairReport(status="failed", why="it ended its sandbox, twice")

    def _run(self, limits: Limits, solution: bytes, tests: bytes, apart: bool) -> PairReport | None:
        if self._warm is not None and self._warm.limits != limits:
            self.close()
        if self._warm is None:
            warm = WarmBox(self._box, self._source, limits)
            if not warm.ready():
                warm.close()
                return PairReport(status="error", why=f"the sandbox did not start: {warm.complaint}")
            self._warm = warm
        report = self._warm.run(solution, tests, apart)
        if report is None:
            self.close()
        return report

    def close(self) -> None:
        if self._warm is not None:
            self._warm.close()
        self._warm = None


class WarmBox:
    """A server in bubblewrap. It ends with this process, with the thread that started it, or when it is closed."""

    def __init__(self, box: Bubblewrap, source: str, limits: Limits) -> None:
        self.limits, self.complaint = limits, ""
        self._cleanup = ExitStack()
        self._group = self._cleanup.enter_context(memory_group(group_bytes(limits)))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = self._cleanup.enter_context(ours)
        uid = free_uid()
        settings = {
            "control": theirs.fileno(),
            "uid": uid,
            "namespaces": True,
            "own": _NAMESPACE_PROCESSES,
            "tasks_before": user_tasks(os.getuid()) if uid is None else 0,
            "folder": BOX,
            "watch": "",
            "filter": base64.b64encode(filter_program(counted=memory_parent() is not None)).decode(),
        }
        arguments = ["-s", "-P", "-c", script("tree", "server", pair=source), json.dumps(settings)]
        command = box.warm_command(limits, arguments, uid)
        self._process = subprocess.Popen(
            [*(() if self._group is None else (*JOIN, self._group.path)), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**environment(BOX), "PYTHONHASHSEED": "0"},  # the same order of sets in every box
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()

    def ready(self) -> bool:
        """Whether the server has started."""
        if self._receive(time.monotonic() + _START_S) is not None:
            return True
        self._process.kill()
        complaint = b"" if self._process.stderr is None else self._process.stderr.read()
        self.complaint = complaint.decode("utf-8", "replace").strip()[-300:] or "it did not answer"
        return False

    def run(self, solution: bytes, tests: bytes, apart: bool) -> PairReport | None:
        """The report of one pair; None if the server ended."""
        ran_out = 0 if self._group is None else self._group.ran_out
        with ExitStack() as ends:
            (for_solution, give_solution), (for_tests, give_tests), (verdict, for_verdict) = (
                os.pipe() for _ in range(3)
            )
            to_solution = ends.enter_context(FileIO(give_solution, "wb"))
            to_tests = ends.enter_context(FileIO(give_tests, "wb"))
            from_tests = ends.enter_context(FileIO(verdict, "rb"))
            try:
                message = json.dumps({**asdict(self.limits), "apart": apart}).encode()
                socket.send_fds(self._control, [message], [for_solution, for_tests, for_verdict])
            except OSError:
                return None
            finally:
                for end in (for_solution, for_tests, for_verdict):
                    os.close(end)
            for file, content in ((to_solution, solution), (to_tests, tests)):
                with suppress(OSError), file:  # it may end before it has read everything
                    _write_all(file, content)
            report = self._receive(time.monotonic() + self.limits.wall_s + GRACE_S)
            if report is None:
                return None
            if self._group is not None and self._group.ran_out > ran_out:
                report["exceeded"] = report["exceeded"] or "memory"
            return read_report(report, _read_all(from_tests), self.limits)

    def _receive(self, until: float) -> dict[str, object] | None:
        if not select.select([self._control], [], [], max(0.0, until - time.monotonic()))[0]:
            return None
        try:
            message = self._control.recv(65_536)
        except OSError:
            return None
        return json.loads(message) if message else None

    def close(self) -> None:
        self._control.close()
        self._process.kill()  # its pid namespace and everything in it ends with it
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._process.wait()
        self._cleanup.close()


def read_report(report: dict[str, object], verdict: bytes, limits: Limits) -> PairReport:
    """A server's report, and what the tests wrote."""
    exceeded = str(report["exceeded"])
    status: Literal["ended", "failed", "timeout"] = "failed" if exceeded else "ended"
    return PairReport(
        status="timeout" if exceeded in {"wall", "cpu"} else status,
        verdict=verdict,
        why=why_ended(exceeded, limits) if exceeded else "",
        seconds=float(str(report["seconds"])),
        cpu_s=float(str(report["cpu_s"])),
        peak_memory_bytes=int(str(report["peak"])),
    )


def _write_all(file: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _read_all(file: FileIO) -> bytes:
    """What the tests wrote; every process that could write more has ended."""
    content = b""
    while len(content) < VERDICT_BYTES and (chunk := file.read(VERDICT_BYTES)):
        content += chunk
    return content
