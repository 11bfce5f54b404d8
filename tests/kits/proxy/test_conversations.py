"""Which conversation a request belongs to, and that it keeps its upstream."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from headway.kits.proxy.conversations import body_of, conversation_name, of_chat, of_input
from headway.nouns.records import Decision
from headway.observe.redact import Redactor
from tests.kits.proxy.conftest import Proxy

WAYS = ("ok", "status-500")
MORE = """
[tasks.sticky]
actions = ["good", "bad-ok"]
sticky = true
[tasks.loose]
actions = ["good", "bad-ok"]
reward = { solved = 1.0 }
[tasks.moving]
actions = ["bad-status-500", "good"]
sticky = true
explore = "none"
floor = 0.0
rules = [{ when = "text_length >= 0", use = "bad-status-500" }]
"""


def talk(turns: int, first: str = "Hello", system: str = "Be kind") -> list[dict[str, str]]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": first}]
    for turn in range(turns):
        messages += [{"role": "assistant", "content": f"yes {turn}"}, {"role": "user", "content": f"and {turn}?"}]
    return messages


def chat(ways: Proxy, task: str, headers: dict[str, str] | None = None, path: str = "/v1", **more: Any) -> Decision:
    answer = ways.chat(headers, path, model=f"headway/{task}", **more)
    assert answer.status_code == 200, answer.text
    return ways.decision(answer.json()["id"])


def test_a_conversation_keeps_its_upstream(ways: Proxy) -> None:
    arms = set()
    for name in range(8):
        answers = [chat(ways, "sticky", messages=talk(n, f"Hello {name}")) for n in range(3)]
        assert len({answer.action for answer in answers}) == 1
        assert len({answer.situation.episode for answer in answers}) == 1
        assert [answer.situation.step for answer in answers] == [0, 1, 2]
        assert [answer.draw_id for answer in answers] == ["", answers[0].id, answers[0].id]
        assert {answer.propensity for answer in answers} == {0.5}
        assert answers[2].situation.text == "and 1?"
        arms.add(answers[0].action)
    assert arms <= {"good", "bad-ok"}


def test_without_sticky_each_request_is_decided_separately(ways: Proxy) -> None:
    answers = [chat(ways, "loose", messages=talk(n)) for n in range(2)]
    assert [answer.situation.episode for answer in answers] == [None, None]
    assert [answer.draw_id for answer in answers] == ["", ""]


def test_an_episode_comes_from_url_header_or_body_in_this_order(ways: Proxy) -> None:
    def episode(headers: dict[str, str] | None = None, path: str = "/v1", **more: Any) -> str | None:
        return chat(ways, "sticky", headers, path, **more).situation.episode

    header, body = {"x-headway-episode": "header"}, {"headway": {"episode": "body"}}
    assert episode(header, "/e/url/v1", **body) == "url"
    assert episode(header, **body) == "header"
    assert episode(**body) == "body"
    assert (episode() or "").startswith("conversation-")
    assert ways.client.get("/e/url/v1/models").status_code == 200


def test_an_episode_of_the_url_takes_signals(ways: Proxy) -> None:
    decision = chat(ways, "loose", path="/e/run-7/v1")
    answer = ways.client.post("/v1/tasks/loose/episodes/run-7/signals", json={"solved": 1.0})
    assert answer.status_code == 204
    assert ways.outcome(decision.id) == "rewarded"


def test_a_conversation_stays_with_the_upstream_that_it_failed_over_to(ways: Proxy) -> None:
    chat(ways, "moving", messages=talk(0))
    chat(ways, "moving", messages=talk(1))
    first, second, third = ways.decisions("moving")
    assert [answer.action for answer in (first, second, third)] == ["bad-status-500", "good", "good"]
    assert [answer.situation.step for answer in (first, second, third)] == [0, 1, 2]
    assert [answer.draw_id for answer in (first, second, third)] == ["", first.id, first.id]
    assert [answer.unit for answer in (first, second, third)] == ["", first.id, ""]
    assert ways.outcome(first.id) == "pending"  # one draw, which the fallback rescued
    with ways.open() as project:
        assert project.query.counts("moving").units == 1
        assert project.replay(second.id).exact
        assert "attempt" in project.replay(third.id).gone


def test_two_keys_never_share_a_conversation(ways: Proxy) -> None:
    token = (ways.folder / ".headway" / "token").read_text().strip()
    mine = chat(ways, "sticky", messages=talk(0))
    theirs = chat(ways, "sticky", {"authorization": f"Bearer {token}"}, messages=talk(0))
    assert (mine.key, theirs.key) == ("", "owner")
    assert mine.situation.episode != theirs.situation.episode


def test_an_episode_that_ended_is_a_conflict(ways: Proxy) -> None:
    chat(ways, "loose", path="/e/done/v1")
    ways.client.post("/v1/tasks/loose/episodes/done/end", json={})
    answer = ways.chat(path="/e/done/v1", model="headway/loose")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "episode_ended")


# -- reading, without a server


def read(**body: Any) -> Any:
    return of_chat(body_of(json.dumps(body).encode()), system="system")


def test_the_name_of_a_conversation_depends_only_on_its_first_messages() -> None:
    names = {conversation_name("route", "", read(messages=talk(n))) for n in range(4)}
    assert len(names) == 1
    for other in (talk(0, first="Hi"), talk(0, system="Be brief")):
        assert conversation_name("route", "", read(messages=other)) not in names
    assert conversation_name("other", "", read(messages=talk(0))) not in names
    assert conversation_name("route", "", read(messages=[])) is None


def test_tool_results_are_not_user_text() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "42"}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "count", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    request = read(system=[{"type": "text", "text": "Count"}], messages=messages)
    assert request.text == "How many?"
    assert request.state["user_turns"] == 1
    assert request.state["prompt_tokens_about"] == 4


def test_a_very_long_text_keeps_both_ends() -> None:
    request = read(messages=[{"role": "user", "content": "a" * 50_000 + "b" * 50_000}])
    assert request.shortened(str) == "a" * 10_000 + "\n…\n" + "b" * 10_000
    assert request.state["prompt_tokens_about"] == 25_000


def test_a_secret_at_the_cut_is_redacted_completely() -> None:
    secret = "sk-ant-api03-" + "Qw3rT7yU" * 11
    request = read(messages=[{"role": "user", "content": "a " * 4_990 + secret + " b" * 40_000}])
    kept = request.shortened(Redactor(("secrets",)))
    assert "sk-ant" not in kept
    assert "Qw3rT7yU" not in kept


def test_an_input_may_be_a_text_or_items() -> None:
    text = of_input(body_of(b'{"input":"Hi","instructions":"Be kind","max_output_tokens":5}'))
    items = of_input(
        body_of(b'{"input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}],"instructions":"Be kind"}')
    )
    assert (text.text, items.text) == ("Hi", "Hi")
    assert text.state["max_tokens"] == 5
    assert of_input(body_of(b'{"input":"Hi","previous_response_id":"dec_1"}')).opening is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=30)
@given(st.dictionaries(st.sampled_from(["messages", "input", "system", "tools", "stream", "max_tokens"]), anything))
def test_any_body_is_read_without_an_error(body: dict[str, Any]) -> None:
    raw = body_of(msgspec.json.encode(body))
    for request in (of_chat(raw), of_chat(raw, system="system"), of_input(raw)):
        assert isinstance(request.text, str)
        assert all(isinstance(value, bool | int) for value in request.state.values())


@pytest.mark.parametrize("episode", ["a b", "é", "x" * 200])
def test_an_episode_may_have_almost_any_name(ways: Proxy, episode: str) -> None:
    assert chat(ways, "loose", headway={"episode": episode}).situation.episode == episode
