"""Conversations: interactions, OpenAI chats, fine-tuning files and batches."""

from __future__ import annotations

from tests.kits.formats.reader import Write, records
from tests.kits.formats.rows import CHAT


def test_an_interaction_without_a_reward_is_unrated_and_not_zero(write: Write) -> None:
    rated, unrated, silent = records(
        write(
            [
                {"timestamp": "2026-05-22T10:32:01Z", "prompt": "Why?", "response": "Because.", "reward": 0.5},
                {"timestamp": "2026-05-22T10:33:01Z", "prompt": "Why?", "response": "So.", "reward": None},
                {"timestamp": "2026-05-22T10:34:01Z", "prompt": "Why?", "response": "", "reward": None},
            ]
        )
    )
    assert rated.labels() == {"reward": 0.5}
    assert unrated.labels() == {}
    assert silent.labels() == {"failed": 1.0}
    assert rated.candidates[0].features["text"] == "Because."


def test_a_chat_is_a_reply_or_a_choice_of_model(write: Write) -> None:
    path = write([CHAT])
    (row,) = records(path)
    assert (row.text, row.candidates[0].features["text"], row.origin) == ("Hi", "Hello", "chatcmpl-1")
    assert row.labels() == {"prompt_tokens": 3.0, "completion_tokens": 1.0}
    (row,) = records(path, "openai-chat", columns={"action": "model"})
    assert row.action == "small-1"


def test_a_fine_tuning_file_and_a_batch_are_chats(write: Write) -> None:
    tuning = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                           {"role": "assistant", "content": [{"type": "text", "text": "Yo"}]}]}  # fmt: skip
    batch = {
        "custom_id": "r1", "request": {"body": CHAT["request"]},
        "response": {"status_code": 500, "body": {"error": "no"}},
    }  # fmt: skip
    first, second = records(write([tuning, batch]))
    assert (first.text, first.candidates[0].features["text"]) == ("system: Be brief.\nuser: Hi", "Yo")
    assert second.labels() == {"failed": 1.0}


def test_an_exchange_joins_a_conversation_only_if_it_names_one(write: Write) -> None:
    with_one, without = records(write([{**CHAT, "conversation_id": "c7"}, CHAT]))
    assert (with_one.episode, without.episode) == ("c7", None)
