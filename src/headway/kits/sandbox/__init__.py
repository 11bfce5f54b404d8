"""sandbox — runs code that nobody has read, and says how it went.

    from headway.kits.sandbox import Limits, sandbox

    box = sandbox("auto")                                      # docker, else bubblewrap; never the bare host
    box.run("print(6 * 7)").stdout                             # "42\\n": Python source
    box.run(["sh", "-c", "cat notes.txt"], files={"notes.txt": "hello"})
    box.run(["sh", "-c", "make"], workspace=Workspace(path=copy))  # the program may change the files in that folder
    box.run("while True: pass", limits=Limits(wall_s=1)).status  # "timeout"

When `run` returns, the whole process tree of the program is dead. A missing sandbox is an error (`sandbox_missing`),
never a run on the host, and never "the task failed". Each sandbox's docstring says what it does not cover;
docs/explanation/sandbox.md lists the escapes that were tried.

Takes: source or a command, files, limits.   Gives: a Result.
Never: runs untrusted code on the bare host unless `process` is asked for by name.
May import: client, nouns.
"""

from typing import TYPE_CHECKING, Any

from headway.nouns.kit import Kit, load

if TYPE_CHECKING:
    from headway.kits.sandbox.choose import NAMES, sandbox
    from headway.kits.sandbox.records import Limits, Result, Sandbox, Status, Workspace

__all__ = ["KIT", "NAMES", "Limits", "Result", "Sandbox", "Status", "Workspace", "sandbox"]

KIT = Kit(
    name="sandbox",
    summary="Run untrusted code within limits: docker, bubblewrap, or a plain process.",
    checks=("headway.kits.sandbox.doctor:check",),
)

_WHERE = {
    "NAMES": "choose", "sandbox": "choose", "Limits": "records", "Result": "records", "Sandbox": "records",
    "Status": "records", "Workspace": "records",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"{__name__}.{_WHERE[name]}:{name}")
