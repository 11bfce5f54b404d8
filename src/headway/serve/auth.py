"""Who is calling: the project token, an API key, the page's cookie, or nobody in particular on this machine.

- The **project token** in `.headway/token` (0600) may do everything; whoever can read it owns the folder anyway.
- **Keys** come from `headway keys`; they have scopes and an end. A key that was revoked elsewhere stops within 200 ms.
- **The page** gets an HttpOnly cookie through a link that works once and for ten minutes.
- On a **loopback** address, named by a loopback Host, nobody needs a key to decide, signal and train; to administrate,
  everybody needs one. A request that a proxy forwarded is not from this machine.

Secrets are compared by their SHA-256, never logged, and never accepted in a URL.
"""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from headway.nouns.protocols import Clock
from headway.observe.keys import PREFIX, SCOPES, Key, Keys, digest_of, new_secret
from headway.serve.errors import Refused

__all__ = ["COOKIE", "NOBODY", "Caller", "Credentials", "project_token"]

COOKIE = "headway_page"
_ANYBODY_HERE = frozenset({"decide", "signal", "train"})
_EVERYTHING = frozenset(SCOPES)
_LINK_S, _SESSION_S = 600.0, 12 * 3600.0
_MOST_LINKS, _MOST_SESSIONS = 32, 256


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, by name, and what they may do."""

    name: str
    scopes: frozenset[str]


NOBODY = Caller("", frozenset())
_HERE = Caller("", _ANYBODY_HERE)
_OWNER = Caller("owner", _EVERYTHING)
_PAGE = Caller("page", _EVERYTHING)


def project_token(home: Path) -> str:
    """The project's token, made on first use; readable by its owner alone."""
    path = home / "token"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        found = path.read_text("ascii", "replace").strip()
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if found.startswith(PREFIX) and len(found) >= len(PREFIX) + 64:
            return found
        path.unlink()  # cut off by a crash, or written by hand
        return project_token(home)
    token = new_secret()
    with os.fdopen(handle, "w") as file:
        file.write(token + "\n")
    return token


class Credentials:
    """Recognises callers. `reload` after the keys changed."""

    def __init__(self, keys: Keys, token: str, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._token = digest_of(token)
        self._known: dict[bytes, tuple[Key, Caller]] = {}
        self._links: OrderedDict[bytes, float] = OrderedDict()
        self._sessions: OrderedDict[bytes, float] = OrderedDict()
        self.reload()

    def reload(self) -> None:
        self._known = {
            each.sha256: (each, Caller(each.name, frozenset(each.scopes)))
            for each in self._keys.list()
            if each.revoked is None
        }

    def caller(self, secret: str, cookie: str, *, here: bool) -> Caller:
        """Who this is, or a 401. `secret` is what Authorization or x-api-key carried.

        On this machine (`here`) a secret that is none of ours is ignored: SDKs insist on sending some key.
        """
        if secret and (not here or secret.startswith(PREFIX)):
            digest = digest_of(secret)
            if digest == self._token:
                return _OWNER
            found = self._known.get(digest)
            if found is not None and found[0].valid(self._clock()):
                return found[1]
            raise _unknown("This key is not valid: unknown, revoked or expired.")
        if cookie and self._session(cookie):
            return _PAGE
        if here:
            return _HERE
        raise _unknown("A key is needed.")

    # -- the page

    def link(self) -> str:
        """A code that opens the page once, within ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[digest_of(code)] = self._clock() + _LINK_S
        while len(self._links) > _MOST_LINKS:
            self._links.popitem(last=False)
        return code

    def open(self, code: str) -> str:
        """The cookie for a code, which is used up by this."""
        until = self._links.pop(digest_of(code), 0.0)
        if self._clock() >= until:
            raise Refused(401, "link_used", "This link was used already, or is too old.", "Ask for another one.")
        session = secrets.token_urlsafe(32)
        self._sessions[digest_of(session)] = self._clock() + _SESSION_S
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={int(_SESSION_S)}"

    def _session(self, header: str) -> bool:
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE:
                return self._clock() < self._sessions.get(digest_of(value), 0.0)
        return False


def _unknown(message: str) -> Refused:
    return Refused(
        401,
        "key_needed",
        message,
        "Send it as `Authorization: Bearer hw_…`; make one with `headway keys add NAME --scope decide`.",
        {"www-authenticate": "Bearer"},
    )
