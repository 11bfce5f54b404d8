"""A task's encoder, from headway.toml to a served decision."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headway
from headway.kits import models
from headway.nouns.errors import Conflict, Unavailable
from tests.kits.models.test_endpoint import KEY, serving
from tests.serve.conftest import Running

MATHS = ["Prove that {} is irrational", "Integrate {} over x", "Solve {} for y", "What is the derivative of {}?"]
TALK = ["Say hello to {}", "Thank {} for the flowers", "Invite {} to lunch", "Wish {} a good night"]
ARMS = ["small", "large"]


def play(project: headway.Project, n: int) -> None:
    """Mathematics is for the large model, small talk for the small one."""
    rng = np.random.default_rng(7)
    for _ in range(n):
        hard = bool(rng.integers(2))
        text = (MATHS if hard else TALK)[rng.integers(4)].format(["sqrt(2)", "Anna", "x^2", "Tom"][rng.integers(4)])
        pick = project.decide("route", text, ARMS)
        project.signal(pick.id, reward=float((pick.action == "large") == hard))
    project.settle("route")


def test_a_policy_learns_and_acts_with_an_endpoint(tmp_path: Path) -> None:
    with serving(width=16) as server:
        words = '[tasks.route]\nencoder = {{ url = "{}", model = "m", key_env = "EMBED_KEY", width = {} }}\n'
        (tmp_path / "headway.toml").write_text(words.format(server.url, 16))
        environ = {"EMBED_KEY": KEY}
        with headway.open(tmp_path, environ=environ, seed=3) as project:
            play(project, 400)
            assert server.asked == [], "nothing is encoded before a policy uses it"
            policy = project.learn("route")
            sent = [text for request in server.asked for text in request["input"]]
            assert len(sent) == len(set(sent)), "learning reads every row several times and encodes each text once"
            assert 27 < len(sent) <= 32, "a task with few texts learns from nearly all of them; by text it would be 19"
            calls = len(server.asked)
            assert set(server.keys) == {f"Bearer {KEY}"}
            header = project.registry.header(project.registry.find(policy))
            assert header.encoder.startswith("endpoint-1-m-")
        with headway.open(tmp_path, environ={**environ, "HEADWAY_POLICY": policy}) as project:
            pick = project.decide("route", "Integrate x^2 over x", ARMS)
            assert (pick.policy, pick.encoder) == (policy, header.encoder)
            replayed = project.replay(pick.id)
            assert replayed.exact is True
            assert len(server.asked) == calls, "known texts come from the project's own cache"
            project.decide("route", "An unseen text", ARMS)
            assert len(server.asked) == calls + 1
        (tmp_path / "headway.toml").write_text(words.format(server.url, 8))
        with headway.open(tmp_path, environ={**environ, "HEADWAY_POLICY": policy}) as project:
            with pytest.raises(Conflict) as caught:
                project.decide("route", "Integrate x^2 over x", ARMS)
            assert caught.value.code == "encoder_changed"
    (tmp_path / "headway.toml").write_text(
        words.format("http://127.0.0.1:9/v1", 16).replace("}", ", timeout_s = 0.1 }")
    )
    with headway.open(tmp_path, environ=environ) as project:
        with pytest.raises(Unavailable) as unreachable:
            project.learn("route")
        assert unreachable.value.code == "encoder_unreachable"
        assert KEY not in str(unreachable.value)
    stored = b"".join(path.read_bytes() for path in (tmp_path / ".headway").rglob("*") if path.is_file())
    assert KEY.encode() not in stored


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> tuple[Path, str]:
    """A project whose task reads text with MiniLM, and a policy learned in it."""
    folder = tmp_path_factory.mktemp("minilm")
    (folder / "headway.toml").write_text('[tasks.route]\nencoder = "minilm"\n')
    with headway.open(folder, environ={"HEADWAY_CACHE": str(model_cache)}, seed=3) as project:
        play(project, 300)
        policy = project.learn("route")
        assert project.registry.header(project.registry.find(policy)).encoder == "minilm-1-w384"
    return folder, policy


def test_a_policy_learned_with_minilm_generalises_to_unseen_texts(learned: tuple[Path, str], model_cache: Path) -> None:
    folder, policy = learned
    environ = {"HEADWAY_CACHE": str(model_cache), "HEADWAY_POLICY": policy}
    with headway.open(folder, environ=environ) as project:
        pick = project.decide("route", "Show that the cube root of five is not a fraction", ARMS)
        chance = dict(zip((candidate.name for candidate in pick.candidates), pick.probabilities, strict=True))
        assert chance["large"] > chance["small"]
        assert project.replay(pick.id).exact is True


def test_the_server_decides_with_minilm_and_without_torch(learned: tuple[Path, str], model_cache: Path) -> None:
    folder, policy = learned
    environ = {**os.environ, "HEADWAY_CACHE": str(model_cache), "HEADWAY_POLICY": policy}
    running = Running(folder, env=environ)
    try:
        answers: list[dict[str, Any]] = [running.decide(text=f"Integrate x^{n} over x").json() for n in range(3)]
        assert {answer["policy"] for answer in answers} == {policy}
        rows = [{"task": "route", "text": f"Say hello to {n}", "candidates": ARMS} for n in range(5)]
        batch = running.client.post("/v1/decisions/batch", json={"decisions": rows})
        assert (batch.status_code, len(batch.json()["decisions"])) == (201, 5)
        maps = Path(f"/proc/{running.process.pid}/maps").read_text()
        assert "onnxruntime" in maps
        assert "libtorch" not in maps
    finally:
        running.stop()


def test_a_server_without_the_model_names_the_command_that_adds_it(learned: tuple[Path, str], tmp_path: Path) -> None:
    folder, policy = learned
    running = Running(folder, env={**os.environ, "HEADWAY_CACHE": str(tmp_path), "HEADWAY_POLICY": policy})
    try:
        answer = running.decide(text="Integrate x^2 over x")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "model_missing"
        assert answer.json()["error"]["hint"] == "Add it with `headway models add minilm`."
    finally:
        running.stop()


def test_status_and_deciding_need_no_model_before_there_is_a_policy(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nencoder = "minilm"\n')
    with headway.open(tmp_path, environ={"HEADWAY_CACHE": str(tmp_path / "none")}) as project:
        pick = project.decide("route", "hello", ARMS)
        assert (pick.policy, pick.encoder) == ("uniform@0", "minilm-1-w384")
        project.signal(pick.id, reward=1.0)
        assert project.status()
        assert models.installed(tmp_path / "none") == []
