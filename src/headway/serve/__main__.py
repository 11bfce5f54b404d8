"""`python -m headway.serve FOLDER --port 0`: the server as a child process; its first line is its address as JSON.

With several workers this process is their parent, and loads only what a parent needs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.nouns import errors
from headway.serve.workers import Workers, server_settings

if TYPE_CHECKING:
    from headway.serve.address import Address
    from headway.serve.guard import RequestGuard


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headway.serve", description="Serve a project over HTTP.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--host", default=None)
    parser.add_argument("--port", type=int, default=None, help="0: any free port")
    parser.add_argument("--workers", type=int, default=None, help="processes; more than one with PostgreSQL")
    parser.add_argument("--no-request-log", action="store_true")
    parser.add_argument("--socket", type=int, default=None, help="of a worker: the listening socket that it inherits")
    parser.add_argument("--worker", type=int, default=0, help="of a worker: its number")
    asked = parser.parse_args(arguments)
    try:
        if asked.socket is not None:
            return _serve(asked)
        settings = server_settings(asked.folder, host=asked.host, port=asked.port, workers=asked.workers)
        if settings.workers == 1:
            return _serve(asked)
        return Workers(
            asked.folder,
            settings,
            announce=lambda address, _: _say(address.document),
            log_requests=not asked.no_request_log,
        ).run()
    except errors.HeadwayError as error:
        if asked.socket is not None:  # the parent reports it
            _say({"code": error.code, "message": error.message, "hint": error.hint})
        else:
            sys.stderr.write(f"{error.code}: {error}\n")
        return 1


def _serve(asked: argparse.Namespace) -> int:
    from headway.serve.run import Place, serve

    place = None
    if asked.socket is not None:
        place = Place(socket=asked.socket, worker=asked.worker, workers=asked.workers)

    def announce(address: Address, guard: RequestGuard) -> None:
        more = {} if place is None else {"keys": bool(guard.server.keys.list())}
        _say({**address.document, **more})

    return serve(
        asked.folder,
        host=asked.host,
        port=asked.port,
        announce=announce,
        log_requests=not asked.no_request_log,
        place=place,
    )


def _say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # everything is committed and closed: do not wait for a thread that waits for another process's lock
