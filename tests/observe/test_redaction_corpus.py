"""How many made-up secrets of a corpus are redacted, and how many other lines are left alone."""

from __future__ import annotations

import pytest

from headway.observe.redact import Redactor
from tests.observe.redaction_corpus import FILE, lines

CORPUS = FILE.read_text("utf-8").splitlines()
redact = Redactor()


def judged(line: str) -> tuple[bool, bool]:
    """Whether the line has a secret, and whether redaction took it away, or changed a line that has none."""
    text = line.replace("\\n", "\n")
    plain = text.replace("⟦", "").replace("⟧", "")
    clean = redact(plain)
    if "⟦" not in text:
        return False, clean != plain
    secret = text.partition("⟦")[2].partition("⟧")[0]
    return True, not any(part in clean for part in secret.split("\n"))


def test_the_corpus_is_the_one_that_its_script_writes() -> None:
    assert lines() == CORPUS
    assert (len(CORPUS), sum("⟦" in line for line in CORPUS)) == (500, 250)


def test_precision_and_recall_of_redaction_on_500_lines() -> None:
    results = [judged(line) for line in CORPUS]
    right, wrong = results.count((True, True)), results.count((False, True))
    assert right / (right + wrong) >= 0.99, f"precision {right / (right + wrong):.3f}"
    assert right / 250 >= 0.97, f"recall {right / 250:.3f}"


@pytest.mark.parametrize(
    "line",
    [
        "tests pass on Python3.11+ and PyPy7.3",
        "pass Tensor2D*Vector3 there",
        "the password is required for Version2 users",
        "pass bandit@4f2a1B to promote",
        "password resets fail in Chrome/120.0",
        "forward pass O(n*Log2N) cost",
    ],
)
def test_a_word_after_pass_is_no_secret_in_a_sentence_about_code(line: str) -> None:
    assert redact(line) == line


@pytest.mark.parametrize(
    "line",
    [
        "aws_secret_access_key = ⟦wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzKE9⟧",
        "AccountName=shop;AccountKey=⟦Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq==⟧;",
        "password: ⟦hunter22!x⟧",
        "The passphrase was ⟦gT4!wq0pLmz⟧.",
        "user root / passwd ⟦Zk#81mmRttq⟧",
        "  db_password: ⟦Sommer2024Ufer⟧",
    ],
)
def test_a_secret_without_quotes_is_redacted(line: str) -> None:
    assert judged(line) == (True, True)
