"""Installed kits: only kits in use run code, and a broken kit is reported and affects no other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.nouns.kit import Catalogue, Kit, catalogue, installed
from headway.serve.app import application
from headway.serve.kit_routes import kit_problems
from headway.settings.read import KEYS
from tests.cli.terminal import process
from tests.kits.packages import install
from tests.serve.conftest import Running, served

__all__ = ["served"]

MARK = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"
COMMAND = """
from headway.cli.verbs import verb
@verb("hello", "headway hello", "headway hello --json")
def hello(session):
    "Say hello."
    session.out.document({"said": "hello"})
"""
HOOK = """
import click
from headway.cli.verbs import OptionHook
def run(session, values):
    del values["loud"]
LEARN = OptionHook(options=(click.Option(["--loud"], is_flag=True),), run=run)
"""
HELLO = 'commands={"hello": Command("good_kit.commands:hello", "Say hello.")}, options={"learn": "good_kit.hook:LEARN"}'
BROKEN = {
    "absent": ("raise ImportError('no module named gone')", "cannot be imported: ImportError: no module named gone"),
    "leaving": ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3"),
    "untyped": ("KIT = {'name': 'untyped'}", "its entry point gives dict"),
    "renamed": ('name="other"', "its passport says 'other'"),
    "future": ("api=2", "written for version 2"),
    "lonely": ('needs=("nobody",)', "it needs the kit 'nobody'"),
    "greedy": ('families={"bandit": Family(kinds=("choice",), policy="x", learner="x")}', "claim 'bandit'"),
    "posing": ('commands={"status": Command("x:y", "Z.")}', "its commands claim 'status', which the kit 'core' has"),
    "ringing": ('tellers={"alerts": "x:y"}', "its tellers claim 'alerts', which the kit 'alerts' has"),
    "peeping": ('observers={"otel": "x:y"}', "its observers claim 'otel', which the kit 'otel' has"),
    "keeping": ('stores={"postgresql": "x:y"}', "its stores claim 'postgresql', which the kit 'postgres' has"),
    "choosing": (
        'kinds={"choice": __import__("headway").nouns.Kind(summary="Z.")}',
        "claim 'choice', which the kit 'core'",
    ),
    "settled": ('tables={"tasks": "x:y"}', "claim 'tasks', a table of Headway itself"),
    "careless": ('commands={"x": "careless_kit:x"}', "name 'x' with str, expected Command"),
    "empty": ("worlds=None", "cannot be imported: AttributeError"),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where packages are installed, for this process and those that it starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    catalogue.cache_clear()
    yield folder
    catalogue.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_kit")]:
        del sys.modules[name]


def broken(site: Path, name: str) -> None:
    text = BROKEN[name][0]
    if text.startswith(("raise", "import", "KIT")):
        install(site, name, text)
    elif name == "renamed":
        install(site, name, "from headway.nouns.kit import Kit\nKIT = Kit(name='other', summary='A kit.')")
    else:
        install(site, name, fields=text)


def test_an_installed_kit_that_is_not_named_runs_no_code(site: Path, tmp_path: Path) -> None:
    install(site, "quiet", MARK + "KIT = None")
    project = tmp_path / "project"
    project.mkdir()
    for words in (
        ["init"],
        ["decide", "route", "Hi", "--candidates", "small,large"],
        ["status"],
        ["doctor"],
        ["--help"],
        ["learn", "--help"],
    ):
        done = process(*words, cwd=project)
        assert done.code == 0, done.err
    shown = process("kits", "--json", cwd=project)
    assert shown.json["installed_not_in_use"] == ["quiet"]
    assert "quiet" in installed()
    assert not (site / "quiet_kit" / "ran").exists()
    process("kits", cwd=project, HEADWAY_KITS="quiet")
    assert (site / "quiet_kit" / "ran").exists()


def test_a_kit_is_named_by_the_folder_or_the_environment(site: Path, tmp_path: Path) -> None:
    install(site, "good", fields=HELLO, commands=COMMAND, hook=HOOK)
    (tmp_path / "headway.toml").write_text('[kits]\nuse = ["good"]\n', "utf-8")
    for more in ({"words": ["-C", tmp_path]}, {"HEADWAY_KITS": "good"}):
        before = more.pop("words", [])
        assert process(*before, "hello", "--json", cwd=site, **more).json["said"] == "hello"
        assert "Say hello." in process(*before, "help", cwd=site, **more).out
        assert "--loud" in process(*before, "learn", "--help", cwd=site, **more).out
    assert process("hello", "--json", "-C", tmp_path, cwd=site).json["said"] == "hello"
    assert process("hello", "--json", f"--project={tmp_path}", cwd=site).json["said"] == "hello"
    assert process("hello", cwd=site).code == 2
    assert "--loud" not in process("learn", "--help", cwd=site).out


def test_a_verb_of_a_kit_is_a_method_of_a_project_that_uses_the_kit(site: Path, tmp_path: Path) -> None:
    verbs = 'verbs={"greet": "warm_kit.verbs:greet", "tasks": "warm_kit.verbs:greet"}'
    install(site, "warm", fields=verbs, verbs="def greet(project, *, name='you'): return project.folder, name")
    plain, warm = tmp_path / "plain", tmp_path / "warm"
    for folder in (plain, warm):
        folder.mkdir()
    (warm / "headway.toml").write_text('[kits]\nuse = ["warm"]\n', "utf-8")
    with headway.open(warm) as project:
        assert "warm_kit.verbs" not in sys.modules, "a verb is imported when it is first called"
        assert project.greet(name="Ann") == (warm, "Ann")
        assert project.tasks() == [], "a kit does not replace a verb of the loop"
        assert not hasattr(project, "greeet")
    with (
        headway.open(plain) as project,
        pytest.raises(AttributeError, match="no attribute 'greet'"),
    ):
        project.greet()


def test_a_kit_observes_a_server_whose_settings_ask_for_it(site: Path, tmp_path: Path) -> None:
    meter = """
import msgspec
class Meter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    every: int = 1
def observe(project):
    heard = []
    project.listeners.append(lambda decisions, signals: heard.extend(decisions))
    return heard
"""
    fields = 'tables={"meter": "eager_kit.meter:Meter"}, observers={"meter": "eager_kit.meter:observe"}'
    install(site, "eager", fields=fields, meter=meter)
    settings = '[kits]\nuse = ["eager"]\n'
    for more, seen in (("", None), ("[meter]\nevery = 2\n", 1)):
        (tmp_path / "headway.toml").write_text(settings + more, "utf-8")
        with headway.open(tmp_path) as project:
            server = application(project, project.settings.server, log_requests=False).server
            project.decide("route", "Hi", ["small", "large"])
            assert [len(heard) for heard in server.observers.values()] == ([] if seen is None else [seen])


def test_unreadable_settings_do_not_change_the_help(site: Path, tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[kits\nuse = ["good"]\n', "utf-8")
    assert process("--help", cwd=tmp_path).code == 0
    assert process("status", "--json", cwd=tmp_path).code == 1


@pytest.mark.parametrize("name", BROKEN)
def test_a_kit_that_cannot_be_used_is_reported_with_the_reason(site: Path, name: str) -> None:
    broken(site, name)
    install(site, "good")
    known = catalogue((name, "good"))
    (problem,) = known.broken
    assert problem.name == name
    assert BROKEN[name][1] in problem.reason
    assert [kit.name for kit in known if not kit.built_in] == ["good"]
    assert known.family("bandit") == catalogue().family("bandit")


def test_kits_that_cannot_be_used_do_not_stop_commands_or_the_server(
    site: Path, tmp_path: Path, served: Callable[..., Running]
) -> None:
    for name in BROKEN:
        broken(site, name)
    paths = 'formats={"odd": "half_kit.gone:ODD"}, checks=("half_kit.gone:check",), routes=("half_kit.gone",)'
    command = 'commands={"half": Command("half_kit.gone:half", "Half.")}, options={"learn": "half_kit.gone:HOOK"}'
    install(site, "half", fields=f"{paths}, {command}")
    folder = tmp_path / "project"
    folder.mkdir()
    names = [*BROKEN, "half", "nowhere"]
    toml = f"[kits]\nuse = {names}\n".replace("'", '"')
    running = served(toml, folder=folder)
    assert running.decide().status_code == 201
    rows = {row["name"]: row for row in running.client.get("/v1/kits").json()["kits"]}
    assert "no installed package offers" in rows["nowhere"]["problem"]
    assert "half_kit.gone cannot be imported" in rows["half"]["problem"]
    shown = process("kits", "--json", cwd=folder)
    assert shown.code == 1
    reasons = {row["name"]: row["reason"] for row in shown.json["broken"]}
    checks = {row["name"]: row for row in process("doctor", "--json", cwd=folder).json["checks"]}
    for name in names:
        assert BROKEN.get(name, ("", ""))[1] in reasons[name]
        assert checks[f"kit {name}"]["ok"] is False
    (folder / "rows.jsonl").write_text('{"action": "a", "reward": 0.5, "propensity": 1.0}\n', "utf-8")
    for words in (
        ["decide", "route", "Hi", "--candidates", "a,b"],
        ["status"],
        ["learn", "--help"],
        ["data", "import", "rows.jsonl", "--task", "t"],
    ):
        done = process(*words, cwd=folder)
        assert done.code == 0, done.err
    assert process("half", "--json", cwd=folder).error["code"] == "kit_broken"


def test_a_kit_comes_after_the_installed_kits_that_it_needs(site: Path) -> None:
    install(site, "upper", fields='needs=("lower",)')
    install(site, "lower")
    known = catalogue(("upper", "lower"))
    assert not known.broken
    assert [kit.name for kit in known if not kit.built_in] == ["lower", "upper"]


def test_two_packages_that_offer_one_name_are_both_refused(site: Path, tmp_path: Path, monkeypatch: Any) -> None:
    install(site, "twin")
    install(site, "other")
    points = site / "other_kit-1.0.dist-info" / "entry_points.txt"
    points.write_text("[headway.kits]\ntwin = other_kit:KIT\n", "utf-8")
    (problem,) = catalogue(("twin",)).broken
    assert "Two installed packages offer a kit 'twin'" in problem.reason


def test_every_string_of_an_installed_passport_is_checked(site: Path) -> None:
    family = 'Family(kinds=("k",), policy="bad_kit.p:p", learner="bad_kit.l:l")'
    paths = {"worlds": '{"w": "bad_kit.w:W"}', "families": f'{{"f": {family}}}'}
    install(site, "bad", fields=", ".join(f"{name}={value}" for name, value in paths.items()))
    known = catalogue(("bad",))
    problems = " ".join(kit_problems(known.owner("worlds", "w")))
    for path in ("bad_kit.w:W", "bad_kit.p:p", "bad_kit.l:l"):
        assert f"{path} cannot be loaded" in problems


def test_tables_of_headway_itself_are_reserved() -> None:
    from headway.nouns.core_kit import TABLES

    assert set(TABLES) == set(KEYS)
    assert isinstance(catalogue(), Catalogue)
    assert all(isinstance(kit, Kit) for kit in catalogue())
    assert os.environ.get("HEADWAY_KITS") is None
