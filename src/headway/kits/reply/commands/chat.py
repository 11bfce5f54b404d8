"""`headway chat`: talk to a local model in the terminal, and rate what it says."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, renders, verb
from headway.files import read_regular
from headway.kits.reply.settings import reply_settings
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.models import Turn
    from headway.kits.reply.answer import AnsweredTurn
    from headway.project import Project

_KEYS = "1-5 stars, + good, - bad, e edit, c critique, u undo, Enter skips"
_HELP = (
    "/history shows the latest replies, /rate N 4 changes a rating, /withdraw N takes it back, "
    "/edit N and /critique N add a text, /new starts a conversation, /quit ends."
)


@verb("chat", "headway chat", "headway chat --role code --prompts questions.txt", waits=True)
@click.option("--role", default="", metavar="TASK", help="The reply task to talk to; by default the first one.")
@click.option("--prompts", type=click.Path(path_type=Path), metavar="FILE", help="Answer every prompt of a file.")
@click.option("--unrated", is_flag=True, help="Rate the latest replies that nobody has rated yet.")
@click.option("--history", is_flag=True, help="Show the latest replies and their ratings.")
@click.option("--rater", default="", metavar="NAME", help="Whose ratings these are.")
@click.option("--seed", type=click.IntRange(0, 2**31), help="For replies that can be repeated.")
def chat(
    session: Session, role: str, prompts: Path | None, unrated: bool, history: bool, rater: str, seed: int | None
) -> int:
    """Talk to a local model, and rate what it says.

    One key rates a reply: 1 to 5, + or -. `e` writes what it should have said, `c` what is wrong with it, `u` undoes.
    Ratings are signals of the task, so it learns from them. A file of --prompts has one prompt per line, or JSON
    objects with `prompt`, as the export format `interactions` writes them; rate the replies later with --unrated.
    """
    with session.project(create=True) as project:
        task = _task(project, role)
        talk = _Talk(session, project, task, rater, seed)
        if history:
            session.show(ReplyHistory(task=task, replies=list(_rows(project, task))))
        elif prompts is not None:
            talk.answer_all(_prompts(prompts))
        elif unrated:
            talk.rate_unrated()
        else:
            talk.converse()
    return 1 if talk.failed else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyHistory:
    """The latest replies of a task, oldest first."""

    task: str
    replies: list[dict[str, Any]]


@renders(ReplyHistory)
def _history(out: Output, shown: ReplyHistory) -> None:
    if not shown.replies:
        out.line(f"Nobody has talked to {shown.task} yet.")
    for number, row in enumerate(reversed(shown.replies), start=1):
        out.line(f"{number}  {row['id']}  {row['policy']}  {row['rating'] or 'not rated'}", style="dim")
        out.line(f"   you: {_short(row['prompt'])}")
        out.line(f"   {shown.task}: {_short(row['response'])}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:99]}…"


def _rows(project: Project, task: str) -> Iterator[dict[str, Any]]:
    from headway.kits.reply.ratings import history
    from headway.nouns import rfc3339

    for decision, reply, rating in history(project, task):
        yield {
            "id": decision.id,
            "at": rfc3339(decision.at),
            "policy": decision.action,
            "prompt": decision.situation.text,
            "response": reply.text,
            "rating": rating,
        }


def _task(project: Project, role: str) -> str:
    """The reply task of a role; by default the first that is declared."""
    tasks = [task.name for task in project.settings.tasks.values() if task.kind == "reply"]
    if role in tasks or (not role and tasks):
        return role or tasks[0]
    hint = f'Add to headway.toml: [tasks.{role or "reply"}] with kind = "reply".'
    if tasks:
        hint = f"{errors.did_you_mean(role, tasks)} {hint}"
    raise errors.UnknownName(
        f"There is no reply task {role!r}." if role else 'No task has kind = "reply".',
        code="unknown_task",
        hint=hint,
    )


def _prompts(path: Path) -> list[str]:
    try:
        lines = read_regular(path).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(
            f"{str(path)!r} cannot be read: {error}.", code="bad_file", hint="Give a text file with a prompt per line."
        ) from error
    prompts = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text.startswith("{"):
            try:
                text = str(json.loads(text)["prompt"])
            except (ValueError, KeyError, TypeError) as error:
                raise errors.InvalidInput(
                    f"Line {number} of {path.name!r} has no prompt.",
                    code="bad_file",
                    hint='Write plain lines, or objects such as {"prompt": "…"}.',
                ) from error
        if text:
            prompts.append(text)
    return prompts


class _Talk:
    """One session at the terminal. On a terminal a rating is one key; from a pipe it is a line."""

    def __init__(self, session: Session, project: Project, task: str, rater: str, seed: int | None) -> None:
        self.session, self.project, self.task, self.rater, self.seed = session, project, task, rater, seed
        self.out = session.out
        self.tty = sys.stdin.isatty() and sys.stdout.isatty()
        self.turns: list[Turn] = []
        self.episode = self._new_episode()
        self.answered: list[str] = []  # ids of this session
        self.failed: list[dict[str, str]] = []  # what could not be done: the exit status is 1

    def _new_episode(self) -> str:
        return f"chat-{time.time_ns():x}"

    # -- ways to talk

    def converse(self) -> None:
        """Read, answer, rate, until the end of input or /quit."""
        base = reply_settings(self.project.settings.task(self.task)).base
        current = self.project.current(self.task).ref
        self.out.line(f"{self.task}: {current} on {base}. /help lists commands, /quit ends.", style="dim")
        if self.tty and (line := self._waits_for(base)):
            self.out.line(line, style="dim")
        while (text := self._line("you> ")) is not None:
            if not text.strip():
                continue
            if text.startswith("/"):
                if not self._command(text):
                    break
            else:
                self._turn(text)
        self.out.line()
        if self.answered:
            self.session.next("headway chat --history")

    def _waits_for(self, base: str) -> str:
        """What the first reply will wait for, or what is missing; empty if the model is there."""
        from headway.kits.reply.client import LanguageWorker
        from headway.kits.reply.wire import base_of

        if base in self.project.settings.upstreams:
            return ""
        try:
            loaded = LanguageWorker(self.project.folder, base).health().models
        except errors.Unavailable as error:
            return f"{error.message} {error.hint}"
        there = any(model.name == base_of(base, self.project.folder) for model in loaded)
        return "" if there else f"{base} is being loaded; the first reply waits for it."

    def answer_all(self, prompts: list[str]) -> None:
        """Answer prompts that do not belong together, to be rated later."""
        replies = []
        for text in prompts:
            self.turns, self.episode = [], self._new_episode()
            self.out.line(f"you> {text}", style="dim")
            try:
                reply = self._answer(text)
            except errors.InvalidInput as error:  # a prompt that is too long does not stop the others
                self.failed.append({"prompt": text, "code": error.code, "message": error.message})
                if not self.out.json:
                    self.out.error(error)
                continue
            if reply is not None:
                replies.append({"id": reply.id, "prompt": text, "response": reply.kept.text})
        self.out.document({"task": self.task, "replies": replies, "failed": self.failed})
        if replies:
            self.session.next(f"headway chat --role {self.task} --unrated")

    def rate_unrated(self) -> None:
        """Show the latest replies without a rating, and ask for one."""
        from headway.kits.reply.ratings import history

        left = [row for row in history(self.project, self.task, most=100) if not row[2]]
        if not left:
            self.out.line(f"Every reply of {self.task} is rated.")
        for decision, reply, _ in left:
            self.out.line(f"you> {decision.situation.text}", style="dim")
            self.out.line(reply.text)
            if not self._rate(decision.id):
                break

    # -- one turn

    def _turn(self, text: str) -> None:
        reply = self._answer(text)
        if reply is not None:
            self.answered.append(reply.id)
            self._rate(reply.id)

    def _answer(self, text: str) -> AnsweredTurn | None:
        from headway.kits.models import Turn
        from headway.kits.reply.answer import answer

        turns = [*self.turns, Turn("user", text)]

        def say(piece: str) -> None:
            if not self.out.json:
                self.out.piece(piece)
                sys.stdout.flush()

        try:
            reply = answer(self.project, self.task, turns, say=say, episode=self.episode, seed=self.seed)
        except KeyboardInterrupt:
            self.out.line("\nStopped; the reply is not kept.")
            return None
        except errors.HeadwayError as error:
            if not self.tty:
                raise
            self.out.error(error)
            return None
        self.out.line()
        if reply.kept.dropped_turns:
            self.out.aside(f"{reply.kept.dropped_turns} older turns were dropped to fit the model's window.")
        self.turns = [*turns, Turn("assistant", reply.kept.text)]
        return reply

    def _rate(self, decision: str) -> bool:
        """Ask for a rating until there is one, or none is wanted; False: the input has ended."""
        from headway.kits.reply.ratings import rate, withdraw

        while True:
            key = self._key(f"[{_KEYS}] ")
            if key is None or key == "q":
                return False
            try:
                if key in ("", "s"):
                    return True
                if key in ("e", "c"):
                    self._comment(decision, "edit" if key == "e" else "critique")
                    continue
                if key == "u":
                    names = withdraw(self.project, decision, rater=self.rater)
                    self.out.line(f"Withdrawn: {', '.join(names) or 'nothing'}.")
                    continue
                name, value = rate(self.project, decision, key, rater=self.rater)
                self.out.line(f"{name} {value:+g}" if name == "thumb" else f"{name} {value:g}", style="dim")
            except errors.HeadwayError as error:
                self._refuse(key, error)
                if self.tty:
                    continue  # from a pipe, the next line is the next prompt
            return True

    def _refuse(self, text: str, error: errors.HeadwayError) -> None:
        """Say what is wrong, and go on; from a pipe the command fails at its end."""
        if self.out.json:
            raise error
        self.out.error(error)
        if not self.tty:
            self.failed.append({"prompt": text, "code": error.code, "message": error.message})

    def _comment(self, decision: str, kind: str) -> None:
        from headway.kits.reply.ratings import comment

        text = self._line("What should it have said? " if kind == "edit" else "What is wrong with it? ")
        if text and text.strip():
            comment(self.project, decision, kind, text, rater=self.rater)  # type: ignore[arg-type]  # one of two
            self.out.line(f"The {kind} is stored.", style="dim")

    def _command(self, text: str) -> bool:
        """Obey a command; False ends the conversation."""
        from headway.kits.reply.ratings import rate, withdraw

        word, *rest = text.split()
        try:
            if word in ("/quit", "/exit", "/q"):
                return False
            if word == "/new":
                self.turns, self.episode = [], self._new_episode()
                self.out.line("A new conversation.")
            elif word == "/history":
                _history(self.out, ReplyHistory(task=self.task, replies=list(_rows(self.project, self.task))))
            elif word == "/rate" and len(rest) == 2:
                name, value = rate(self.project, self._numbered(rest[0]), rest[1], rater=self.rater)
                self.out.line(f"{name} {value:g}")
            elif word == "/withdraw" and len(rest) == 1:
                names = withdraw(self.project, self._numbered(rest[0]), rater=self.rater)
                self.out.line(f"Withdrawn: {', '.join(names) or 'nothing'}.")
            elif word in ("/edit", "/critique") and len(rest) == 1:
                self._comment(self._numbered(rest[0]), word[1:])
            elif word == "/help":
                self.out.line(_HELP)
            else:
                raise errors.InvalidInput(f"{text!r} is not a command.", code="bad_command", hint=_HELP)
        except errors.HeadwayError as error:
            self._refuse(text, error)
        return True

    def _numbered(self, number: str) -> str:
        """The decision of a line of /history, where 1 is the latest; or an id."""
        if number.startswith("dec_"):
            return number
        rows = list(_rows(self.project, self.task))
        if not number.isdecimal() or not 1 <= int(number) <= len(rows):
            raise errors.UnknownName(
                f"There is no reply {number!r}.", code="unknown_reply", hint="/history lists the latest ones."
            )
        return str(rows[-int(number)]["id"])

    # -- input

    def _line(self, prompt: str) -> str | None:
        if self.tty:
            self.out.raw(prompt)
            sys.stdout.flush()
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            return None
        return line.rstrip("\n") if line else None

    def _key(self, prompt: str) -> str | None:
        """One key on a terminal, one line from a pipe."""
        if not self.tty:
            line = self._line("")
            return None if line is None else line.strip()
        with _key_by_key():
            self.out.raw(prompt)
            sys.stdout.flush()
            try:
                key = os.read(sys.stdin.fileno(), 16).decode("utf-8", "replace")
            except (KeyboardInterrupt, OSError):
                return None
        self.out.piece(f"{key}\n" if key.isprintable() else "\n")
        return "" if key in ("\r", "\n", " ") else None if key in ("", "\x04", "\x1b") else key


@contextmanager
def _key_by_key() -> Iterator[None]:
    """The terminal gives each key at once and does not print it. What was typed ahead is kept."""
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    changed[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
