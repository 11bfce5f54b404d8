"""Evaluation sets with a column per model: every outcome is learned from, one draw per prompt is evidence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import headway
from headway.kits.data import Options, Record
from headway.kits.formats.wide import WIDE, looks_wide
from headway.nouns.errors import InvalidInput

ROWS = [
    (
        line,
        {"prompt": f"question {line}", "a_correct": line % 2, "a_cost": 0.001, "b_correct": 1, "b_cost": 0.02, "x": 1},
    )
    for line in range(1, 601)
]


def records(options: Options | None = None) -> list[Record]:
    return [item for item in WIDE.read(ROWS, options or Options()) if isinstance(item, Record)]


def test_every_model_of_every_row_is_a_decision_and_one_of_them_a_draw() -> None:
    read = records()
    assert len(read) == 1200
    drawn = Counter(record.line for record in read if record.probabilities is not None)
    assert set(drawn.values()) == {1}
    assert len(drawn) == 600
    by_model = Counter(record.action for record in read if record.probabilities is not None)
    assert 200 < by_model["a"] < 400  # 300 ± 12: six standard deviations and more
    assert next(record.probabilities for record in read if record.probabilities is not None) == (0.5, 0.5)
    assert read[0].labels().keys() == {"reward", "cost_usd"}
    assert [record.line for record in read] != sorted(record.line for record in read)  # a sorted set is shuffled


def test_the_draw_does_not_depend_on_who_is_right() -> None:
    drawn = {record.line: record.action for record in records() if record.probabilities is not None}
    odd = Counter(action for line, action in drawn.items() if line % 2)
    even = Counter(action for line, action in drawn.items() if not line % 2)
    assert abs(odd["a"] - 150) < 60
    assert abs(even["a"] - 150) < 60


def test_signals_and_text_can_be_mapped() -> None:
    mapped = records(Options(columns={"signal.solved": "correct", "state.x": "x"}))
    assert mapped[0].labels().keys() == {"solved", "cost_usd"}
    assert mapped[0].state == {"x": 1}
    with pytest.raises(InvalidInput, match="No column ends in _right"):
        records(Options(columns={"reward": "right"}))


@pytest.mark.parametrize(
    ("row", "wide"),
    [
        ({"prompt": "", "a_correct": 1, "b_correct": 0}, True),
        ({"prompt": "", "a_correct": 1}, False),
        ({"action": "a", "a_correct": 1, "b_correct": 0}, False),
        ({"a_cost": 1, "b_cost": 2}, False),
    ],
)
def test_it_is_recognised_by_two_models_with_a_quality(row: dict[str, object], wide: bool) -> None:
    assert looks_wide(row) is wide


def test_an_import_can_be_learned_from_and_proven(tmp_path: Path) -> None:
    lines = ["prompt;Modèle_correct;other_correct"]
    lines += [f"{'alpha' if n % 2 else 'beta'} {n};{'1,0' if n % 2 else '0,0'};{0 if n % 2 else 1}" for n in range(400)]
    file = tmp_path / "set.csv"
    file.write_bytes("\r\n".join(lines).encode("latin-1"))  # Latin-1, semicolons, decimal commas
    with headway.open(tmp_path / "project", environ={}) as project:
        report = project.import_file(file)
        assert (report.format, report.stored) == ("wide", 800)
        project.settle("route")
        assert project.query.arms("route") == ["Modèle", "other"]
        assert project.query.count_judged("route", known=True, most=10_000) == 400
