"""`python -m headway.loop FOLDER`: the loop as a child process of `headway up`; it prints one line per action."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from headway.loop.watch import Watch
from headway.nouns import errors


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway.loop", description="Watch a project: learn, prove, promote.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nice", type=int, default=5, help="the priority of the process: serving comes first")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    os.nice(options.nice)
    try:
        with Watch(options.folder, say=_say) as watch:
            watch.run()
    except errors.HeadwayError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
