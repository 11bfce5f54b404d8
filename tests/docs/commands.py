"""Collects every `headway …` command line that the project shows anywhere, and parses it without running it.

    python -m tests.docs.commands        lists the command lines with their places

- Markdown: `console`, `bash` and `text` blocks, and code spans.
- Python sources: string literals and f-strings (both sides of a conditional; other placeholders become a sample value),
  docstrings, and argument lists such as `["headway", "serve"]`.
- The page's sources: string literals, attributes and `<code>`.

Shell syntax (pipes, redirections, `&&`, `$(…)`) is split; every `headway` in it is a separate command line. Commands of
example kits, which are not installed here, are omitted: the tests of those kits run them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from headway.cli.main import headway
from headway.kits import BUILT_IN
from tests.cli.command_line import words_after
from tests.docs.play import blocks

ROOT = Path(__file__).resolve().parents[2]
HOLE = "\N{REPLACEMENT CHARACTER}"  # replaces a value that is known only at run time
SAMPLES = ("route", "1", "0.5", "status", "solved=1.0", "")  # "": the value is empty
NOT_COMMANDS = ("headway page",)  # seals the page's sessions (serve/auth.py)
_OPERATORS = set("();<>|&")
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")
# In prose a command follows ": " or "(" or one of these words, up to the end of the line or of the parenthesis.
_PROSE = re.compile(r"(?:^|: |\(|\b[Rr]un |\bSee |\$ |^ +)(headway [^`()\n]+)", re.MULTILINE)
_SHELL = re.compile(r"^\s*(?:\$ |> )?(?:\w+=\S* )*headway |\$\(headway |\| headway ")
_STEP = re.compile(r"(?:Next|Undo):\s+(headway .+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, order=True)
class Shown:
    """One command line and its place. In a code span, a command may be mentioned without its arguments."""

    place: str
    text: str
    span: bool = False


def in_shell(text: str) -> Iterator[list[str]]:
    """The words of every `headway` command in a piece of shell."""
    for nested in re.findall(r"\$\((headway [^()]*)\)", text):
        yield from in_shell(nested)
    text = re.sub(r"(?<=\s)[12](?=>)", "", text.replace("$(", "("))  # 2>errors.txt
    text = re.sub(r"(?<=\w)\|(?=\w)", "¦", text)  # without spaces: alternatives, not a pipe
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] | None = None
    try:
        for word in lexer:
            if set(word) <= _OPERATORS:
                if words:
                    yield words[1:]
                words = None
            elif words is not None:
                words.append(word)
            elif word == "headway":
                words = [word]
    except ValueError:
        return  # an apostrophe in prose
    if words:
        yield words[1:]


def in_words(words: list[str]) -> Iterator[list[str]]:
    """The command lines of a synopsis: `[--again]` is set, `add|list` gives both, `…` and `N` become a value."""
    plain = [re.sub(r"^\[|\]$", "", word) for word in words]
    plain = [HOLE if word in ("…", "...", "N") else re.sub(f"{HOLE}+", HOLE, word) for word in plain]
    alternatives = [re.sub(r"^\{|\}$", "", word).split("," if word.startswith("{") else "¦") for word in plain]
    for chosen in itertools.islice(itertools.product(*alternatives), 64):
        yield [word for word in chosen if word]


def in_markdown(text: str) -> Iterator[tuple[str, bool]]:
    """(command line, in a code span) of a page."""
    for block in blocks(text):
        if block.language in ("console", "bash", "text", ""):
            joined = re.sub(r"\s*\\\n(?:> )?\s*", " ", block.text)
            yield from ((match[1], False) for match in _STEP.finditer(joined))
            for line in joined.splitlines():
                if _SHELL.search(line) and "─" not in line:  # a line of a diagram, not of a shell
                    yield re.sub(r"^\s*(?:\$ |> )", "", line), False
    prose = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from ((span, True) for span in in_spans(prose))


def in_spans(text: str) -> Iterator[str]:
    for match in _SPAN.finditer(text):
        if "headway " in match[1] and re.match(r"(?:\$ )?(?:\w+=\S* )*headway ", match[1]):
            yield " ".join(match[1].removeprefix("$ ").split())


def in_text(text: str) -> Iterator[tuple[str, bool]]:
    """(command line, in a code span) of a message; outside of spans after "Next:" or another colon."""
    yield from ((span, True) for span in in_spans(text))
    without = _SPAN.sub("", text)
    for match in _PROSE.finditer(without):
        command = re.split(r"[.,;:]?(?:\s{2,}|\s#\s|$)|(?<=\S)[.,;:] ", match[1].rstrip(), maxsplit=1)[0]
        if command not in NOT_COMMANDS:
            yield command, False


def texts(node: ast.AST) -> list[str]:
    """Every possible text of an expression; values known only at run time become a placeholder."""
    match node:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.JoinedStr(values=values):
            return ["".join(parts) for parts in itertools.islice(itertools.product(*map(texts, values)), 64)]
        case ast.FormattedValue(value=value):
            return texts(value)
        case ast.IfExp(body=body, orelse=orelse):
            return [*texts(body), *texts(orelse)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in texts(left) for b in texts(right)]
    return [HOLE]


def in_python(source: str) -> Iterator[tuple[int, str, bool]]:
    """(line, command line, in a code span) of every literal of a source file."""
    if '"headway"' not in source and "headway " not in source.replace("from headway import ", ""):
        return  # most files; parsing them takes seconds
    inner: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if id(node) in inner:
            continue
        if isinstance(node, ast.Attribute) and node.attr == "split":
            inner.add(id(node.value))  # a list of words
        elif isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            inner.update(id(child) for child in ast.walk(node))
            for text in texts(node):
                if "headway " in text:
                    yield from ((node.lineno, *command) for command in in_text(text))
        elif isinstance(node, ast.List):
            words = [texts(item)[0] for item in node.elts]
            if len(words) > 1 and words[0] == "headway":
                yield node.lineno, shlex.join(words), False
            elif len(words) > 3 and words[1:3] == ["-m", "headway"]:
                yield node.lineno, shlex.join(words[2:]), False


def in_page(source: str) -> Iterator[tuple[str, bool]]:
    """(command line, in a code span) of a Svelte or TypeScript file."""
    before = ""
    while before != source:  # innermost first: `${quote(`${name}`)}`
        before, source = source, re.sub(r"\$\{[^{}]*\}", HOLE, source)
    source = re.sub(r"(<[A-Za-z][^<>]*)", lambda tag: re.sub(r"\{[^{}]*\}", HOLE, tag[1]), source)
    for match in re.finditer(r"([\"'`])([^\n]*?\bheadway [^\n]*?)\1|<code>([^<]*)</code>", source):
        yield from in_text((match[2] or match[3] or "").replace("&amp;", "&"))


def offered(path: Path) -> bool:
    """Whether a source file belongs to the core or to a built-in kit; other kits are not offered yet."""
    parts = path.relative_to(ROOT).parts
    return parts[:3] != ("src", "headway", "kits") or len(parts) == 4 or parts[3] in BUILT_IN


def example_commands(*texts: str) -> set[str]:
    """The commands in the passports of example kits: `"tally": Command(…)`."""
    return {name for text in texts for name in re.findall(r'"([\w-]+)": Command\(', text)}


@functools.cache
def collect() -> tuple[Shown, ...]:
    """Every command line that is shown, once per place."""
    shown_commands: set[Shown] = set()
    examples = example_commands(
        (ROOT / "docs" / "how-to" / "kits.md").read_text("utf-8"),
        *(path.read_text("utf-8") for path in (ROOT / "examples" / "kit").rglob("__init__.py")),
    )

    def add(path: Path, text: str, span: bool, line: int | None = None) -> None:
        where = path.relative_to(ROOT).as_posix()
        if any(words and words[0] in examples for words in in_shell(text)):
            return
        shown_commands.add(Shown(where if line is None else f"{where}:{line}", text, span))

    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "clients").glob("*/README.md")]:
        page = path.read_text("utf-8")
        if path.name == "CHANGELOG.md":
            page = "## ".join(page.split("\n## ")[:2])  # entries of releases do not change
        for text, span in in_markdown(page):
            add(path, text, span)
    for folder in ("src", "examples"):
        for path in filter(offered, (ROOT / folder).rglob("*.py")):
            for line, text, span in in_python(path.read_text("utf-8")):
                add(path, text, span, line)
    for path in [*(ROOT / "dashboard" / "src").rglob("*.svelte"), *(ROOT / "dashboard" / "src").rglob("*.ts")]:
        if path.name != "schema.d.ts":
            for text, span in in_page(path.read_text("utf-8")):
                add(path, text, span)
    return tuple(sorted(shown_commands))


def parse(words: list[str]) -> None:
    """Parse as the real command line does, without running; raises click.UsageError."""
    context = headway.make_context("headway", list(words))
    command: click.Command = headway
    while isinstance(command, click.Group):
        rest = words_after(context)
        if not rest:
            return  # a mention of the group itself
        name, child, words = command.resolve_command(context, rest)
        assert child is not None
        command = child
        context = child.make_context(name, list(words), parent=context)


def problem(shown: Shown) -> str:
    """The error of the command line for this text; "" if it accepts every command in it."""
    for words in in_shell(shown.text):
        for chosen in in_words(words):
            message = _problem(chosen)
            if message and not (shown.span and mentioned(chosen)):
                return f"headway {shlex.join(chosen).replace(HOLE, '…')}: {message}"
    return ""


def mentioned(words: list[str]) -> bool:
    """Whether this only names a command, perhaps with options of it: `headway prove --trust-key`."""
    command: click.Command = headway
    while words and isinstance(command, click.Group):
        child = command.get_command(click.Context(command), words[0])
        if child is None:
            return False
        command, words = child, words[1:]
    options = {name for parameter in command.params for name in parameter.opts if isinstance(parameter, click.Option)}
    return all(word in options for word in words)


def _problem(words: list[str]) -> str:
    holes = sum(word.count(HOLE) for word in words)
    message = ""
    for samples in itertools.product(SAMPLES, repeat=min(holes, 3)):
        values = itertools.cycle(samples)
        filled = [re.sub(HOLE, lambda _: next(values), word) for word in words]  # noqa: B023 - called at once
        try:
            parse([word for word in filled if word])
        except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
            return ""  # --help, --version, or a group alone
        except click.UsageError as error:
            message = message or error.format_message()
        else:
            return ""
    return message


if __name__ == "__main__":
    for shown in collect():
        print(f"{shown.place}\t{shown.text}\t{problem(shown)}")
