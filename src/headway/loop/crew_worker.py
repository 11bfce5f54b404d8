"""One worker of a crew: `python -m headway.loop.crew_worker FD`. It works on shards until the other end closes."""

from __future__ import annotations

import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from headway.nouns import errors, load


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    while True:
        try:
            work, shard = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(_result(work, shard))


def _result(work: str, shard: Any) -> tuple[bool, Any]:
    try:
        return True, load(work)(shard)
    except errors.HeadwayError as error:
        return False, (type(error).__name__, error.message, error.code, error.hint)
    except Exception:  # noqa: BLE001  (it is raised again in the parent)
        return False, ("", traceback.format_exc(), "", "")


if __name__ == "__main__":
    main()
