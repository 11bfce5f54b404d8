"""From method and path to an endpoint: plain paths by look-up, paths with `{name}` segments by a pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headway.nouns import errors
from headway.serve.endpoints import Endpoint
from headway.serve.errors import Refused

_NO_PARAMETERS: Mapping[str, str] = {}


class Routes:
    """The table of all routes. A path parameter is one segment and never holds a control character."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._plain: dict[str, dict[str, Endpoint]] = {}  # path, then method
        self._patterns: dict[int, list[tuple[str, re.Pattern[str], Endpoint]]] = {}  # by the number of slashes
        for endpoint in self.endpoints:
            if endpoint.pattern is not None:
                same_length = self._patterns.setdefault(endpoint.path.count("/"), [])
                same_length.append((endpoint.method, endpoint.pattern, endpoint))
            else:
                methods = self._plain.setdefault(endpoint.path, {})
                assert endpoint.method not in methods, f"{endpoint.method} {endpoint.path} is declared twice"
                methods[endpoint.method] = endpoint
        for patterns in self._patterns.values():
            patterns.sort(key=lambda row: not row[2].hot)

    def public(self, method: str, path: str) -> bool:
        """Whether this route answers without a key: the page's files, and the link that opens it."""
        try:
            return self.find(method, path)[0].public
        except Refused:
            return False

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """The endpoint and its path parameters, or a 404 or 405 in the error shape."""
        methods = self._plain.get(path)
        if methods is not None:  # a declared path wins over a parameter
            endpoint = methods.get(method)
            if endpoint is None:
                raise _method_not_allowed(methods)
            return endpoint, _NO_PARAMETERS
        allowed = set[str]()
        for allowed_method, pattern, endpoint in self._patterns.get(path.count("/"), ()):
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if allowed_method == method:
                parameters = match.groupdict()
                if not all(value.isprintable() for value in parameters.values()):
                    raise errors.InvalidInput("The path holds a control character.", code="bad_path", hint="Remove it.")
                return endpoint, parameters
            allowed.add(allowed_method)
        if allowed:
            raise _method_not_allowed(allowed)
        raise Refused(404, "not_found", "This path does not exist.", "Every path is in /openapi.json.")


def _method_not_allowed(methods: Iterable[str]) -> Refused:
    names = ", ".join(sorted(methods))
    hint = "Its methods are in /openapi.json."
    return Refused(405, "method_not_allowed", f"This path takes {names}.", hint, {"allow": names})
