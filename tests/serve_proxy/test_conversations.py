"""Which conversation a request belongs to, and that it keeps its upstream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.serve.conversations import body_of, conversation_name, of_chat, of_input
from tests.serve_proxy.conftest import Proxy

STICKY = "sticky = true\n"


def talk(turns: int, first: str = "Hello", system: str = "Be kind") -> list[dict[str, str]]:
    found = [{"role": "system", "content": system}, {"role": "user", "content": first}]
    for turn in range(turns):
        found += [{"role": "assistant", "content": f"yes {turn}"}, {"role": "user", "content": f"and {turn}?"}]
    return found


def test_a_conversation_keeps_its_upstream(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"}, task=STICKY)
    arms = set()
    for name in range(8):
        found = [running.decision(running.chat(messages=talk(n, f"Hello {name}")).json()["id"]) for n in range(3)]
        assert len({each.action for each in found}) == 1
        assert len({each.situation.episode for each in found}) == 1
        assert [each.situation.step for each in found] == [0, 1, 2]
        assert [each.draw_id for each in found] == ["", found[0].id, found[0].id]
        assert {each.propensity for each in found} == {0.5}
        assert found[2].situation.text == "and 1?"
        arms.add(found[0].action)
    assert arms == {"small", "large"}  # 2 · 0.5^8 of missing one; the seed is the machine's, hence the eight


def test_without_sticky_nothing_is_tied_together(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"})
    found = [running.decision(running.chat(messages=talk(n)).json()["id"]) for n in range(2)]
    assert [each.situation.episode for each in found] == [None, None]
    assert [each.draw_id for each in found] == ["", ""]


def test_an_episode_comes_from_url_header_or_body_in_this_order(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"}, task=STICKY)

    def episode(headers: dict[str, str] | None = None, path: str = "/v1", **more: Any) -> str | None:
        return running.decision(running.chat(headers, path, **more).json()["id"]).situation.episode

    header, body = {"x-headway-episode": "header"}, {"headway": {"episode": "body"}}
    assert episode(header, "/e/url/v1", **body) == "url"
    assert episode(header, **body) == "header"
    assert episode(**body) == "body"
    assert (episode() or "").startswith("conversation-")
    assert running.client.get("/e/url/v1/models").status_code == 200


def test_an_episode_of_the_url_takes_signals(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"}, task="reward = { solved = 1.0 }")
    identifier = running.chat(path="/e/run-7/v1").json()["id"]
    answer = running.client.post("/v1/tasks/route/episodes/run-7/signals", json={"solved": 1.0})
    assert answer.status_code == 204
    assert running.outcome(identifier) == "rewarded"


def test_a_conversation_stays_with_the_upstream_that_it_failed_over_to(proxy: Callable[..., Proxy]) -> None:
    running = proxy(
        {"small": "status-500", "large": "ok"},
        task=STICKY + 'explore = "none"\nfloor = 0.0\nrules = [{ when = "text_length >= 0", use = "small" }]',
    )
    running.chat(messages=talk(0))
    running.chat(messages=talk(1))
    first, second, third = running.decisions()
    assert [each.action for each in (first, second, third)] == ["small", "large", "large"]
    assert [each.situation.step for each in (first, second, third)] == [0, 1, 2]
    assert [each.draw_id for each in (first, second, third)] == ["", "", second.id]
    assert running.outcome(first.id) == "failed"


def test_two_keys_never_share_a_conversation(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"}, task=STICKY)
    token = (running.folder / ".headway" / "token").read_text().strip()
    mine = running.decision(running.chat(messages=talk(0)).json()["id"])
    theirs = running.decision(running.chat({"authorization": f"Bearer {token}"}, messages=talk(0)).json()["id"])
    assert (mine.key, theirs.key) == ("", "owner")
    assert mine.situation.episode != theirs.situation.episode


def test_an_episode_that_ended_is_a_conflict(proxy: Callable[..., Proxy]) -> None:
    running = proxy({"small": "ok", "large": "ok"})
    running.chat(path="/e/done/v1")
    running.client.post("/v1/tasks/route/episodes/done/end", json={})
    answer = running.chat(path="/e/done/v1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "episode_ended")


# -- reading, without a server


def read(**body: Any) -> Any:
    return of_chat(body_of(json.dumps(body).encode()), system="system")


def test_the_name_is_of_the_first_messages_alone() -> None:
    names = {conversation_name("route", "", read(messages=talk(n))) for n in range(4)}
    assert len(names) == 1
    for other in (talk(0, first="Hi"), talk(0, system="Be brief")):
        assert conversation_name("route", "", read(messages=other)) not in names
    assert conversation_name("other", "", read(messages=talk(0))) not in names
    assert conversation_name("route", "", read(messages=[])) is None


def test_tool_results_are_no_words_of_the_user() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "42"}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "How many?"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "count", "input": {}}]},
        {"role": "user", "content": [result]},
    ]
    found = read(system=[{"type": "text", "text": "Count"}], messages=messages)
    assert found.text == "How many?"
    assert found.state["user_turns"] == 1
    assert found.state["prompt_tokens_about"] == 4


def test_of_a_very_long_text_both_ends_are_kept() -> None:
    found = read(messages=[{"role": "user", "content": "a" * 50_000 + "b" * 50_000}])
    assert found.text == "a" * 10_000 + "\n…\n" + "b" * 10_000
    assert found.state["prompt_tokens_about"] == 25_000


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


@given(st.dictionaries(st.sampled_from(["messages", "input", "system", "tools", "stream", "max_tokens"]), anything))
def test_whatever_a_body_holds_it_can_be_read(body: dict[str, Any]) -> None:
    raw = body_of(msgspec.json.encode(body))
    for found in (of_chat(raw), of_chat(raw, system="system"), of_input(raw)):
        assert isinstance(found.text, str)
        assert all(isinstance(each, bool | int) for each in found.state.values())


@pytest.mark.parametrize("episode", ["a b", "é", "x" * 200])
def test_an_episode_may_be_called_almost_anything(proxy: Callable[..., Proxy], episode: str) -> None:
    running = proxy({"small": "ok"})
    answer = running.chat(headway={"episode": episode})
    assert running.decision(answer.json()["id"]).situation.episode == episode
