"""Choose a sandbox by name."""

from __future__ import annotations

from pathlib import Path

from headway.kits.sandbox.bubblewrap import Bubblewrap
from headway.kits.sandbox.docker import Docker
from headway.kits.sandbox.launch import missing
from headway.kits.sandbox.process import Process
from headway.kits.sandbox.records import Sandbox
from headway.nouns import Unavailable, UnknownName, did_you_mean

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
        raise UnknownName(
            f"There is no sandbox called {name!r}.", code="unknown_sandbox", hint=did_you_mean(name, NAMES)
        )
    reasons: list[str] = []
    for kind in ("bubblewrap",) if workspace else ("docker", "bubblewrap"):
        try:
            return sandbox(kind, readable=readable)
        except Unavailable as error:
            reasons.append(error.message)
    raise missing(
        f"This machine has no sandbox: {' '.join(reasons)}",
        "Install bubblewrap (`apt install bubblewrap`); 'process' runs code on the host and is not a sandbox.",
    )
