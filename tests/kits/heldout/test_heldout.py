"""Held-out rows of imported history as a kind of evidence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from headway.kits.heldout.heldout import HELDOUT
from headway.kits.report import pages as report
from headway.nouns.errors import GateRefused, InvalidInput
from headway.nouns.kit import Catalogue
from headway.project import Project
from headway.testing import evidence_contract

ROUTE = '[tasks.route]\nactions = ["a", "b", "c"]\nfamily = "{family}"\nrange = [0.0, 1.0]\non_failure = 0.0\n{more}'


def imported(folder: Path, family: str, *, noise: bool, seed: int = 1, rows: int = 1200, more: str = "") -> Project:
    """A project with history without probabilities. Action k is best where x_k is largest, or nothing matters."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headway.toml").write_text(ROUTE.format(family=family, more=more), "utf-8")
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(rows):
        x = rng.random(3)
        best, action = int(x.argmax()), int(rng.integers(3))
        if family == "clone" and not noise and rng.random() < 0.8:
            action = best  # whoever acted knew what to do
        chance = 0.5 if noise else 0.85 if action == best else 0.15
        lines.append(
            {
                "id": str(number),
                "text": f"row {number}",
                "action": "abc"[action],
                "reward": float(rng.random() < chance),
            }
            | {f"x{place}": float(value) for place, value in enumerate(x)}
        )
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    project = Project(folder)
    columns = {"propensity": "unknown"} | {f"state.x{place}": f"x{place}" for place in range(3)}
    project.import_file(
        folder / "log.jsonl", format="columns", task="route", columns=columns, candidates=("a", "b", "c")
    )
    return project


# -- held-out rows


@pytest.mark.parametrize(
    "family", ["bandit", *(pytest.param(name, marks=pytest.mark.slow) for name in ("outcome", "clone"))]
)
def test_history_without_probabilities_is_judged_on_held_out_rows(family: str, tmp_path: Path) -> None:
    with imported(tmp_path, family, noise=False) as project:
        ref = project.learn("route")
        assert project.next_step("route").verb == "prove"
        verdict = project.prove(task="route")
        assert verdict.passed, verdict.reasons
        evidence = verdict.evidence
        assert evidence is not None
        assert (evidence.kind, evidence.rule, evidence.unit) == ("heldout", "betting", "held-out rows")
        assert verdict.reasons[1] == "That does not show that it earns more."
        assert any("not who earns more" in note for note in evidence.notes)
        assert "predicts better" in report.text(verdict)
        assert 300 < evidence.n < 600, "only rows that training never read"
        with pytest.raises(GateRefused, match="does not show that it earns more"):
            project.promote(task="route", trust_claims=True)
        assert not project.standing("route").admitted, "the loop leaves it to a person, also with promote = auto"
        assert project.next_step("route").command == f"headway promote route --policy {ref} --predicts-only"
        entry = project.promote(task="route", predicts_only=True)
        assert (entry.policy, entry.detail["accepted"]) == (ref, "predictions")
        assert project.decide("route", "hello", state={"x0": 0.1, "x1": 0.9, "x2": 0.2}).policy == ref
        project.rollback("route")


@pytest.mark.parametrize(
    ("family", "seeds"),
    [("bandit", 1), *(pytest.param(family, 3, marks=pytest.mark.slow) for family in ("outcome", "clone", "bandit"))],
)
def test_noise_labels_promote_nothing(family: str, seeds: int, tmp_path: Path) -> None:
    for seed in range(seeds):  # benchmarks/kinds.py does 20 of each
        with imported(tmp_path / str(seed), family, noise=True, seed=seed) as project:
            project.learn("route")
            assert not project.prove(task="route").passed


@pytest.mark.slow
def test_a_copy_of_noise_does_not_beat_rules_that_predict_badly(tmp_path: Path) -> None:
    rules = 'fallback = "a"\nrules = [{ when = "x0 > 0.5", use = "b" }]\nstate = ["x0", "x1", "x2"]\n'
    with imported(tmp_path, "clone", noise=True, more=rules) as project:
        project.learn("route")
        verdict = project.prove(task="route")
        assert verdict.evidence is not None
        assert verdict.evidence.against == "rules@0"
        assert verdict.evidence.difference.value > 0.5, "it predicts better than the rules"
        assert not verdict.passed, "but no better than how often each action is chosen"


def test_decisions_with_probabilities_take_over_once_there_are_enough(tmp_path: Path) -> None:
    with imported(tmp_path, "outcome", noise=False, rows=600) as project:
        project.learn("route")
        rng = np.random.default_rng(2)
        for number in range(210):
            x = rng.random(3).tolist()
            pick = project.decide("route", f"live {number}", state={f"x{place}": x[place] for place in range(3)})
            project.signal(pick.id, reward=float(rng.random() < 0.5))
            if number == 100:
                early = project.prove(task="route").evidence
                assert early is not None
                assert early.kind == "heldout"
        late = project.prove(task="route").evidence
        assert late is not None
        assert late.kind == "log"
        assert len(project.ledger.tests("route")) <= 2


def test_held_out_evidence_keeps_the_contract(tmp_path: Path) -> None:
    with imported(tmp_path, "outcome", noise=False) as project:
        project.learn("route")
        evidence_contract(project, HELDOUT, "route")


def test_a_policy_that_predicts_returns_has_no_held_out_proof(tmp_path: Path) -> None:
    with imported(tmp_path, "cql", noise=False, rows=300) as project:
        project.learn("route", gamma=0.5, steps=50)
        step = project.next_step("route")
        assert step.verb == "log"
        assert "probability" in step.why
        with pytest.raises(InvalidInput) as error:
            project.prove(task="route")
        assert error.value.code == "propensity_unknown"


def test_without_the_kit_only_the_log_is_asked(tmp_path: Path) -> None:
    with imported(tmp_path, "bandit", noise=False, rows=300) as project:
        project.catalogue = Catalogue(tuple(kit for kit in project.catalogue if kit.name != "heldout"))
        project.learn("route")
        with pytest.raises(InvalidInput) as error:
            project.prove(task="route")
        assert error.value.code == "propensity_unknown"
