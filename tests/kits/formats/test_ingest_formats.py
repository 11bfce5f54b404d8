"""Each format says what its lines say, no more: and a bad line says where, which field, and the cure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headway.kits.prompts import MUTATIONS
from headway.nouns.errors import InvalidInput, UnknownName
from headway.nouns.kit import catalogue
from headway.observe.ingest import Format, Options, Problem, Record, Skipped, read
from headway.observe.ingest import detect as detect_among

Write = Callable[..., Path]


FORMATS: dict[str, Format] = {form.name: form for form in catalogue().all_formats()}


def detect(path: Path) -> Format:
    return detect_among(path, list(FORMATS.values()))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(rows: Iterable[Any], name: str = "log.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
        return path

    return make


def records(path: Path, name: str = "", **options: Any) -> list[Record]:
    rows = list(read(path, FORMATS[name] if name else detect(path), Options(name=path.stem, **options)))
    wrong = [row for row in rows if isinstance(row, Problem)]
    assert not wrong, wrong
    return [row for row in rows if isinstance(row, Record)]


def problem(path: Path, name: str = "", **options: Any) -> Problem:
    (result,) = [
        record
        for record in read(path, FORMATS[name] if name else detect(path), Options(name=path.stem, **options))
        if isinstance(record, Problem)
    ]
    return result


# -- jfl

ROUND = {
    "id": "tb_1", "v": 1, "ts": "2026-03-11T00:09:35.790Z", "agent": "peter",
    "state": {"composite_score": 1, "dimension_scores": {"passed": 3}, "recent_deltas": [0, 0.5], "agent": "peter"},
    "action": {"type": "fix", "description": "Add a check", "files_affected": ["a", "b"], "scope": "small",
               "branch": "b"},
    "reward": {"composite_delta": 0.5, "dimension_deltas": {"x": 1}, "improved": True},
    "metadata": {"source": "autoresearch"},
}  # fmt: skip
REVIEW = {
    "id": "tb_2", "v": 1, "ts": "2026-03-12T02:32:15Z", "agent": "sentinel",
    "state": {"pr_number": 30, "branch": "feat"},
    "action": {"type": "experiment", "description": "feat: hubs", "scope": "medium", "branch": "feat"},
    "reward": {"quality_score": 0.5, "has_blockers": False},
    "metadata": {"source": "pr-sentinel"},
}  # fmt: skip


def test_a_buffer_holds_two_shapes_in_one_file(write: Write) -> None:
    path = write([ROUND, REVIEW])
    assert detect(path).name == "jfl-buffer"
    first, second = records(path)
    assert (first.schema, second.schema) == ("round", "review")
    assert first.state == {"composite_score": 1, "dimension_scores.passed": 3, "recent_deltas": [0, 0.5]}
    assert first.labels() == {"composite_delta": 0.5, "dimension_deltas.x": 1.0, "improved": 1.0}
    assert first.candidates[0].features == {
        "type": "fix", "description": "Add a check", "scope": "small", "files_affected": 2,
    }  # fmt: skip
    assert (first.origin, first.role, first.episode, first.source) == ("tb_1", "peter", "b", "imported")
    assert first.probabilities is None, "nobody knows how likely the action was"
    assert second.labels() == {"quality_score": 0.5, "has_blockers": 0.0}
    assert second.state == {"pr_number": "30"}


def test_what_jfl_mined_itself_stays_mined(write: Write) -> None:
    (row,) = records(write([{**ROUND, "metadata": {"source": "mined", "mine_source": "journal:x"}}]))
    assert row.source == "mined"
    assert {signal.rater for signal in row.signals} == {"mined:journal:x"}


def test_the_real_buffer_is_read_whole(shared_data: Path) -> None:
    rows = records(shared_data / "jfl" / "training-buffer.jsonl")
    assert len(rows) == 31
    assert sum(row.schema == "round" for row in rows) == 10
    assert sum("composite_delta" in row.labels() for row in rows) == 10


def test_the_real_journals_and_events_give_weak_labels_only(shared_data: Path) -> None:
    for name, count in (("journal-flow-engine", 52), ("journal-peter-experiment", 9), ("service-events", 23)):
        path = shared_data / "jfl" / f"{name}.jsonl"
        assert detect(path).weak
        rows = records(path)
        assert len(rows) == count
        assert all(
            row.source == "mined" and signal.rater.startswith("mined:") for row in rows for signal in row.signals
        )


def test_a_journal_says_whether_its_label_was_measured(write: Write) -> None:
    entry = {
        "v": 1,
        "ts": "2026-03-10T02:56:16Z",
        "session": "s",
        "type": "fix",
        "title": "Mend it",
        "status": "complete",
    }
    path = write([entry, {**entry, "score_delta": -0.25}, {**entry, "type": "session-end"}])
    rows = list(read(path, detect(path), Options()))
    inferred, measured, left = rows
    assert isinstance(inferred, Record)
    assert isinstance(measured, Record)
    assert isinstance(left, Skipped)
    assert [(signal.value, signal.rater) for signal in inferred.signals] == [(0.015, "mined:inferred")]
    assert [(signal.value, signal.rater) for signal in measured.signals] == [(-0.25, "mined:measured")]


def event(kind: str, second: int, **data: Any) -> dict[str, Any]:
    return {"type": kind, "source": "x", "data": data, "id": f"{kind}-{second}", "ts": f"2026-03-10T02:00:{second:02}Z"}


def test_flows_are_distinguished_by_their_trigger(write: Write) -> None:
    path = write(
        [
            event("flow:triggered", 1, flow_name="merge", trigger_event_id="a", trigger_event_type="eval:scored"),
            event("flow:triggered", 2, flow_name="merge", trigger_event_id="b"),
            event("flow:completed", 3, flow_name="merge", trigger_event_id="b", actions_failed=0),
            {**event("flow:triggered", 4, flow_name="late", trigger_event_id="c"), "ts": "2026-03-10T03:00:00Z"},
        ]
    )
    records = list(read(path, detect(path), Options()))
    rows = {record.line: record for record in records if isinstance(record, Record)}
    assert rows[2].labels() == {"composite_delta": 0.005}
    assert rows[1].labels() == {"composite_delta": -0.005}, "it never ended, and another run of the flow did"
    assert [record.line for record in records if isinstance(record, Skipped)] == [3, 4]


def test_events_with_numbers_as_text_are_read(write: Write) -> None:
    path = write(
        [event("eval:scored", 1, baseline="0.85", composite="0.92", delta="0.07", improved="true", branch="b")]
    )
    (row,) = records(path)
    assert row.labels() == {"composite": 0.92, "improved": 1.0, "composite_delta": 0.07}
    assert row.state == {"composite_score": 0.85}


# -- SAGE


def step(task: str, model: str, reward: float, *, session: str = "s1", **more: Any) -> dict[str, Any]:
    return {
        "type": "TRAJECTORY_STEP", "timestamp": "2025-01-01T00:00:00+00:00", "session_id": session, "task_id": task,
        "agent": "coder", "action": {"model_chosen": model, "prompt_strategy_key": ""}, "reward": reward,
        "terminal": True, "state": {"task_complexity_score": 0.3, "primary_failure_count": 0}, **more,
    }  # fmt: skip


def routed(task: str, model: str, *, session: str = "s1", **more: Any) -> dict[str, Any]:
    return {
        "type": "MODEL_ROUTING_DECISION", "timestamp": "2025-01-01T00:00:00+00:00", "session_id": session,
        "task_id": task, "agent_role": "coder", "model_chosen": model, "primary_model": "p", "fallback_model": "f",
        "policy_source": "yaml", **more,
    }  # fmt: skip


def test_a_step_is_the_outcome_of_the_decision_before_it(write: Write) -> None:
    (row,) = records(write([routed("t", "f"), step("t", "f", 0.5)]))
    assert [candidate.name for candidate in row.candidates] == ["p", "f"]
    assert row.action == "f"
    assert row.labels() == {"trajectory_reward": 0.5, "terminal": 1.0}


def test_a_shared_task_id_joins_no_two_sessions(write: Write) -> None:
    failed = step("t", "p", -1.0, session="one", state={"verification_passed": False, "failed_reason": "timeout"})
    rows = records(write([failed, step("t", "p", 0.9, session="two", state={})]))
    assert [row.episode for row in rows] == ["one/t", "two/t"]
    assert rows[0].labels()["verification_passed"] == 0.0
    assert rows[0].labels()["timeout"] == 1.0
    assert rows[1].labels() == {"trajectory_reward": 0.9, "terminal": 1.0}


def test_a_later_success_is_not_credited_to_an_earlier_failure(write: Write) -> None:
    rows = records(
        write(
            [
                routed("t", "p"),
                step("t", "p", -0.2, state={"verification_passed": False}),
                routed("t", "f"),
                step("t", "f", 0.8, state={"verification_passed": True}),
            ]
        )
    )
    assert [(row.action, row.labels()["verification_passed"]) for row in rows] == [("p", 0.0), ("f", 1.0)]


def test_candidates_come_from_the_row_and_never_from_the_current_configuration(write: Write) -> None:
    alone, named = records(
        write([step("a", "old-model", 0.5), {**routed("b", "x"), "task_id": "b"}, step("b", "x", 0.1)])
    )
    assert [candidate.name for candidate in alone.candidates] == ["old-model"]
    assert [candidate.name for candidate in named.candidates] == ["p", "f", "x"]


def test_outcomes_in_a_state_become_signals(write: Write) -> None:
    (row,) = records(write([step("t", "p", 0.9, state={"verification_passed": True, "task_complexity_score": 0.1})]))
    assert row.state == {"task_complexity_score": 0.1}
    assert row.labels()["verification_passed"] == 1.0


def test_a_decision_without_a_step_waits(write: Write) -> None:
    path = write([routed("t", "p"), routed("t", "f"), {"type": "TASK_START"}])
    rows = list(read(path, detect(path), Options()))
    assert [type(row).__name__ for row in rows] == ["Record", "Skipped", "Skipped"]


def routing(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1", "session_id": "s", "task_id": "t", "agent_role": "coder",
        "timestamp": "2025-01-01T00:00:00+00:00", "task_complexity_score": 0.3, "primary_failure_count": 2,
        "action_fallback": 1, "primary_model": "p", "fallback_model": "f", "model_chosen": "f", "reward": 1.05,
        "terminal": True, "reward_version": "reward_v1", "data_source": "synthetic",
        "state": {"task_complexity_score": 0.3, "verification_passed": True}, **changes,
    }  # fmt: skip


def test_a_routing_row_keeps_its_source_and_both_models(write: Write) -> None:
    path = write([routing(), routing(data_source="real")])
    assert detect(path).name == "sage-routing"
    made_up, real = records(path)
    assert (made_up.source, real.source) == ("synthetic", "imported")
    assert [candidate.name for candidate in made_up.candidates] == ["p", "f"]
    assert made_up.state == {"task_complexity_score": 0.3, "primary_failure_count": 2}
    assert made_up.labels()["reward"] == 1.05


def test_a_routing_row_that_contradicts_itself_is_refused(write: Write) -> None:
    message = problem(write([routing(), routing(action_fallback=0)]))
    assert (message.line, message.field) == (2, "action_fallback")
    message = problem(write([routing(schema_version="2")]), "sage-routing")
    assert message.field == "schema_version"


# -- conversations


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


CHAT = {
    "request": {"model": "small", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.2},
    "response": {
        "id": "chatcmpl-1", "created": 1700000000, "model": "small-1",
        "choices": [{"message": {"role": "assistant", "content": "Hello"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    },
}  # fmt: skip


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


# -- experiences, tables, our own exports


def test_experiences_know_their_propensity_and_form_episodes(write: Write) -> None:
    a, b, c = [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]
    rows = [
        {
            "state": a,
            "action": 3,
            "reward": 0.1,
            "next_state": b,
            "done": False,
            "log_prob": math.log(0.4),
            "value": 0.2,
        },
        {
            "state": b,
            "action": 0,
            "reward": 1.0,
            "next_state": c,
            "done": True,
            "log_prob": math.log(0.2),
            "value": 0.1,
        },
        {"state": c, "action": "expansion", "reward": 0.0, "next_state": a, "done": False, "log_prob": 0.0, "value": 0},
    ]
    first, second, third = records(write(rows))
    assert first.probabilities is not None
    assert first.probabilities[3] == pytest.approx(0.4)
    assert math.fsum(first.probabilities) == pytest.approx(1.0)
    assert (first.episode, first.step, second.step) == (second.episode, 0, 1)
    assert second.ending == "terminated"
    assert third.episode != first.episode
    assert third.action == MUTATIONS[2]
    wrong = problem(write([rows[0], {**rows[1], "log_prob": 0.7}]), "mutations")
    assert (wrong.line, wrong.field) == (2, "log_prob")


def test_a_table_must_map_propensities_or_declare_them_unknown(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("question,model,score\nWhy?,small,0.5\n", "utf-8")
    columns = {"text": "question", "action": "model", "reward": "score"}
    with pytest.raises(InvalidInput, match="probability") as error:
        records(path, "columns", columns=columns)
    assert "propensity=unknown" in error.value.hint
    (row,) = records(path, "columns", columns={**columns, "propensity": "unknown"})
    assert (row.text, row.action, row.labels(), row.probabilities) == ("Why?", "small", {"reward": 0.5}, None)


def test_a_table_with_propensities_needs_to_know_what_could_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('action,p,x.y\nsmall,0.25,"1,5"\nlarge,1.5,2\n', "utf-8")
    options = {"columns": {"propensity": "p", "state.xy": "x.y"}}
    alone, impossible = [
        record for record in read(path, FORMATS["columns"], Options(**options)) if isinstance(record, Problem)
    ]
    assert "'small' is the only known candidate" in alone.message
    assert (impossible.line, impossible.field) == (3, "p (propensity)")
    rows = list(read(path, FORMATS["columns"], Options(candidates=("small", "large"), **options)))
    assert isinstance(rows[0], Record)
    assert rows[0].probabilities == (0.25, 0.75)
    assert rows[0].state == {"xy": "1,5"}


def test_a_mistyped_mapping_is_an_error_before_anything_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n", "utf-8")
    with pytest.raises(InvalidInput, match="is not a known name") as error:
        records(path, "columns", columns={"acton": "a"})
    assert "action" in error.value.hint


def test_a_column_that_is_not_there_is_an_error_and_not_a_missing_reward(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("action,score\na,\nb,0.5\n", "utf-8")
    columns = {"propensity": "unknown", "reward": "scoer"}
    with pytest.raises(InvalidInput, match="there is no column 'scoer'") as error:
        records(path, "columns", columns=columns)
    assert "score" in error.value.hint
    first, second = records(path, "columns", columns={**columns, "reward": "score"})
    assert (first.labels(), second.labels()) == ({}, {"reward": 0.5})


def test_a_field_that_the_first_line_lacks_is_still_read(write: Write) -> None:
    path = write([{"action": "a"}, {"action": "a", "reward": 0.5, "propensity": 1.0}])
    unrated, rated = records(path, "columns")
    assert (unrated.labels(), unrated.probabilities) == ({}, None)
    assert (rated.labels(), rated.probabilities) == ({"reward": 0.5}, (1.0,))


def test_parquet_is_read_row_by_row(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "log.parquet"
    table = arrow.table({"action": ["a", "b"], "reward": [0.5, None], "propensity": [1.0, 1.0], "note": ["x", "y"]})
    parquet.write_table(table, path)
    first, second = records(path)
    assert (first.labels(), second.labels()) == ({"reward": 0.5}, {})
    assert first.ignored == ("note",)
    path.write_bytes(b"PAR1 is not enough")
    assert "Parquet" in problem(path, "columns").message


def test_an_unknown_format_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName) as error:
        catalogue().format("jfl-bufer")
    assert "jfl-buffer" in error.value.hint


def test_an_unrecognised_file_is_an_error_that_lists_its_fields(write: Write) -> None:
    with pytest.raises(InvalidInput, match="a, b") as error:
        detect(write([{"a": 1, "b": 2}]))
    assert error.value.code == "unknown_format"
    assert "--map" in error.value.hint
