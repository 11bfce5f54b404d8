"""A planted secret, sent through every interface, is not stored, cached, learned from or returned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headway.nouns.errors import InvalidSettings
from headway.project import Ask, Project
from tests.observe.test_redact import KEYS, TOKENS

Opened = Callable[..., Project]
SECRETS = [KEYS["openai project"], KEYS["aws"], KEYS["headway"], TOKENS["json web token"]]


def tables(project: Project) -> str:
    """Everything in the store as one text, for both databases."""
    collected = []
    for name, columns in {
        "decisions": "text, state",
        "candidate_sets": "body",
        "signals": "label, key",
        "names": "kind, name",
        "episodes": "name",
        "configs": "body",
        "jobs": "body, result",
        "ledger": "why, detail",
        "evidence": "body",
    }.items():
        collected += [str(row) for row in project.database.query(f"SELECT {columns} FROM {name}")]
    return "\n".join(collected)


def plant(project: Project, secret: str) -> list[str]:
    """Sends the text through every interface; returns the ids of the decisions."""
    first = project.decide(
        "route", f"use {secret} please", ["small", "large"], state={"note": secret, "n": 1, secret: 2}
    )
    described = [{"name": "small", "why": secret}, {"name": f"with {secret}", "cost": 2.0}]
    second = project.decide("route", "which?", described)
    third = project.record("route", f"{secret}", ["small", secret], action=secret, propensity=0.5)
    for answer in (first, second, third):
        project.signal(answer.id, {"reward": 1.0, secret[:60]: 1.0}, label=f"saw {secret}")
    asks = [Ask("route", f"{n} {secret}", ["small", "large"], {}) for n in range(3)]
    stored = project.submit(
        [decision for decision in project.consider_many(asks) if isinstance(decision, tuple)]
    ).result()
    return [first.id, second.id, third.id, *(decision.id for decision in stored)]


@pytest.mark.parametrize("secret", SECRETS, ids=["openai", "aws", "headway", "token"])
def test_no_byte_of_a_planted_secret_is_stored(opened: Opened, tmp_path: Path, secret: str) -> None:
    project = opened()
    ids = plant(project, secret)
    project.settle("route")
    assert secret not in tables(project)
    assert "[redacted:" in tables(project)
    for name in [path for path in tmp_path.rglob("*") if path.is_file()]:
        assert secret.encode() not in name.read_bytes(), name
    for identifier in ids:
        assert secret not in repr(project.explain(identifier))


def test_decisions_with_redacted_text_replay_exactly(opened: Opened) -> None:
    project = opened()
    for identifier in plant(project, SECRETS[0]):
        replayed = project.replay(identifier)
        assert replayed.exact is True or "elsewhere" in replayed.gone


def test_the_same_request_again_is_the_same_decision(opened: Opened) -> None:
    project = opened()
    asked = {"candidates": ["small", "large"], "id": "dec_0197c1f2a3b47000a1b2c3d4e5f60718"}
    first = project.decide("route", f"use {SECRETS[0]}", **asked)
    assert project.decide("route", f"use {SECRETS[0]}", **asked) == first


def test_redaction_can_be_disabled_and_extended(opened: Opened) -> None:
    project = opened("[store]\nredact = []\n")
    assert SECRETS[0] in project.decide("route", SECRETS[0], ["a", "b"]).situation.text
    project = opened('[store]\nredact = ["secrets", "email"]\n')
    assert project.decide("route", "write to ann@example.com", ["a", "b"]).situation.text == "write to [redacted:email]"


def test_an_unknown_kind_of_secret_suggests_the_nearest_one(opened: Opened) -> None:
    with pytest.raises(InvalidSettings, match="redact") as caught:
        opened('[store]\nredact = ["emails"]\n')
    assert "email" in caught.value.hint


def test_the_encoder_does_not_see_the_marks(opened: Opened) -> None:
    from headway.encode.tracker import fit
    from headway.nouns.records import Situation
    from tests.families import encoder

    words = encoder("hashing")
    features = fit([Situation(task="route", text=f"word {n}") for n in range(30)], words)
    with_mark = features.vectors([Situation(task="route", text="use [redacted:api-key] now")], words)[0]
    without = features.vectors([Situation(task="route", text="use                    now")], words)[0]
    assert with_mark[1 : 1 + features.text_width].tolist() == without[1 : 1 + features.text_width].tolist()
