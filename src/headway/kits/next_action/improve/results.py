"""results.tsv: one row per round, safe to open in a spreadsheet.

A text that begins with = + - @ gets an apostrophe in front, so that no program takes it for a formula; a negative
number stands in quotes. Tabs, line ends and control characters of a text become spaces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headway.kits.next_action.improve.evaluation import writing
from headway.nouns.cell import guarded

COLUMNS = (
    "round", "proposal", "type", "verdict", "before", "after", "gain", "reward", "pairs", "predicted", "propensity",
    "decision", "commit", "why",
)  # fmt: skip


def cell(value: object) -> str:
    """One cell: a number, or a text that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = f"{value:.10g}"
        return f'"{number}"' if number.startswith("-") else number
    text = "".join(letter if letter.isprintable() else " " for letter in str(value)).strip()
    text = guarded(text)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if '"' in text else text


def write_results(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the file as a whole."""
    lines = ["\t".join(COLUMNS), *("\t".join(cell(row.get(name)) for name in COLUMNS) for row in rows)]
    partial = path.with_name(path.name + ".partial")
    with writing():
        partial.write_text("\n".join(lines) + "\n", "utf-8")
        os.replace(partial, path)  # noqa: PTH105 - atomic
