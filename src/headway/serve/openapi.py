"""/openapi.json, made from the endpoints and their types; nothing in it is written by hand twice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from headway.serve.endpoint import JSON, Endpoint
from headway.serve.errors import ErrorBody

__all__ = ["document"]

_REASONS = {
    200: "It was stored before.",
    400: "The request contradicts itself.",
    401: "A key is needed, or this one is not valid.",
    403: "Wrong host, another site, or a key without the scope.",
    404: "No such name.",
    408: "The body did not arrive in time.",
    409: "It contradicts what is stored, or the gate refused.",
    413: "The body is too large.",
    415: "The body must be application/json.",
    422: "The request cannot be understood; nothing was stored.",
    429: "Too much at once; Retry-After says when.",
    502: "The upstream failed.",
    503: "Not now: stopping, a full disk, a missing worker.",
    504: "The upstream took too long.",
}
_ALWAYS = (400, 401, 403, 429, 503)
_WITH_BODY = (408, 413, 415, 422)
_PATH_PATTERNS = {"task": "^[a-z0-9][a-z0-9_.-]{0,63}$"}


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    found = sorted(endpoints, key=lambda each: (each.path, each.method))
    types = [each for one in found for each in (one.takes, one.gives, one.query) if _has_schema(each)]
    schemas, components = msgspec.json.schema_components(
        [*types, ErrorBody], ref_template="#/components/schemas/{name}"
    )
    schema_of = {id(kind): schema for kind, schema in zip([*types, ErrorBody], schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for each in found:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schema_of, components)
    queries = {one.query.__name__ for one in found if one.query is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headway",
            "version": version,
            "description": "Decide, signal, learn, prove, promote: a local-first policy layer for AI agents.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "schemas": {name: body for name, body in sorted(components.items()) if name not in queries},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _has_schema(kind: Any) -> bool:
    return kind is not None and kind is not msgspec.Raw


def _operation(each: Endpoint, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "tags": [_tag(each.path)],
        "x-scope": each.scope,
        "responses": _responses(each, schema_of),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in re.findall(r"{(\w+)}", each.path)
    ]
    if each.query is not None:
        body = components[each.query.__name__]
        parameters += [
            {"name": name, "in": "query", "required": name in body.get("required", ()), "schema": _plain(schema)}
            for name, schema in body["properties"].items()
        ]
    if parameters:
        operation["parameters"] = parameters
    if each.takes is not None:
        schema = {} if each.takes is msgspec.Raw else schema_of[id(each.takes)]
        operation["requestBody"] = {"required": not each.optional, "content": {JSON: {"schema": schema}}}
    return operation


def _responses(each: Endpoint, schema_of: dict[int, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": each.summary}
    if each.gives is not None:
        answer["content"] = {each.media: {"schema": schema_of[id(each.gives)]}}
    statuses = {*_ALWAYS, *each.errors, *(_WITH_BODY if each.takes is not None else ())}
    if each.query is not None or "{" in each.path:
        statuses.add(422)
    if "{" in each.path:
        statuses.add(404)
    responses = {str(each.status): answer}
    for status in sorted(statuses - {each.status}):
        if status < 400:
            responses[str(status)] = {**answer, "description": _REASONS[status]}
        else:
            responses[str(status)] = {
                "description": _REASONS[status],
                "content": {JSON: {"schema": schema_of[id(ErrorBody)]}},
            }
    return responses


def _path_schema(name: str) -> dict[str, Any]:
    pattern = _PATH_PATTERNS.get(name)
    return {"type": "string", "minLength": 1, **({"pattern": pattern} if pattern else {})}


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter is left out rather than null."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return {**options[0], **rest}
    return schema


def _tag(path: str) -> str:
    parts = [each for each in path.split("/") if each and not each.startswith("{")]
    return parts[1] if len(parts) > 1 and parts[0] == "v1" else parts[0]
