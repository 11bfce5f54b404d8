"""`headway audit` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.terminal import headway
from tests.kits.audit.worlds import write_log

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture
def better(tmp_path: Path) -> Path:
    (path,), _ = write_log("openai", tmp_path, uplift=0.15, rows=1_500, seed=5)
    return path


def test_the_page_is_printed_or_written_and_nothing_else_is_made(
    better: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = headway("audit", better)
    assert printed.code == 0
    first = printed.out.splitlines()[0]
    assert first == (
        "BETTER  Is the logged router better than always gpt-large and always gpt-small? (completions.jsonl)"
    )
    assert "OpenAI (openai, guessed from its fields" in printed.out
    written = headway("audit", better, "--html", tmp_path / "a.html", "--markdown", tmp_path / "a.md", "--check")
    assert written.code == 0
    assert written.out.startswith("BETTER: Yes: the logged router is better than always taking any one of 2 actions.")
    assert (tmp_path / "a.html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "a.md").read_text("utf-8").startswith("# BETTER: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.md", "completions.jsonl"]


def test_the_command_on_the_page_gives_the_same_audit(better: Path) -> None:
    words = ("audit", better, "--format", "openai", "--against", "gpt-small", "--range", 0, 1, "--json")
    first = headway(*words).json
    assert first["command"].endswith("--format openai --against gpt-small --range 0 1")
    again = headway(*first["command"].split()[1:], "--json").json
    assert again == first


def test_the_document_has_the_answer_and_what_was_compared(better: Path) -> None:
    document = headway("audit", better, "--json").json
    assert (document["state"], document["format"], document["guessed"]) == ("better", "openai", True)
    assert document["decisions"] == 1_500
    assert document["propensities"] == "logged"
    assert [row["against"] for row in document["comparisons"]] == ["always gpt-large", "always gpt-small"]
    assert sum(row["decides"] for row in document["comparisons"]) == 1
    assert document["comparisons"][0]["state"] == "pass"
    json.dumps(document)


def test_check_exits_with_3_unless_better() -> None:
    words = ("audit", SAMPLES / "litellm.jsonl")
    assert headway(*words).code == 0
    assert headway(*words, "--check").code == 3
    document = headway(*words, "--check", "--json")
    assert (document.code, document.json["state"]) == (3, "cannot tell")
    assert document.json["comparisons"][0]["evidence"]["difference"] is None  # too few rows: not estimated


def test_a_log_without_propensities_is_an_answer_and_not_an_error(tmp_path: Path) -> None:
    paths, _ = write_log("litellm", tmp_path, uplift=0.0, rows=300, seed=1, propensities=False)
    done = headway("audit", *paths)
    assert done.code == 0
    assert done.out.startswith("CANNOT TELL  ")
    assert "integrations/headway-litellm" in done.out
    assert "with 10% of the choices drawn uniformly" in done.out
    document = headway("audit", *paths, "--json").json
    assert document["missing"][0]["what"].startswith("the propensity")
    assert document["tests"][0]["decisions"] > 0


def test_a_declared_split_is_said() -> None:
    files = [SAMPLES / "growthbook_exposures.csv", SAMPLES / "growthbook_metric.csv"]
    done = headway("audit", *files, "--propensity", "0=0.5", "--propensity", "1=0.5", "--missing", 0)
    assert done.code == 0
    assert "declared: 0 0.5, 1 0.5" in done.out
    assert "the propensities are declared, not logged" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--missing", "maybe"), "--missing 'maybe' is not known"),
        (("--propensity", "a=2"), "is not a field, a probability or ACTION=PROBABILITY"),
        (("--where", "model"), "'model' is not a column"),
        (("--range", "1", "0"), "outside of --range 1 0"),
        (("--against", "gpt-5"), "'gpt-5' is not an action"),
    ],
)
def test_wrong_options_are_refused_with_the_next_step(words: tuple[str, ...], message: str) -> None:
    done = headway("audit", SAMPLES / "litellm.jsonl", *words, "--json")
    assert done.code == 1
    assert message in done.error["message"]
    assert done.error["hint"]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    done = headway("audit", tmp_path / "absent.jsonl", "--json")
    assert done.code == 1
    assert "cannot be read" in done.error["message"]
