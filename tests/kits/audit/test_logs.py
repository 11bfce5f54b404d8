"""Reading other programs' logs: what a row means, how outcomes are joined, and which rows are refused."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.audit.audit import audit_files
from headway.kits.audit.log import AuditLog, log_of
from headway.kits.audit.options import AuditOptions, split_of
from headway.kits.audit.rows import guess, read_rows
from headway.kits.audit.shape import shape_named
from headway.nouns.errors import InvalidInput, UnknownName
from tests.kits.audit.worlds import write_log

SAMPLES = Path(__file__).parent / "samples"


def sample(*names: str) -> list[Path]:
    return [SAMPLES / name for name in names]


def read(paths: list[Path], form: str | None = None, **options: Any) -> AuditLog:
    shape = guess(paths) if form is None else shape_named(form)
    given = AuditOptions(**options)
    return log_of(read_rows(paths, shape, given, ()), shape, given)


def lines(path: Path, *rows: dict[str, Any]) -> list[Path]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return [path]


def row(**changes: Any) -> dict[str, Any]:
    return {"action": "a", "propensity": 0.5, "reward": 1.0, **changes}


def test_litellm_payloads_have_their_action_propensity_and_reward() -> None:
    log = read(sample("litellm.jsonl"))
    assert log.shape.name == "litellm"
    assert log.arms == ("openai/gpt-large", "openai/gpt-small")
    assert len(log) == 40
    assert log.propensity is not None
    assert set(log.propensity.tolist()) == {0.2, 0.8}
    assert log.probabilities is not None
    np.testing.assert_allclose(log.probabilities[np.arange(40), log.action], log.propensity)
    assert int(np.isnan(log.reward).sum()) == 1  # the call that failed


def test_langfuse_scores_are_joined_to_their_traces() -> None:
    log = read(sample("langfuse_observations.jsonl", "langfuse_scores.jsonl"))
    assert (log.shape.name, log.reward_name, len(log)) == ("langfuse", "helpful", 40)
    assert log.arms == ("large", "small")
    assert int(np.isnan(log.reward).sum()) == 1
    assert log.group is not None  # user_id
    assert len(set(log.group.tolist())) == 6


def test_growthbook_users_count_once_by_their_metric_after_the_exposure() -> None:
    paths = sample("growthbook_exposures.csv", "growthbook_metric.csv")
    log = read(paths, split=0.5, missing=0.0)
    assert (log.shape.name, len(log)) == ("growthbook", 39)
    assert log.counts["users with several actions"] == 1
    assert log.counts["outcomes before their choice"] == 2  # one of them by a user who saw both variations
    assert log.reward.max() == 2.0  # two conversions are summed
    assert log.declared == "0.5 for every action"


def test_tensorzero_episodes_count_once_by_the_named_metric() -> None:
    paths = sample("tensorzero_inferences.jsonl", "tensorzero_feedback.jsonl")
    with pytest.raises(InvalidInput, match="several names: edit_distance, resolved"):
        read(paths)
    log = read(paths, reward="resolved", split={"control": 0.7, "concise": 0.3})
    assert (log.shape.name, len(log), log.counts["rows"]) == ("tensorzero", 40, 79)
    assert set(log.reward.tolist()) == {0.0, 1.0}
    partly = read(paths, reward="edit_distance")
    assert int((~np.isnan(partly.reward)).sum()) == 10


def test_openai_metadata_is_text_and_read_as_numbers() -> None:
    log = read(sample("openai.jsonl"))
    assert (log.shape.name, log.arms, len(log)) == ("openai", ("large", "small"), 40)
    assert log.propensity is not None
    assert set(log.propensity.tolist()) == {0.2, 0.8}
    by_model = read(sample("openai.jsonl"), action="model")
    assert by_model.arms == ("large-2026-05-01", "small-2026-05-01")


def test_a_table_from_excel_has_a_mark_semicolons_and_decimal_commas() -> None:
    log = read(sample("columns.csv"))
    assert (log.shape.name, log.arms, len(log)) == ("columns", ("large", "small"), 40)
    assert log.propensity is not None
    assert set(log.propensity.tolist()) == {0.2, 0.8}


def test_a_csv_export_may_have_its_metadata_as_json_text(tmp_path: Path) -> None:
    path = tmp_path / "spend.csv"
    path.write_text(
        'request_id,model,spend,startTime,metadata\nr1,small,0.1,2026-01-01T00:00:00Z,"{""spend_logs_metadata"": '
        '{""propensity"": 0.25, ""reward"": 1}}"\n',
        "utf-8",
    )
    log = read([path])
    assert log.shape.name == "litellm"
    assert log.propensity is not None
    assert (log.propensity[0], log.reward[0]) == (0.25, 1.0)


def test_gzip_and_parquet_give_the_same_log(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    paths, _ = write_log("langfuse", tmp_path, uplift=0.0, rows=60, seed=3)
    plain = read(paths)
    zipped, packed = [], []
    for path in paths:
        zipped.append(tmp_path / f"{path.name}.gz")
        zipped[-1].write_bytes(gzip.compress(path.read_bytes()))
        packed.append(path.with_suffix(".parquet"))
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        parquet.write_table(pa.Table.from_pylist(rows), packed[-1])
    for other in (read(zipped), read(packed)):
        np.testing.assert_array_equal(other.action, plain.action)
        np.testing.assert_array_equal(other.reward, plain.reward)


def test_rows_are_put_into_the_order_of_their_times_and_copies_count_once(tmp_path: Path) -> None:
    rows = [row(id=str(n), at=1000.0 + n, reward=n) for n in range(5)]
    log = read(lines(tmp_path / "log.jsonl", *rows[::-1], rows[2]))
    assert log.reward.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert log.counts["duplicates"] == 1
    assert not log.notes
    timeless = read(lines(tmp_path / "log.jsonl", row(), row(reward=0)))
    assert "order of the file" in timeless.notes[0]


def test_rows_before_the_first_propensity_are_left_out_and_gaps_are_refused(tmp_path: Path) -> None:
    early = [row(at=float(n), propensity=None) for n in range(3)]
    late = [row(at=10.0 + n) for n in range(4)]
    log = read(lines(tmp_path / "log.jsonl", *early, *late))
    assert (len(log), log.counts["before the first propensity"]) == (4, 3)
    gap = lines(tmp_path / "log.jsonl", *late, row(at=20.0, propensity=None))
    with pytest.raises(InvalidInput, match=r"log\.jsonl line 5: the propensity is missing \(1 such rows\)"):
        read(gap)
    assert len(read(gap, skip_invalid=True)) == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"propensity": 1.5}, r"line 2: propensity is 1\.5, expected a probability"),
        ({"propensity": 0}, "line 2: propensity is 0, expected a probability"),
        ({"propensity": "half"}, "line 2: propensity is 'half', expected a finite number"),
        ({"reward": "good"}, "line 2: reward is 'good', expected a finite number"),
        ({"reward": [1]}, "line 2: reward is "),
        ({"action": None}, "line 2: action is missing, expected the chosen action"),
        ({"action": {"a": 1}}, "line 2: action is "),
        ({"action": "x" * 300}, "line 2: action is "),
        ({"action": 10**30}, "line 2: action is 10+, expected the chosen action"),
        ({"at": "yesterday"}, "line 2: at is 'yesterday', expected a time"),
        ({"probabilities": {"a": 0.5, "b": 0.4}}, "line 2: probabilities sums to 0.9, expected 1"),
        ({"probabilities": {"b": 1.0}}, "line 2: probabilities does not name the chosen action 'a'"),
        ({"probabilities": {"a": 0.9, "b": 0.1}}, "line 2: propensity is 0.5, but the probabilities say 0.9"),
    ],
)
def test_a_row_that_cannot_be_is_refused_with_its_line_and_field(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    paths = lines(tmp_path / "log.jsonl", row(), row(**wrong), row())
    with pytest.raises(InvalidInput, match=message) as raised:
        read(paths)
    assert raised.value.code == "bad_log_value"
    assert raised.value.hint.startswith("Nothing was estimated.")
    log = read(paths, skip_invalid=True)
    assert log.counts["invalid"] == 1
    assert any("line 2" in note for note in log.notes)


def test_a_line_that_is_not_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row()) + '\n{"action": "a", "propensity": NaN}\n', "utf-8")
    with pytest.raises(InvalidInput, match=r"line 2: .* is not JSON") as raised:
        read([path])
    assert "null" in raised.value.hint


def test_a_log_of_several_experiments_is_audited_one_at_a_time(tmp_path: Path) -> None:
    rows = [{"user_id": f"u{n}", "variation_id": n % 2, "experiment_id": f"e{n % 3}", "value": 1} for n in range(12)]
    paths = lines(tmp_path / "log.jsonl", *rows)
    with pytest.raises(InvalidInput, match="several of experiment_id: e0, e1, e2") as raised:
        read(paths)
    assert raised.value.hint == "Audit one: --where experiment_id=e0"
    log = read(paths, where={"experiment_id": "e1"})
    assert (len(log), log.counts["filtered by --where"]) == (4, 8)


def test_growthbook_weights_in_the_rows_are_the_propensities(tmp_path: Path) -> None:
    rows = [
        {"user_id": f"u{n}", "variation_id": n % 3, "experiment_id": "e", "value": 1, "weights": [0.5, 0.3, 0.2]}
        for n in range(6)
    ]
    log = read(lines(tmp_path / "log.jsonl", *rows))
    assert log.propensity is not None
    assert log.propensity.tolist() == [0.5, 0.3, 0.2] * 2


def test_a_declared_split_must_name_every_action(tmp_path: Path) -> None:
    paths = lines(tmp_path / "log.jsonl", row(), row(action="b"), row(action="c"))
    with pytest.raises(InvalidInput, match=r"even split of 2, but the log has 3 actions: a, b, c"):
        read(paths, split=0.5)
    with pytest.raises(InvalidInput, match="line 3: the action 'c' has no declared propensity"):
        read(paths, split={"a": 0.5, "b": 0.5})


def test_the_words_of_a_split() -> None:
    assert split_of(()) == (None, None)
    assert split_of(("0.5",)) == (None, 0.5)
    assert split_of(("metadata.p",)) == ("metadata.p", None)
    assert split_of(("a=0.9", "b=0.1")) == (None, {"a": 0.9, "b": 0.1})
    for words in (("1.5",), ("0",), ("a=x",), ("a=0.5", "0.5"), ("a=0.5", "a=0.5")):
        with pytest.raises(InvalidInput, match="--propensity"):
            split_of(words)
    with pytest.raises(InvalidInput, match=r"sum to 0\.8"):
        split_of(("a=0.5", "b=0.3"))


def test_a_log_without_choices_or_with_an_unknown_reward_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "log.jsonl"
    empty.write_text("", "utf-8")
    with pytest.raises(InvalidInput, match="no choice to audit"):
        read([empty])
    with pytest.raises(UnknownName, match="No row has a reward 'scor'") as raised:
        read(lines(empty, row(score=1), row(score=0)), reward="scor")
    assert "score" in raised.value.hint
    with pytest.raises(InvalidInput, match="cannot be read"):
        audit_files([tmp_path / "absent.jsonl"])
    with pytest.raises(InvalidInput, match="line 1: the reward 1 is outside of --range 2 3"):
        read(lines(empty, row()), reward_range=(2.0, 3.0))


def test_the_weights_of_a_contextual_bandit_are_propensities(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = []
    for user in range(2_000):
        share = (0.2, 0.7)[user % 2]  # of the treatment, for two leaves
        treated = draw.random() < share
        result = {"variationId": int(treated), "hashValue": f"u{user}", "variationWeights": [1 - share, share]}
        value = int(draw.random() < (0.75 if treated else 0.6))
        rows.append({"experiment": {"key": "model"}, "result": result, "timestamp": 1.78e9 + user, "value": value})
    path = tmp_path / "viewed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    audit = audit_files([path])
    assert (audit.shape.name, audit.state, audit.missing) == ("growthbook", "better", ())


def test_spans_of_the_sdk_are_read_in_every_json_of_them(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, made = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(made))
    draw = random.Random(5)
    for number in range(40):
        drawn = [0.7, 0.3]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": draw.choices(["a", "b"], drawn)[0],
            "headway.candidates": ["a", "b"],
            "headway.probabilities": drawn,
            "gen_ai.usage.cost": number / 1000,
        }
        with provider.get_tracer("app").start_as_current_span("chat", attributes=attributes) as span:
            result = {"gen_ai.evaluation.name": "solved", "gen_ai.evaluation.score.value": number % 2}
            span.add_event("gen_ai.evaluation.result", result)
    request = encode_spans(made.get_finished_spans())
    camel, snake = MessageToDict(request), MessageToDict(request, preserving_proto_field_name=True)
    hexed = MessageToDict(request)
    for one, span in zip(hexed["resourceSpans"][0]["scopeSpans"][0]["spans"], made.get_finished_spans(), strict=True):
        context = span.get_span_context()
        assert context is not None
        one["traceId"], one["spanId"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    logs = [read(lines(tmp_path / f"{name}.jsonl", form)) for name, form in (("c", camel), ("s", snake), ("h", hexed))]
    for log in logs:
        assert (log.shape.name, log.arms, len(log), log.reward_name) == ("otlp", ("a", "b"), 40, "solved")
        assert log.propensity is not None
        assert set(log.propensity.tolist()) == {0.7, 0.3}
        assert sorted(log.reward.tolist()) == [0.0] * 20 + [1.0] * 20
        np.testing.assert_array_equal(log.action, logs[0].action)
    cost = read([tmp_path / "h.jsonl"], reward="cost_usd", lower_is_better=True)
    assert sorted(-cost.reward) == [number / 1000 for number in range(40)]


def test_a_span_that_cannot_be_used_is_named_and_the_others_of_its_line_stay(tmp_path: Path) -> None:
    paths, _ = write_log("otlp", tmp_path, uplift=0.0, rows=10, seed=1)
    document = json.loads(paths[0].read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["traceId"] = "0" * 32
    del spans[2]["attributes"][1]  # the model
    lines(paths[0], document)
    with pytest.raises(InvalidInput, match=r"traces\.jsonl line 1: a span cannot be used: trace id '0000"):
        read(paths)
    log = read(paths, skip_invalid=True)
    assert (len(log), log.counts["invalid"]) == (8, 2)
