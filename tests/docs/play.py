"""Plays the snippets of one Markdown file, as a reader would: from top to bottom, in one empty folder.

    python -m tests.docs.play README.md        run inside the scratch folder; exit status 1 and a report if one fails

- ```` ```python ```` blocks share one namespace; an exception fails.
- ```` ```console ````: lines that start with `$ ` are run by bash (`> ` continues one), and must exit 0. Directory and
  exported variables carry over to the next command.
- ```` ```bash ````: the whole block is one script, run with `set -euo pipefail`.
- Comments on the lines before a block change this: `<!-- exit: 2 -->` expects that status from its last command;
  `<!-- no-run: reason -->` skips it (counted and limited); `<!-- check -->` compares the output that follows each
  command, where `…` matches anything. A `text` block with `<!-- check -->` is compared with what the Python block
  before it printed.
- `sh`, `shell` and `pycon` are refused, so that every snippet is run. Other languages are not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import textwrap
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN = ("python", "console", "bash")
REFUSED = {
    "sh": "console or bash",
    "shell": "console or bash",
    "zsh": "console or bash",
    "pycon": "python",
    "py": "python",
}
TIMEOUT_S = 240
_FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)[^`]*$")
_MARK = re.compile(r"<!--\s*(?P<name>exit|no-run|check)\s*(?::\s*(?P<value>.*?))?\s*-->")
_AT_WORK = re.compile(r"^[a-z][a-z ]*(?: is working|  [a-z][^\n]*\d), \d+ s\n", re.MULTILINE)


class Failed(Exception):
    """A snippet does not do what the page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: its line, its language, its text and the comments before it."""

    line: int  # of the first line inside the fence, from 1
    language: str
    text: str
    marks: dict[str, str]

    @property
    def runs(self) -> bool:
        return self.language in RUN and "no-run" not in self.marks


def blocks(markdown: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    page_blocks: list[Block] = []
    marks: dict[str, str] = {}
    lines = iter(enumerate(markdown.splitlines(), 1))
    for at, line in lines:
        match = _FENCE.match(line)
        if match is None:
            if line.strip():
                marks = marks | _marks(line, at) if line.strip().startswith("<!--") else {}
            continue
        inside: list[str] = []
        for _, text_line in lines:
            if text_line.strip().startswith(match["fence"]) and not text_line.strip().strip(match["fence"][0]):
                break
            inside.append(text_line)
        else:
            raise Failed(f"line {at}: the block is never closed")
        language = match["language"]
        if language in REFUSED:
            raise Failed(f"line {at}: call it {REFUSED[language]}, not {language!r}; else no test would run it")
        text = textwrap.dedent("\n".join(inside))
        page_blocks.append(Block(line=at + 1, language=language, text=text, marks=marks))
        marks = {}
    return page_blocks


def _marks(line: str, at: int) -> dict[str, str]:
    marks = {match["name"]: match["value"] or "" for match in _MARK.finditer(line)}
    if "no-run" in marks and len(marks["no-run"]) < 10:
        raise Failed(f"line {at}: no-run needs a reason")
    if "exit" in marks and not marks["exit"].isdecimal():
        raise Failed(f"line {at}: exit needs a number, not {marks['exit']!r}")
    return marks


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown under it."""
    pairs: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            pairs.append(([line[2:]], []))
        elif pairs and not pairs[-1][1] and (line.startswith("> ") or pairs[-1][0][-1].endswith("\\")):
            pairs[-1][0].append(line.removeprefix("> "))
        elif pairs:
            pairs[-1][1].append(line)
        elif line.strip():
            raise Failed(f"a console block starts with a command ('$ …'), not with {line!r}")
    return [("\n".join(command), "\n".join(output)) for command, output in pairs]


def matches(shown: str, real: str) -> bool:
    """Whether the output matches the page, up to white space, `…` and the lines of a command that takes long here."""
    real = _AT_WORK.sub("", real)
    pattern = ".*".join(re.escape(" ".join(part.split())).replace(r"\ ", r"\s+") for part in shown.split("…"))
    # A space next to "…" may be part of the text that "…" matches.
    return re.fullmatch(rf"\s*{pattern}\s*", " ".join(real.split()), re.DOTALL) is not None


class Play:
    """One page's run: a namespace for Python, a folder and exported variables for bash."""

    def __init__(self, page: str, keep: Path) -> None:
        self.page = page
        self.keep = keep  # where bash leaves its folder and variables between commands; outside the scratch folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""

    def block(self, block: Block) -> None:
        if block.language == "python":
            self.printed = self.python(block)
        elif block.language == "text" and "check" in block.marks:
            self.compare(block.text, self.printed, "the Python block above")
        elif block.language == "bash":
            self.bash(f"set -euo pipefail\n{block.text}", int(block.marks.get("exit", 0)))
        elif block.language == "console":
            steps = commands(block.text)
            for index, (command, shown) in enumerate(steps):
                expected = int(block.marks.get("exit", 0)) if index == len(steps) - 1 else 0
                real = self.bash(command, expected)
                if "check" in block.marks:
                    self.compare(shown, real, f"$ {command}")

    def python(self, block: Block) -> str:
        printed = io.StringIO()
        # Blank lines above keep the traceback's line numbers those of the page.
        code = compile("\n" * (block.line - 1) + block.text, self.page, "exec")
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self.names)
        except BaseException:
            raise Failed(f"{printed.getvalue()}{traceback.format_exc()}") from None
        return printed.getvalue()

    def bash(self, script: str, expected: int) -> str:
        state, folder = self.keep / "environment", self.keep / "folder"
        before = f". '{state}'\n" if state.exists() else ""
        after = f'trap \'export -p >"{state}"; pwd >"{folder}"\' EXIT\n'
        done = subprocess.run(
            ["bash", "-c", before + after + script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
        output = done.stdout.decode("utf-8", "replace")
        if done.returncode != expected:
            raise Failed(f"$ {script}\n{output}\nexit status {done.returncode}, the page says {expected}")
        os.chdir(folder.read_text("utf-8").rstrip("\n"))
        return output

    def compare(self, shown: str, real: str, what: str) -> None:
        if not matches(shown, real):
            raise Failed(f"{what}\n--- the page shows\n{shown}\n--- it printed\n{real}")


def play(path: Path, keep: Path) -> int:
    """0, or 1 with a report on standard error that names the page's line."""
    try:
        page_blocks = blocks(path.read_text("utf-8"))
    except Failed as failure:
        print(f"{path}: {failure}", file=sys.stderr)
        return 1
    stage = Play(str(path), keep)
    for block in page_blocks:
        if "no-run" in block.marks:
            continue
        try:
            stage.block(block)
        except (Failed, SyntaxError, subprocess.TimeoutExpired) as failure:
            print(f"{path}:{block.line}: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(play(Path(sys.argv[1]), Path(sys.argv[2])))
