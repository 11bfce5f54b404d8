"""Prints how much pip downloaded, from its log: `python scripts/downloaded.py .venv/pip.log`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_FETCHED = re.compile(r"\s(?P<how>Downloading|Using cached) \S+ \((?P<size>[\d.]+) (?P<unit>bytes|kB|MB|GB)\)")
_LOCAL = re.compile(r"\sProcessing (?P<path>/.+\.(?:whl|tar\.gz|zip))")


def totals(log: str) -> dict[str, float]:
    """Bytes by origin."""
    sizes = {"downloaded": 0.0, "from the cache": 0.0, "from local files": 0.0}
    for match in _FETCHED.finditer(log):
        where = "downloaded" if match["how"] == "Downloading" else "from the cache"
        sizes[where] += float(match["size"]) * UNITS[match["unit"]]
    for match in _LOCAL.finditer(log):
        path = Path(match["path"])
        sizes["from local files"] += path.stat().st_size if path.is_file() else 0
    return sizes


def main() -> None:
    log = Path(sys.argv[1])
    sizes = totals(log.read_text("utf-8", "replace") if log.exists() else "")
    parts = [f"{size / 1e6:,.1f} MB {where}" for where, size in sizes.items() if size]
    print("Packages: " + (", ".join(parts) or "nothing to fetch") + ".")


if __name__ == "__main__":
    main()
