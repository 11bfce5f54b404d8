"""One worker of a crew: `python -m headway.kits.crews.worker FD`. It works on shards until the other end closes."""

from __future__ import annotations

import sys
import traceback
from multiprocessing.connection import Connection
from pkgutil import resolve_name
from typing import Any

from headway.nouns import errors


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
        return True, resolve_name(work)(shard)
    except errors.HeadwayError as error:
        return False, (type(error), error.message, {"code": error.code, "hint": error.hint})
    except Exception:  # noqa: BLE001  (it is raised again in the parent)
        return False, (RuntimeError, traceback.format_exc(), {})


if __name__ == "__main__":
    main()
