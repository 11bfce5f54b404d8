"""The schema as a list of named migrations: migrations.sql, which is only ever appended to."""

from __future__ import annotations

import re
from pathlib import Path

from headway.files import read_regular

EVEN_PAIR = "length(probabilities) = 16 AND propensity BETWEEN 0.4999 AND 0.5001"  # two, each drawn with probability ½

TOTALS = ("totals_upto", "daily_totals", "action_totals")
DERIVED = (*TOTALS, "blocks")  # tables that are computed from others

UNITS = "0014_units"  # also folds the attempts that older versions stored
SECRET = "0015_secret"  # also draws the secret


def _migrations() -> tuple[tuple[str, str], ...]:
    """(name, script) of every step; `-- 0001_name` begins one, other comments are for readers."""
    text = read_regular(Path(__file__).with_suffix(".sql")).decode().replace("{even_pair}", EVEN_PAIR)
    _, *parts = re.split(r"(?m)^-- (\d{4}_\w+)$", text)
    scripts = (re.sub(r"(?m)^--.*$", "", part).strip() for part in parts[1::2])
    return tuple(zip(parts[::2], scripts, strict=True))


MIGRATIONS = _migrations()
