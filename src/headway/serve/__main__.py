"""`python -m headway.serve FOLDER --port 0`: the server as a child process; its first line is its address as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from headway.nouns.errors import HeadwayError
from headway.serve.guard import Guard
from headway.serve.run import Address, serve


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway.serve", description="Serve a project over HTTP.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default=None)
    parser.add_argument("--port", type=int, default=None, help="0: any free port")
    parser.add_argument("--parent-pipe", type=int, default=None, help="end when this inherited pipe is closed")
    parser.add_argument("--no-request-log", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        return serve(
            asked.folder,
            host=asked.host,
            port=asked.port,
            announce=_announce,
            parent_pipe=asked.parent_pipe,
            log_requests=not asked.no_request_log,
        )
    except HeadwayError as error:
        sys.stderr.write(f"{error.code}: {error}\n")
        return 1


def _announce(address: Address, _: Guard) -> None:
    found = {"url": address.url, "host": address.host, "port": address.port, "pid": address.pid}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # all is committed and closed: a thread that waits for another process's lock must not hold us back
