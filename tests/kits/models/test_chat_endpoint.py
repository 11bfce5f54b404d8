"""A model behind an OpenAI-compatible address: requests, retries and errors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from headway.kits.models.chat_endpoint import ChatEndpoint
from headway.kits.models.language import Counted, Prompt, Turn
from headway.nouns.errors import HeadwayError, InvalidInput, InvalidSettings, Unavailable
from tests.project.model_server import ModelServer

KEY = "sk-very-secret"
ASK = Prompt(turns=(Turn("user", "the total of 2 and 3\nSteps:"),), temperature=0.0, max_tokens=16)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.stop()


def endpoint(server: ModelServer, **more: Any) -> ChatEndpoint:
    return ChatEndpoint("small", server.url, "tiny", key=KEY, **{"first_pause_s": 0.001, "timeout_s": 20.0, **more})


def test_an_answer_has_the_servers_token_count_and_the_key_is_a_bearer_token(server: ModelServer) -> None:
    with endpoint(server, max_tokens=12) as model:
        (reply,) = model.generate([ASK])
        assert next(iter(model.stream(ASK))).text == "It is 5."
    assert isinstance(reply, Counted)
    assert (reply.text, reply.used, reply.estimated, reply.tokens) == ("It is 5.", 35, False, ())
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["accept-encoding"] == "identity"
    assert server.bodies[0] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": ASK.turns[0].content}],
        "max_tokens": 12,
        "temperature": 0.0,
    }


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": "many"}, {"prompt_tokens": -1, "completion_tokens": True}])
def test_without_a_count_the_numbers_are_marked_as_an_estimate(server: ModelServer, usage: Any) -> None:
    server.usage = usage
    with endpoint(server) as model:
        (reply,) = model.generate([ASK])
    assert isinstance(reply, Counted)
    assert reply.estimated
    assert (reply.read, reply.written) == (7, 2)


def test_four_prompts_are_sent_at_once_and_answered_in_order(server: ModelServer) -> None:
    together = threading.Barrier(4)

    def wait(*_: object) -> None:
        together.wait(timeout=20)  # breaks, and answers 500, unless four requests arrive together

    server.behave = wait
    prompts = [
        Prompt(turns=(Turn("user", f"the total of {n} and 1\nSteps:"),), temperature=0.0, max_tokens=8)
        for n in range(8)
    ]
    with endpoint(server) as model:
        assert [reply.text for reply in model.generate(prompts)] == [f"It is {n + 1}." for n in range(8)]
    assert len(server.asked) == 8


@pytest.mark.parametrize("status", [429, 500, 503])
def test_temporary_failures_are_retried(server: ModelServer, status: int) -> None:
    server.behave = lambda number, _: (status, {"retry-after": "0"}, b"{}") if number < 3 else None
    with endpoint(server) as model:
        assert model.generate([ASK])[0].text == "It is 5."
    assert len(server.asked) == 3


def test_a_single_attempt_sends_only_the_given_fields(server: ModelServer) -> None:
    text = ASK.turns[0].content
    with endpoint(server, most_bytes=10_000) as model:
        assert (model.once(text).text, model.once(text, max_tokens=3, temperature=0.5).temperature) == ("It is 5.", 0.5)
        plain = {"model": "tiny", "messages": [{"role": "user", "content": text}]}
        assert server.bodies == [plain, {**plain, "max_tokens": 3, "temperature": 0.5}]
        for answer, code in (((503, {}, b"{}"), "upstream_status"), ((200, {}, b"x" * 20_000), "upstream_too_large")):
            server.behave = lambda *_, answer=answer: answer
            with pytest.raises(Unavailable) as caught:
                model.once(text)
            assert caught.value.code == code
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("answer", "code", "kind", "tries"),
    [
        ((503, {}, b"{}"), "upstream_status", Unavailable, 5),
        ((429, {}, b"{}"), "upstream_busy", Unavailable, 5),
        ((401, {}, f'{{"error":{{"message":"bad key {KEY}"}}}}'.encode()), "upstream_status", InvalidSettings, 1),
        ((404, {}, b'{"error":"no model tiny"}'), "upstream_status", InvalidSettings, 1),
        ((302, {"location": "http://127.0.0.1:9/v1"}, b""), "upstream_status", InvalidSettings, 1),
        ((200, {}, b'{"choices":[]}'), "upstream_malformed", Unavailable, 1),
        ((200, {}, b'{"choices":[{"message":{"content":[1]}}]}'), "upstream_malformed", Unavailable, 1),
        ((200, {}, b"[" * 9_000), "upstream_malformed", Unavailable, 1),
        ((200, {"content-encoding": "gzip"}, b"\x1f\x8b"), "upstream_malformed", Unavailable, 1),
        ((200, {}, b"x" * 20_000), "upstream_too_large", Unavailable, 1),
    ],
)
def test_an_unusable_answer_is_an_error_that_names_the_upstream_but_not_the_key(
    server: ModelServer, answer: tuple[int, dict[str, str], bytes], code: str, kind: type[HeadwayError], tries: int
) -> None:
    server.behave = lambda *_: answer
    with endpoint(server, most_bytes=10_000) as model, pytest.raises(kind) as caught:
        model.generate([ASK])
    assert caught.value.code == code
    assert "'small'" in caught.value.message
    assert KEY not in str(caught.value)
    assert len(server.asked) == tries


def test_a_refused_connection_and_a_timeout_have_different_messages(server: ModelServer) -> None:
    gone = ModelServer()
    gone.stop()
    with endpoint(gone) as model, pytest.raises(Unavailable) as caught:
        model.generate([ASK])
    assert caught.value.code == "upstream_unreachable"
    never = threading.Event()

    def silent(*_: object) -> None:
        never.wait(20)

    server.behave = silent
    with endpoint(server, timeout_s=0.05) as model, pytest.raises(Unavailable) as caught:
        model.generate([ASK])
    never.set()
    assert caught.value.code == "upstream_timeout"


def test_where_somebody_waits_only_what_may_pass_soon_is_tried_again(server: ModelServer) -> None:
    gone = ModelServer()
    gone.stop()
    with endpoint(gone, patient=False, first_pause_s=100.0) as model, pytest.raises(Unavailable) as caught:
        model.generate([ASK])
    assert caught.value.code == "upstream_unreachable"
    assert caught.value.message == "The upstream 'small' cannot be reached, at the first try."
    assert caught.value.hint == "Start it, or correct its url under [upstreams.small] in headway.toml."
    for pause, tries in (("0", 3), ("3600", 1)):
        server.asked.clear()
        server.behave = lambda *_, pause=pause: (503, {"retry-after": pause}, b"{}")
        with endpoint(server, patient=False) as model, pytest.raises(Unavailable):
            model.generate([ASK])
        assert len(server.asked) == tries
    server.asked.clear()
    server.behave = lambda number, _: (503, {}, b"{}") if number < 3 else None
    with endpoint(server, patient=False) as model:
        assert model.generate([ASK])[0].text == "It is 5."


def test_after_a_failure_no_more_is_sent_and_earlier_answers_arrive(server: ModelServer) -> None:
    server.behave = lambda _, body: (404, {}, b"{}") if "bad" in body["messages"][0]["content"] else None
    prompts = [Prompt(turns=(Turn("user", text),)) for text in ("fine", "bad", *("later",) * 20)]
    came: list[int] = []
    with endpoint(server, at_once=1) as model, pytest.raises(InvalidSettings):
        for place, _ in model.each(prompts):
            came.append(place)
    assert came[0] == 0
    assert len(server.asked) < 22
    assert len(came) == len(server.asked) - 1


def test_unsupported_requests_are_refused(server: ModelServer) -> None:
    with endpoint(server) as model:
        with pytest.raises(Unavailable, match="does not return the probability of a given reply") as caught:
            model.score(ASK, "5")
        assert caught.value.code == "no_logprobs"
        with pytest.raises(InvalidInput, match="turns"):
            model.generate([Prompt(text="Once upon")])
    assert not server.asked
