"""A fresh link that opens the page of a running server once."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["page_link", "running_url"]


def running_url(home: Path) -> str | None:
    """The address in the file that a running server keeps below .headway; None if there is none."""
    try:
        return str(json.loads((home / "run" / "server.json").read_text("utf-8"))["url"])
    except (OSError, ValueError, KeyError):
        return None


def page_link(home: Path, url: str) -> str:
    """A link with a one-time code. Raises OSError, ValueError, KeyError or HTTPException if the server gives none."""
    token = (home / "token").read_text("ascii").strip()
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
