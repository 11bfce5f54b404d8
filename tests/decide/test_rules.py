"""Rules: the condition language, the table, the other built-in policies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from headway.decide.baselines import Fixed, Rules, baseline
from headway.decide.conditions import parse
from headway.nouns.errors import HeadwayError, InvalidInput, InvalidSettings, UnknownName
from headway.nouns.records import Candidate, Situation
from tests.opinions import opinion_on

KNOWN = ["task_complexity_score", "primary_failure_count", "premium", "language"]
ARMS = (Candidate("small"), Candidate("large"))


def _of(text: str = "", role: str = "", step: int | None = None, **state: Any) -> Situation:
    return Situation(task="route", text=text, role=role, step=step, state=state)


@pytest.mark.parametrize(
    ("condition", "situation", "expected"),
    [
        ("task_complexity_score > 0.8", _of(task_complexity_score=0.9), True),
        ("task_complexity_score > 0.8", _of(task_complexity_score=0.8), False),
        ("task_complexity_score > 0.8 or primary_failure_count >= 2", _of(primary_failure_count=2), True),
        ("task_complexity_score > 0.8 or primary_failure_count >= 2", _of(primary_failure_count=1), None),
        ("task_complexity_score > 0.8 and primary_failure_count >= 2", _of(primary_failure_count=1), False),
        ("not task_complexity_score > 0.8", _of(), None),
        ("not premium", _of(premium=False), True),
        ("premium", _of(premium=True), True),
        ("premium == true", _of(premium=True), True),
        ("0.2 < task_complexity_score <= 0.4", _of(task_complexity_score=0.4), True),
        ("task_complexity_score > -1", _of(task_complexity_score=-0.5), True),
        ("language in ['de', 'fr']", _of(language="fr"), True),
        ("language not in ('de', 'fr')", _of(language="en"), True),
        ("'refund' in text", _of(text="a refund, please"), True),
        ("text_length > 3", _of(text="four"), True),
        ("role == 'coder' and step >= 1", _of(role="coder", step=1), True),
        ("step >= 1", _of(), None),
        ("language > 3", _of(language="de"), None),
    ],
)
def test_conditions_hold_fail_or_are_unknown(condition: str, situation: Situation, expected: bool | None) -> None:
    assert parse(condition, KNOWN).holds(situation) is expected


@pytest.mark.parametrize(
    "condition",
    [
        "__import__('os')",
        "text.upper() == 'A'",
        "task_complexity_score + 1 > 2",
        "[x for x in text]",
        "lambda: 1",
        "premium if premium else premium",
        "text[0] == 'a'",
        "task_complexity_score >",
        "",
        "1",
        "'text'",
        "premium is True",
        "f'{text}' == 'a'",
        "(premium := True)",
        "None == premium",
        "b'a' in text",
        "(" * 300 + "premium" + ")" * 300,
        "not " * 1500 + "premium"[:1],
        "premium or " * 400 + "premium",
        "premium\0",
    ],
)
def test_anything_outside_the_condition_language_is_refused(condition: str) -> None:
    with pytest.raises(InvalidSettings) as error:
        parse(condition, KNOWN)
    assert error.value.code in ("bad_rule", "unknown_variable")
    assert error.value.hint


def test_an_unknown_variable_is_an_error_when_the_rule_is_read() -> None:
    with pytest.raises(InvalidSettings, match="task_complexity_score") as error:
        parse("task_complexity > 0.8", KNOWN)
    assert error.value.code == "unknown_variable"
    assert parse("anything > 1").names == {"anything"}


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        condition = parse(text, KNOWN)
    except HeadwayError:
        return
    assert condition.holds(_of(text="x", task_complexity_score=1.0)) in (True, False, None)


RULES = [
    {"when": "primary_failure_count >= 1", "use": "large", "role": "debugger"},
    {"when": "task_complexity_score > 0.8 or primary_failure_count >= 2", "use": "large"},
]


def _table() -> Rules:
    return Rules.from_settings(RULES, default="small", actions=["small", "large"])


@pytest.mark.parametrize(
    ("situation", "arm", "why"),
    [
        (_of(role="debugger", primary_failure_count=1), "large", "rule 1"),
        (_of(role="coder", primary_failure_count=1), "small", "default"),
        (_of(role="coder", primary_failure_count=2), "large", "rule 2"),
        (_of(task_complexity_score=0.81), "large", "rule 2"),
        (_of(), "small", "default"),
    ],
)
def test_the_first_matching_rule_decides(situation: Situation, arm: str, why: str) -> None:
    opinion = opinion_on(_table(), situation, ARMS)
    assert ARMS[int(opinion.probabilities.argmax())].name == arm
    assert opinion.probabilities.tolist() in ([1.0, 0.0], [0.0, 1.0])
    assert why in _table().choose(situation, ARMS)[1]


def test_a_rule_whose_arm_is_not_a_candidate_is_skipped() -> None:
    only = (Candidate("small"), Candidate("medium"))
    assert opinion_on(_table(), _of(primary_failure_count=5), only).probabilities.tolist() == [1.0, 0.0]
    assert opinion_on(_table(), _of(), (Candidate("x"), Candidate("y"))).probabilities.tolist() == [0.5, 0.5]


def test_defaults_may_differ_by_role() -> None:
    rules = Rules.from_settings([], default={"": "small", "planner": "large"}, actions=["small", "large"])
    assert opinion_on(rules, _of(role="planner"), ARMS).probabilities.tolist() == [0.0, 1.0]
    assert opinion_on(rules, _of(role="coder"), ARMS).probabilities.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"when": "premium", "use": "larg"}, "unknown_arm"),
        ({"when": "premium", "use": "large", "rol": "x"}, "unknown_key"),
        ({"when": "premium"}, "bad_rule"),
        ({"when": 3, "use": "large"}, "bad_rule"),
        ({"when": "premium", "use": "large", "role": 3}, "unknown_role"),
    ],
)
def test_an_invalid_rule_is_refused_with_a_hint(rule: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidSettings) as error:
        Rules.from_settings([rule], actions=["small", "large"])
    assert error.value.code == code
    assert error.value.hint


def test_built_in_policies_have_references() -> None:
    assert baseline("uniform@0").family == "uniform"
    assert opinion_on(baseline("uniform@0"), _of(), ARMS).probabilities.tolist() == [0.5, 0.5]
    assert opinion_on(baseline("fixed@0", arm="large"), _of(), ARMS).probabilities.tolist() == [0.0, 1.0]
    assert baseline("rules@0", rules=RULES, default="small").family == "rules"
    with pytest.raises(UnknownName, match="uniform@0"):
        baseline("unifrm@0")
    with pytest.raises(UnknownName):
        baseline("uniform@4f2a")
    with pytest.raises(InvalidSettings):
        baseline("fixed@0")
    with pytest.raises(InvalidSettings) as error:
        baseline("fixed@0", arm="larg", actions=["small", "large"])
    assert error.value.code == "unknown_arm"
    assert opinion_on(Fixed("gone"), _of(), ARMS).probabilities.tolist() == [0.5, 0.5]
    with pytest.raises(InvalidInput):
        opinion_on(baseline("uniform@0"), _of(), ())
