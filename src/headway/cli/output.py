"""Everything that is printed. The only file of Headway that prints.

    out = Output(json=False)
    out.line("route now bandit@4f2a (was uniform@0).")
    out.table(("task", "current"), [("route", "bandit@4f2a")])
    out.next("headway prove route")
    out.document({"policy": "bandit@4f2a"})      # the output of --json, once, at the end

Commands print records with `session.show(record)` (show.py), which uses these methods.

On a terminal: tables, colour, progress bars. Elsewhere: plain lines without escape codes. With --json: one document on
standard output and nothing else. Control characters and escape sequences are removed from all text, and rich's markup
is never parsed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from headway.cli.written import clean
from headway.nouns import GateRefused, HeadwayError

if TYPE_CHECKING:
    from headway.nouns import Progress


_PLAIN_EVERY_S = 5.0


class Output:
    """The output of one command."""

    def __init__(self, *, json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.json = json
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.terminal = not json and self._out.isatty()
        self._document: dict[str, Any] | None = None
        self._steps: dict[str, str] = {}
        self._console: Any = None

    # -- for people

    def line(self, text: str = "", *, style: str = "") -> None:
        """One line; `style` is rich's name for a colour, seen on a terminal only."""
        if self.json:
            return
        text = clean(text, one_line=False)
        if self.terminal and style:
            self._rich().print(self._text(text, style), soft_wrap=True)
        else:
            print(text, file=self._out)

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> None:
        """Columns; those named in `right` are numbers."""
        if self.json:
            return
        cells = [[clean(cell) for cell in row] for row in rows]
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
            print("  ".join(parts).rstrip(), file=self._out)

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
                print(f"{name.ljust(width)}  {text}", file=self._out)

    def raw(self, text: str) -> None:
        """Unchanged text, for files that go through a pipe (a completion script)."""
        if not self.json:
            self._out.write(text)

    def note(self, text: str) -> None:
        """A note that is not part of the answer."""
        self.line(text, style="yellow")

    def aside(self, text: str) -> None:
        """A note on standard error, for commands whose standard output is read by a program."""
        if not self.json:
            print(clean(text), file=self._err)

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
            print(f"{word}: {command}", file=self._out)

    # -- for programs

    def document(self, value: Mapping[str, Any]) -> None:
        """The document for --json; the last one counts."""
        self._document = dict(value)

    def finish(self) -> None:
        """Print the document, with --json."""
        if self.json:
            self._print_json({**(self._document or {}), **self._steps})
        self._out.flush()

    def error(self, error: HeadwayError) -> None:
        """Message and hint; with --json the same as a document on standard output."""
        body: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
        if isinstance(error, GateRefused):
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
        print(body.decode(), file=self._out)

    # -- long work

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A bar on a terminal; elsewhere a plain line on standard error every few seconds; nothing with --json."""
        if self.json:
            yield _silent
        elif self.terminal and self._err.isatty():
            with self._bar() as report:
                yield report
        else:
            yield self._plain_report()

    @contextmanager
    def _bar(self) -> Iterator[Progress]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        with Bar(*columns, TimeElapsedColumn(), console=Console(file=self._err), transient=True) as bar:
            tasks: dict[str, Any] = {}

            def report(what: str, done: int, of: int | None) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(clean(what), total=of)
                bar.update(tasks[what], completed=done, total=of)

            yield report

    def _plain_report(self) -> Progress:
        last = time.monotonic()

        def report(what: str, done: int, of: int | None) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= _PLAIN_EVERY_S:
                last = now
                whole = f" of {of:,}" if of else ""
                print(f"{clean(what)}: {done:,}{whole}", file=self._err, flush=True)

        return report

    # -- rich, on a terminal only

    def _rich(self) -> Any:
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._out, markup=False, highlight=False, emoji=False)
        return self._console

    def _text(self, text: str, style: str = "") -> Any:
        from rich.text import Text

        return Text(text, style=style)


def _silent(what: str, done: int, of: int | None) -> None:
    """Reports nothing."""
