"""Blind comparisons, ratings and roles over HTTP, on a tiny random model with a random adapter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import headway
from headway.kits.reply.adapters import read_peft
from headway.kits.reply.comparison import QUESTION, digest
from headway.nouns.protocols import Learned
from headway.project import Project
from tests.kits.reply.test_adapters_in_use import adapter
from tests.kits.reply.test_answer import TOML
from tests.kits.reply.test_worker import working
from tests.kits.reply.tiny import make
from tests.loop.running import until
from tests.serve.conftest import Running

pytestmark = pytest.mark.slow
DUELS = "/v1/tasks/reply/duels"


def publish_adapter(project: Project, task: str, work: Path, *, seed: int = 0) -> str:
    """A random adapter as a candidate of a reply task."""
    from headway.kits.reply.model import LanguageModel

    model = Path(project.settings.task(task).own.base)
    local = LanguageModel.load(model, device="cpu", rank=4)
    tensors, extra = read_peft(adapter(model, work, seed=seed))
    extra |= {"base": local.weights_hash, "template": local.template_hash}
    learned = Learned(
        family="language", tensors=tensors, knobs={}, metrics={}, baselines={}, trained_on={}, extra=extra
    )
    return project.publish(learned, task=task, kind="reply", encoder="", seed=0, why="test").ref


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with a worker, and a candidate of `reply`."""
    model = make(tmp_path_factory.mktemp("model"), "llama", endless=True)
    folder = tmp_path_factory.mktemp("project")
    (folder / "headway.toml").write_text(TOML.format(model=model))
    with headway.open(folder) as project:
        publish_adapter(project, "reply", tmp_path_factory.mktemp("adapters"))
    with working(folder):
        yield folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Running]:
    running = Running(folder)
    yield running
    errors = running.stop()
    assert "Traceback" not in errors, errors


@pytest.fixture(autouse=True)
def _the_worker_stays(served: Running) -> None:
    """Starts worker and server before the check for leaked processes takes its first snapshot."""


@pytest.fixture
def project(folder: Path) -> Iterator[Project]:
    with headway.open(folder) as project:
        yield project


def candidate_of(project: Project) -> str:
    newest = project.ledger.last("reply", "candidate")
    assert newest is not None
    return newest.policy


def everything(served: Running) -> str:
    """Every answer that the page may read about the task."""
    paths = [
        "/v1/tasks", "/v1/tasks/reply", "/v1/tasks/reply/recent", "/v1/tasks/reply/votes", "/v1/tasks/reply/story",
        "/v1/tasks/reply/replies", "/v1/decisions?task=reply", "/v1/reports?task=reply", "/v1/roles", "/v1/ledger",
    ]  # fmt: skip
    return "\n".join(served.client.get(path).raise_for_status().text for path in paths)


def test_the_order_is_in_no_answer_before_the_vote(served: Running, project: Project) -> None:
    opened = served.client.post(DUELS)
    assert opened.status_code == 201, opened.text
    duel = opened.json()
    candidate = candidate_of(project)
    assert set(duel) == {"id", "task", "candidate", "against", "question", "left", "right"}
    assert (duel["candidate"], duel["against"]) == (candidate, "base@0")
    assert "x-headway-decision" not in opened.headers
    assert duel["left"] != duel["right"]
    public = everything(served)
    for secret in (duel["id"], duel["left"], duel["right"]):
        assert json.dumps(secret)[1:-1] not in public, "it is counted, and what was shown where is not told"

    voted = served.client.post(f"{DUELS}/{duel['id']}/vote", json={"preferred": "left"})
    assert voted.status_code == 200, voted.text
    told = voted.json()
    assert {told["left"], told["right"]} == {candidate, "base@0"}
    stored = project.query.decision(told["decision"])
    assert stored.probabilities == (0.5, 0.5)
    assert (stored.situation.text, stored.situation.state) == ("", {QUESTION: digest(duel["question"])})
    (signal,) = project.query.signals(stored.id)
    value = 1.0 if stored.action == told["left"] else 0.0
    assert (signal.name, signal.value, signal.rater) == ("preferred", value, "")
    assert told["votes"]["wins"] + told["votes"]["losses"] == len(told["votes"]["votes"])
    assert told["votes"] == served.client.get("/v1/tasks/reply/votes").json()


def test_a_comparison_takes_one_vote(served: Running, project: Project) -> None:
    duel = served.client.post(DUELS).json()
    place = f"{DUELS}/{duel['id']}/vote"
    first = served.client.post(place, json={"preferred": "neither"}).json()
    again = served.client.post(place, json={"preferred": "neither"})
    assert again.json() == first, "a repeated request is one vote"
    changed = served.client.post(place, json={"preferred": "left"})
    assert (changed.status_code, changed.json()["error"]["code"]) == (409, "duel_voted")
    assert [signal.value for signal in project.query.signals(first["decision"])] == [0.5]


@pytest.mark.parametrize("wrong", ["0" * 32, "..%2ftoken", "x", "dec_0"])
def test_an_unknown_comparison_is_refused(served: Running, wrong: str) -> None:
    answer = served.client.post(f"{DUELS}/{wrong}/vote", json={"preferred": "left"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] in ("unknown_duel", "not_found")


def test_without_a_worker_or_a_candidate_the_cure_is_named(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "headway.toml").write_text((folder / "headway.toml").read_text())
    server = Running(tmp_path)
    try:
        alone = server.client.post(DUELS)
        assert (alone.status_code, alone.json()["error"]["code"]) == (404, "no_candidate_policy")
        assert "headway learn reply" in alone.json()["error"]["hint"]
        assert server.client.get("/v1/tasks/reply/votes").status_code == 404
        with server.open() as project:
            publish_adapter(project, "reply", tmp_path / "adapters")
        idle = server.client.post(DUELS)
        assert (idle.status_code, idle.json()["error"]["code"]) == (503, "worker_missing")
        assert "headway worker" in idle.json()["error"]["hint"]
        other = server.client.post("/v1/tasks/route/duels")
        assert (other.status_code, other.json()["error"]["code"]) == (404, "not_a_reply_task")
    finally:
        server.stop()
    assert not list((tmp_path / ".headway").glob("work/duels/*.json"))


def generate(served: Running, text: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = served.client.post("/generate", json={"prompt": text, **more}).raise_for_status().json()
    return answer


def test_replies_are_rated_edited_and_withdrawn_over_http(served: Running) -> None:
    reply = generate(served, "Hello", episode="talk")
    rating, comments = f"/v1/decisions/{reply['id']}/rating", f"/v1/decisions/{reply['id']}/comments"

    def row() -> dict[str, Any]:
        rows = served.client.get("/v1/tasks/reply/replies").json()["replies"]
        return dict(next(each for each in rows if each["id"] == reply["id"]))

    nothing = {"stars": None, "thumb": None, "edit": "", "critique": ""}
    assert (row()["mine"], row()["rated"], row()["episode"], row()["text"]) == (nothing, False, "talk", reply["text"])
    assert served.client.put(rating, json={"mark": "4"}).json() == nothing | {"stars": 4.0}
    assert served.client.put(rating, json={"mark": "-"}).json() == nothing | {"thumb": -1.0}, "it replaces the stars"
    edited = served.client.post(comments, json={"kind": "edit", "text": "Hi!"}).json()
    assert edited == nothing | {"thumb": -1.0, "edit": "Hi!"}
    said = served.client.post(comments, json={"kind": "critique", "text": "<b>too long</b>"}).json()
    assert said == row()["mine"] == edited | {"critique": "<b>too long</b>"}
    unrated = served.client.get("/v1/tasks/reply/replies", params={"unrated": True}).json()["replies"]
    assert reply["id"] not in [each["id"] for each in unrated]
    withdrawn = served.client.request("DELETE", rating)
    assert withdrawn.json() == nothing
    assert not row()["rated"]
    for mark in ("0", "good", "6", ""):
        refused = served.client.put(rating, json={"mark": mark})
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "bad_rating")
    absent = served.client.put("/v1/decisions/dec_0000000000000000000000000/rating", json={"mark": "4"})
    assert absent.status_code in (404, 422)
    assert not row()["rated"]


def test_each_role_has_its_reward_length_and_time(served: Running) -> None:
    for place in range(4):
        reply = generate(served, f"One {place}", task="tuned")
        served.client.put(f"/v1/decisions/{reply['id']}/rating", json={"mark": "5" if place else "1"})
    generate(served, "Two", task="tuned", max_tokens=4)
    roles = served.client.get("/v1/roles", params={"points": 5}).json()["roles"]
    by_name = {role["task"]: role for role in roles}
    assert {"reply", "code", "tuned", "fresh"} == set(by_name)
    tuned = by_name["tuned"]
    assert (tuned["replies"], tuned["rated"], len(tuned["trend"])) == (5, 4, 5)
    assert tuned["whole"]["reward"] == pytest.approx((3 * 1.0 - 1.0) / 4)
    assert tuned["whole"]["tokens"] == pytest.approx((4 * 12 + 4) / 5)
    assert [point["reward"] for point in tuned["trend"]] == [-1.0, 1.0, 1.0, 1.0, None]
    assert all(point["latency_s"] > 0 for point in tuned["trend"])


def test_raters_have_bias_noise_and_reversal(served: Running, project: Project) -> None:
    ids = [generate(served, f"Rate {place}", max_tokens=1)["id"] for place in range(12)]
    for place, decision in enumerate(ids):
        good = 1 + place % 5
        for rater, stars in (("ann", good), ("bob", min(5, good + 1)), ("eve", 6 - good)):
            project.signal(decision, stars=stars, rater=rater)
    answer = served.client.get("/v1/tasks/reply/raters").json()
    (stars,) = [each for each in answer["signals"] if each["signal"] == "stars"]
    raters = {rater["rater"]: rater for rater in stars["raters"]}
    assert stars["compared"]
    assert raters["bob"]["bias"] > raters["ann"]["bias"]
    assert raters["eve"]["reversed"] > 0.9 > 0.1 > raters["ann"]["reversed"]
    assert json.dumps(answer).count("NaN") == 0


def test_rating_and_voting_need_their_scope(served: Running) -> None:
    from tests.cli.terminal import headway as run

    made = run("-C", served.folder, "keys", "add", "looker", "--scope", "decide", "--json")
    key = {"authorization": f"Bearer {json.loads(made.out)['key']}"}
    with httpx.Client(base_url=served.url, headers=key) as client:
        until(
            lambda: client.put("/v1/decisions/dec_0/rating", json={"mark": "4"}).status_code == 403,
            "the server to know the new key",
        )
        assert client.post(f"{DUELS}/{'0' * 32}/vote", json={"preferred": "left"}).status_code == 403
        assert client.get("/v1/tasks/reply/replies").status_code == 403
        asked = client.post(DUELS)
        assert (asked.status_code, asked.json()["error"]["code"]) == (403, "wrong_scope"), "it could not vote"
