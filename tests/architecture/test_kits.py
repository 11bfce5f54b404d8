"""Kits import only the kits in their passports, and heavy packages only where the contract allows it."""

from __future__ import annotations

import ast

import pytest

from headway.kits import BUILT_IN
from headway.nouns.kit import Kit, load
from tests.architecture.rooms import PYPROJECT, SOURCE, files, imported, kits, kits_imported, nodes

HEAVY = {"torch", "transformers", "peft", "accelerate", "ray", "sklearn", "pandas", "scipy"}


def passport_of(name: str) -> Kit:
    kit = load(f"headway.kits.{name}:KIT")
    assert isinstance(kit, Kit)
    return kit


def needed(name: str) -> set[str]:
    """The kits that a kit needs, including indirectly."""
    needs = set(passport_of(name).needs)
    return needs.union(*(needed(other) for other in needs))


def test_every_folder_of_kits_is_built_in() -> None:
    assert sorted(BUILT_IN) == kits()


def test_a_kit_comes_after_those_that_it_needs() -> None:
    for place, name in enumerate(BUILT_IN):
        assert set(passport_of(name).needs) <= {*BUILT_IN[:place]}, f"{name} comes too early in BUILT_IN"


@pytest.mark.parametrize("name", kits())
def test_a_kit_imports_only_the_kits_that_it_needs(name: str) -> None:
    places, allowed = kits_imported(name), needed(name)
    assert name not in allowed, f"{name} needs itself"
    for kit, where in places.items():
        assert kit in allowed, f"{where}, and `needs` of {name} does not name {kit}"
    unused = set(passport_of(name).needs) - places.keys()
    assert not unused, f"{name} needs {sorted(unused)} and imports nothing of it"


def test_only_the_kits_of_the_contract_import_heavy_packages() -> None:
    contract = next(row for row in PYPROJECT["tool"]["importlinter"]["contracts"] if row.get("id") == "heavy")
    named = {tuple(line.replace("headway.kits.", "").split(".** -> ")) for line in contract["ignore_imports"]}
    used = {
        (kit, package)
        for kit in kits()
        for path in files(SOURCE / "kits" / kit)
        for package in {module.partition(".")[0] for module in imported(nodes(path))} & HEAVY
    }
    assert used == named


def test_the_core_names_no_kind_of_task_that_a_kit_brings() -> None:
    names = {name for kit in BUILT_IN for name in passport_of(kit).kinds}
    assert {"ranking", "reply", "factored"} <= names
    core = [path for path in files() if SOURCE / "kits" not in path.parents]
    for path in core:
        for node in nodes(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said = node.value in names or any(f'kind = "{name}"' in node.value for name in names)
                assert not said, f"{path.relative_to(SOURCE)}:{node.lineno} names a kind of a kit: {node.value!r}"
