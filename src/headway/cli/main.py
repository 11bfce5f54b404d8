"""`headway`: finds the command, runs it, and turns whatever goes wrong into a message, a hint and an exit status.

0   done
1    an error: code, message, hint; or `doctor` found something wrong
2    the command line is not understood
3    --check says no
130  interrupted
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from headway.cli.output import Output
from headway.cli.verb import json_option, project_option, unknown_command, write_examples
from headway.nouns.errors import HeadwayError

__all__ = ["COMMANDS", "headway", "main", "run"]

# group → name → (module, one line). The lines stand here so that --help imports no command; a test compares them.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "up": ("up", "Start everything: the server, the loop that learns, and the page."),
        "demo": ("demo", "Play the whole loop on synthetic traffic, from an empty folder."),
        "init": ("init", "Start a project: headway.toml and .headway/ in a folder."),
        "status": ("status", "Every task: who decides, what has come in, what to do next."),
        "doctor": ("doctor", "Check that everything here is as it should be."),
    },
    "Loop": {
        "decide": ("decide", "Choose one of the candidates and log the choice with its probability."),
        "score": ("rank", "Predict the reward of one candidate; nothing is logged."),
        "rank": ("rank", "Put candidates in order of predicted reward; nothing is logged."),
        "signal": ("signal", "Say how a decision or an episode went."),
        "learn": ("learn", "Learn a candidate policy from what has settled."),
        "prove": ("prove", "Is the candidate better than what decides now?"),
        "promote": ("promote", "Make a proven candidate decide."),
        "rollback": ("promote", "Make the previous policy decide again."),
    },
    "More": {
        "explain": ("explain", "Who made a decision, why, with which probabilities, and how it went."),
        "compare": (
            "compare",
            "A policy beside the rules: what the log says and, with --tasks, what asking both says.",
        ),
        "verify": ("compare", "Check a run pack: every byte by its hash, every number by computing it again."),
        "tradeoff": (
            "tradeoff",
            "What less quality would save: the curve from the best answer to the cheapest, on your own traffic.",
        ),
        "plan": ("plan", "How many decisions a proof needs, before they are collected."),
        "report": ("report", "The latest verdict on a task, on one page."),
        "mutate": ("mutate", "Change a prompt in one of five ways; what would change nothing is not offered."),
        "data": ("data", "Count, list, export and import what was recorded."),
        "rewards": ("rewards", "Look at rewards, and derive them again after a change."),
        "models": ("models", "Fetch, list and remove models; once here, they work offline."),
        "keys": ("keys", "Make, replace and revoke the keys that callers of the server need."),
        "serve": ("serve", "Answer decisions and signals over HTTP, each durably logged."),
        "watch": ("watch", "Learn, prove, and promote or wait, whenever enough has come in."),
        "generate": ("generate", "Continue a text, or answer in a conversation, with a local language model."),
        "worker": ("worker", "Hold local language models for a project, for the server and whoever else asks."),
        "mcp": ("mcp", "Offer the project to a coding agent as tools."),
        "hook": ("hook", "Turn a coding agent's hook into signals: tests passed, change kept or reverted."),
        "completion": ("completion", "The script that teaches your shell to complete headway."),
    },
}


class Headway(click.Group):
    """The commands, each imported when it is asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return [name for group in COMMANDS.values() for name in group]

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        for group in COMMANDS.values():
            if cmd_name in group:
                module = importlib.import_module(f"headway.cli.{group[cmd_name][0]}")
                found: click.Command = getattr(module, cmd_name)
                return found
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown_command(self, ctx, args)
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(("headway demo route --out demo", "headway init && headway status"), formatter)
        super().format_help(ctx, formatter)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, group in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in group.items()])


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
