"""`headway`: finds the command, runs it, and turns errors into a message, a hint and an exit status.

0    done
1    an error (code, message, hint), or a failed check of `doctor`
2    the command line is invalid
3    the answer of --check is no
130  interrupted
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from headway.cli.in_use import known, working_in
from headway.cli.output import Output
from headway.cli.verbs import command_at, json_option, project_option, unknown_command, write_examples
from headway.nouns import Command, errors, load

PACKAGE = Path(__file__).resolve().parents[1]
GROUPS = ("Start", "Loop", "Look", "More")
_FIRST = GROUPS[:3]  # what the first screen explains; the rest is listed by kit


def commands() -> dict[str, Command]:
    """The commands of the first level: the core's, and those of the kits in use."""
    return {name: entry for name, entry in known().all("commands").items() if " " not in name}


def in_group(group: str) -> list[tuple[str, Command]]:
    """The commands of one group, in the order of use; More by name."""
    entries = [(name, entry) for name, entry in commands().items() if entry.group == group]
    return sorted(entries, key=lambda item: item[0]) if group == "More" else entries


class Headway(click.Group):
    """The commands, each imported when it is used."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [name for group in GROUPS for name, _ in in_group(group)]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        return command_at("commands", cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(("headway demo route --out demo", "headway init && headway status"), formatter)
        super().format_help(ctx, formatter)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group in _FIRST:
            with formatter.section(group):
                formatter.write_dl([(name, entry.summary) for name, entry in in_group(group)])
        kits, rest = known(), dict[str, list[str]]()
        for name, _ in in_group("More"):
            owner = kits.owner("commands", name).name
            rest.setdefault("" if owner == "core" else owner, []).append(name)
        with formatter.section("More"):
            formatter.write_text(", ".join(rest.pop("", [])))
        with formatter.section("Kits"):
            formatter.write_dl([(owner, ", ".join(names)) for owner, names in sorted(rest.items())])
        formatter.write_paragraph()
        formatter.write_text("`headway help` has a line on each; `headway help WORD` explains a command or a term.")


def version_line(package: Path = PACKAGE) -> str:
    """One line: "headway 0.2.0 (commit 0bf527f)".

    The commit comes from git in a checkout, and from `commit.txt` (written when the package is built) in an installed
    package.
    """
    known = commit(package)
    return f"headway {load('headway:__version__')}" + (f" (commit {known})" if known else "")


def commit(package: Path = PACKAGE) -> str:
    """The short hash of the commit, or "" if it is unknown."""
    checkout = package.parents[1]
    if package.parent.name == "src" and (checkout / ".git").exists():
        return _head(checkout)
    try:
        return (package / "commit.txt").read_text("utf-8").strip()
    except OSError:
        return ""


def _head(checkout: Path) -> str:
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", checkout, "rev-parse", "--short=7", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=Headway,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[project_option("HEADWAY_DIR"), json_option()],
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def headway(project_folder: object, as_json: object) -> None:
    """Decide, signal, learn, prove, promote: a policy layer for repeated decisions.

    Every command takes --json, and prints the next command to run or how to undo.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status."""
    arguments = list(arguments) or ["--help"]
    as_json = "--json" in arguments
    try:
        with working_in(arguments):
            code: Any = headway.main(arguments, prog_name="headway", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        return _usage_error(error, as_json)
    except errors.HeadwayError as error:
        Output(json=as_json).error(error)
        return 1
    except ModuleNotFoundError as error:
        extra = _extra_with(error.name or "")
        if not extra:
            raise
        Output(json=as_json).error(errors.MissingExtra("This command", (error.name or "").partition(".")[0], extra))
        return 1
    except BrokenPipeError:
        # The rest of the buffer has no reader: without this, the interpreter reports an error on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = "Check the path, its permissions and the space on the disk."
        body = {"code": "file_error", "message": f"{where}{error.strerror or error}.", "hint": hint}
        Output(json=as_json).failure(body)
        return 1
    except (KeyboardInterrupt, click.Abort):
        Output(json=as_json).failure({"code": "interrupted", "message": "Interrupted.", "hint": ""})
        return 130
    return code if isinstance(code, int) else 0


def _extra_with(module: str) -> str:
    """The smallest extra of ours that installs the package of a module; nothing if none does."""
    from importlib.metadata import PackageNotFoundError, requires

    package = module.partition(".")[0].lower()
    try:
        lines = [line.replace("'", '"').partition('; extra == "') for line in requires("headway") or []]
    except PackageNotFoundError:
        return ""
    extras = Counter(extra.rstrip('"') for _, _, extra in lines)
    with_it = {
        extra.rstrip('"')
        for name, _, extra in lines
        if extra and re.split(r"[^\w-]", name, maxsplit=1)[0].replace("-", "_").lower() == package
    }
    return min(with_it, key=lambda extra: (extras[extra], extra), default="")


def _usage_error(error: click.UsageError, as_json: bool) -> int:
    where = error.ctx.command_path if error.ctx else "headway"
    message = error.format_message()
    Output(json=as_json).failure({"code": "usage", "message": message, "hint": f"See {where} --help"})
    return 2


def main() -> None:
    """The console entry point."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show "→" gets "?" instead of a traceback
    sys.exit(run(sys.argv[1:]))
