"""Runs commands with the packages of the extras blocked; prints each command line, its exit status and error code.

python -m tests.cli.light FOLDER
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

MODULES = {"torch", "transformers", "gymnasium", "matplotlib", "pyarrow", "onnxruntime", "tokenizers", "openvino"}
LINES = (
    "grow ablate x", "grow bench", "grow evaluate", "grow train", "learn --world morph",
    "compare grow", "learn rank --family ranker", "plan grow", "report grow", "score rank", "status",
)  # fmt: skip
TOML = """
[tasks.route]
actions = ["a", "b"]
[tasks.rank]
kind = "ranking"
[tasks.grow]
kind = "factored"
world = "morph"
[tasks.reply]
kind = "reply"
"""


class Blocked:
    """A finder that has none of the packages of the extras."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(folder: Path) -> None:
    sys.meta_path.insert(0, Blocked())  # type: ignore[arg-type] # find_spec is all that is asked
    from headway.cli.main import run

    os.chdir(folder)
    Path("headway.toml").write_text(TOML, "utf-8")
    for line in LINES:
        out, err = io.StringIO(), io.StringIO()
        sys.stdin = io.StringIO("")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run([*line.split(), "--json"])
        body = json.loads(out.getvalue()) if out.getvalue().startswith("{") else {}
        print(json.dumps([line, status, body.get("error", {}).get("code", "")]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
