"""An agent with a key that may rate cannot promote itself over real HTTP."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from headway.client import Client
from headway.nouns.errors import GateRefused
from headway.observe.keys import Keys
from tests.serve.conftest import Running
from tests.serve.test_keys import heeded

TOML = '[tasks.route]\nactions = ["small", "large"]\n[store]\ndurability = "process"\n'


def test_an_agent_that_rates_itself_is_not_promoted(served: Callable[..., Running]) -> None:
    running = served(TOML)
    with running.open() as project:
        agent = Keys(project.database).add("agent", ("decide", "signal"), now=project.clock())
        heeded(running, agent)
        rng = random.Random(3)
        with Client(running.url, agent) as remote:
            for start in range(0, 800, 100):
                asked = [{"task": "route", "text": f"question {number}"} for number in range(start, start + 100)]
                for made in remote.decide_many(asked):
                    if made.action == "large":
                        remote.signal(made.id, reward=1.0)
                    else:
                        project.signal(made.id, reward=rng.choice([-1.0, 1.0]))
        policy = project.learn("route")
        assert project.prove(policy).state == "refused"
    path = f"/v1/policies/{policy}/promote"
    refused = running.client.post(path, json={}, headers=running.token)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "gate_refused")
    (reason,) = refused.json()["error"]["reasons"]
    assert reason.startswith("one_key: the key 'agent' rated ")
    assert "--trust-key agent" in refused.json()["error"]["hint"]
    mine = running.client.post(path, json={"trust_keys": ["agent"]}, headers={"authorization": f"Bearer {agent}"})
    assert mine.status_code == 403, "nor can it trust itself"
    typo = running.client.post(path, json={"trust_keys": ["agnet"]}, headers=running.token)
    assert (typo.status_code, typo.json()["error"]["code"]) == (404, "unknown_rater")
    token = running.token["authorization"].removeprefix("Bearer ")
    with Client(running.url, token) as remote:
        with pytest.raises(GateRefused, match="the key 'agent'"):
            remote.promote(policy)
        entry = remote.promote(policy, trust_keys=["agent"], at_once=True)
    assert (entry["kind"], entry["detail"]) == ("promote", {"trusted_keys": ["agent"], "at_once": True})
