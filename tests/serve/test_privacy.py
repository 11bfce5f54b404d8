"""Two keys: what one wrote reaches no answer to the other, and no prompt on the other's behalf, by any route.

Every text that `ann` sends contains one word. `bob` then asks every route of /openapi.json for everything of hers that
he could know: ids, names of tasks and policies, names that are nearly hers. He never sends the word himself, so that
no answer repeats it.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.kits.models.language import Prompt
from headway.kits.reply.learn.data import cluster_of, is_held_out
from headway.project import Project
from tests.attacks.language_worker import recording_worker
from tests.kits.proxy.upstream import Upstream
from tests.kits.reply.test_sealed_duels import publish_candidate
from tests.serve.conftest import Running

WORD = "zqann"
NEARLY = "zqan"  # what "did you mean" would complete
QUESTION = next(
    text for number in range(1000) if is_held_out(cluster_of(text := f"why is {WORD} bankrupt since March {number}"))
)
TOML = """
[tasks.reply]
kind = "reply"

[tasks.echo]
kind = "reply"
base = "good"

[tasks.route]
actions = ["good"]
keep_replies = true

[tasks.pick]
reward = { solved = 1.0 }

[tasks.order]
kind = "ranking"
actions = ["first", "second"]
reward = { solved = 1.0 }

[upstreams.good]
url = "URL"
model = "good-model"
"""
TASKS = ("reply", "echo", "route", "pick", "order")
SCOPES = (("decide",), ("signal",), ("decide", "signal", "ingest"))
VECTOR = [0.1] * 8
CHAT = {"model": "headway/route", "messages": [{"role": "user", "content": "why is it bankrupt?"}], "max_tokens": 9}
ASK = {"task": "pick", "text": "why is it bankrupt?", "candidates": ["small", "large"]}
TRACED = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1780000000000000000"}
RATED = {
    "traceId": "a" * 32,
    "spanId": "b" * 16,
    "eventName": "gen_ai.evaluation.result",
    "timeUnixNano": "1780000003000000000",
    "attributes": [
        {"key": "gen_ai.evaluation.name", "value": {"stringValue": f"{NEARLY}_signal"}},
        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 1.0}},
        {"key": "gen_ai.response.id", "value": {"stringValue": "{decision}"}},
    ],
}
CALLED = {
    **TRACED,
    "name": "chat",
    "endTimeUnixNano": "1780000001000000000",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.request.model", "value": {"stringValue": f"{NEARLY}-model"}},
        {"key": "gen_ai.response.id", "value": {"stringValue": "{decision}"}},
    ],
}
# A body for every route that takes one: a new route fails the test until it has one here.
BODIES: dict[str, list[Any]] = {
    "POST /e/{episode}/v1/chat/completions": [CHAT, {**CHAT, "model": "headway/reply"}],
    "POST /e/{episode}/v1/messages": [CHAT],
    "POST /e/{episode}/v1/responses": [{"model": "headway/route", "input": "why?"}],
    "POST /generate": [
        {"prompt": "why is it bankrupt since March 7"},
        {"prompt": "why is it bankrupt?", "task": "echo"},
        {"prompt": "why?", "role": f"{NEARLY}-role", "stream": True},
    ],
    "POST /get_distribution": [{"embedding": VECTOR}],
    "POST /load": [{"path": "policy"}],
    "POST /save": [{}],
    "POST /select_action": [{"embedding": VECTOR}],
    "POST /store_experience": [
        {"state": VECTOR, "action": 0, "reward": 1.0, "next_state": VECTOR, "done": True, "log_prob": 0.0, "value": 0.0}
    ],
    "POST /update": [{}],
    "POST /v1/chat/completions": [CHAT, {**CHAT, "model": "headway/reply"}, {**CHAT, "model": "headway/echo"}],
    "POST /v1/messages": [CHAT],
    "POST /v1/responses": [
        {"model": "headway/route", "input": "why?"},
        {"model": "headway/route", "input": "why?", "previous_response_id": "{decision}"},
    ],
    "POST /v1/decisions": [
        ASK,
        {**ASK, "id": "{decision}"},
        {**ASK, "episode": "talk"},
        {**ASK, "task": f"{NEARLY}-task"},
        {**ASK, "candidates": [f"{NEARLY}-small", "large"], "role": f"{NEARLY}-role"},
        {"task": "pick", "text": ""},
        {"task": "order", "state": {f"{NEARLY}_state": 1.0}},
    ],
    "POST /v1/decisions/batch": [{"decisions": [ASK, {**ASK, "id": "{decision}"}]}, {"decisions": [ASK]}],
    "POST /v1/decisions/{decision}/comments": [{"kind": "edit", "text": "No."}, {"kind": "critique", "text": "No."}],
    "PUT /v1/decisions/{decision}/rating": [{"mark": "1"}, {"mark": "?"}],
    "POST /v1/decisions/{decision}/signals": [{"solved": 0.0}, {f"{NEARLY}_signal": 1.0}, {"stars": 9}],
    "POST /v1/hooks/{task}": [
        {
            "session_id": session,
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_use_id": session,
            "tool_input": {"command": "pytest -q"},
            "tool_response": {"stdout": "1 passed", "stderr": ""},
        }
        for session in ("talk", f"{NEARLY}-episode")
    ],
    "POST /v1/links": [None],
    "POST /v1/logs": [{"resourceLogs": [{"scopeLogs": [{"logRecords": [RATED]}]}]}],
    "POST /v1/policies/{policy}/canary": [{}],
    "POST /v1/policies/{policy}/promote": [{}],
    "POST /v1/runs/{run}/stop": [{}],
    "POST /v1/signals": [{"signals": [{"subject": "{decision}", "signals": {f"{NEARLY}_signal": 1.0}}]}],
    "POST /v1/tasks/{task}/duels": [{}, {"policy": "{policy}"}, {"policy": f"{NEARLY}@0"}],
    "POST /v1/tasks/{task}/duels/{duel}/vote": [{"preferred": "left"}],
    "POST /v1/tasks/{task}/episodes/{episode}/end": [{}],
    "POST /v1/tasks/{task}/episodes/{episode}/signals": [{"solved": 0.0}, {f"{NEARLY}_signal": 1.0}],
    "POST /v1/tasks/{task}/experiment": [{}],
    "POST /v1/tasks/{task}/experiment/stop": [{}],
    "POST /v1/tasks/{task}/learn": [{}],
    "POST /v1/tasks/{task}/rank": [
        {},
        {"candidates": ["first", "second"]},
        {"policy": "{policy}", "candidates": ["a"]},
    ],
    "POST /v1/tasks/{task}/rollback": [{}],
    "POST /v1/tasks/{task}/weight": [{"signal": "solved", "weight": 1.0}],
    "POST /v1/traces": [{"resourceSpans": [{"scopeSpans": [{"spans": [CALLED]}]}]}],
}


@dataclass
class World:
    """A server whose upstream and language worker record what they receive, and what there is to ask for."""

    server: Running
    upstream: Upstream
    prompts: list[Prompt]
    keys: dict[str, str]
    routes: list[tuple[str, str, dict[str, Any]]]  # method, path, operation
    known: dict[str, list[str]] = field(default_factory=dict)  # values of path parameters

    def ask(self, key: str, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.keys[key]}"}
        while True:
            answer = self.server.client.request(method, path, json=body, headers=headers, **more)
            if answer.status_code != 429:
                return answer
            time.sleep(1.0)  # bob reads a lot


def spelled(answer: httpx.Response) -> str:
    return f"{answer.headers} {answer.text}".lower()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("privacy")
    more: dict[str, Any] = {}
    if request.param == "postgresql":
        more = {"env": {**os.environ, "HEADWAY_STORE_URL": request.getfixturevalue("postgres").store()}}
    with ExitStack() as stack:
        upstream = Upstream()
        stack.callback(upstream.stop)
        (folder / "headway.toml").write_text(TOML.replace("URL", upstream.url()))
        prompts = stack.enter_context(recording_worker(folder))
        server = Running(folder, **more)
        stack.callback(server.stop)
        keys = {"owner": server.token["authorization"].removeprefix("Bearer ")}
        with server.open() as project:
            scopes = {"ann": ("decide", "signal"), "train": ("decide", "signal", "train")}
            scopes |= {"+".join(names): names for names in SCOPES}
            for name, given in scopes.items():
                keys[name] = project_keys(project).add(name.replace("+", "-"), given, now=project.clock())
        time.sleep(0.5)  # the server reads new keys five times a second
        document = server.client.get("/openapi.json", headers=server.token).json()
        routes = [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        ]
        made = World(server, upstream, prompts, keys, routes)
        plant(made)
        yield made


def project_keys(project: Project) -> Any:
    from headway.observe.keys import Keys

    return Keys(project.database)


def plant(world: World) -> None:
    """What ann writes, wherever a key can write; then the owner likes it, learns from it and looks for a verdict."""

    def ann(method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        answer = world.ask("ann", method, path, body, **more)
        assert answer.is_success, (method, path, answer.text)
        return answer

    ids: list[str] = []
    for number in range(60):
        asked = {
            "task": "pick", "text": f"{WORD} asks {number % 7}", "role": f"{WORD}-role",
            "state": {f"{WORD}_state": f"{WORD}-value", "size": float(number % 3)},
            "candidates": [{"name": f"{WORD}-small", "features": {f"{WORD}_cost": 1}}, {"name": f"{WORD}-large"}],
        }  # fmt: skip
        if number < 3:
            asked["episode"] = "talk" if number else f"{WORD}-episode"
        decided = ann("POST", "/v1/decisions", asked).json()
        ids.append(decided["id"])
        good = float(decided["action"].endswith("small"))
        values = {"solved": good, f"{WORD}_signal": 1.0}
        ann("POST", "/v1/signals", {"signals": [
            {"subject": decided["id"], "signals": values, "label": f"{WORD} label", "key": f"{WORD} {number}"}
        ]})  # fmt: skip
    ordered = ann("POST", "/v1/decisions", {"task": "order", "text": f"{WORD} order", "state": {f"{WORD}_state": 1.0}})
    chat = {"messages": [{"role": "system", "content": f"{WORD} system"}, {"role": "user", "content": f"{WORD} asks"}]}
    replies = []
    for model in ("headway/reply", "headway/echo", "headway/route"):
        replies.append(ann("POST", "/v1/chat/completions", {"model": model, **chat}).json()["id"])
    ann("POST", f"/e/{WORD}-talk/v1/chat/completions", {"model": "headway/reply", **chat})
    for _ in range(3):
        replies.append(ann("POST", "/generate", {"prompt": QUESTION, "role": f"{WORD}-role"}).json()["id"])
    for reply in replies[-3:]:
        ann("PUT", f"/v1/decisions/{reply}/rating", {"mark": "5"})
        for kind in ("edit", "critique"):
            ann("POST", f"/v1/decisions/{reply}/comments", {"kind": kind, "text": f"{WORD} {kind}"})
    with world.server.open() as project:
        publish_candidate(project, "reply")
        for reply in replies[-3:]:
            project.signal(reply, stars=5.0)
        for task in TASKS:
            project.settle(task)
        candidate = str(project.learn("pick"))
        evidence = project.prove(candidate, task="pick").evidence
        project.canary(candidate, share=0.1, task="pick", who="owner")
        world.known["policy"] = [candidate, candidate_of(project)]
        world.known["evidence"] = [] if evidence is None else [evidence.id]
    duel = ann("POST", "/v1/tasks/reply/duels", {}).json()
    world.known |= {
        "task": [*TASKS, f"{NEARLY}-task"],
        "decision": [ids[0], ids[1], ordered.json()["id"], *replies],
        "episode": ["talk", f"{NEARLY}-episode"],
        "duel": [duel["id"]],
        "model": ["good", f"{NEARLY}-model"],
        "run": ["1"], "job": ["1"], "name": ["1"],
    }  # fmt: skip


def candidate_of(project: Project) -> str:
    newest = project.ledger.last("reply", "candidate")
    assert newest is not None
    return newest.policy


def written_about(world: World, bob: str) -> None:
    """Bob's own decision and reply, about which ann writes all that she can."""
    chosen = world.ask(bob, "POST", "/v1/decisions", ASK).json()["id"]
    reply = world.ask(bob, "POST", "/generate", {"prompt": "why is it bankrupt since March 8"}).json()["id"]
    for subject, mark in ((chosen, "solved"), (reply, "stars")):
        values = {mark: 1.0, f"{WORD}_signal": 1.0}
        sent = {"subject": subject, "signals": values, "label": f"{WORD} label", "key": f"{WORD} key"}
        assert world.ask("ann", "POST", "/v1/signals", {"signals": [sent]}).is_success
    for kind in ("edit", "critique"):
        path = f"/v1/decisions/{reply}/comments"
        assert world.ask("ann", "POST", path, {"kind": kind, "text": f"{WORD} {kind}"}).is_success
    assert world.ask("ann", "PUT", f"/v1/decisions/{reply}/rating", {"mark": "5"}).is_success
    with world.server.open() as project:
        project.settle("reply")
    world.known["decision"] = [*world.known["decision"][:6], chosen, reply]


def requests_of(world: World, method: str, path: str, operation: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Paths and bodies with everything that bob could know."""
    names = re.findall(r"\{(\w+)\}", path)
    bodies = BODIES[f"{method} {path}"] if "requestBody" in operation else [None]
    for values in itertools.product(*(world.known[name] for name in names)):
        filled = path
        for name, value in zip(names, values, strict=True):
            filled = filled.replace(f"{{{name}}}", value)
        for body in bodies:
            text = json.dumps(body)
            needed = [name for name in ("decision", "policy") if f"{{{name}}}" in text]
            for more in itertools.product(*(world.known[name] for name in needed)):
                sent = text
                for name, value in zip(needed, more, strict=True):
                    sent = sent.replace(f"{{{name}}}", value)
                yield filled, json.loads(sent)
        if method == "GET" and any(one["name"] == "task" for one in operation.get("parameters", ())):
            yield from ((f"{filled}?task={task}", None) for task in TASKS)


def test_every_route_that_takes_a_body_is_asked_with_one(world: World) -> None:
    taking = {f"{method} {path}" for method, path, operation in world.routes if "requestBody" in operation}
    assert taking == set(BODIES)
    parameters = {name for _, path, _ in world.routes for name in re.findall(r"\{(\w+)\}", path)}
    assert parameters <= set(world.known)


@pytest.mark.parametrize("bob", ["+".join(names) for names in SCOPES])
def test_no_route_and_no_prompt_gives_one_key_the_text_of_another(world: World, bob: str) -> None:
    if "decide" in bob:
        written_about(world, bob)
    asked, told = len(world.upstream.received), len(world.prompts)
    answered: Counter[str] = Counter()
    leaks: dict[str, str] = {}
    for method, path, operation in world.routes:
        name = f"{method} {path}"
        scope = operation["x-scope"]
        if scope in ("train", "admin") or (scope != "open" and scope not in bob.split("+")):
            filled, body = next(requests_of(world, method, path, operation))
            assert world.ask(bob, method, filled, body).status_code == 403, name
            continue
        for filled, body in requests_of(world, method, path, operation):
            answer = world.ask(bob, method, filled, body)
            assert answer.status_code != 500, (name, answer.text)
            answered[name] += answer.is_success
            if WORD in spelled(answer):
                place = spelled(answer).index(WORD)
                leaks[f"{method} {filled}"] = spelled(answer)[max(0, place - 150) : place + 80]
    prompts = [prompt for prompt in world.prompts[told:] if WORD in repr(prompt).lower()]
    bodies = [one for one in world.upstream.received[asked:] if WORD in one.raw.decode().lower()]
    assert (leaks, prompts, bodies) == ({}, [], [])
    # It proves something only where bob gets answers, and where prompts were written for him.
    assert sum(count > 0 for count in answered.values()) >= (20 if "decide" in bob else 10), answered
    assert (len(world.prompts) > told) is (len(world.upstream.received) > asked) is ("decide" in bob)


def test_the_owner_and_a_key_that_trains_see_what_bob_does_not(world: World) -> None:
    for key, paths in {
        "ann": [f"/v1/decisions/{world.known['decision'][0]}"],
        "train": [f"/v1/decisions/{world.known['decision'][0]}", "/v1/tasks/reply/replies", "/v1/tasks/pick"],
        "owner": ["/v1/decisions", f"/v1/policies/{world.known['policy'][0]}", "/v1/tasks/reply/replies"],
    }.items():
        for path in paths:
            answer = world.ask(key, "GET", path)
            assert answer.is_success, answer.text
            assert WORD in answer.text.lower(), (key, path)
    for key in ("ann", "train", "owner"):
        told = len(world.prompts)
        assert world.ask(key, "POST", "/generate", {"prompt": f"why is {WORD} bankrupt at all?"}).is_success
        assert WORD in repr([prompt.turns[:-1] for prompt in world.prompts[told:]]).lower(), key
