"""`headway chat` in a real terminal and through a pipe."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headway
from headway.kits.reply.kept import kept_reply
from headway.kits.reply.ratings import history
from tests.cli.terminal import headway as run
from tests.kits.reply.test_answer import TOML
from tests.kits.reply.test_worker import working
from tests.kits.reply.tiny import make


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    model = make(tmp_path_factory.mktemp("model"), "llama", endless=True)
    folder = tmp_path_factory.mktemp("project")
    (folder / "headway.toml").write_text(TOML.format(model=model))
    with working(folder):
        yield folder


@pytest.fixture(autouse=True)
def _the_worker_stays(folder: Path) -> None:
    (folder / ".headway").mkdir(exist_ok=True)


def marks(folder: Path, task: str) -> list[str]:
    with headway.open(folder) as project:
        return [rating for _, _, rating in history(project, task)]


class Screen:
    """A program in a terminal of its own."""

    def __init__(self, *line: str | Path) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway", *map(str, line)], stdin=slave, stdout=slave, stderr=slave, close_fds=True
        )
        os.close(slave)
        self.seen = ""

    def until(self, text: str) -> None:
        """Read until the screen shows a text that it has not shown before."""
        deadline = time.monotonic() + 30
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} is not in {self.seen!r}"
            if select.select([self.master], [], [], 1.0)[0]:
                try:
                    self.seen += os.read(self.master, 4096).decode("utf-8", "replace")
                except OSError:
                    assert text in self.seen, self.seen
        self.seen = self.seen.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        with contextlib.suppress(OSError):
            while os.read(self.master, 4096):
                pass
        code = self.process.wait(60)
        os.close(self.master)
        return code

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            os.close(self.master)


def test_one_key_rates_a_reply_in_a_terminal(folder: Path) -> None:
    with Screen("-C", folder, "chat", "--rater", "ann") as screen:
        screen.until("you> ")
        screen.type("Hello\n")
        screen.until("Enter skips] ")
        screen.type("9")  # no rating
        screen.until("expected 1 to 5")
        screen.until("Enter skips] ")
        screen.type("4")
        screen.until("stars 4")
        screen.until("you> ")
        screen.type("And now?\n")
        screen.until("Enter skips] ")
        screen.type("e")
        screen.until("should it have said? ")
        screen.type("Now it is fine.\n")
        screen.until("Enter skips] ")
        screen.type("+")
        screen.until("you> ")
        screen.type("/rate 2 5\n")
        screen.until("stars 5")
        screen.until("you> ")
        for wrong, said in (("/rate ² 5", "no reply"), ("/rate 1 nine", "expected 1 to 5"), ("/rate dec_x 5", "dec_x")):
            screen.type(f"{wrong}\n")
            screen.until("Error: ")
            screen.until(said)
            screen.until("you> ")
        screen.type("/withdraw 1\n")
        screen.until("Withdrawn: ")
        screen.until("you> ")
        screen.type("/quit\n")
        assert screen.end() == 0
    assert marks(folder, "reply") == ["5 stars", ""]
    with headway.open(folder) as project:
        (first, one, _), (second, two, _) = history(project, "reply")
    assert first.situation.episode == second.situation.episode
    assert [turn.role for turn in two.turns] == ["system", "user", "assistant", "user"]
    assert two.turns[2].content == one.text
    assert [comment.text for comment in two.comments] == [""]  # withdrawn, and its text is gone


def test_a_pipe_answers_and_rates_line_by_line(folder: Path) -> None:
    done = run("-C", folder, "chat", "--role", "code", stdin="Hello\n3\nAgain\n\n/rate 1 -\n")
    assert done.code == 0, done.err
    assert marks(folder, "code") == ["3 stars", "-"]
    wrong = run("-C", folder, "chat", "--role", "code", stdin="Hello\ngood\n")
    assert wrong.code == 1
    assert "expected 1 to 5" in wrong.err
    assert run("-C", folder, "chat", "--role", "cod", stdin="x\n").code == 1
    on = run("-C", folder, "chat", "--role", "code", stdin="/rate ² 5\n/rate 1 nine\nHello\n9\nAgain\n2\n")
    assert on.code == 1
    assert on.err.count("Error: ") == 3
    assert marks(folder, "code")[-2:] == ["", "2 stars"]
    missing = run("-C", folder, "chat", "--role", "code", stdin="/rate 99 5\n")
    assert "no reply '99'" in missing.err


def test_a_rating_that_is_typed_while_the_reply_appears_is_stored(folder: Path) -> None:
    with Screen("-C", folder, "chat", "--role", "code") as screen:
        screen.until("you> ")
        screen.type("Hello\n4")
        screen.until("stars 4")
        screen.until("you> ")
        screen.type("Again\n7\n")
        screen.until("expected 1 to 5")
        screen.until("Enter skips] ")
        screen.type("2")
        screen.until("stars 2")
        screen.until("you> ")
        screen.type("/quit\n")
        assert screen.end() == 0
    assert marks(folder, "code")[-2:] == ["4 stars", "2 stars"]


def test_a_file_of_prompts_is_answered_and_rated_later(folder: Path, tmp_path: Path) -> None:
    queue = tmp_path / "prompts.txt"
    long = "x" * 5_000  # longer than the window
    queue.write_text(f'One\n\n{long}\n{{"timestamp": 1, "prompt": "Two", "response": "2", "reward": null}}\n')
    done = run("-C", folder, "chat", "--role", "code", "--prompts", queue, "--json")
    told = json.loads(done.out)
    replies = told["replies"]
    assert [(one["prompt"], one["code"]) for one in told["failed"]] == [(long, "prompt_too_long")]
    assert done.code == 1
    assert [reply["prompt"] for reply in replies] == ["One", "Two"]
    with headway.open(folder) as project:
        assert kept_reply(project, replies[1]["id"]).text == replies[1]["response"]
    later = "\n" * sum(not mark for mark in marks(folder, "code")[:-2]) + "5\n1\n"  # skips older ones
    rated = run("-C", folder, "chat", "--role", "code", "--unrated", stdin=later)
    assert rated.code == 0, rated.err
    assert marks(folder, "code")[-2:] == ["5 stars", "1 star"]
    queue.write_text('{"nothing": 1}\n')
    assert "has no prompt" in run("-C", folder, "chat", "--prompts", queue).err


def test_history_shows_the_latest_reply_first(folder: Path) -> None:
    shown = run("-C", folder, "chat", "--role", "code", "--history")
    assert re.search(r"^1  dec_\w+  base@0", shown.out, re.MULTILINE)
    rows = json.loads(run("-C", folder, "chat", "--role", "code", "--history", "--json").out)["replies"]
    assert len(rows) == len(marks(folder, "code"))
