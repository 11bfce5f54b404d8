"""Start-up time: `import headway` over a bare interpreter, and `headway --help`.

    python benchmarks/startup.py --json [--quick]

Figures are medians of wall-clock seconds over interleaved runs in new processes, after one run that fills the caches of
the file system and of compiled modules. There is no peer, so there is no ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

BARE = [sys.executable, "-c", "pass"]
IMPORT = [sys.executable, "-c", "import headway"]
HELP = [str(Path(sys.executable).with_name("headway")), "--help"]


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure start-up times.")
    parser.add_argument("--quick", action="store_true", help="5 runs of each instead of 31")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")
    options = parser.parse_args()
    commands = {"bare": BARE, "import": IMPORT, "help": HELP}
    for command in commands.values():
        seconds(command)
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(5 if options.quick else 31):
        for name, command in commands.items():
            taken[name].append(seconds(command))
    median = {name: statistics.median(values) for name, values in taken.items()}
    figures = {
        "bare_interpreter_s": round(median["bare"], 4),
        "import_over_bare_s": round(median["import"] - median["bare"], 4),
        "help_s": round(median["help"], 4),
        "runs": len(taken["bare"]),
    }
    if not options.json:
        for name, value in figures.items():
            print(f"{name:20} {value}")
        return
    host = {"cpu": platform.machine(), "cores": os.cpu_count(), "system": platform.system()}
    print(
        json.dumps(
            {
                "benchmark": "startup",
                "host": host,
                "versions": {"python": platform.python_version()},
                "figures": figures,
                "ratios": {},
            }
        )
    )


if __name__ == "__main__":
    main()
