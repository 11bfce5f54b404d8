"""Which Host headers are accepted: this stops a hostile page from reaching this server under another name."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from headway.serve.errors import Refused
from headway.settings import ServerSettings

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_EVERYWHERE = ("0.0.0.0", "::")


class Hosts:
    """The allow-list of a server.

    A loopback server accepts loopback names; any server also accepts its own address and `[server] hosts`. One that
    listens on all addresses accepts any address as well: a name can be re-bound to another machine, an address cannot.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._loopback = settings.loopback
        self._any_address = settings.host in _EVERYWHERE
        own = f"[{settings.host}]" if ":" in settings.host else settings.host
        more = {name.lower() for name in settings.hosts}
        self._names = frozenset(more | {own} | (_LOOPBACK if self._loopback else set()))
        self._known: dict[str, bool] = {}

    def check(self, headers: Mapping[str, str]) -> bool:
        """Refuses requests for other hosts or from other sites; True: from this machine, to this machine."""
        host = headers.get("host", "")
        here = self._known.get(host)
        if here is None:
            here = self._check_host(host)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise _foreign()
        site = headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            raise _foreign()
        return here

    def _check_host(self, host: str) -> bool:
        name = host.lower()
        bare, colon, port = name.rpartition(":")
        if colon and port.isdigit():
            name = bare
        if name not in self._names and not (self._any_address and _is_address(name)):
            raise Refused(
                403,
                "wrong_host",
                "This server does not answer to that Host.",
                "Use the address it printed, or add the name to `hosts` in [server].",
            )
        here = self._loopback and name in _LOOPBACK
        if len(self._known) < 64:
            self._known[host] = here
        return here


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _foreign() -> Refused:
    return Refused(
        403,
        "wrong_origin",
        "This request comes from another site.",
        "Only the page of this server may call it.",
    )
