"""Everything that is printed. The only file of Headway that prints.

    out = Output(json=False)
    out.line("route now bandit@4f2a (was uniform@0).")
    out.table(("task", "current"), [("route", "bandit@4f2a")])
    out.next("headway prove route")
    out.document({"policy": "bandit@4f2a"})      # the output of --json, once, at the end

Commands print records with `session.show(record)` (show.py), which uses these methods.

On a terminal: tables, colour, a bar while it works. Elsewhere: plain lines without escape codes. With --json: one
document on standard output and nothing else. Control characters and escape sequences are removed from all text, and
rich's markup is never parsed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from headway.cli.written import clean
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.cli.at_work import AtWork


class Output:
    """The output of one command."""

    def __init__(self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json = json
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.terminal = not json and self._out.isatty()
        self.said: Callable[[str], str] = str  # puts the names of policies into what people read
        self._document: dict[str, Any] | None = None
        self._steps: dict[str, str] = {}
        self._console: Any = None
        self._at_work: AtWork | None = None

    # -- for people

    def line(self, text: str = "", *, style: str = "") -> None:
        """One line; `style` is rich's name for a colour, seen on a terminal only."""
        if self.json:
            return
        text = clean(self.said(text), one_line=False)
        if self.terminal and style:
            self._rich().print(self._text(text, style), soft_wrap=True)
        else:
            self._print(text)

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
        """Columns; those named in `right` are numbers."""
        if self.json:
            return
        cells = [[clean(self.said(cell) if isinstance(cell, str) else cell) for cell in row] for row in rows]
        if self.terminal:
            from rich import box
            from rich.table import Table

            table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
            for name in headers:
                table.add_column(name, justify="right" if name in right else "left", overflow="fold")
            for row in cells:
                table.add_row(*(self._text(cell) for cell in row))
            self._rich().print(table)
            return
        widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(headers)]
        for row in [list(headers), *cells]:
            parts = [
                cell.rjust(width) if name in right else cell.ljust(width)
                for name, cell, width in zip(headers, row, widths, strict=True)
            ]
            self._print("  ".join(parts).rstrip())

    def fields(self, pairs: Mapping[str, object]) -> None:
        """A short record: one name and value per line."""
        if self.json or not pairs:
            return
        width = max(map(len, pairs))
        for name, value in pairs.items():
            text = clean(value)
            if self.terminal:
                self._rich().print(self._text(name.ljust(width), "dim"), self._text(text), soft_wrap=True)
            else:
                self._print(f"{name.ljust(width)}  {text}")

    def piece(self, text: str) -> None:
        """A part of a line, as it comes."""
        self.raw(clean(text, one_line=False))

    def raw(self, text: str) -> None:
        """Unchanged text, for files that go through a pipe (a completion script)."""
        if not self.json:
            self.hush()
            self._out.write(text)

    def note(self, text: str) -> None:
        """A note that is not part of the answer."""
        self.line(text, style="yellow")

    def aside(self, text: str) -> None:
        """A note on standard error, for commands whose standard output is read by a program."""
        if not self.json:
            self._print(clean(text), self._err)

    def next(self, command: str) -> None:
        """The next sensible command."""
        self._step("next", "Next", command)

    def undo(self, command: str) -> None:
        self._step("undo", "Undo", command)

    def _step(self, key: str, word: str, command: str) -> None:
        command = clean(command)
        self._steps[key] = command
        if self.json:
            return
        if self.terminal:
            self._rich().print(self._text(f"{word}: "), self._text(command, "bold cyan"), sep="", soft_wrap=True)
        else:
            self._print(f"{word}: {command}")

    # -- for programs

    def document(self, value: Mapping[str, Any]) -> None:
        """The document for --json; the last one counts."""
        self._document = dict(value)

    def finish(self) -> None:
        """Print the document, with --json."""
        if self.json:
            self._print_json({**(self._document or {}), **self._steps})
        self._out.flush()

    def error(self, error: errors.HeadwayError) -> None:
        """Message and hint; with --json the same as a document on standard output."""
        body: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
        if isinstance(error, errors.GateRefused):
            body["reasons"] = list(error.reasons)
        self.failure(body)

    def failure(self, body: Mapping[str, Any]) -> None:
        if self.json:
            self._print_json({"error": body})
            self._out.flush()
            return
        self._out.flush()
        print(f"Error: {clean(body['message'], one_line=False)}", file=self._err)
        if body.get("hint"):
            print(f"Hint: {clean(body['hint'], one_line=False)}", file=self._err)

    def _print_json(self, value: object) -> None:
        import msgspec

        # JSON has no NaN or infinity: msgspec writes null.
        body = msgspec.json.format(msgspec.json.encode(value, enc_hook=str, order="deterministic"), indent=2)
        self._print(body.decode())

    # -- long work

    @contextmanager
    def at_work(self, command: str) -> Iterator[None]:
        """Says on standard error what takes long, after some silent seconds; nothing with --json."""
        if not self.json:
            from headway.cli.at_work import AtWork

            self._at_work = AtWork(command, self._err)
        try:
            yield
        finally:
            self.hush()

    def progress(self, what: str, done: int, of: int | None) -> None:
        """How far the command is: a `Progress` for what takes long."""
        if self._at_work is not None:
            self._at_work.report(clean(what), done, of)

    def hush(self) -> None:
        """Say no more that it works: a person is asked something, or text is written piece by piece."""
        if self._at_work is not None:
            self._at_work.end()
            self._at_work = None

    def _print(self, text: str, file: TextIO | None = None) -> None:
        if self._at_work is not None:
            self._at_work.make_room()
        print(text, file=file or self._out)

    # -- rich, on a terminal only

    def _rich(self) -> Any:
        if self._at_work is not None:
            self._at_work.make_room()
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._out, markup=False, highlight=False, emoji=False)
        return self._console

    def _text(self, text: str, style: str = "") -> Any:
        from rich.text import Text

        return Text(text, style=style)
