"""The formats of SAGE: trajectories and routing rows."""

from __future__ import annotations

from headway.kits.data import Options, read
from tests.kits.formats.reader import Write, detect, problem, records
from tests.kits.formats.rows import routed, routing, step


def test_a_step_is_the_outcome_of_the_decision_before_it(write: Write) -> None:
    (row,) = records(write([routed("t", "f"), step("t", "f", 0.5)]))
    assert [candidate.name for candidate in row.candidates] == ["p", "f"]
    assert row.action == "f"
    assert row.labels() == {"trajectory_reward": 0.5, "terminal": 1.0}


def test_sessions_with_the_same_task_id_stay_separate(write: Write) -> None:
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


def test_candidates_come_from_the_row_and_not_from_the_current_configuration(write: Write) -> None:
    alone, named = records(
        write([step("a", "old-model", 0.5), {**routed("b", "x"), "task_id": "b"}, step("b", "x", 0.1)])
    )
    assert [candidate.name for candidate in alone.candidates] == ["old-model"]
    assert [candidate.name for candidate in named.candidates] == ["p", "f", "x"]


def test_outcomes_in_a_state_become_signals(write: Write) -> None:
    (row,) = records(write([step("t", "p", 0.9, state={"verification_passed": True, "task_complexity_score": 0.1})]))
    assert row.state == {"task_complexity_score": 0.1}
    assert row.labels()["verification_passed"] == 1.0


def test_a_decision_without_a_step_is_imported_without_an_outcome(write: Write) -> None:
    path = write([routed("t", "p"), routed("t", "f"), {"type": "TASK_START"}])
    rows = list(read(path, detect(path), Options()))
    assert [type(row).__name__ for row in rows] == ["Record", "Skipped", "Skipped"]


def test_a_routing_row_keeps_its_source_and_both_models(write: Write) -> None:
    path = write([routing(), routing(data_source="real")])
    assert detect(path).name == "sage-routing"
    synthetic, real = records(path)
    assert (synthetic.source, real.source) == ("synthetic", "imported")
    assert [candidate.name for candidate in synthetic.candidates] == ["p", "f"]
    assert synthetic.state == {"task_complexity_score": 0.3, "primary_failure_count": 2}
    assert synthetic.labels()["reward"] == 1.05


def test_a_routing_row_that_contradicts_itself_is_refused(write: Write) -> None:
    message = problem(write([routing(), routing(action_fallback=0)]))
    assert (message.line, message.field) == (2, "action_fallback")
    message = problem(write([routing(schema_version="2")]), "sage-routing")
    assert message.field == "schema_version"
