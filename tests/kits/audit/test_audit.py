"""The answer of an audit, on logs of known value in the shape of every program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.audit.audit import Audit, audit_files
from headway.kits.audit.options import AuditOptions
from headway.kits.audit.page import audit_page
from headway.kits.report import pages as report
from headway.nouns.errors import InvalidInput, UnknownName
from headway.prove.power import sequence_needed
from tests.kits.audit.worlds import EXPERIMENTS, PROGRAMS, write_log


def audited(program: str, folder: Path, *, rows: int = 2_000, seed: int = 5, uplift: float, **more: Any) -> Audit:
    world = {name: more.pop(name) for name in ("propensities", "tight") if name in more}
    paths, options = write_log(program, folder, uplift=uplift, rows=rows, seed=seed, **world)
    return audit_files(paths, options=AuditOptions(**(options | more)))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_better_router_is_found_in_every_format(program: str, tmp_path: Path) -> None:
    audit = audited(program, tmp_path, uplift=0.15)
    assert (audit.state, audit.shape.name, audit.guessed) == ("better", program, True)
    assert audit.lead is not None
    assert audit.lead.evidence.bounds is not None
    assert audit.lead.evidence.bounds[0] < 0.15 < audit.lead.evidence.bounds[1]
    assert len(audit.comparisons) == (1 if program in EXPERIMENTS else 2)
    assert not audit.tests
    assert report.text(audit_page(audit)).startswith("BETTER  Is ")


@pytest.mark.parametrize("program", ["litellm", "growthbook"])
def test_a_worse_router_is_found(program: str, tmp_path: Path) -> None:
    audit = audited(program, tmp_path, uplift=-0.15)
    assert audit.state == "worse"
    assert audit_page(audit).headline.startswith("No: ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_useless_routers_are_rarely_called_better(program: str, tmp_path: Path) -> None:
    """At most 5% are: 7 of 10 have a chance below one in a million. `benchmarks/audit.py` does 1,000."""
    states = [audited(program, tmp_path, rows=250, seed=seed, uplift=0.0, tight=True).state for seed in range(10)]
    assert states.count("better") < 7


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_log_without_propensities_is_told_what_is_missing_and_how_to_add_it(program: str, tmp_path: Path) -> None:
    audit = audited(program, tmp_path, rows=500, uplift=0.15, propensities=False)
    assert (audit.state, audit.comparisons) == ("cannot tell", ())
    ((what, how),) = audit.missing
    assert what.startswith("the propensity")
    words = {
        "litellm": "integrations/headway-litellm",
        "langfuse": 'metadata={"action": model, "propensity": probability}',
        "growthbook": "--propensity 0=0.9 --propensity 1=0.1",
        "tensorzero": "tensorzero.toml",
        "semantic-router": "--where selection_method=random --propensity 0.5",
        "otlp": "headway.candidates and headway.probabilities",
        "openai": 'metadata={"propensity": "0.8"}',
        "columns": "--propensity COLUMN",
    }
    assert words[program] in how
    page = report.text(audit_page(audit))
    assert "What would tell" in page
    assert all(test.decisions > 0 for test in audit.tests)
    assert "half of the choices always" in audit.tests[-1].name


@pytest.mark.parametrize("against", [None, "large", "small"])
def test_a_router_that_never_explores_cannot_be_told_from_its_log(against: str | None, tmp_path: Path) -> None:
    """It sends hard requests to large: what small would have earned on them is unknown, whatever the logged means."""
    rng = np.random.default_rng(3)
    hard = rng.random(1_000) < 0.5
    solved = rng.random(1_000) < np.where(hard, 0.5, 0.9)
    rows = [f"{'large' if h else 'small'},1,{int(won)}" for h, won in zip(hard, solved, strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["action,propensity,reward", *rows]), "utf-8")
    audit = audit_files([path], options=AuditOptions(against=against))
    assert audit.state == "cannot tell"
    page = report.text(audit_page(audit))
    assert "differ on an impossible action" in page
    assert "Draw the action at random" in page
    assert "as it is logged now" not in page, "more of the same would tell nothing"
    assert "What would tell" in page


def test_rows_that_were_written_several_times_block_the_answer(tmp_path: Path) -> None:
    """Without an id nothing tells copies from decisions, but that the draws repeat one another."""
    (path,), _ = write_log("columns", tmp_path, uplift=0.0, rows=300, seed=5)
    head, *rows = path.read_text("utf-8-sig").splitlines()
    table = [";".join(row.split(";")[1:]) for row in [head, *(row for row in rows for _ in range(5))]]
    path.write_text("\n".join(table), "utf-8")
    audit = audit_files([path])
    assert audit.state == "cannot tell"
    assert "depend on one another more than" in report.text(audit_page(audit))


def test_more_exploration_needs_fewer_decisions(tmp_path: Path) -> None:
    without = audited("openai", tmp_path, rows=500, uplift=0.0, propensities=False)
    counts = [test.decisions for test in without.tests]
    assert counts == sorted(counts, reverse=True)
    logged = audited("openai", tmp_path, rows=500, uplift=0.0)
    assert logged.state == "undecided"
    now, *others = [test.decisions for test in logged.tests]
    assert len(others) == 3
    assert all(count < now for count in others)


def test_the_planned_decisions_are_those_of_the_closed_form(tmp_path: Path) -> None:
    """A 50/50 split: the variance of a score is σ²(1/.5 + 1/.5)."""
    paths, options = write_log("tensorzero", tmp_path, uplift=0.0, rows=1_000, seed=2)
    audit = audit_files(paths, options=AuditOptions(**options, uplift=0.05))
    (test,) = audit.tests
    spread = float(audit.log.reward.var()) * 4.0
    assert test.decisions == sequence_needed(spread, 0.05, 0.04, lowest=-2.0)


def test_a_wrong_declared_split_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"user_id": f"u{n}", "variation_id": int(rng.random() < 0.65), "experiment_id": "e", "value": n % 2}
        for n in range(2_000)
    ]
    path = tmp_path / "exposures.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    audit = audit_files([path], options=AuditOptions(split=0.5))
    assert audit.state == "cannot tell"
    assert audit.lead is not None
    assert any("calibration" in reason for reason in audit.lead.verdict.reasons)
    assert "--where" in audit.lead.verdict.hint


def test_a_user_who_saw_both_arms_often_blocks_the_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"user_id": f"u{n % 900}", "variation_id": int(rng.random() < 0.5), "experiment_id": "e", "value": 1}
        for n in range(1_000)
    ]
    path = tmp_path / "exposures.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    audit = audit_files([path], options=AuditOptions(split=0.5))
    assert audit.state == "cannot tell"
    assert "users have several actions" in report.text(audit_page(audit))


def test_the_comparison_can_be_named(tmp_path: Path) -> None:
    paths, _ = write_log("litellm", tmp_path, uplift=0.15, rows=2_000, seed=5)
    one = audit_files(paths, options=AuditOptions(against="gpt-small"))
    assert (one.state, one.question) == ("better", "Is the logged router better than always gpt-small?")
    arms = audit_files(paths, options=AuditOptions(policy="gpt-large", against="gpt-small"))
    assert arms.question == "Is always gpt-large better than always gpt-small?"
    assert arms.state == "undecided"
    with pytest.raises(UnknownName, match="'gpt-smal' is not an action") as raised:
        audit_files(paths, options=AuditOptions(against="gpt-smal"))
    assert "gpt-small" in raised.value.hint
    with pytest.raises(InvalidInput, match="cannot be compared with itself"):
        audit_files(paths, options=AuditOptions(policy="gpt-small", against="gpt-small"))


def test_costs_are_audited_with_lower_is_better(tmp_path: Path) -> None:
    paths, _ = write_log("litellm", tmp_path, uplift=0.0, rows=1_000, seed=1)
    options = AuditOptions(reward="response_cost", lower_is_better=True, against="gpt-large")
    assert audit_files(paths, options=options).state == "better"  # half of its calls go to the cheap model
    cheap = AuditOptions(reward="response_cost", lower_is_better=True, against="gpt-small")
    assert audit_files(paths, options=cheap).state == "worse"


def test_missing_outcomes_count_at_their_worst_unless_declared(tmp_path: Path) -> None:
    paths, options = write_log("growthbook", tmp_path, uplift=0.3, rows=1_000, seed=3)
    metric = paths[1].read_text("utf-8").splitlines()
    kept = [line for place, line in enumerate(metric) if place == 0 or line.endswith(",1")]
    paths[1].write_text("\n".join(kept) + "\n", "utf-8")  # users who did not convert have no row
    unknown = audit_files(paths, options=AuditOptions(**options))
    assert unknown.state == "cannot tell"
    assert "--missing 0" in report.text(audit_page(unknown))
    assert audit_files(paths, options=AuditOptions(**options, missing=0.0)).state == "better"


def test_one_arm_of_several_that_beats_the_control_makes_the_experiment_better(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    earned = {"control": 0.5, "b": 0.5, "c": 0.7}
    rows = []
    for n in range(3_000):
        arm = ("control", "b", "c")[int(rng.integers(3))]
        won = float(rng.random() < earned[arm])
        rows.append({"id": str(n), "variant_name": arm, "episode_id": str(n), "function_name": "f", "reward": won})
    path = tmp_path / "inferences.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    split = dict.fromkeys(earned, 1 / 3)
    audit = audit_files([path], options=AuditOptions(split=split))
    assert audit.state == "better"
    assert audit.lead is not None
    assert audit.lead.policy.name == "variant c"
    assert audit.lead.evidence.alpha == pytest.approx(0.02)  # two arms share the error
    assert audit_files([path], options=AuditOptions(split=split, against="c")).state == "worse"


def test_rarely_chosen_actions_are_named_and_not_compared(tmp_path: Path) -> None:
    paths, _ = write_log("openai", tmp_path, uplift=0.15, rows=2_000, seed=5)
    odd = {"id": "x", "object": "chat.completion", "created": 1_780_009_999, "model": "gpt-typo"}
    with paths[0].open("a") as file:
        file.write(json.dumps(odd | {"metadata": {"propensity": "0.01", "reward": "1"}}) + "\n")
    audit = audit_files(paths)
    assert audit.pairs.too_few == ("gpt-typo",)
    assert "Not compared, too few rows: gpt-typo." in report.text(audit_page(audit))


def test_a_field_that_is_no_action_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"action": f"a{n % 60}", "propensity": 0.01, "reward": 1} for n in range(60 * 31)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(InvalidInput, match="60 different actions"):
        audit_files([path])
    path.write_text("".join(json.dumps(row | {"action": "only"}) + "\n" for row in rows), "utf-8")
    audit = audit_files([path])
    assert audit.state == "cannot tell"
    assert audit.missing[0][0] == "a second action: every choice is 'only'"


def test_the_page_is_one_file_and_escapes_what_the_log_says(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    rng = np.random.default_rng(0)
    path = tmp_path / "log.jsonl"
    rows = [
        {"action": evil if rng.random() < 0.5 else "b|c", "propensity": 0.5, "reward": float(rng.random() < 0.5)}
        for _ in range(300)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    page = audit_page(audit_files([path]))
    html, markdown = report.html(page), report.markdown(page)
    assert evil not in html
    assert "&lt;script&gt;" in html
    assert "src=" not in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "<script>" not in markdown
    assert "b\\|c" in markdown
