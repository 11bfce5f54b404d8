"""`python -m headway.loop FOLDER`: the loop as a child process of `headway up`; one line per thing done."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from headway.loop.watch import Watch
from headway.nouns.errors import HeadwayError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway.loop", description="Watch a project: learn, prove, promote.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nice", type=int, default=5, help="how far it stands back: serving comes first")
    asked = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    os.nice(asked.nice)
    try:
        with Watch(asked.folder, say=_say) as watch:
            watch.run()
    except HeadwayError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
