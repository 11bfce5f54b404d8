"""Sandboxes: run code that nobody has read, and say how it went.

    from headway.worlds.sandbox import Limits, sandbox

    box = sandbox("auto")                                      # docker, else bubblewrap; never the bare host
    box.run("print(6 * 7)").stdout                             # "42\\n": Python source
    box.run(["sh", "-c", "cat notes.txt"], files={"notes.txt": "hello"})
    box.run("while True: pass", limits=Limits(wall_s=1)).status  # "timeout"

Whatever runs, its whole process tree is dead when `run` returns. A sandbox that is not there is an error
(`sandbox_missing`), never a run on the host, and never "the task failed".
What each one does not cover stands in its docstring; what was tried against it in docs/explanation/sandbox.md.
"""

from headway.worlds.sandbox.choose import NAMES, sandbox
from headway.worlds.sandbox.records import Limits, Result, Sandbox, Status

__all__ = ["NAMES", "Limits", "Result", "Sandbox", "Status", "sandbox"]
