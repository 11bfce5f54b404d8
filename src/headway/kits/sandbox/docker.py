"""`docker`: a container without network or privileges, created for one run and removed afterwards."""

from __future__ import annotations

import json
import secrets
import subprocess
from contextlib import suppress
from pathlib import Path
from shutil import which

from headway.client import run
from headway.kits.sandbox.launch import GRACE_S, keeper_source, missing, report_bytes, result, spec
from headway.kits.sandbox.records import Command, Files, Limits, Result, Workspace, checked_files

IMAGE = "headway-sandbox:1"
BOX = "/box"
_ENGINE_S = 10.0  # the engine has this long to answer
_START_S = 20.0  # and this long to start or remove a container


class Docker:
    """`docker run` without network or capabilities, read-only, as a non-root user, with cgroup limits.

        Docker().run("print(1)")

    Needs an engine that answers and the image (`docker build` of the Dockerfile beside this file); without either it
    raises `sandbox_missing`; nothing runs on the host. On a timeout the *container* is killed, not only the client.
    Files and stdin travel over the client's stdin, so that a remote engine works too.

    Not covered: a bug in the kernel, which is shared (unless the engine runs containers in virtual machines); the
    engine itself, which is as powerful as root: anyone who can use it controls the host; side channels through the
    processor's caches. The keeper inside the container runs as the same user as the program. A program that kills its
    keeper has failed.
    """

    name = "docker"

    def __init__(self, *, image: str = IMAGE, check: bool = True) -> None:
        self._program = which("docker") or ""
        self._image = image
        if check:
            self.check()

    def check(self) -> None:
        """Raise `sandbox_missing` unless the engine answers and has the image."""
        if not self._program:
            raise missing(
                "The sandbox 'docker' needs the program 'docker', which is not on PATH.",
                "Install Docker, or Podman's docker command.",
            )
        done = self._call("version", "--format", "{{.Server.Version}}")
        if done is None or done.returncode != 0:
            reason = "it did not answer in time" if done is None else _last(done.stderr)
            raise missing(
                f"The sandbox 'docker' needs a running engine: {reason}",
                "Start Docker, or use the sandbox 'bubblewrap'. Nothing was run.",
            )
        done = self._call("image", "inspect", "--format", "{{.Id}}", self._image)
        if done is None or done.returncode != 0:
            raise missing(
                f"Docker has no image {self._image!r}.",
                f"Build it with `docker build -t {self._image} {Path(__file__).parent}`.",
            )

    def run(
        self,
        command: Command,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        stdin: str | bytes = b"",
        workspace: Workspace | None = None,
    ) -> Result:
        if workspace is not None:
            raise missing("The sandbox 'docker' takes no workspace.", "Use the sandbox 'bubblewrap'. Nothing was run.")
        limits = limits or Limits()
        argv = ["python3", "-I", "-c", command] if isinstance(command, str) else [*command]
        document = spec(argv, limits, cwd="", home=BOX, files=checked_files(files), stdin=stdin)
        container = f"headway-{secrets.token_hex(8)}"
        output = run(
            self.arguments(container, limits),
            json.dumps(document).encode(),
            # The keeper inside enforces the limit. If it fails, the container is removed before the client is killed.
            timeout_s=limits.wall_s + GRACE_S + _START_S,
            most_bytes=report_bytes(limits),
            before_stop=lambda: self._remove(container),
        )
        if output.timed_out:
            return Result(status="timeout", why="the container was killed", seconds=limits.wall_s, sandbox=self.name)
        if output.status == 137 and not output.stdout.partition(b"\n")[2]:
            return Result(
                status="failed",
                why=f"the engine ended it: more than {limits.memory_bytes:,} bytes of memory, or killed from outside",
                sandbox=self.name,
            )
        return result(output, limits, self.name)[0]

    def arguments(self, container: str, limits: Limits) -> list[str]:
        """The command line; tests compare it with the promises of the docstring."""
        folder = f"rw,exec,nosuid,nodev,size={limits.disk_bytes},mode=1777"
        return [
            *(self._program, "run", "--rm", "--interactive", "--name", container, "--pull", "never", "--init"),
            *("--network", "none", "--ipc", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--read-only", "--user", "65534:65534", "--workdir", "/", "--hostname", "box"),
            *("--memory", str(limits.memory_bytes + _KEEPER), "--memory-swap", str(limits.memory_bytes + _KEEPER)),
            *("--cpus", "1", "--pids-limit", str(limits.processes + 4)),
            *("--ulimit", "core=0", "--ulimit", "nofile=256", "--ulimit", f"fsize={limits.disk_bytes}"),
            *("--tmpfs", f"/tmp:{folder}", "--log-driver", "none", "--stop-timeout", "0"),
            *(self._image, "python3", "-I", "-S", "-c", keeper_source()),
        ]

    def _remove(self, container: str) -> None:
        self._call("kill", "--signal", "KILL", container, limit_s=_START_S)
        self._call("rm", "--force", container, limit_s=_START_S)

    def _call(self, *argv: str, limit_s: float = _ENGINE_S) -> subprocess.CompletedProcess[str] | None:
        with suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                [self._program, *argv], capture_output=True, text=True, encoding="utf-8", timeout=limit_s, check=False
            )
        return None


_KEEPER = 64 << 20  # memory for the keeper and for in-memory files, on top of the program's limit


def dockerfile() -> Path:
    """The path of the image's Dockerfile."""
    return Path(__file__).with_name("Dockerfile")


def build_image(image: str = IMAGE) -> None:
    """Build the image; needs an engine and, the first time, the network."""
    box = Docker(image=image, check=False)
    if not box._program:
        box.check()
    recipe = dockerfile()
    done = subprocess.run(
        [box._program, "build", "--tag", image, "--file", str(recipe), str(recipe.parent)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise missing(f"Docker could not build the image {image!r}: {_last(done.stderr)}", "Is the engine running?")


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it wrote nothing"
