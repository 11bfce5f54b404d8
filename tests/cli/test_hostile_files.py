"""Files that users name, prepared to harm: pipes and devices block nothing; what is too deep or large is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headway as package
from headway.kits.grow.commands.evaluate import load_policy
from headway.kits.models.store import look
from headway.loop.health import healthy
from headway.nouns.errors import Damaged, InvalidInput
from tests.cli.terminal import headway

FILE = "FILE"
READING = {
    "import": ("data", "import", FILE, "--task", "route"),
    "audit": ("audit", FILE),
    "prove a log": ("prove", "--log", FILE),
    "restore": ("restore", FILE),
    "problems": ("sim", "validate", FILE),
    "foreign problems": ("sim", "import", FILE, "--out", "ours.jsonl"),
    "suites": ("sim", "run", "--problems", FILE, "--solver", "oracle"),
    "candidates": ("rank", "route", "text", "--candidates", FILE),
    "a state": ("rank", "route", "text", "--candidates", "a,b", "--state-file", FILE),
    "questions": ("compare", "reply", "--ask", FILE),
    "prompts": ("mutate", "--corpus", FILE),
}


def _fails(folder: Path, *words: str) -> str:
    done = headway("-C", folder / "new", *words)
    assert done.code in (1, 2), done.err
    assert "Traceback" not in done.err
    return done.err


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", READING)
def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    device = tmp_path / "zero.jsonl"
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        _fails(tmp_path, *(str(path) if word == FILE else word for word in READING[name]))


@pytest.mark.timeout(60)
def test_settings_that_are_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    os.mkfifo(tmp_path / "new" / "headway.toml")
    assert "not a regular file" in _fails(tmp_path, "status")


DEEP = {
    "settings": ("headway.toml", "a = " + "[" * 100_000 + "]" * 100_000, ("status",)),
    "dotted settings": ("headway.toml", "[" + "a." * 50_000 + "a]\n", ("status",)),
    "a reward": ("headway.toml", '[tasks.route]\nreward = "' + "(" * 50_000 + 'solved"\n', ("status",)),
    "rows": ("a.jsonl", '{"task": "route", "text": ' + "[" * 100_000, ("data", "import", "a.jsonl")),
    "problems": ("a.jsonl", "[" * 100_000, ("sim", "validate", "a.jsonl")),
    "a source": (
        "a.jsonl",
        '{"task_id": "a/1", "prompt": "def f(x):\\n", "entry_point": "f", "test": "def check(c): pass",'
        ' "canonical_solution": "    return ' + "(" * 5_000 + ")" * 5_000 + '"}',
        ("sim", "import", "a.jsonl", "--out", "b.jsonl"),
    ),
    "a long sum": (
        "a.jsonl",
        '{"task_id": "a/1", "prompt": "def f(x):\\n", "entry_point": "f", "test": "def check(c): pass",'
        ' "canonical_solution": "    return ' + "-" * 20_000 + '1"}',
        ("sim", "import", "a.jsonl", "--out", "b.jsonl"),
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", DEEP)
def test_what_is_nested_too_deeply_is_an_error_and_no_traceback(tmp_path: Path, what: str) -> None:
    name, text, words = DEEP[what]
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / name).write_text(text)
    _fails(tmp_path, *(str(folder / word) if word.endswith(".jsonl") else word for word in words))


ROW = '{"task": "route", "text": "t", "candidates": ["a", "b"], "action": "a", "propensity": 0.5, '
NUMBERS = {
    "a far time": ROW + '"at": 1e17, "signals": {"reward": 1}}',
    "a time without end": ROW + '"at": 1e308, "signals": {"reward": 1}}',
    "a time long ago": ROW + '"at": -1e14, "signals": {"reward": 1}}',
    "a whole time": ROW + '"at": ' + "9" * 400 + ', "signals": {"reward": 1}}',
    "a year": ROW + '"at": "99999-01-01T00:00:00Z", "signals": {"reward": 1}}',
    "large rewards": "\n".join([ROW + '"signals": {"reward": 1e308}}', ROW + '"signals": {"reward": -1e308}}'] * 60),
}
AFTER = (
    ("status",),
    ("report", "route"),
    ("data", "log"),
    ("learn", "route"),
    ("prove", "route"),
    ("explain",),
    ("data", "export"),
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_that_break_arithmetic_break_no_command(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "headway.toml").write_text("[tasks.route]\n")
    (folder / "a.jsonl").write_text(NUMBERS[what] + "\n")
    for words in (("data", "import", str(folder / "a.jsonl")), *AFTER, ("audit", str(folder / "a.jsonl"))):
        done = headway("-C", folder, *words)
        assert "Traceback" not in done.err + done.out, (words, done.err)
        assert done.code in (0, 1, 2, 3), (words, done.err)


@pytest.mark.parametrize("at", [1e17, 1e300, -1e15, float("inf"), float("nan"), 2**63, 10**400])
def test_a_time_that_is_none_is_refused_for_decisions_and_signals(tmp_path: Path, at: float) -> None:
    with package.open(tmp_path, environ={}) as project:
        pick = project.decide("route", "t", ["a", "b"])
        with pytest.raises(InvalidInput) as signalled:
            project.signal(pick.id, reward=1.0, at=at)
        with pytest.raises(InvalidInput) as recorded:
            project.record("route", "t", ["a", "b"], action="a", propensity=0.5, at=at)
    assert signalled.value.code == recorded.value.code == "bad_time"


@pytest.mark.timeout(60)
def test_pipes_in_the_place_of_our_own_files_block_nothing(tmp_path: Path) -> None:
    names = ("run/server.json", "token", "models/mine/headway-model.json", "policy.safetensors")
    for name in names:
        path = tmp_path / ".headway" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
    home = tmp_path / ".headway"
    assert not healthy(tmp_path)
    found = look("mine", home)
    assert found is not None
    assert found.problem
    with pytest.raises(Damaged):
        load_policy(home / "policy.safetensors")
