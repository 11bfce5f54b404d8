"""`headway`: finds the command, runs it, and turns whatever goes wrong into a message, a hint and an exit status.

0   done
1    an error: code, message, hint; or `doctor` found something wrong
2    the command line is not understood
3    --check says no
130  interrupted
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.output import Output
from headway.cli.verb import json_option, project_option, unknown_command, write_examples
from headway.nouns.errors import HeadwayError
from headway.nouns.kit import Command, catalogue, load

__all__ = ["COMMANDS", "commands", "headway", "main", "run"]


def _core(target: str, summary: str, group: str = "More") -> Command:
    module, _, name = target.partition(":")
    return Command(f"headway.cli.{module}:{name or module}", summary, group)


GROUPS = ("Start", "Loop", "More")
# The core's own. The lines stand here so that --help imports no command; a test compares them with the commands.
COMMANDS: dict[str, Command] = {
    "up": _core("up", "Start everything: the server, the loop that learns, and the page.", "Start"),
    "demo": _core("demo", "Play the whole loop on synthetic traffic, from an empty folder.", "Start"),
    "init": _core("init", "Start a project: headway.toml and .headway/ in a folder.", "Start"),
    "status": _core("status", "Show every task: who decides, what was recorded, what to do next.", "Start"),
    "doctor": _core("doctor", "Check that everything here is as it should be.", "Start"),
    "decide": _core("decide", "Choose one of the candidates and log the choice with its probability.", "Loop"),
    "score": _core("rank:score", "Predict the reward of one candidate; nothing is logged.", "Loop"),
    "rank": _core("rank", "Put candidates in order of predicted reward; nothing is logged.", "Loop"),
    "signal": _core("signal", "Say how a decision or an episode went.", "Loop"),
    "learn": _core("learn", "Learn a candidate policy from settled decisions.", "Loop"),
    "prove": _core("prove", "Is the candidate better than the current policy?", "Loop"),
    "promote": _core("promote", "Make a proven candidate decide.", "Loop"),
    "rollback": _core("promote:rollback", "Make the previous policy decide again.", "Loop"),
    "explain": _core("explain", "Show who made a decision, why, with which probabilities, and how it went."),
    "plan": _core("plan", "How many decisions a proof needs, before they are collected."),
    "report": _core("report", "Show the latest verdict on a task, on one page."),
    "data": _core("data", "Count, list, export and import what was recorded."),
    "rewards": _core("rewards", "Look at rewards, and derive them again after a change."),
    "keys": _core("keys", "Make, replace and revoke the keys that callers of the server need."),
    "serve": _core("serve", "Answer decisions and signals over HTTP, each durably logged."),
    "watch": _core("watch", "Learn, prove, and promote or wait, whenever enough has come in."),
    "kits": _core("kits", "What rides on the loop here: kits, what each brings, and what is wrong with one."),
    "completion": _core("completion", "The script that teaches your shell to complete headway."),
}


def commands() -> dict[str, Command]:
    """The commands of the first level: the core's, and those of the kits in use."""
    kits = {name: entry for name, entry in catalogue().all("commands").items() if " " not in name}
    return {**kits, **COMMANDS}


class Headway(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        known = commands()
        return [name for group in GROUPS for name, entry in known.items() if entry.group == group]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = commands().get(cmd_name)
        if entry is None:
            return None
        command: click.Command = load(entry.target)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(("headway demo route --out demo", "headway init && headway status"), formatter)
        super().format_help(ctx, formatter)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = commands()
        for title in GROUPS:
            with formatter.section(title):
                formatter.write_dl([(name, entry.summary) for name, entry in known.items() if entry.group == title])


def _show_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from headway.cli.version import version_line

        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=Headway,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[project_option(), json_option()],
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
    """Decide, signal, learn, prove, promote: a policy layer for decisions that are made again and again.

    Every command takes --json, and prints the next sensible command or the way back.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status."""
    arguments = list(arguments) or ["--help"]
    as_json = "--json" in arguments
    try:
        code: Any = headway.main(arguments, prog_name="headway", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        return _misunderstood(error, as_json)
    except HeadwayError as error:
        Output(json=as_json).error(error)
        return 1
    except BrokenPipeError:
        # What still waits in the buffer has no reader: without this the interpreter would complain at its end.
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


def _misunderstood(error: click.UsageError, as_json: bool) -> int:
    where = error.ctx.command_path if error.ctx else "headway"
    message = error.format_message()
    Output(json=as_json).failure({"code": "usage", "message": message, "hint": f"See {where} --help"})
    return 2


def main() -> None:
    """The console entry point."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without "→" gets "?" and no traceback
    sys.exit(run(sys.argv[1:]))
