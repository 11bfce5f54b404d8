"""Tables, mutation experiences, and the detection of a format."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from headway.kits.data import Options, Problem, Record
from headway.kits.prompts import MUTATIONS
from headway.nouns.errors import InvalidInput, UnknownName
from headway.nouns.kit import catalogue
from tests.kits.formats.reader import FORMATS, Write, detect, problem, read, records


def test_experiences_have_propensities_and_form_episodes(write: Write) -> None:
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


def test_a_table_with_propensities_needs_the_candidates(tmp_path: Path) -> None:
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


def test_an_unknown_column_is_an_error_and_not_a_missing_reward(tmp_path: Path) -> None:
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


def test_a_csv_file_with_semicolons_has_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "excel.csv"
    path.write_bytes("\ufefftext;action;propensity;reward\r\n1,5 litres, please;a;0,25;-1,5\r\nx;b;,75;2\r\n".encode())
    columns = FORMATS["columns"]
    first, second = [item for item in read(path, columns, Options(candidates=("a", "b"))) if isinstance(item, Record)]
    assert (first.text, first.labels()) == ("1,5 litres, please", {"reward": -1.5})
    assert second.labels() == {"reward": 2.0}
    assert first.probabilities is not None
    assert first.probabilities[0] == 0.25
    commas = tmp_path / "plain.csv"
    commas.write_text('text,action,propensity\n"a;b",a,1\n', "utf-8")
    (only,) = [item for item in read(commas, columns, Options()) if isinstance(item, Record)]
    assert only.text == "a;b"
