"""Look up the locked packages in the database of known vulnerabilities, and say plainly what could not be looked up.

    python scripts/audit.py [requirements/locked/headway.txt]

Exit status 0: every package was looked up, and nothing is known. 1: a vulnerability is known. 2: the database could not
be reached for some or all packages, so nothing is shown.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCKED = Path(__file__).parents[1] / "requirements" / "locked" / "headway.txt"
OPTIONS = ("--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json")


def main(arguments: list[str]) -> int:
    locked = arguments[0] if arguments else str(LOCKED)
    command = [sys.executable, "-m", "pip_audit", *OPTIONS, "-r", locked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        sys.stderr.write(f"NOT AUDITED: pip-audit gave no answer.\n{done.stderr[-2000:]}\n")
        return 2
    known = [package for package in packages if package.get("vulns")]
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    for package in known:
        for one in package["vulns"]:
            fixed = ", ".join(one.get("fix_versions", [])) or "no version yet"
            sys.stdout.write(f"{package['name']} {package['version']}: {one['id']}, fixed in {fixed}\n")
    if skipped:
        sys.stderr.write(
            f"NOT AUDITED: {len(skipped)} of {len(packages)} packages could not be looked up "
            f"({', '.join(skipped[:5])}{', …' if len(skipped) > 5 else ''}). Try again where pypi.org can be reached.\n"
        )
    if known:
        return 1
    if skipped or not packages:
        return 2
    sys.stdout.write(f"{len(packages)} packages looked up: no vulnerability is known.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
