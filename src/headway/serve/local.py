"""Whether a caller without a key counts as a program on this machine.

A reverse proxy on this machine makes strangers look local: it connects from loopback and may send a loopback Host. So
under `require_key = "auto"` nobody counts as local once there is a sign of a proxy: `hosts` is set, or a request has
ever carried a header that proxies add. A request in HTTP/1.0, which nginx speaks by default and today's
clients do not, never counts as local.

Not covered: a proxy that leaves no trace, such as one that forwards TCP. `require_key = "always"` is for that.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

from headway.nouns import rfc3339
from headway.settings import ServerSettings

logger = logging.getLogger("headway.serve")
FILE = Path("run", "proxy.json")  # below .headway: which header gave the proxy away, and when
FORWARDED = frozenset(
    (
        *("via", "forwarded", "x-forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-host"),
        *("x-original-forwarded-for", "x-envoy-external-address", "x-envoy-peer-metadata", "true-client-ip"),
        *("cf-connecting-ip", "cf-ray", "cdn-loop", "fastly-client-ip", "fly-client-ip", "x-azure-clientip"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-port", "x-forwarded-server"),
    )
)
_PREFIX = "x-forwarded-"
_MOST_KNOWN = 64


class LocalCallers:
    """The rule of one server. Workers share what they have seen through a file."""

    def __init__(self, settings: ServerSettings, home: Path) -> None:
        self._file = home / FILE
        self._plain: set[tuple[str, ...]] = set()  # names of headers without a sign of a proxy
        self._auto = settings.require_key == "auto"
        self._nobody = settings.require_key == "always" or (self._auto and bool(settings.hosts))
        self.refresh()

    def include(self, headers: Mapping[str, str], http_version: str) -> bool:
        """Whether a request with a loopback Host, to a loopback address, comes from this machine."""
        if self._nobody:
            return False
        names = tuple(headers)
        if names in self._plain:  # most clients send the same headers every time
            return http_version != "1" or not self._auto
        if not FORWARDED.isdisjoint(headers) or _PREFIX in "\n".join(headers):
            if self._auto:
                self._remember(next(name for name in headers if name in FORWARDED or name.startswith(_PREFIX)))
            return False
        if len(self._plain) < _MOST_KNOWN:
            self._plain.add(names)
        return http_version != "1" or not self._auto

    def refresh(self) -> None:
        """Looks whether this server, or another worker, has ever seen a proxy."""
        if self._auto and not self._nobody and self._file.exists():
            self._nobody = True

    def _remember(self, header: str) -> None:
        self._nobody = True
        logger.warning("header=%s shows a proxy in front of this server: from now on every request needs a key", header)
        note = json.dumps({"header": header, "at": rfc3339(time.time())}) + "\n"
        with contextlib.suppress(OSError):  # an unwritable folder: this process still remembers
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(note)
