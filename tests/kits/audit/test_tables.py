from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.kits.audit.audit import audit_files
from headway.kits.audit.evidence import ForeignChunk, from_chunks
from headway.kits.audit.options import AuditOptions
from headway.nouns.errors import InvalidInput, UnknownName
from headway.nouns.evidence import Evidence
from headway.promote.gate import verdict
from headway.prove.about import About
from tests.prove.logs import small_log, true_difference


def from_file(path: Path, **options: Any) -> Evidence:
    """The evidence of an audit of a table with the probabilities of two policies."""
    audit = audit_files([path], options=AuditOptions(**options))
    assert audit.lead is not None
    return audit.lead.evidence


def columns(n: int = 3_000, seed: int = 0, *, model: bool = False) -> dict[str, list[float]]:
    log = small_log(n, seed)
    row = np.arange(n)
    table = {
        "reward": log.reward.tolist(),
        "propensity": log.propensity.tolist(),
        "target_probability": log.target[row, log.action].tolist(),
        "baseline_probability": log.baseline[row, log.action].tolist(),
    }
    if model:
        q = np.array([0.35, 0.5, 0.6])
        table["model_estimate_logged"] = q[log.action].tolist()
        table["model_estimate_target"] = (log.target @ q).tolist()
        table["model_estimate_baseline"] = (log.baseline @ q).tolist()
    return table


def write(path: Path, table: dict[str, list[float]]) -> Path:
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    if path.suffix == ".parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table(table), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(table))
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
@pytest.mark.parametrize("model", [False, True])
def test_a_foreign_log_is_proven_from_any_format(tmp_path: Path, name: str, model: bool) -> None:
    evidence = from_file(write(tmp_path / name, columns(model=model)))
    assert verdict(evidence).state == "pass"
    assert evidence.bounds is not None
    assert evidence.bounds[0] < true_difference() < evidence.bounds[1]
    assert evidence.difference.method == ("dr" if model else "snips")
    assert evidence.difference.low < true_difference() < evidence.difference.high
    assert evidence.command == f"headway audit {tmp_path / name}"
    assert len(evidence.data_hash) == 64


def test_the_three_formats_give_the_same_numbers(tmp_path: Path) -> None:
    table = columns(500)
    proofs = [from_file(write(tmp_path / name, table)) for name in ("a.csv", "a.jsonl", "a.parquet")]
    assert proofs[0].statistic == pytest.approx(proofs[1].statistic, rel=1e-12)
    assert proofs[0].statistic == pytest.approx(proofs[2].statistic, rel=1e-12)


def test_a_model_makes_the_bounds_narrower(tmp_path: Path) -> None:
    plain = from_file(write(tmp_path / "plain.csv", columns()))
    robust = from_file(write(tmp_path / "robust.csv", columns(model=True)))
    assert robust.bounds is not None
    assert plain.bounds is not None
    assert robust.bounds[1] - robust.bounds[0] < plain.bounds[1] - plain.bounds[0]


def test_other_column_names_can_be_used(tmp_path: Path) -> None:
    table = columns()
    table["pi_new"], table["pi_old"] = table.pop("target_probability"), table.pop("baseline_probability")
    path = write(tmp_path / "log.csv", table)
    evidence = from_file(path, policy="pi_new", against="pi_old")
    assert (evidence.candidate, evidence.against) == ("pi_new", "pi_old")
    assert evidence.difference == from_file(write(tmp_path / "usual.csv", columns())).difference
    with pytest.raises(UnknownName, match="'pi_odl' is not an action of the log or a field of it"):
        from_file(path, policy="pi_new", against="pi_odl")


def test_without_a_baseline_the_comparison_is_with_the_logged_policy(tmp_path: Path) -> None:
    table = columns()
    del table["baseline_probability"]
    evidence = from_file(write(tmp_path / "log.csv", table))
    assert evidence.against == "the logged router"
    assert evidence.values["current"].value == pytest.approx(evidence.values["behaviour"].value)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("propensity", 0.0, r"line 5: propensity is '0\.0', expected a probability above 0, up to 1"),
        ("propensity", 1.5, r"line 5: propensity is '1\.5'"),
        ("propensity", "", r"line 5: the propensity is missing"),
        ("target_probability", -0.1, r"line 5: target_probability is '-0\.1', expected a probability from 0 to 1"),
        ("target_probability", "", r"line 5: target_probability is missing"),
        ("reward", "many", r"line 5: reward is 'many', expected a finite number"),
        ("reward", "inf", r"line 5: reward is 'inf'"),
    ],
)
def test_impossible_values_are_refused_with_their_line(
    tmp_path: Path, column: str, value: object, message: str
) -> None:
    table = columns(50)
    table[column][3] = value  # type: ignore[call-overload]  # the fourth row: line 5 of a CSV with a header
    with pytest.raises(InvalidInput, match=message) as raised:
        from_file(write(tmp_path / "log.csv", table))
    assert raised.value.code == "bad_log_value"


def test_a_log_without_exploration_is_refused_for_either_policy(tmp_path: Path) -> None:
    """With propensity 1 nothing else was possible; a policy that would have chosen otherwise cannot be judged."""
    rng = np.random.default_rng(5)
    large = rng.random(600) < 0.5
    always = large.astype(float)
    rows = {"reward": (rng.random(600) < np.where(large, 0.5, 0.9)).astype(float), "propensity": np.ones(600)}
    for target, baseline in ((always, np.ones(600)), (np.ones(600), always)):
        table = {**rows, "target_probability": target, "baseline_probability": baseline}
        evidence = from_file(write(tmp_path / "log.csv", {name: list(column) for name, column in table.items()}))
        failed = {check.name: check.message for check in evidence.diagnostics if not check.ok}
        assert f"in {int((~large).sum())} of 600 decisions" in failed["unlogged_actions"]
        assert "average 0.5" in failed["mean_weight"]
        assert verdict(evidence).state == "refused"


def test_rows_whose_outcome_is_missing_more_often_for_the_candidate_block(tmp_path: Path) -> None:
    table = columns(4_000)
    rng = np.random.default_rng(1)
    likes = np.array(table["target_probability"]) > 0.5
    table["reward"] = [
        "" if like and rng.random() < 0.5 else value  # type: ignore[misc]
        for like, value in zip(likes, table["reward"], strict=True)
    ]
    path = write(tmp_path / "log.csv", table)
    bounded = from_file(path)
    assert verdict(bounded).state == "refused"
    assert verdict(bounded).reasons[0].startswith("Cannot tell: ")
    assert bounded.counts["at worst value"] == bounded.counts["without reward"] > 300
    left_out = verdict(from_file(path, missing="at random"))
    assert left_out.state == "refused"
    assert left_out.reasons[0].startswith("Cannot tell: outcomes are missing ")
    assert left_out.evidence is not None
    assert left_out.evidence.declared == {"missing": "at random"}
    assert "headway plan" not in verdict(bounded).hint + left_out.hint, "a file is not a task to plan a test of"


def test_a_range_can_be_given_instead_of_taken_from_the_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", columns())
    assert any("range of the rewards" in name for name in from_file(path).unchecked)
    assert not any("range of the rewards" in name for name in from_file(path, reward_range=(0.0, 1.0)).unchecked)


def open_bandit(folder: Path, name: str) -> list[dict[str, str]]:
    with gzip.open(folder / "open_bandit" / f"men_{name}.csv.gz", "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_open_bandit_in_both_directions_overlaps_the_value_on_policy(shared_data: Path, tmp_path: Path) -> None:
    """Each campaign's value is estimated from the other's log; the true one is what that campaign itself earned."""
    random, bts = open_bandit(shared_data, "random"), open_bandit(shared_data, "bts")
    at, shown = Counter(row["position"] for row in bts), Counter((row["position"], row["item_id"]) for row in bts)
    uniform = 1.0 / len({row["item_id"] for row in random})
    for name, log, other, probability in [
        ("bts from random", random, bts, lambda row: shown[row["position"], row["item_id"]] / at[row["position"]]),
        ("random from bts", bts, random, lambda row: uniform),
    ]:
        table = {
            "reward": [float(row["click"]) for row in log],
            "propensity": [float(row["propensity_score"]) for row in log],
            "target_probability": [probability(row) for row in log],
        }
        evidence = from_file(write(tmp_path / f"{name}.csv", table))
        clicks = sum(int(row["click"]) for row in other)
        share = clicks / len(other)
        wide = 1.96 * (share * (1 - share) / len(other)) ** 0.5
        estimate = evidence.values["candidate"]
        assert estimate.low <= share + wide, name
        assert estimate.high >= share - wide, name
        assert evidence.difference.ess > 300
        assert verdict(evidence).state in ("wait", "no difference")  # 10,000 rows and some 60 clicks prove nothing


def test_open_bandit_for_a_single_rarely_shown_item_is_refused(shared_data: Path, tmp_path: Path) -> None:
    """A candidate that always shows the least shown item of the adaptive campaign: a handful of rows say anything."""
    bts = open_bandit(shared_data, "bts")
    shown = Counter(row["item_id"] for row in bts)
    rarest = min(shown, key=lambda item: shown[item])
    table = {
        "reward": [float(row["click"]) for row in bts],
        "propensity": [float(row["propensity_score"]) for row in bts],
        "target_probability": [float(row["item_id"] == rarest) for row in bts],
    }
    evidence = from_file(write(tmp_path / "log.csv", table))
    answer = verdict(evidence)
    assert answer.state == "refused"
    assert any(reason.startswith("ess:") for reason in answer.reasons), answer.reasons


def test_a_row_counts_once_however_long_its_chunk_is() -> None:
    """A chunk is scored in pieces of 250 rows until the curve has 200 points, and then at once."""
    table = {name: np.array(values) for name, values in columns(60_000).items()}
    chunk = ForeignChunk(
        reward=table["reward"],
        propensity=table["propensity"],
        target=table["target_probability"],
        baseline=table["baseline_probability"],
    )
    about = About(task="log", candidate="logged", against="baseline", reward_range=(0.0, 1.0))
    assert from_chunks([chunk], about).n == 60_000


def test_a_tiny_log_is_refused_without_an_interval(tmp_path: Path) -> None:
    judged = verdict(from_file(write(tmp_path / "tiny.csv", columns(20))))
    assert judged.disowned
    assert judged.word == "too early"


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize(("encoding", "comma"), [("utf-8-sig", ","), ("latin-1", ","), ("utf-16", ".")])
def test_tables_of_other_programs_give_the_same_numbers(
    tmp_path: Path, encoding: str, comma: str, delimiter: str
) -> None:
    table = columns(400)
    plain = from_file(write(tmp_path / "plain.csv", table))
    names = {"reward": "click", "propensity": "propensity_score", "target_probability": "größe"}
    with (tmp_path / "odd.csv").open("w", newline="", encoding=encoding) as file:
        rows = csv.writer(file, delimiter=delimiter)
        rows.writerow([names.get(name, name) for name in table])
        rows.writerows([str(cell).replace(".", comma) for cell in row] for row in zip(*table.values(), strict=True))
    odd = from_file(
        tmp_path / "odd.csv", reward="click", propensity="propensity_score", policy="größe",
        against="baseline_probability",
    )  # fmt: skip
    assert odd.difference == plain.difference
    assert odd.bounds == plain.bounds


def test_empty_and_nan_rewards_count_at_their_worst_value(tmp_path: Path) -> None:
    table: dict[str, list[object]] = dict(columns(300))
    table["reward"] = ["", "NaN", "NA", "null", *table["reward"][4:]]
    evidence = from_file(write(tmp_path / "gaps.csv", table))  # type: ignore[arg-type]
    assert evidence.counts["without reward"] == evidence.counts["at worst value"] == 4


def test_incomplete_estimates_of_a_model_are_refused(tmp_path: Path) -> None:
    table = columns(300, model=True)
    del table["model_estimate_baseline"]
    with pytest.raises(InvalidInput, match="but not model_estimate_baseline"):
        from_file(write(tmp_path / "log.csv", table))
