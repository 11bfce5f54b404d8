"""sandbox — runs code that nobody has read, and says how it went.

    from headway.kits.sandbox import Limits, sandbox

    box = sandbox("auto")                                      # docker, else bubblewrap; never the bare host
    box.run("print(6 * 7)").stdout                             # "42\\n": Python source
    box.run(["sh", "-c", "cat notes.txt"], files={"notes.txt": "hello"})
    box.run(["sh", "-c", "make"], workspace=Workspace(path=copy))  # the program may change the files in that folder
    box.run("while True: pass", limits=Limits(wall_s=1)).status  # "timeout"

`checks.py` says whether an answer does what was asked: exact, includes, regex, numeric, json, code (in a sandbox).

When `run` returns, the whole process tree of the program is dead. A missing sandbox is an error (`sandbox_missing`),
never a run on the host, and never "the task failed". Each sandbox's docstring says what it does not cover;
docs/explanation/sandbox.md lists the escapes that were tried.

Takes: source or a command, files, limits; an answer and its check.   Gives: a Result; a CheckResult.
Never: runs untrusted code on the bare host unless `process` is asked for by name.
May import: client, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import Kit, door

if TYPE_CHECKING:
    from headway.kits.sandbox.checks import (
        CheckResult as CheckResult,
        check as check,
        code_in as code_in,
        validate as validate,
    )
    from headway.kits.sandbox.docker import IMAGE as IMAGE, build_image as build_image
    from headway.kits.sandbox.launch import PATH as PATH, interpreter as interpreter, remove_tree as remove_tree
    from headway.kits.sandbox.pair_runners import PairReport as PairReport, pairs as pairs
    from headway.kits.sandbox.process import sandbox as sandbox
    from headway.kits.sandbox.records import (
        Limits as Limits,
        Result as Result,
        Sandbox as Sandbox,
        Status as Status,
        Workspace as Workspace,
    )
else:
    __all__, __getattr__ = door(__name__)

KIT = Kit(
    name="sandbox",
    summary="Run untrusted code within limits: docker, bubblewrap, or a plain process.",
    checks=("headway.kits.sandbox.cgroup:findings",),
)
