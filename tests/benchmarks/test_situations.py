"""The situations of benchmarks/situations.py: single replications, and what their table says."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # benchmarks are scripts: they import one another by bare name

from _situations import budget, deleted, late, training  # noqa: E402
from _situations.catalogue import PARTS, SITUATIONS  # noqa: E402
from _situations.summary import figures, shares, table  # noqa: E402
from _situations.trial import Ending, reason_code  # noqa: E402

from benchmarks.situations import BEGIN, END, PAGE, chosen, keys, parser, run, write  # noqa: E402
from headway.nouns.evidence import Verdict  # noqa: E402


def test_late_failures_of_one_action_promote_nothing() -> None:
    ending = late.late_failures(1)
    assert ending.looks > 5
    assert not ending.promoted


def test_a_better_action_is_promoted_once_its_late_failures_are_in() -> None:
    assert late.late_failures_waited_for(1).right


def test_a_better_candidate_passes_although_its_training_rows_were_rescored() -> None:
    assert training.rescored_and_better(1).right


def test_a_better_action_is_promoted_although_a_few_were_deleted() -> None:
    assert deleted.few_of_better(1).right


def test_a_decide_only_agent_that_leaves_outcomes_open_is_refused_in_words() -> None:
    ending = late.left_open(1)
    assert ending.state in ("refused", "error")
    assert "outcomes" in ending.said


def test_a_better_action_is_promoted_by_peeking() -> None:
    assert budget.peeking_and_better(1).right


def test_a_promotion_is_wrong_unless_the_candidate_is_truly_better() -> None:
    assert Ending(promoted=True, uplift=0.0).wrong
    assert Ending(promoted=True, uplift=-0.1).wrong
    assert not Ending(promoted=True, uplift=0.1).wrong
    assert not Ending(uplift=-0.1).wrong
    assert Ending(worse=True, uplift=0.0).wrongly_worse
    assert not Ending(worse=True, uplift=-0.1).wrongly_worse


def test_shares_count_how_replications_ended() -> None:
    endings = [
        Ending(state="pass", promoted=True, uplift=-0.1, decisions=500),
        Ending(state="refused", reason="rows", said="rows: 6.", decisions=700),
        Ending(state="error", reason="rows", decisions=700),
        Ending(state="wait", reason="Not proven yet", decisions=900),
    ]
    result = shares(endings)
    assert (result.wrong, result.refused, result.waits, result.right) == (0.25, 0.5, 0.25, 0.0)
    assert (result.reason, result.said, result.decisions) == ("rows", "rows: 6.", 700.0)


def test_replications_in_a_file_make_a_table_without_being_played_again(tmp_path: Path) -> None:
    ending = asdict(Ending(state="wait", reason="Not proven yet", decisions=900))
    rows = [{"key": ("trigger", 0, place), "seed": seed, "ending": ending} for seed in (5, 6) for place in range(3)]
    kept = tmp_path / "kept.jsonl"
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    options = parser("").parse_args(["--resume", str(kept), "--seed", "5", "--kept", "--only", "first"])
    assert run(options)["trigger_replications"] == 6.0, "of both seeds"


def test_a_cell_says_how_many_of_a_control_were_promoted() -> None:
    better = [Ending(state="pass", promoted=True, uplift=uplift, decisions=500) for uplift in (0.1, 0.1, -0.1)]
    (row,) = (line for line in table({"trigger": [shares(better)] * 2}).splitlines() if "trigger" in line)
    assert "without that key: 2 of 3, 1 false (500)" in row


def test_every_situation_has_a_row_and_figures() -> None:
    one = shares([Ending(state="wait", reason="Not proven yet")])
    results = {situation.name: [one] * (1 + len(situation.controls)) for situation in SITUATIONS}
    assert len(table(results).splitlines()) == 2 + len(SITUATIONS)
    assert figures(results)["late_failures_false_promotions"] == 0.0


def test_controls_are_played_a_quarter_as_often() -> None:
    played = list(keys(chosen("late_failures"), 40))
    assert sum(control == 0 for _, control, _ in played) == 40
    assert sum(control == 1 for _, control, _ in played) == 10


def test_an_unknown_situation_is_named() -> None:
    with pytest.raises(SystemExit, match="late_failurs"):
        chosen("late_failurs")


def test_what_speaks_for_a_candidate_is_not_the_reason_to_wait() -> None:
    reasons = ("Better than uniform@0: +0.06.", "Guard latency_s is not shown to be within its tolerance: …")
    assert reason_code(Verdict(state="wait", reasons=reasons)) == "Guard latency_s is not shown to …"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("rows: 6 scored decisions (at least 200 needed).", "rows"),
        (
            "Cannot tell: 52% of the outcomes are open or missing, which …",
            "cannot tell (52% of the outcomes are open …)",
        ),
        (
            "The registered 200 decisions are used up and it is not proven better.",
            "The registered 200 decisions are used …",
        ),
    ],
)
def test_a_reason_is_shortened_to_a_few_words(said: str, code: str) -> None:
    assert reason_code(Verdict(state="refused", reasons=(said,))) == code


def test_the_table_replaces_what_is_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "proof.md"
    page.write_text(f"before\n{BEGIN.format('second')}\nold\n{END.format('second')}\nafter\n", "utf-8")
    write("second", "| a |", [5, 6], page)
    text = page.read_text("utf-8")
    assert "old" not in text
    assert "| a |" in text
    assert "--only second --seed 5 " in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")


def test_the_page_about_proof_has_the_marks() -> None:
    text = PAGE.read_text("utf-8")
    for part in PARTS:
        assert text.index(BEGIN.format(part)) < text.index(END.format(part))
