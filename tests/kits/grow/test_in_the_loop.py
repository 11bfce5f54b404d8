"""A recurrent policy through the whole loop: practise, prove, promote, decide, go on elsewhere, replay."""

from __future__ import annotations

from pathlib import Path

import pytest

import headway
from headway.kits.practice import practise

pytestmark = pytest.mark.slow
TOML = """
[tasks.balance]
kind = "factored"
world = "masked_cartpole"
[tasks.pole]
kind = "factored"
heads = { action = ["0", "1"] }
"""
QUICK = {"family": "recurrent", "target": float("nan"), "width": 16, "episodes": 2, "confirm": 2}


def test_a_practised_policy_is_proven_promoted_and_decides_with_its_memory(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path, environ={}) as project:
        ref = practise(project, "masked_cartpole", task="balance", steps=16_384, seed=3, **QUICK).policy
        verdict = project.prove(ref)
        assert verdict.evidence is not None
        assert (verdict.evidence.kind, verdict.state) == ("world", "pass")
        project.promote(ref, because=verdict)
        seen = [{"observation": [0.01 * step, -0.02 * step]} for step in range(6)]
        first = [project.decide("balance", episode="a", state=state) for state in seen[:4]]
    with headway.open(tmp_path, environ={}) as project:  # nothing is kept: the memory is folded from the store
        rest = [project.decide("balance", episode="a", state=state) for state in seen[4:]]
        assert [pick.situation.step for pick in (*first, *rest)] == list(range(6))
        for pick in (*first, *rest):
            assert project.replay(pick.id).exact is True
        other = project.decide("balance", episode="b", state=seen[5])
        assert project.heads(other.id)[0].probabilities != project.heads(rest[-1].id)[0].probabilities
        with pytest.raises(headway.HeadwayError, match=r"state\.observation has 4 numbers, expected 2"):
            project.decide("balance", episode="b", state={"observation": [0.0] * 4})


def test_a_gymnasium_world_is_proven_in_the_form_that_the_family_practises_in(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is in the extra 'worlds'")
    (tmp_path / "headway.toml").write_text(TOML)
    with headway.open(tmp_path, environ={}) as project:
        ref = practise(project, "CartPole-v1", task="pole", steps=1024, seed=1, **QUICK).policy
        evidence = project.prove(ref).evidence
        assert evidence is not None
        assert evidence.kind == "world"
