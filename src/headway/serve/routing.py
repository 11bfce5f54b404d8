"""From method and path to an endpoint: hot routes first, then Starlette's patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from starlette.routing import compile_path

from headway.nouns.errors import InvalidInput
from headway.serve.endpoint import Endpoint
from headway.serve.errors import Refused

__all__ = ["Routes"]

_NOTHING: Mapping[str, str] = {}


class Routes:
    """The table of all routes. A path parameter is one segment and never holds a control character."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._plain: dict[tuple[str, str], Endpoint] = {}
        self._patterns: list[tuple[str, re.Pattern[str], Endpoint]] = []
        for each in self.endpoints:
            key = (each.method, each.path)
            if "{" in each.path:
                pattern, _, _ = compile_path(each.path)
                self._patterns.append((each.method, re.compile(pattern.pattern.removesuffix("$") + r"\Z"), each))
            else:
                assert key not in self._plain, f"{key} is declared twice"
                self._plain[key] = each
        self._patterns.sort(key=lambda row: not row[2].hot)

    def public(self, method: str, path: str) -> bool:
        """Whether this route answers without a key: the page's files, and the link that opens it."""
        try:
            return self.find(method, path)[0].public
        except Refused:
            return False

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """The endpoint and its path parameters, or a 404 or 405 in the error shape."""
        found = self._plain.get((method, path))
        if found is not None:
            return found, _NOTHING
        allowed = {each for each, plain in self._plain if plain == path}
        for each, pattern, endpoint in () if allowed else self._patterns:  # a name of ours is no parameter
            match = pattern.match(path)
            if match is None:
                continue
            if each == method:
                params = match.groupdict()
                if not all(value.isprintable() for value in params.values()):
                    raise InvalidInput("The path holds a control character.", code="bad_path", hint="Leave it out.")
                return endpoint, params
            allowed.add(each)
        if allowed:
            names = ", ".join(sorted(allowed))
            raise Refused(
                405,
                "method_not_allowed",
                f"This path takes {names}.",
                "Its methods are in /openapi.json.",
                {"allow": names},
            )
        raise _nothing()


def _nothing() -> Refused:
    return Refused(404, "not_found", "There is nothing at this path.", "Every path is in /openapi.json.")
