"""What a run pack recomputes, what it states, and what becomes of statements that are false."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from headway.cli.main import run
from headway.kits.demo.synth import synthesise
from headway.kits.offline.packed import packed, unpacked
from headway.kits.offline.packs import verify
from headway.kits.offline.rules_comparison import compare
from headway.nouns.errors import Damaged
from headway.project import Project
from headway.prove.log import Log, RowOrigin
from tests.kits.offline.test_compare import learned
from tests.project.test_key_regions import TOML as KEYS_TOML, TRIGGER, traffic
from tests.prove.logs import small_log

pytestmark = pytest.mark.engines(slow="postgresql", why="it is about files")
Opened = Callable[..., Project]
FROM_ROWS = {"calibration", "repetition", "clock", "clipping", "drift", "missing_width"}


@pytest.fixture
def pack(opened: Opened, tmp_path: Path) -> Path:
    folder = tmp_path / "pack"
    compare(learned(opened), "route", pack=folder)
    return folder


def rewrite(folder: Path, name: str, body: bytes) -> None:
    """Change a file of a pack together with its hash."""
    before = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / name).write_bytes(body)
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text().replace(before, hashlib.sha256(body).hexdigest()))


def edit(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads((folder / name).read_text())
    change(document)
    rewrite(folder, name, json.dumps(document).encode())


def test_the_checks_of_the_rows_are_recomputed_and_the_others_stated(pack: Path) -> None:
    stated = json.loads((pack / "about.json").read_text())["stated"]
    assert stated["note"] == "stated by the project, not recomputed"
    assert {check["name"] for check in stated["checks"]} <= {"duplicates", "future", "late_outcomes", "training_rows"}
    offline = verify(pack).results["offline"]
    names = {check["name"] for check in offline["evidence"]["diagnostics"]}
    assert names >= FROM_ROWS | {"duplicates", "future"}
    assert offline["stated"] == list(verify(pack).stated)
    assert "the check 'duplicates'" in offline["stated"]
    assert "what the rows hold for the checks 'repetition', 'clock', 'clipping', 'drift'" in offline["stated"]


def change_column(folder: Path, name: str) -> None:
    tensors = load((folder / "rows.safetensors").read_bytes())
    changed = ~tensors[name] if tensors[name].dtype == np.bool_ else tensors[name] / 2.0
    rewrite(folder, "rows.safetensors", save({**tensors, name: changed}))


def test_a_changed_column_is_detected(pack: Path, tmp_path: Path) -> None:
    for column in ("logged", "settled_at", "reward"):
        change_column(copied := copytree(pack, tmp_path / column), column)
        with pytest.raises(Damaged, match=r"differs at|cannot be recomputed"):
            verify(copied)


def test_changed_moments_of_the_training_rows_are_detected(pack: Path) -> None:
    def moved(document: dict[str, Any]) -> None:
        document["training"]["mean"] = [mean + 3.0 for mean in document["training"]["mean"]]

    edit(pack, "about.json", moved)
    with pytest.raises(Damaged, match="differs at"):
        verify(pack)


def test_a_statement_cannot_replace_what_follows_from_the_rows(pack: Path) -> None:
    for name in ("calibration", "drift", "one_key"):

        def stated(document: dict[str, Any], name: str = name) -> None:
            document["stated"]["checks"][0]["name"] = name

        edit(pack, "about.json", stated)
        with pytest.raises(Damaged, match=f"states '{name}', which follows from its rows"):
            verify(pack)
    edit(pack, "about.json", lambda document: document["stated"]["checks"].clear())
    edit(pack, "about.json", lambda document: document["stated"]["counts"].update(rewarded=10**6))
    with pytest.raises(Damaged, match="states 'rewarded'"):
        verify(pack)


@pytest.mark.slow
def test_a_region_that_one_key_decides_is_stated_and_the_replay_recomputed(opened: Opened, tmp_path: Path) -> None:
    project, folder = opened(KEYS_TOML), tmp_path / "pack"
    traffic(project, seed=0, poisoned=0.05)
    project.learn("route")
    compared = compare(project, "route", pack=folder)
    assert compared.offline.evidence is not None
    held = verify(folder)
    assert held.results["offline"]["state"] == "refused"
    assert held.results["offline"]["evidence"]["id"] == compared.offline.evidence.id
    assert TRIGGER in json.loads((folder / "about.json").read_text())["stated"]["regions"]["mallory"]
    assert any("'replay', 'clock'" in line for line in held.stated)
    change_column(copied := copytree(folder, tmp_path / "copied"), "replayed")
    with pytest.raises(Damaged, match="differs at"):
        verify(copied)
    edit(folder, "about.json", lambda document: document["stated"]["regions"].clear())
    with pytest.raises(Damaged, match="differs at"):
        verify(folder)


def test_a_registered_test_is_recomputed(opened: Opened, tmp_path: Path) -> None:
    project, folder = learned(opened), tmp_path / "pack"
    project.plan("route", uplift=0.2, register=True)
    synthesise(project, "route", rows=400, seed=43)
    compared = compare(project, "route", pack=folder)
    assert compared.offline.evidence is not None
    assert compared.offline.evidence.plan is not None
    assert verify(folder).results["offline"]["evidence"]["plan"]["horizon"] == compared.offline.evidence.plan.horizon


def test_a_pack_of_an_earlier_rule_is_called_that_and_not_damaged(
    pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", str(pack)]) == 0
    assert "Stated by the project, not recomputed: " in " ".join(capsys.readouterr().out.split())
    edit(pack, "manifest.json", lambda document: document.update(schema="headway.run-pack/1"))
    edit(pack, "about.json", lambda document: (document.pop("stated"), document.update(left={})))
    held = verify(pack)
    assert (held.recomputed, held.stated) == (False, ("every number",))
    assert run(["verify", str(pack)]) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "The pack was made by an earlier rule: its numbers are stated, not recomputed." in said
    assert run(["verify", str(pack), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["recomputed"]) == (False, False)
    (pack / "rows.safetensors").write_bytes(b"")
    with pytest.raises(Damaged, match="does not match its hash"):
        verify(pack)


def test_groups_that_only_some_chunks_have_come_back_as_they_were() -> None:
    whole = small_log(30, seed=4)
    codes = np.arange(10, dtype=np.int64) * 70_001

    def chunk(number: int, **groups: np.ndarray[Any, np.dtype[np.int64]]) -> Log:
        origin = RowOrigin(groups=groups, beyond=np.where(np.arange(10) % 3 == number, -2.5, 0.0), columns=("a", "b"))
        return replace(whole.rows(10 * number, 10 * number + 10), origin=origin)

    chunks = [chunk(0, user=codes), chunk(1, user=codes, episode=codes + 1), chunk(2, user=codes)]
    for before, after in zip(chunks, unpacked(*packed(chunks)), strict=True):
        assert before.origin is not None
        assert after.origin is not None
        assert after.origin.columns == before.origin.columns
        assert after.origin.chosen_only is None
        np.testing.assert_array_equal(after.origin.beyond, before.origin.beyond)
        assert list(after.origin.groups) == list(before.origin.groups)
        for name, numbers in before.origin.groups.items():
            np.testing.assert_array_equal(after.origin.groups[name], numbers % 65_536)
