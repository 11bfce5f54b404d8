"""Crews in practice: seeds and proofs side by side, the same whatever happens to the workers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.crews.processes import ProcessCrew
from headway.kits.practice import acting, fit
from headway.kits.practice.acting import CrewGroups, WorldSource
from headway.kits.practice.environments import environment
from headway.kits.practice.fit import Practice
from headway.kits.practice.run import practise
from headway.kits.practice.seeds import practise_seeds
from headway.nouns.kit import load
from headway.nouns.protocols import Crew
from headway.project import Project
from tests.cli.terminal import headway as run
from tests.kits.crews.crew_work import MortalCrew

GYMNASIUM = "gymnasium is in the extra 'worlds'"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(root))


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def trained(folder: Path, crew: Crew) -> dict[str, bytes]:
    """The files of three policies, by path; and the order in which they became candidates."""
    with Project(folder) as project:
        done = practise_seeds(project, "cartpole", seeds=range(3), crew=crew, steps=1024, target=float("nan"))
        assert [one.seed for one in done] == [0, 1, 2]
        order = [entry.policy for entry in project.ledger.entries("cartpole")]
        assert order == [one.policy for one in done]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / ".headway").rglob("*.safetensors"))
        if "work" not in path.parts
    }


@pytest.mark.slow
def test_seeds_side_by_side_give_the_same_files_for_any_number_of_workers_and_dead_ones(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    one = trained(made(tmp_path / "one"), ProcessCrew(1))
    mortal = MortalCrew(2, made(tmp_path / "marks"))
    two = trained(made(tmp_path / "two"), mortal)
    assert len(one) >= 3
    assert one == two
    assert mortal.killed == 2


class Workers:
    """A crew in this process, whose workers forget everything between two calls where `forgets`."""

    workers = 2

    def __init__(self, *, forgets: bool) -> None:
        self.forgets = forgets

    def map(self, work: str, shards: Sequence[Any], **_: Any) -> Iterator[Any]:
        for shard in shards:
            if self.forgets:
                acting._GROUPS.clear()
            yield load(work)(deepcopy(shard))


@pytest.mark.parametrize(("world", "own"), [("cartpole", {}), ("acrobot", {"max_episode_steps": 30})])
def test_a_worker_that_holds_nothing_repeats_what_its_group_did(
    tmp_path: Path, world: str, own: dict[str, Any]
) -> None:
    """One world with vectors of its own, whose copies share their random numbers, and one of single copies."""
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    with Project(tmp_path):
        pass
    settings = Practice(steps=1200, envs=6, horizon=50, epochs=1, evaluate_every=0)
    fitted = []
    for forgets in (False, True):
        groups = CrewGroups(Workers(forgets=forgets), WorldSource(tmp_path, world, own), count=6, seed=5)
        fitted.append(fit.practise_in(lambda count: environment(world, count=count, **own), settings, 5, groups=groups))
    kept, forgotten = (one.engine.tensors() for one in fitted)
    assert fitted[0].steps >= 1200
    assert fitted[0].returns == fitted[1].returns != []
    assert all(np.array_equal(kept[name], forgotten[name]) for name in kept)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["cartpole", "lunarlander"])
def test_copies_in_workers_give_the_same_policy_for_any_number_of_workers_and_dead_ones(
    tmp_path: Path, world: str
) -> None:
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    if world == "lunarlander":
        pytest.importorskip("Box2D", reason="LunarLander needs box2d")
    mortal = MortalCrew(2, made(tmp_path / "marks"))
    bundles = []
    for name, crew in (("one", ProcessCrew(1)), ("two", ProcessCrew(2)), ("mortal", mortal)):
        with Project(made(tmp_path / name)) as project:
            done = practise(project, world, seed=4, steps=8_192, target=float("nan"), crew=crew)
            bundle = project.home / "policies" / project.registry.find(done.policy)
            bundles.append({path.name: path.read_bytes() for path in sorted(bundle.iterdir())})
    assert bundles[0] == bundles[1] == bundles[2] != {}
    assert mortal.killed == 2


@pytest.mark.parametrize("words", [("--seeds", "2"), ()])
def test_no_workers_are_refused_before_a_project_is_made(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run("-C", str(tmp_path), "learn", "--world", "cartpole", *words, "--workers", "0", "--json")
    assert (done.code, done.error["code"]) == (1, "bad_workers")
    assert not list(tmp_path.iterdir())


def test_seeds_are_a_table_on_the_terminal_and_a_list_in_json(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    words = ("-C", str(tmp_path), "learn", "--world", "cartpole", "--steps", "512", "--seeds", "2", "--target", "nan")
    done = run(*words, "--workers", "2")
    assert done.code == 0, done.err
    assert "target reached" in done.out
    assert "headway -C" in done.out
    document = run(*words, "--json").json
    assert [one["seed"] for one in document["seeds"]] == [0, 1]
    assert document["least"] <= document["most"]


@pytest.mark.slow
def test_a_proof_by_episodes_is_the_same_in_this_process_and_by_a_crew(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason=GYMNASIUM)
    first = made(tmp_path / "first")
    (first / "headway.toml").write_text('[tasks.cart]\nactions = ["0", "1"]\nfamily = "actor_critic"\n', "utf-8")
    with Project(first) as project:
        practise(project, "cartpole", task="cart", steps=2048, target=float("nan"))
    shutil.copytree(first, tmp_path / "second")
    mortal = MortalCrew(2, made(tmp_path / "marks"))
    seen = []
    for folder, crew in ((first, None), (tmp_path / "second", mortal)):
        with Project(folder) as project:
            evidence = project.prove(task="cart", crew=crew).evidence
            assert evidence is not None
            seen.append((evidence.data_hash, evidence.n, evidence.statistic, evidence.difference))
    assert seen[0] == seen[1]
    assert mortal.killed >= 1
    refused = run("-C", str(first), "prove", "cart", "--workers", "0", "--json")
    assert (refused.code, refused.error["code"]) == (1, "bad_workers")
    assert run("-C", str(first), "prove", "cart", "--workers", "2", "--json").code == 0
