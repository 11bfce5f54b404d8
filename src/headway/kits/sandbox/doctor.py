"""The lines of `headway doctor` about sandboxes: which there are, and what limits their memory."""

from __future__ import annotations

from collections.abc import Iterator
from shutil import which

from headway.kits.sandbox.cgroup import memory_parent
from headway.nouns import Finding


def check(_settings: object) -> Iterator[Finding]:
    """Information only: a project that runs no code needs no sandbox. Nothing is started."""
    programs = [name for name, program in (("docker", "docker"), ("bubblewrap", "bwrap")) if which(program)]
    yield Finding(
        name="sandbox",
        ok=None,
        found=f"installed: {', '.join(programs)}" if programs else "none is installed; code of others is not run",
        cure="" if programs else "apt install bubblewrap",
    )
    if "bubblewrap" not in programs:
        return
    if memory_parent() is not None:
        yield Finding(name="sandbox memory", ok=None, found="a memory cgroup counts everything that a run holds")
    else:
        yield Finding(
            name="sandbox memory",
            ok=None,
            found="no memory cgroup: memory is checked every few milliseconds; under bubblewrap, code gets no "
            "sockets and no shared anonymous maps, which such checks do not see",
            cure="Run as root, or where the memory controller of cgroups is delegated to you.",
        )
