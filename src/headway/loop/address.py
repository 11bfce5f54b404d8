"""A fresh link that opens the page of a running server once, and where that server is.

The token goes only to a server of this project: the process that wrote the address must live, and the port must belong
to the same user. A server that was killed leaves its address behind, and anybody on the machine may take the port.
"""

from __future__ import annotations

import http.client
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.files import read_regular

_LISTENS = "0A"  # in /proc/net/tcp


def running_address(home: Path) -> dict[str, Any] | None:
    """What a running server wrote below .headway: url, host, port and pid; None if it does not run any more."""
    try:
        address = json.loads(read_regular(home / "run" / "server.json"))
        port, pid = int(address["port"]), int(address["pid"])
        os.kill(pid, 0)
        ours = {home.stat().st_uid, os.geteuid()}
    except (OSError, ValueError, KeyError, TypeError, OverflowError):  # PermissionError: another user's process
        return None
    listeners = _listeners(port)
    return dict(address) if listeners is None or set() < listeners <= ours else None


def running_url(home: Path) -> str | None:
    """The address of this project's running server; None if there is none."""
    address = running_address(home)
    return None if address is None else str(address["url"])


def _listeners(port: int) -> set[int] | None:
    """The users that listen on a port; None where the system does not say."""
    users = None
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            users = users or set()
            for line in Path("/proc/net", name).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    users.add(int(fields[7]))
    return users


def page_link(home: Path, url: str) -> str:
    """A link with a one-time code. Raises OSError, ValueError, KeyError or HTTPException if the server gives none."""
    if running_url(home) != url:
        raise ValueError(f"no server of this project listens on {url}")
    token = read_regular(home / "token").decode("ascii").strip()
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        connection.request("POST", "/v1/links", body="{}", headers=headers)
        answer = connection.getresponse()
        body = answer.read(100_000)
        if answer.status != 201:
            raise ValueError(f"status {answer.status}")
        return url + str(json.loads(body)["path"])
    finally:
        connection.close()
