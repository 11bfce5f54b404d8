"""Votes against a policy that answers end it: the current one is rolled back, a canary is retired."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headway
from headway.nouns.protocols import Learned
from headway.project import Project

NAME = "base_model.model.model.layers.0.self_attn.q_proj"
GOOD = {
    "logprob_gap": 0.0, "kl": 0.01, "perplexity_ratio": 1.0, "probe_count": 12.0, "probe_flagged": 0.0,
    "champion_flagged": 0.0, "probe_length": 20.0, "champion_length": 20.0,
    **{f"{who}_{what}": 0.0 for who in ("probe", "champion") for what in ("empty", "repetition", "refusal", "ended")},
    **{f"champion_{what}_sd": 0.1 for what in ("empty", "repetition", "refusal", "ended")},
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "headway.toml").write_text('[tasks.reply]\nkind = "reply"\n')
    return headway.open(tmp_path)


def adapter(project: Project, seed: int) -> str:
    """A candidate with a small adapter that passed its checks."""
    draws = np.random.default_rng(seed)
    tensors = {f"{NAME}.lora_{part}.weight": draws.normal(size=(4, 4)).astype(np.float32) for part in "AB"}
    extra = {"base": "0" * 64, "template": "", "r": 4, "alpha": 8.0, "target_modules": ["q_proj"], "measured": GOOD}
    learned = Learned(
        family="language", tensors=tensors, knobs={}, metrics={}, baselines={}, trained_on={}, extra=extra
    )  # fmt: skip
    return project.publish(learned, task="reply", kind="reply", encoder="", seed=seed, why="a test").ref


def vote(project: Project, ref: str, wins: int, losses: int, against: str = "base@0") -> None:
    for place in range(wins + losses):
        pair = project.decide("reply", f"question {place}", [ref, against])
        project.signal(pair.id, preferred=float((pair.action == ref) == (place < wins)))


def test_the_current_policy_is_rolled_back_when_later_votes_are_against_it(project: Project) -> None:
    ref = adapter(project, 1)
    vote(project, ref, wins=14, losses=0)
    project.promote(because=project.prove(task="reply"), task="reply")
    assert project.standing("reply").current.ref == ref
    assert project.guard("reply", who="watch") is None, "the votes that promoted it say nothing against it"
    vote(project, ref, wins=1, losses=3)
    assert project.guard("reply", who="watch") is None
    vote(project, ref, wins=0, losses=12)
    entry = project.guard("reply", who="watch")
    assert entry is not None
    assert (entry.kind, entry.policy) == ("rollback", "base@0")
    assert "worse" in entry.why
    assert project.standing("reply").current.ref == "base@0"


def test_a_canary_is_retired_when_votes_are_against_it(project: Project) -> None:
    ref = adapter(project, 2)
    project.canary(ref, share=0.5, task="reply")
    assert project.guard("reply", who="watch") is None
    vote(project, ref, wins=0, losses=10)
    entry = project.guard("reply", who="watch")
    assert entry is not None
    assert (entry.kind, entry.policy) == ("retire", ref)
    answered = {project.consider("reply", "Who?", episode=f"talk {place}").decision.action for place in range(20)}
    assert answered == {"base@0"}
