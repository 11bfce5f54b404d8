"""The parts that all commands share: examples in the help, --json, -C, and a session that opens the project.

@verb("learn", "headway learn route", "headway learn route --check && headway learn route")
@click.argument("task")
def learn(session: Session, task: str) -> None:
    \"\"\"Learn a candidate from settled decisions.\"\"\"
    with session.project() as project: ...
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from headway.cli.executable import program, program_file
from headway.cli.in_use import known
from headway.cli.output import Output
from headway.cli.show import show
from headway.files import read_regular
from headway.nouns import REPAIR, errors, load, plural

if TYPE_CHECKING:
    from headway.project import Project


_FILE = "headway.toml"
_WORDS = "headway.words"  # of the command line, in the context


class Session:
    """One run of one command: the project's folder, and the output."""

    def __init__(self, folder: Path, out: Output) -> None:
        self.folder = folder
        self.out = out
        self.code = 0

    @contextmanager
    def project(self, *, create: bool = False) -> Iterator[Project]:
        """The project in the folder. Only commands that record something create one."""
        from headway.observe import UNREADABLE
        from headway.project import Project

        self.need_folder()
        if not create and not any((self.folder / name).exists() for name in (".headway", _FILE)):
            raise errors.UnknownName(
                f"There is no project in {str(self.folder.resolve())!r}.",
                code="no_project",
                hint="Create one with `headway init`, or name its folder with -C.",
            )
        with Project(self.folder) as project:
            try:
                yield project
            except UNREADABLE as error:
                damage = project.damage()
                if damage is None:
                    raise
                raise damage from error

    def need_folder(self) -> None:
        """Raises if the folder of -C is none."""
        if not self.folder.is_dir():
            name = repr(str(self.folder))
            raise errors.UnknownName(
                f"{name} is a file, not a folder." if self.folder.exists() else f"There is no folder {name}.",
                code="no_folder",
                hint="Create it first, or name another with -C.",
            )

    @property
    def declared(self) -> bool:
        """Whether the folder has a headway.toml."""
        return (self.folder / _FILE).is_file()

    def empty_folder(self, out: Path | None, name: str) -> Path:
        """The folder of a demo: `out`, or this one; a folder that holds a project is refused."""
        folder = out or self.folder
        if (folder / ".headway").exists() or (folder / _FILE).exists():
            raise errors.Conflict(
                f"There is a project in {str(folder.resolve())!r} already; the demo does not mix with it.",
                code="project_exists",
                hint=f"Name an empty folder: headway demo {name} --out demo",
            )
        return folder

    def new_project(self, folder: Path, settings: str) -> None:
        """From here on this run is about the folder, which gets a headway.toml with these settings."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _FILE).write_text(settings, "utf-8")
        self.folder = folder

    def read(self, text: str) -> str:
        """A text of the command line; "-" reads it from standard input."""
        return sys.stdin.read().rstrip("\n") if text == "-" else text

    def show(self, record: object, **more: Any) -> None:
        """Print a record: its text, or its document with --json; `more` adds keys to the document."""
        show(self.out, record, **more)

    @property
    def script(self) -> Path:
        """The file of this program."""
        return program_file()

    def typed(self, text: str) -> str:
        """A command as it can be typed now: `headway` by its full path where it is not on PATH."""
        return self.command(text).replace("headway", program(), 1)

    def command(self, text: str) -> str:
        """A command to suggest, with -C where the project is not in the current folder."""
        if self.folder == Path():
            return text
        here = f"headway -C {quote(str(self.folder))} "
        return " && ".join(here + part.removeprefix("headway ") for part in text.split(" && "))

    def next(self, text: str) -> None:
        self.out.next(self.command(text))

    def undo(self, text: str) -> None:
        self.out.undo(self.command(text))

    def settle(self, project: Project, *tasks: str) -> dict[str, int]:
        """Settle tasks, with progress, for a command that computes from their outcomes: how many were written."""
        written: dict[str, int] = {}
        for task in tasks:
            with suppress(errors.UnknownName):  # recorded once, no longer declared: it stays as stored
                written[task] = project.settle(task, progress=self.out.progress)
        return written

    def name_policies(self, project: Project, *tasks: str) -> None:
        """Show policies by their names from now on, with the hash second; --json has the references alone."""
        from headway.project import policy_names, said

        if not self.out.json:
            names = {ref: name for task in tasks for ref, name in policy_names(project, task).items()}
            self.out.said = lambda text: said(names, text)

    def synthetic(self, project: Project, task: str) -> int:
        """Print a note if the task has synthetic decisions; returns how many."""
        count = project.query.count_source(task, "synthetic")
        if count:
            made = f"{plural(count, 'decision')} of {task!r} came"
            self.out.note(f"synthetic data: {made} from a sample world, not from users.")
        return count


class Verb(click.Command):
    """A command whose help opens with two examples."""

    def __init__(self, *args: Any, examples: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = examples
        self.hooks: Sequence[OptionHook] = ()
        self.waits = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = " ".join(args).replace("=", " ").split()  # --help comes before the other options are read
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options; those of a kit only with the words that need them, for example --world."""
        if not self.hooks:
            super().format_options(ctx, formatter)
            return
        words = words_of(ctx)
        away = {id(option) for hook in self.hooks if not hook.belongs(words) for option in hook.options}
        records = (one.get_help_record(ctx) for one in self.get_params(ctx) if id(one) not in away)
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None and record[0][0] == "-"])
        more = [one for hook in reversed(self.hooks) if not hook.belongs(words) for one in hook.needed]
        if more:
            with formatter.section("More options"):
                formatter.write("".join(f"  {ctx.command_path} {one} --help\n" for one in dict.fromkeys(more)))


class Verbs(Verb, click.Group):
    """A command with commands below it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence of every command, whole: click would cut it to the width of a line."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(limit=1000)) for name, one in named if one is not None and not one.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self._kits()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        own = super().get_command(ctx, cmd_name)
        return command_at("commands", f"{self.name} {cmd_name}") if own is None else own

    def _kits(self) -> list[str]:
        """The subcommands that kits add: "data synth" is `synth` below `data`."""
        prefix = f"{self.name} "
        return [path.removeprefix(prefix) for path in known().all("commands") if path.startswith(prefix)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown_command(self, ctx, args)
        return super().resolve_command(ctx, args)


def command_at(what: str, path: str) -> click.Command | None:
    """The command of a kit under this path, or None; one that cannot be loaded reports the reason."""
    kits = known()
    entry = kits.all(what).get(path)
    if entry is None:
        return None
    kit = kits.owner(what, path)
    try:
        command: click.Command = load(entry.target)
    except (Exception, SystemExit) as error:
        if kit.built_in:
            raise
        raise errors.UnknownName(
            f"The command {path!r} of the kit {kit.name!r} cannot be loaded: {type(error).__name__}: {error}.",
            code="kit_broken",
            hint=REPAIR,
        ) from error
    return command


def unknown_command(group: click.Group, ctx: click.Context, args: Sequence[str]) -> None:
    """Raises a usage error that suggests the nearest command, if the first word is not a command."""
    names = group.list_commands(ctx)
    if args and args[0] not in names and not args[0].startswith("-"):
        raise click.UsageError(f"There is no command {args[0][:60]!r}. {errors.did_you_mean(args[0], names)}", ctx)


def write_examples(examples: tuple[str, ...], formatter: click.HelpFormatter) -> None:
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")
    formatter.write_paragraph()


def words_of(ctx: click.Context) -> Sequence[str]:
    """The words of a command line, known before click has read them."""
    words: Sequence[str] = ctx.meta.get(_WORDS, ())
    return words


class OptionHook(NamedTuple):
    """Options that a kit adds to a command of the core.

    `run` gets all values of the command line and removes its own. It returns an exit status if it did the work, or None
    to continue with the next hook, and then with the command itself.
    """

    options: tuple[click.Option, ...]
    run: Callable[[Session, dict[str, Any]], int | None]
    needed: tuple[str, ...] = ()  # help shows the options only with one of these: "--world NAME", "--family ranker"

    def belongs(self, words: Sequence[str]) -> bool:
        """Whether the words of a command line are about these options."""
        line = f" {' '.join(words)} "
        return not self.needed or any(f" {needed.removesuffix(' NAME')} " in line for needed in self.needed)


def hooks(name: str) -> list[OptionHook]:
    """The hooks of a command; a kit's hook comes before those of the kits it needs."""
    kits, taken, usable = known(), set[str](), list[OptionHook]()
    paths = [(kit, kit.options[name]) for kit in kits if name in kit.options]
    for kit, hook in kits.usable(paths):
        words = {word for option in getattr(hook, "options", ()) for word in option.opts}
        if kit.built_in or (isinstance(hook, OptionHook) and not words & taken):
            usable.append(hook)
            taken |= words
    return list(reversed(usable))


def verb(
    name: str, *examples: str, extended: bool = False, waits: bool = False, **settings: Any
) -> Callable[[Callable[..., int | None]], Verb]:
    """Turns a function (session, …) → exit status into a command.

    `extended`: kits may add options to it. `waits`: it serves or talks until its user ends it, so silence is no work.
    """
    assert len(examples) == 2, "every help page opens with two examples"
    extensions = hooks(name) if extended else []

    def wrap(function: Callable[..., int | None]) -> Verb:
        @click.pass_context
        def run(ctx: click.Context, /, project_folder: Path | None, as_json: bool, **values: Any) -> int:
            root = ctx.find_root().params  # both options may precede the command: headway -C demo --json status
            folder = project_folder or root.get("project_folder") or Path()
            session = Session(folder, Output(json=as_json or bool(root.get("as_json"))))
            with nullcontext() if waits else session.out.at_work(ctx.command_path):
                for hook in extensions:
                    code = hook.run(session, values)
                    if code is not None:
                        break
                else:
                    code = function(session, **values) or 0
            session.out.finish()
            return code

        command = Verb(
            name,
            callback=run,
            params=list(reversed(getattr(function, "__click_params__", []))),
            help=function.__doc__,
            examples=examples,
            **settings,
        )
        command.hooks, command.waits = extensions, waits
        command.params += [option for hook in reversed(extensions) for option in hook.options]
        command.params += [project_option(), json_option()]
        return command

    return wrap


def project_option(envvar: str | None = None) -> click.Option:
    return click.Option(
        ["-C", "--project", "project_folder"],
        type=click.Path(path_type=Path),
        envvar=envvar,
        metavar="DIR",
        help="The project's folder; the current folder by default.",
    )


def json_option() -> click.Option:
    return click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document.")


def task_argument(**settings: Any) -> Callable[[Any], Any]:
    """TASK, completed from headway.toml."""
    return click.argument("task", shell_complete=_tasks, **settings)


def _tasks(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    import tomllib

    folder = ctx.params.get("project_folder") or ctx.find_root().params.get("project_folder") or Path()
    try:
        declared = tomllib.loads(read_regular(folder / _FILE).decode()).get("tasks", {})
    except (OSError, ValueError):  # completion stays silent
        return []
    return sorted(name for name in declared if name.startswith(incomplete))


def pairs(words: tuple[str, ...], what: str, example: str = "", *, parsed: bool = False) -> dict[str, Any]:
    """Words of the form name=value as a dictionary; `parsed`: values as `typed` reads them."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise errors.InvalidInput(
                f"{word[:80]!r} is not a {what}.",
                code="bad_pair",
                hint=f"Write name=value, for example {example or _EXAMPLE[what]}.",
            )
        if name in values:
            raise errors.InvalidInput(f"The {what} {name!r} is given twice.", code="bad_pair", hint="Name it once.")
        values[name] = typed(value) if parsed else value
    return values


_EXAMPLE: Mapping[str, str] = {
    "signal": "solved=1.0",
    "state variable": "task_complexity_score=0.7",
    "knob": "ridge=3.0",
    "weight": "solved=1.0",
    "column": "action=model",
    "variable": "large=LARGE_API_KEY",
}


def typed(text: str) -> bool | int | float | str:
    """A word of the command line as a bool, an int, a float or text: true, 3, 0.5, small."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
