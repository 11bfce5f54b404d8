"""How many kinds of secrets are redacted that nobody tuned on, and how many ordinary lines are left alone.

`redaction_kinds.tsv`: 151 made-up kinds; one half was tuned on, the other only counted. `redaction_vendors.tsv`: 105
services with the form of their keys, from their documentation; written before the rules, and counted once.
"""

from __future__ import annotations

import random
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

from headway.observe.redact import Redactor
from tests.observe.redaction_corpus import FILE, filled

ROOT = Path(__file__).parents[2]
REPEATS = 3  # values of each kind
redact = Redactor()


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in FILE.with_name(name).read_text("utf-8").splitlines()]


def found(name: str, template: str) -> float:
    """The share of a kind's values that are gone. Without brackets, the longest value is the secret."""
    gone = 0
    for number in range(REPEATS):
        values: list[str] = []
        line = filled(template, random.Random(zlib.crc32(f"{name}{number}".encode())), values).replace("\\n", "\n")
        values = line.partition("⟦")[2].partition("⟧")[0].split("\n") if "⟦" in line else [max(values, key=len)]
        clean = redact(line.replace("⟦", "").replace("⟧", ""))
        gone += not any(value in clean for value in values)
    return gone / REPEATS


def recall(kinds: list[list[str]]) -> float:
    return sum(found(kind[0], kind[-1]) for kind in kinds) / len(kinds)


def unseen(name: str) -> bool:
    return zlib.crc32(name.encode()) % 2 == 1


def test_recall_on_the_half_of_the_kinds_that_was_not_tuned_on() -> None:
    halves = [[kind for kind in rows("redaction_kinds.tsv") if unseen(kind[0]) is half] for half in (False, True)]
    assert [len(half) for half in halves] == [79, 72]
    assert recall(halves[1]) >= 0.9, f"{recall(halves[1]):.3f}; on the half that was tuned on {recall(halves[0]):.3f}"


def test_recall_on_keys_as_105_services_document_them() -> None:
    services = rows("redaction_vendors.tsv")
    assert len({name for name, _, _ in services}) == 105
    assert recall(services) >= 0.8, f"{recall(services):.3f}"


def ordinary() -> Iterator[str]:
    """Lines of our documents and sources, of Python's library, and of descriptions of packages."""
    library = Path(sysconfig.get_paths()["stdlib"])
    packages = sorted(Path(sysconfig.get_paths()["purelib"]).glob("*.dist-info/METADATA"))[:60]
    own = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "dashboard" / "src").rglob("*.ts*")]
    for path in [*own, *sorted(library.glob("*.py"))[::4], *packages]:
        yield from (line for line in path.read_text("utf-8", "replace").splitlines() if line.strip())


def test_at_most_one_ordinary_line_in_500_is_changed() -> None:
    lines = sorted(set(ordinary()))
    sample = random.Random(7).sample(lines, 20_000)
    changed = [line for line in sample if redact(line) != line]
    assert len(changed) <= len(sample) / 500, changed[:20]
