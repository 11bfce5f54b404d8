"""Choose a sandbox by name. `process`, a child process with limits, is not a sandbox."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headway.kits.sandbox.bubblewrap import Bubblewrap
from headway.kits.sandbox.docker import Docker
from headway.kits.sandbox.launch import ask, free_uid, interpreter, lend, missing, remove_tree, spec
from headway.kits.sandbox.records import Command, Files, Limits, Result, Sandbox, Workspace, checked_files
from headway.nouns import errors


class Process:
    """Limits on time, memory, processes, disk and output; an empty environment and folder; no process survives.

        Process().run("print(1)")

    **This is not a sandbox.** Not covered: the program has its user's access to the file system and the network, and
    can write wherever that user can (the disk limit covers only its own folder); it sees other processes and can signal
    those of its user. Started by root, it runs as an unused user id, which is most of its protection. Started by any
    other user, it *is* that user: it can read their files and the environment of their processes, and kill its keeper
    (it has then failed, and its processes survive); its processes count together with theirs. Memory that belongs to no
    process (memfd, System V segments) is measured only by a cgroup. The read-only paths of a workspace can be changed.
    For code that nobody has reviewed, use `bubblewrap` or `docker`.
    """

    name = "process"

    def run(
        self,
        command: Command,
        *,
        files: Files | None = None,
        limits: Limits | None = None,
        stdin: str | bytes = b"",
        workspace: Workspace | None = None,
    ) -> Result:
        uid = free_uid()
        if workspace is not None and uid is not None:
            raise missing(
                "Started by root, 'process' runs code as another user, who cannot enter the workspace.",
                "Use the sandbox 'bubblewrap', or run as another user.",
            )
        argv = (
            [interpreter(for_everybody=uid is not None), "-I", "-c", command]
            if isinstance(command, str)
            else [*command]
        )
        folder = tempfile.mkdtemp(prefix="headway-run-")
        try:
            document = spec(
                argv,
                limits or Limits(),
                cwd=folder if workspace is None else str(workspace.path),
                home=folder,
                files=checked_files(files),
                stdin=stdin,
                uid=uid,
                watch=folder if workspace is None else str(workspace.path),
                already=0 if workspace is None else lend(workspace, None),
            )
            return ask(document, self.name)[0]
        finally:
            remove_tree(Path(folder))


NAMES = ("auto", "docker", "bubblewrap", "process")


def sandbox(name: str = "auto", *, workspace: bool = False, readable: tuple[Path, ...] = ()) -> Sandbox:
    """The sandbox of that name; raises `sandbox_missing` if this machine does not have it.

    `auto` is docker if an engine answers and has the image, else bubblewrap. It is never `process`, which is not a
    sandbox: code runs directly on the host only if you name `process`. With `workspace` it is one that can lend a
    folder, which docker cannot. `readable`: more paths that a program in bubblewrap may read, under the same names.
    """
    if name == "docker":
        return Docker()
    if name == "bubblewrap":
        return Bubblewrap(readable=readable)
    if name == "process":
        return Process()
    if name != "auto":
        raise errors.UnknownName(
            f"There is no sandbox called {name!r}.", code="unknown_sandbox", hint=errors.did_you_mean(name, NAMES)
        )
    reasons: list[str] = []
    for kind in ("bubblewrap",) if workspace else ("docker", "bubblewrap"):
        try:
            return sandbox(kind, readable=readable)
        except errors.Unavailable as error:
            reasons.append(error.message)
    raise missing(
        f"This machine has no sandbox: {' '.join(reasons)}",
        "Install bubblewrap (`apt install bubblewrap`); 'process' runs code on the host and is not a sandbox.",
    )
