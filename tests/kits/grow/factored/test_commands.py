"""`headway decide`, `explain` and `data export` of a factored task."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import pytest

import headway as library
from tests.cli.terminal import headway
from tests.kits.grow.factored.tally_kit import PLAN, learned, tally_site

__all__ = ["tally_site"]
SEEN = ("--state", "observation=[0.5, -1.25]", "--state", "indices=[2]")


@pytest.fixture
def folder(tmp_path: Path, tally_site: Path) -> Path:
    del tally_site
    (tmp_path / "headway.toml").write_text(PLAN)
    with library.open(tmp_path, environ={}) as project:
        learned(project)
    return tmp_path


def test_an_episode_is_decided_explained_replayed_and_exported(folder: Path) -> None:
    decide = ("-C", folder, "decide", "plan", "--episode", "a", *SEEN)
    first = headway(*decide, "--mask", "op=ANSWER", "--mask", "effort=low,high")
    assert first.code == 0, first.err
    assert "op=ANSWER,model=" in first.out
    assert "2 of 3" in first.out  # allowed choices of effort
    second = headway(*decide, "--mask", 'model={"ANSWER": ["small"]}', "--json").json
    assert second["step"] == 1
    assert math.prod(head["propensity"] for head in second["heads"].values()) == second["propensity"]
    told = headway("-C", folder, "explain", second["id"])
    assert "remembers 1 step;" in told.out
    assert "op" in told.out
    replayed = headway("-C", folder, "explain", second["id"], "--replay")
    assert (replayed.code, "exactly the same" in replayed.out) == (0, True)
    out = folder / "out.jsonl"
    assert headway("-C", folder, "data", "export", "--out", out).code == 0
    row = json.loads(out.read_text().splitlines()[1])
    assert row["propensity"] == second["propensity"]
    heads = json.loads(base64.b64decode(row["details"]["core"]["heads"]))
    for name, head in second["heads"].items():
        assert dict(zip(heads["choices"][name], heads["probabilities"][name], strict=True)) == head["probabilities"]


def test_a_mistake_is_named_and_nothing_is_stored(folder: Path) -> None:
    for more, code in (
        (("--mask", "model=smal"), "unknown_choice"),
        (("--mask", "model={"), "bad_mask"),
        (("--mask", "op="), "nothing_allowed"),
        (("--step", "2"), "bad_step"),
        (("--candidates", "a,b"), "bad_candidates"),
    ):
        refused = headway("-C", folder, "decide", "plan", "--episode", "a", *SEEN, *more, "--json")
        assert (refused.code, refused.json["error"]["code"]) == (1, code)
    with library.open(folder, environ={}) as project:
        assert project.query.counts("plan").decisions == 0


def test_init_declares_a_factored_task_that_decides_at_once(tmp_path: Path) -> None:
    words = ["--task", "answer", "--kind", "factored"]
    refused = headway("init", *words, "-C", str(tmp_path))
    assert refused.code == 2
    assert not (tmp_path / "headway.toml").exists()
    heads = ["--head", "op=ANSWER,STOP", "--head", "model=small,large"]
    made = headway("init", *words, *heads, "-C", str(tmp_path))
    assert made.code == 0, made.err
    decided = headway("decide", "answer", "--json", "-C", str(tmp_path)).json
    assert list(decided["heads"]) == ["model", "op"]
    assert decided["heads"]["op"]["allowed"] == ["ANSWER", "STOP"]
