"""Every string of every passport names an object that fits its protocol."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from collections.abc import Callable
from typing import Any

import click
import msgspec
import pytest

from headway import testing
from headway.cli.verbs import OptionHook
from headway.kits.data import Format
from headway.nouns.kind import Kind
from headway.nouns.kit import Catalogue, Command, Family, Kit, Worker, catalogue, load
from headway.serve.endpoints import endpoints_of
from headway.settings import TaskSettings
from headway.settings.strict import fields_of, keys_of

KITS: list[Kit] = [*catalogue()]
ONLINE = ("start", "state_from", "update", "snapshot", "learned")


def takes(function: Callable[..., Any], *positional: str, **named: Any) -> None:
    """The function can be called with these arguments, and needs no others."""
    inspect.signature(function).bind(*positional, **named)


def is_family(name: str, family: Family) -> None:
    assert family.kinds, f"{name} decides no kind of task"
    takes(load(family.policy), "knobs", "tensors", "extra", "encoder")
    learner = load(family.learner)
    takes(learner, "encoder")
    more = {"resume": None} if family.resumable else {}
    more |= {"work": None} if family.interruptible else {}
    takes(learner.learn, "self", "experience", "knobs", "seed", "progress", **more)
    assert ("work" in inspect.signature(learner.learn).parameters) == family.interruptible
    assert ("resume" in inspect.signature(learner.learn).parameters) == family.resumable
    for method in ONLINE:
        assert hasattr(learner, method) or not family.online, f"the learner of {name} has no {method}"
    if family.knobs:
        knobs = load(family.knobs)
        assert dataclasses.is_dataclass(knobs)
        assert knobs.__dataclass_params__.frozen, f"the knobs of {name} can be changed"

    assert family.evidence, f"{name} cannot be judged"
    assert set(family.evidence) <= set(catalogue().all("evidence")), f"{name} names a kind that no kit brings"


def is_kind(name: str, kind: Kind) -> None:
    assert kind.summary.endswith(".")
    assert catalogue().families(name), f"no family decides {name}"
    core = {key.name for key in fields_of(TaskSettings) if key.setting.some}
    assert set(kind.keys) <= core, f"{name} has keys that are its own, or that every task has"
    if kind.settings:
        is_table(name, kind.settings)
        assert not set(keys_of(load(kind.settings))) & set(keys_of(TaskSettings)), f"{name} has a key of every task"
    for path, words in (
        (kind.reads, "catalogue table"),
        (kind.pipeline, "servings task body ref digest"),
        (kind.offers, "project settings ask"),
        (kind.consider, "project ask"),
        (kind.decide, "project ask"),
        (kind.answer, "project decision"),
        (kind.replay, "project decision"),
        (kind.knobs, "settings"),
    ):
        if path:
            takes(load(path), *words.split())
    for command in filter(None, (kind.decides, kind.rates, kind.votes)):
        assert command.startswith("headway ")
        assert "{task}" in command


def is_command(path: str, command: Command) -> None:
    target = load(command.target)
    assert isinstance(target, click.Command)
    assert target.name == path.rpartition(" ")[2]
    assert (target.help or "").splitlines()[0] == command.summary
    assert command.group in ("Start", "Loop", "Look", "More")


def is_format(name: str, path: str) -> None:
    form = load(path)
    assert isinstance(form, Format)
    assert form.name == name


def is_hook(command: str, path: str) -> None:
    hook = load(path)
    assert isinstance(hook, OptionHook)
    assert hook.options, f"the hook of {command} adds no option"
    takes(hook.run, "session", "values")


def is_worker(name: str, worker: Worker) -> None:
    assert importlib.util.find_spec(worker.module) is not None, f"{name}: there is no module {worker.module}"
    takes(load(worker.needed), "settings")


def is_table(name: str, path: str) -> None:
    struct = load(path)
    assert issubclass(struct, msgspec.Struct)
    assert struct.__struct_config__.frozen, f"[{name}] can be changed after it was read"


def is_kind_of_evidence(name: str, path: str) -> None:
    kind = load(path)
    assert kind.name == name
    assert isinstance(kind.grows, bool)
    takes(kind.applies, "question")
    takes(kind.missing, "question")
    takes(kind.evidence, "question", "about", "guards")
    takes(kind.plan, "question", "about", uplift=0.1, power=0.8)


def is_encoder(_: str, path: str) -> None:
    """Its settings are keywords; those without a default must be in the task's table."""
    parameters = inspect.signature(load(path)).parameters
    assert all(one.kind is one.KEYWORD_ONLY for name, one in parameters.items() if name not in ("models", "keys"))
    settings = {name: None for name, one in parameters.items() if one.default is one.empty}
    takes(load(path), **{**settings, "models": None, "keys": {}})


CHECKS: dict[str, Callable[[str, Any], None]] = {
    "kinds": is_kind,
    "families": is_family,
    "encoders": is_encoder,
    "worlds": lambda _, path: takes(load(path), count=2),
    "samples": lambda _, path: takes(load(path)),
    "formats": is_format,
    "exports": lambda _, path: takes(load(path), "file", "database", "left_out"),
    "evidence": is_kind_of_evidence,
    "actions": lambda name, names: names == tuple(dict.fromkeys(names)) or pytest.fail(f"{name} has a name twice"),
    "commands": is_command,
    "options": is_hook,
    "jobs": lambda _, path: takes(load(path), "project", "worker", "clock", "say"),
    "workers": is_worker,
    "tables": is_table,
    "errors": lambda _, when: when.endswith(".") or pytest.fail("an error code is explained by a sentence"),
    "crews": lambda _, path: takes(load(path), "workers"),
    "demos": is_command,
    "stores": lambda _, path: takes(load(path), "url", "durability"),
    "tellers": lambda _, path: takes(load(path), "clock"),
    "observers": lambda _, path: takes(load(path), "project"),
    "verbs": lambda name, path: (load(path) and name == path.rpartition(":")[2]) or pytest.fail(f"{name} is {path}"),
    "calls": lambda _, path: inspect.signature(load(path)).bind_partial("client"),
    "contracts": lambda name, path: load(path) is getattr(testing, name) or pytest.fail(f"{name} is another contract"),
    "spaces": lambda _, path: load(path).heads or pytest.fail("a space has no heads"),
}
PLAIN = {"name", "summary", "api", "needs"}


def test_every_field_of_a_passport_is_checked() -> None:
    assert set(Kit._fields) == {
        *CHECKS,
        *PLAIN,
        "routes",
        "checks",
        "erases",
        "explains",
        "starts",
        "outages",
        "cycles",
    }


@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.name)
@pytest.mark.parametrize("what", CHECKS)
def test_the_objects_of_a_passport_fit_their_protocols(kit: Kit, what: str) -> None:
    for name, value in getattr(kit, what).items():
        CHECKS[what](name, value)


@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.name)
def test_routes_checks_and_erasers_of_a_passport_exist(kit: Kit) -> None:
    for module in kit.routes:
        assert endpoints_of((load(module),)), f"{module} declares no endpoint"
    for path in kit.checks:
        takes(load(path), "settings")
    for path in kit.explains:
        takes(load(path), "project", "decision")
    for path in kit.erases:
        takes(load(path), "project", "going")
    for path in kit.cycles:
        takes(load(path), "project", "done", "number", "at", "took_s")
    for path in (*kit.starts, *kit.outages):
        takes(load(path), "project")
    assert kit.summary.endswith(".")


def test_all_built_in_kits_can_be_used() -> None:
    known = catalogue()
    assert isinstance(known, Catalogue)
    assert known.broken == ()
