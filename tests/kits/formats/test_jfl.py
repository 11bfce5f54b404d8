"""The formats of jfl: training buffers, journals and events."""

from __future__ import annotations

from pathlib import Path

from headway.kits.data import Options, Record, Skipped, read
from tests.kits.formats.reader import Write, detect, records
from tests.kits.formats.rows import REVIEW, ROUND, event


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
    assert first.probabilities is None, "the propensity is unknown"
    assert second.labels() == {"quality_score": 0.5, "has_blockers": 0.0}
    assert second.state == {"pr_number": "30"}


def test_rows_that_jfl_mined_keep_the_source_mined(write: Write) -> None:
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


def test_a_journal_entry_shows_whether_its_label_was_measured(write: Write) -> None:
    entry = {
        "v": 1,
        "ts": "2026-03-10T02:56:16Z",
        "session": "s",
        "type": "fix",
        "title": "Fix it",
        "status": "complete",
    }
    path = write([entry, {**entry, "score_delta": -0.25}, {**entry, "type": "session-end"}])
    rows = list(read(path, detect(path), Options()))
    inferred, measured, skipped = rows
    assert isinstance(inferred, Record)
    assert isinstance(measured, Record)
    assert isinstance(skipped, Skipped)
    assert [(signal.value, signal.rater) for signal in inferred.signals] == [(0.015, "mined:inferred")]
    assert [(signal.value, signal.rater) for signal in measured.signals] == [(-0.25, "mined:measured")]


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
