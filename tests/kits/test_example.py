"""The package of examples/kit: installed, tested by the contracts, used, and uninstalled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture.rooms import ROOT
from tests.cli.terminal import process, ran
from tests.serve.conftest import Running, served

__all__ = ["served"]

KIT = ROOT / "examples" / "kit"
CONTRACTS = """
from headway.nouns.kit import catalogue, load
from headway.testing import learner_contract, world_contract

known = catalogue(("tally",))
learner_contract(known, "tally", world="category", least=0.99)
world_contract(load(known.all("worlds")["colours"]))
"""
TOML = """
[kits]
use = ["tally"]

[tasks.paint]
actions = ["blue", "green"]
state = ["colour"]
rules = [{ when = "colour == 'green'", use = "green" }]
fallback = "blue"
"""
PLAY = """
import random, headway
rng = random.Random(7)
with headway.open() as project:
    for number in range(120):
        colour = rng.choice(["blue", "green"])
        choice = project.decide("paint", f"item {number}", state={"colour": colour})
        project.signal(choice.id, reward=float(choice.action == colour))
    ref = project.learn("paint", family="tally")
    project.record_change("paint", "promote", ref, project.registry.find(ref), why="a test")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip installed the built package."""
    folder = tmp_path_factory.mktemp("site")
    source = tmp_path_factory.mktemp("source") / "kit"
    shutil.copytree(KIT, source)  # a build leaves files behind
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run([sys.executable, "-m", "pip", *words, str(source)], check=True, capture_output=True, env=environ)
    return folder


def test_the_example_is_small() -> None:
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in KIT.rglob("*") if path.suffix in (".py", ".toml"))
    assert lines < 250


def test_the_example_satisfies_the_contracts(site: Path) -> None:
    done = ran([sys.executable, "-c", CONTRACTS], cwd=site, PYTHONPATH=str(site))
    assert done.code == 0, done.err


def test_the_example_is_used_and_disappears(site: Path, tmp_path: Path, served: Callable[..., Running]) -> None:
    (tmp_path / "headway.toml").write_text(TOML, "utf-8")
    with_kit = {"PYTHONPATH": str(site)}
    done = ran([sys.executable, "-c", PLAY], cwd=tmp_path, **with_kit)
    assert done.code == 0, done.err
    means = process("tally", "paint", "--json", cwd=tmp_path, **with_kit).json["means"]
    assert set(means) == {"blue", "green"}
    rows = {row["name"]: row for row in process("kits", "--json", cwd=tmp_path, **with_kit).json["kits"]}
    assert rows["tally"]["families"] == ["tally"]
    assert process("doctor", "--json", cwd=tmp_path, **with_kit).json["ok"]

    running = served(env={**os.environ, **with_kit})
    assert running.client.get("/v1/kits/tally/paint").json() == {"means": means}
    assert "/v1/kits/tally/{task}" in running.client.get("/openapi.json").json()["paths"]
    answer = running.client.post("/v1/decisions", json={"task": "paint", "state": {"colour": "green"}}).json()
    assert answer["policy"].startswith("tally@")
    running.stop()

    # Uninstalled: nothing is left of it on the path.
    running = served()
    assert running.client.get("/v1/kits/tally/paint").status_code == 404
    answer = running.client.post("/v1/decisions", json={"task": "paint", "state": {"colour": "green"}})
    assert (answer.status_code, answer.json()["policy"]) == (201, "rules@0")
    running.stop()
    assert process("tally", "paint", cwd=tmp_path).code == 2
    status = process("status", "--json", cwd=tmp_path)
    assert status.json["tasks"][0]["kit_missing"] == "tally"
    assert "kit_missing" in process("status", cwd=tmp_path).out
    checks = {row["name"]: row for row in process("doctor", "--json", cwd=tmp_path).json["checks"]}
    assert checks["kit tally"]["ok"] is False
    assert checks["current of paint"]["ok"] is False
    assert "kit_missing" in checks["current of paint"]["found"]


def test_a_kind_of_task_comes_and_goes_with_its_kit(site: Path, tmp_path: Path, served: Callable[..., Running]) -> None:
    with_kit = {"PYTHONPATH": str(site)}
    made = process("init", "--kind", "tally", cwd=tmp_path, **with_kit, HEADWAY_KITS="tally")
    assert made.code == 0, made.err
    file = tmp_path / "headway.toml"
    declared = file.read_text("utf-8")
    file.write_text(declared.replace('kind = "tally"', 'kind = "tally"\nby = "hue"'), "utf-8")
    running = served(env={**os.environ, **with_kit})
    assert "tally" in [kind for kit in running.client.get("/v1/kits").json()["kits"] for kind in kit["kinds"]]
    for number in range(60):
        hue = ("blue", "green")[number % 2]
        choice = running.client.post("/v1/decisions", json={"task": "paint", "state": {"hue": hue}}).json()
        running.client.post(f"/v1/decisions/{choice['id']}/signals", json={"liked": float(choice["action"] == hue)})
    running.stop()
    learned = process("learn", "paint", "--json", cwd=tmp_path, **with_kit).json
    assert learned["metrics"]["cells"] == 4.0, "two hues, two actions: the kind's own key reached the family"
    (task,) = process("status", "--json", cwd=tmp_path, **with_kit).json["tasks"]
    assert (task["kind"], task["family"], task["outcomes"]["rewarded"]) == ("tally", "tally", 60)
    explained = process("explain", choice["id"], "--json", cwd=tmp_path, **with_kit).json
    assert (explained["action"], explained["policy"]) == (choice["action"], "uniform@0")
    file.write_text(declared.replace('kind = "tally"', 'kind = "tally"\nbuy = "hue"'), "utf-8")
    assert "Did you mean 'by'?" in process("status", cwd=tmp_path, **with_kit).err

    # Uninstalled: whatever reads the file says which kit is missing; nothing that was recorded is lost.
    file.write_text(declared, "utf-8")
    for words in (("status",), ("decide", "paint", "item"), ("serve", "--port", "0")):
        failed = process(*words, cwd=tmp_path)
        assert failed.code == 1
        assert 'tasks.paint.kind is "tally"' in failed.err
        assert "The kit 'tally' cannot be used: no installed package offers a kit of this name." in failed.err
        assert "Install or repair its package" in failed.err
    checks = {row["name"]: row for row in process("doctor", "--json", cwd=tmp_path).json["checks"]}
    assert (checks["settings"]["ok"], checks["kit tally"]["ok"]) == (False, False)
    (task,) = process("status", "--json", cwd=tmp_path, **with_kit).json["tasks"]
    assert task["decisions"] == 60
