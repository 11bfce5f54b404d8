"""`headway init`: create a project in a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import click
from click.core import ParameterSource

from headway.cli.in_use import known
from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, pairs, verb
from headway.files import read_regular
from headway.nouns import Kind, errors

_KINDS: Mapping[str, Kind] = {name: kind for name, kind in known().all("kinds").items() if kind.template is not None}


@verb(
    "init",
    "headway init",
    "headway init --task route --actions small,large --reward solved=1 --reward cost_usd=-20",
    extended=True,
)
@click.option("--task", metavar="NAME", help="Declare this task instead of writing the commented example.")
@click.option(
    "--kind", type=click.Choice([*_KINDS]),
    help=" ".join(f"{name}: {kind.summary[0].lower()}{kind.summary[1:]}" for name, kind in _KINDS.items()),
)  # fmt: skip
@click.option("--actions", metavar="A,B,…", help="Its actions; without them every decision names its own candidates.")
@click.option("--reward", multiple=True, metavar="SIGNAL=WEIGHT", help="A signal and its weight; repeatable.")
def init(
    session: Session,
    task: str | None,
    kind: str | None,
    actions: str | None,
    reward: tuple[str, ...],
    keys: Mapping[str, Any] = MappingProxyType({}),
    tables: str = "",
) -> None:
    """Create a project: headway.toml and .headway/ in a folder.

    Existing files are not changed: what cannot be written into an existing headway.toml is an error.
    """  # from options of kits: `keys`, more of the task; `tables`, more of the file
    from headway.reward import weight_text
    from headway.settings import FILE, example, parse

    template = _KINDS[kind or "choice"].template or {}
    task, reward = task or template.get("task"), reward or template.get("reward", ())
    if task is None and (given := _given("task")):
        raise click.UsageError(f"{given} needs --task.")
    actions = actions or template.get("actions")
    keys = {"actions": [name.strip() for name in actions.split(",")], **keys} if actions else keys
    text = example() if task is None else _declared(task, kind or "choice", keys, reward)
    text += tables
    kit = known().owner("kinds", kind or "choice")
    text += "" if kit.built_in else f'\n[kits]\nuse = ["{kit.name}"]\n'
    folder = session.folder
    parse(text, directory=folder, environ={})  # write nothing that cannot be read back
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    written = False
    try:
        with path.open("x", encoding="utf-8") as file:
            written = bool(file.write(text))
    except FileExistsError:
        if (given := _given()) and read_regular(path) != text.encode():
            raise errors.Conflict(
                f"{path} exists already, so {given} cannot be applied.",
                code="file_exists",
                hint="Write it into the file, or start in another folder: headway -C FOLDER init …",
            ) from None
    with session.project(create=True) as project:
        tasks = list(project.settings.tasks)
        words = weight_text(project.rewards(tasks[0])) if tasks else ""
    session.show(NewProject(folder=str(folder.resolve()), settings=str(path), written=written, tasks=tasks))
    if words:
        session.out.line(f"{words}.")
    session.out.line(f"{folder / '.headway'} holds what is recorded; git ignores it.")
    if tables:
        session.next("headway up")
    elif task and kind and _KINDS[kind].decides:
        session.next(_KINDS[kind].decides.format(task=task))
    else:
        named = "" if actions or task is None else " --candidates small,large"
        session.next(f'headway decide {tasks[0] if tasks else "route"} "Summarise this page"{named}')


def _given(*without: str) -> str:
    """The options of this command line that describe a project, as a list to read; empty if there are none."""
    context = click.get_current_context()
    without += ("project_folder", "as_json")
    options = [option for option in context.command.params if (option.name or "") not in without]
    given = [
        option for option in options if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    ]
    return ", ".join(option.opts[0] for option in given)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    """A project folder; `written`: headway.toml did not exist before."""

    folder: str
    settings: str
    written: bool
    tasks: Sequence[str]


@renders(NewProject)
def _project(out: Output, project: NewProject) -> None:
    out.line(f"{project.settings} {'written' if project.written else 'exists already and is unchanged'}.")


def _declared(task: str, kind: str, keys: Mapping[str, Any], reward: tuple[str, ...]) -> str:
    """A short headway.toml with one task."""
    from headway.reward import Rewards, weight_text

    lines = [f"[tasks.{_key(task)}]", *(f"{name} = {_toml(value)}" for name, value in {"kind": kind, **keys}.items())]
    if kind == "choice":
        lines.append('experiment = "ask"  # or "auto": may unproven candidates act on a share of the traffic unasked?')
    if reward:
        weights = pairs(reward, "weight", parsed=True)
        words = weight_text(Rewards.from_settings(reward=weights))
        lines.append(f"reward = {_toml(weights)}" + (f"  # {words}" if words else ""))
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_toml(inner)}' for name, inner in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    """A key of TOML, quoted only where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
