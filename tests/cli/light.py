"""Runs every command of every kit without the packages of the extras; prints the line, its exit status and error code.

python -m tests.cli.light FOLDER [quick]
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import click

MODULES = {
    "box2d", "gymnasium", "matplotlib", "mcp", "onnx", "onnxruntime", "opentelemetry", "openvino", "peft", "psycopg",
    "pyarrow", "pygame", "rouge_score", "sacrebleu", "tokenizers", "torch", "transformers", "wordllama",
}  # fmt: skip
WITH = {  # the words of the commands that need some
    "audit": "log.jsonl", "backup": "b.backup", "compare": "route", "completion": "bash", "connect": "openai",
    "data copy": "here there", "data export": "--out rows.jsonl", "data import": "log.jsonl", "data leaks": "route",
    "data synth": "route", "data transform": "rank --out t.jsonl", "decide": "route text", "explain": "dec_x",
    "experiment show": "route", "experiment start": "route", "experiment stop": "route", "generate": "text",
    "grow ablate": "x", "improve report": "x", "keys add": "k --scope decide", "keys revoke": "k",
    "keys rotate": "k", "learn": "route", "log": "route", "data mine": "log.jsonl", "models add": "smollm2",
    "models export": "x out", "models remove": "x", "mutate": "text", "plan": "route", "promote": "route",
    "prove": "route", "rank": "rank", "report": "route", "restore": "b.backup", "rewards analyze": "route",
    "rewards ask": "route", "rewards rescore": "route", "rollback": "route", "score": "route a --text x",
    "sim generate": "--out p.jsonl --count 2", "sim import": "log.jsonl --out q.jsonl", "sim run": "--tasks p.jsonl",
    "sim validate": "p.jsonl", "signal": "dec_x solved=1", "tradeoff": "route", "verify": "pack",
    "demo mutate": "--steps 2048 --out mutations", "demo route": "--n 500 --out demo", "sim report": "route",
    "sim train": "route --tasks p.jsonl --steps 64",
}  # fmt: skip
LEFT_OUT = {
    "hook",
    "models add",
    "serve",
    "sim image",
    "up",
    "watch",
    "worker",
}  # they wait, download or build an image
MORE = (
    "compare grow", "compare reply", "learn --world cartpole", "learn --world morph", "learn grow",
    "learn rank --family ranker", "learn reply", "learn route --family actor_critic", "learn route --family clone",
    "learn route --family cql", "learn route --family outcome", "plan grow", "report grow", "watch --once",
)  # fmt: skip
TOML = """
[tasks.route]
actions = ["a", "b"]
reward = { solved = 1 }
[tasks.rank]
kind = "ranking"
[tasks.grow]
kind = "factored"
world = "morph"
[tasks.reply]
kind = "reply"
"""


class Without:
    """A finder of modules that has none of the packages of the extras."""

    def __init__(self, finder: Any) -> None:
        self.finder, self.find_distributions = finder, getattr(finder, "find_distributions", None)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in MODULES:
            return None
        spec: ModuleSpec | None = self.finder.find_spec(name, path, target)
        return spec


HEAVY = ("demo ", "sim train", "--family")  # they compute for seconds


def main(folder: Path, quick: bool) -> None:
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
    import headway
    from headway.cli.main import run

    os.chdir(folder)
    Path("headway.toml").write_text(TOML, "utf-8")
    Path("log.jsonl").write_text("{}\n", "utf-8")
    with headway.open() as project:
        for number in range(300):
            pick = project.decide("route", f"sum {number}", ["a", "b"])
            project.signal(pick.id, solved=float(pick.action == "a"))
    from tests.cli.help_pages import commands

    leaves = [path.removeprefix("headway ") for path, command, _ in commands() if not isinstance(command, click.Group)]
    lines = [f"{leaf} {WITH.get(leaf, '')}".strip() for leaf in leaves if leaf not in LEFT_OUT]
    for line in (*lines, *MORE):
        if quick and any(words in line for words in HEAVY):
            continue
        out, err = io.StringIO(), io.StringIO()
        sys.stdin = io.StringIO("")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run([*line.split(), "--json"])
        body = json.loads(out.getvalue()) if out.getvalue().startswith("{") else {}
        print(json.dumps([line, status, body.get("error", {}).get("code", "")]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), quick="quick" in sys.argv)
