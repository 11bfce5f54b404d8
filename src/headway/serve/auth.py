"""Identifies callers: the holder of the project token or of an API key, the page, or any program on this machine.

- The **project token** in `.headway/token` (0600) may do everything; anyone who can read it owns the folder anyway.
- **Keys** come from `headway keys`; they have scopes and may expire. A revoked key stops working within 200 ms.
- **The page** gets an HttpOnly cookie, and a proof that it sends beside it, through a link that works once and for ten
  minutes. A browser sends the cookie to other ports of this host, too: without the proof it opens nothing. All are
  signed with a key derived from the project token: every worker can check them, a wrong guess never reaches the store,
  and a new token invalidates them all. The store records which links were used.
- On a **loopback** address, named by a loopback Host, deciding, signalling and training need no key;
  administration does. `local.py` says when that ends because a proxy makes strangers look local.

Secrets are compared by their SHA-256, never logged, and never accepted in a URL.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.files import open_regular
from headway.nouns import Clock, errors
from headway.observe import PREFIX, SCOPES, Key, Keys, Links, digest_of, new_secret
from headway.serve.errors import Refused

COOKIE = "headway_page"
PROOF = "x-headway-page"
_ANYBODY_HERE = frozenset({"decide", "signal", "train"})
_EVERYTHING = frozenset(SCOPES)
_LINK_S, _SESSION_S = 600.0, 12 * 3600.0
Sealed = Literal["link", "session", "proof"]
FRESH_LINK = "A link works once, within ten minutes. Print a fresh one in the project's folder: headway open"


@dataclass(frozen=True, slots=True)
class Caller:
    """The name of a caller, and what they may do."""

    name: str
    scopes: frozenset[str]


NOBODY = Caller("", frozenset())
_HERE = Caller("", _ANYBODY_HERE)
_OWNER = Caller("owner", _EVERYTHING)
_PAGE = Caller("page", _EVERYTHING)


def project_token(home: Path) -> str:
    """The project's token, created on first use and readable only by its owner; the same for all workers."""
    path = home / "token"
    while True:
        try:
            handle = open_regular(path)
        except FileNotFoundError:
            _make_token(path)
            continue
        except OSError as error:
            raise errors.Damaged(
                f"The project token {path} cannot be read: {error.strerror}.",
                code="token_unreadable",
                hint="Delete it; the next start makes a new one, and links and cookies of the page end.",
            ) from error
        with os.fdopen(handle, encoding="ascii", errors="replace") as file:
            if os.fstat(handle).st_mode & 0o077:
                os.fchmod(handle, 0o600)
            token = file.read(1000).strip()
        if token.startswith(PREFIX) and len(token) >= len(PREFIX) + 64:
            return token
        path.unlink(missing_ok=True)  # written by hand


def _make_token(path: Path) -> None:
    """Write the token whole; if another process was faster, keep its token."""
    scratch = path.with_name(f"token.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(new_secret() + "\n")
        with suppress(FileExistsError):
            os.link(scratch, path)
    finally:
        scratch.unlink()


class Credentials:
    """Recognises callers. Call `reload` after the keys changed."""

    def __init__(self, keys: Keys, links: Links, token: str, clock: Clock, port: int) -> None:
        self._keys = keys
        self._links = links
        self._clock = clock
        self._cookie = f"{COOKIE}_{port}"  # a browser has one jar for all ports of a host
        self._token = digest_of(token)
        self._seal = hashlib.sha256(f"headway page\n{token}".encode()).digest()
        self._known: dict[bytes, tuple[Key, Caller]] = {}
        self.reload()

    def reload(self) -> None:
        self._known = {
            key.sha256: (key, Caller(key.name, frozenset(key.scopes)))
            for key in self._keys.list()
            if key.revoked is None
        }

    def caller(self, secret: str, cookie: str, proof: str, *, here: bool) -> Caller:
        """Who this is, or a 401. `secret` is what Authorization or x-api-key carried, `proof` what `open` gave.

        On this machine (`here`) an unknown secret is ignored: SDKs insist on sending some key.
        """
        if secret and (not here or secret.startswith(PREFIX)):
            digest = digest_of(secret)
            if digest == self._token:
                return _OWNER
            known = self._known.get(digest)
            if known is not None and known[0].valid(self._clock()):
                return known[1]
            raise _unknown("This key is not valid: unknown, revoked or expired.")
        if proof and self._proves(proof, self._session(cookie)):
            return _PAGE
        if here:
            return _HERE
        raise _unknown("A key is needed.")

    # -- the page

    def link(self) -> str:
        """A code that opens the page once, within ten minutes."""
        return self._sealed("link", _LINK_S)

    def open(self, code: str) -> tuple[str, str]:
        """The cookie for a code, which is used up by this, and its proof. May block.

        A browser sends the cookie to every port of this host, so by itself it opens nothing. The proof is for the
        page's own storage, which only this port can read, and comes in a header that no other origin may send here.
        """
        until = self._until("link", code)
        now = self._clock()
        if now >= until or not self._links.use(digest_of(code), until=until, now=now):
            raise Refused(401, "link_used", "This link was used already, or is too old.", FRESH_LINK)
        session = self._sealed("session", _SESSION_S)
        cookie = f"{self._cookie}={session}; Path=/; HttpOnly; SameSite=Strict; Max-Age={int(_SESSION_S)}"
        return cookie, self._mark("proof", session)

    def signed_in(self, cookie: str) -> bool:
        """Whether a browser has opened the page already."""
        return bool(self._session(cookie))

    def _session(self, header: str) -> str:
        """The session that a cookie holds; empty if there is none, or it is over."""
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self._cookie and self._clock() < self._until("session", value):
                return value
        return ""

    def _proves(self, proof: str, session: str) -> bool:
        right = self._mark("proof", session).encode()
        return bool(session) and hmac.compare_digest(proof.encode("utf-8", "replace"), right)

    def _sealed(self, kind: Sealed, lasts_s: float) -> str:
        """An expiry time, random bytes, and a signature of both."""
        text = f"{int(self._clock() + lasts_s)}.{secrets.token_urlsafe(16)}"
        return f"{text}.{self._mark(kind, text)}"

    def _until(self, kind: Sealed, sealed: str) -> float:
        """The expiry time; 0 if the signature is not ours."""
        text, _, mark = sealed.rpartition(".")
        if not hmac.compare_digest(mark.encode("utf-8", "replace"), self._mark(kind, text).encode()):
            return 0.0
        return float(text.partition(".")[0])

    def _mark(self, kind: Sealed, text: str) -> str:
        return hmac.digest(self._seal, f"{kind}\n{text}".encode("utf-8", "replace"), "sha256").hex()


def _unknown(message: str) -> Refused:
    return Refused(
        401,
        "key_needed",
        message,
        "Send it as `Authorization: Bearer hw_…`; make one with `headway keys add NAME --scope decide`. "
        "Behind a proxy it is needed on this machine too: `require_key` in [server].",
        {"www-authenticate": "Bearer"},
    )
