"""/openapi.json, generated from the endpoints and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import is_dataclass
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from headway.nouns import Time, is_record, wire_fields
from headway.serve.endpoints import JSON, Endpoint
from headway.serve.errors import ErrorBody

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
_REFERENCE = "#/components/schemas/"
_ALWAYS = (400, 401, 403, 429, 503)
_WITH_BODY = (408, 413, 415, 422)
_NAMES = {
    "Entry": "EntryAnswer", "WrittenWeight": "WeightAnswer",
    "Bucket": "BucketAnswer", "Part": "PartAnswer", "Recent": "RecentAnswer", "RunningMean": "MeanAnswer",
    "Alarm": "AlarmAnswer", "ExperimentState": "ExperimentAnswer",
    "Finding": "FindingAnswer", "Job": "JobAnswer",
    "ExplainedCandidate": "CandidateAnswer", "Explanation": "ExplanationAnswer", "Measure": "MeasureAnswer",
    "NextStep": "NextStepAnswer", "Outcome": "OutcomeAnswer", "Signal": "SignalAnswer",
    "StoryEvent": "StoryEventAnswer", "TaskStatus": "TaskAnswer", "TaskStory": "StoryAnswer",
    "TaskVerdict": "TaskVerdictAnswer", "TaskWorth": "WorthAnswer",
}  # fmt: skip
_PATH_PATTERNS = {"task": "^[a-z0-9][a-z0-9_.-]{0,63}$"}


def document(endpoints: Iterable[Endpoint], version: str) -> dict[str, Any]:
    """The OpenAPI 3.1 document. Schemas of an installed kit have its name, so that they cannot change any other."""
    by_kit: dict[str, list[Endpoint]] = {"": []}
    for endpoint in endpoints:
        by_kit.setdefault(endpoint.kit, []).append(endpoint)
    operations: list[tuple[Endpoint, dict[str, Any]]] = []
    components: dict[str, Any] = {}
    for kit, members in by_kit.items():
        schemas = _Schemas(members, prefix=f"{kit}_" if kit else "")
        operations += [(endpoint, _operation(endpoint, schemas)) for endpoint in members]
        components |= schemas.named()
    operations.sort(key=lambda pair: (pair[0].path, pair[0].method))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint, operation in operations:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
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
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """The schemas of the types that some endpoints take and give."""

    def __init__(self, endpoints: list[Endpoint], prefix: str) -> None:
        self._prefix = prefix
        types = [kind for one in endpoints for kind in (one.takes, one.gives, one.query) if _has_schema(kind)]
        types.append(ErrorBody)
        given = [one.gives for one in endpoints]
        wire = [_wire_type(kind) if kind in given else kind for kind in types]
        template = f"{_REFERENCE}{prefix}{{name}}"
        schemas, self._components = msgspec.json.schema_components(wire, ref_template=template)
        self._schemas = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
        self._queries = {self._name(endpoint.query) for endpoint in endpoints if endpoint.query is not None}

    def of(self, kind: Any) -> dict[str, Any]:
        return self._schemas[id(kind)]

    def fields(self, query: type[msgspec.Struct]) -> dict[str, Any]:
        """The schema of a query string's struct itself, not a reference to it."""
        schema: dict[str, Any] = self._components[self._name(query)]
        return schema

    def named(self) -> dict[str, Any]:
        """The types that operations refer to by name; the fields of a query become parameters."""
        return {
            f"{self._prefix}{name}": schema for name, schema in self._components.items() if name not in self._queries
        }

    def _name(self, query: type[msgspec.Struct]) -> str:
        reference: str = self._schemas[id(query)]["$ref"]
        return reference.removeprefix(_REFERENCE + self._prefix)


def _has_schema(kind: Any) -> bool:
    return kind is not None and kind is not msgspec.Raw


def _wire_type(kind: Any) -> Any:
    """The type of the JSON that a record becomes. Words may be added to an answer, so a Literal is any text."""
    if kind == Time:
        return str
    if is_record(kind):
        return _wire_struct(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (None, Literal):
        return kind if origin is None else str
    inner = tuple(map(_wire_type, arguments))
    if origin is Annotated:
        marks = [mark for mark in kind.__metadata__ if isinstance(mark, msgspec.Meta)]
        return Annotated[(inner[0], *marks)] if marks else inner[0]
    return _any_of(*inner) if origin in (Union, UnionType) else origin[inner]


def _any_of(*kinds: Any) -> Any:
    return reduce(or_, kinds)


def _holds_dataclass(kind: Any) -> bool:
    return is_dataclass(kind) or any(map(_holds_dataclass, get_args(kind)))


@cache
def _wire_struct(kind: Any) -> Any:
    if not is_dataclass(kind) and not any(_holds_dataclass(field.type) for field in msgspec.structs.fields(kind)):
        return kind
    keys = [
        (key.name, _any_of(_wire_type(key.kind), msgspec.UnsetType), msgspec.UNSET)
        if key.optional
        else (key.name, _wire_type(key.kind))
        for key in wire_fields(kind)
    ]
    documented = None if (kind.__doc__ or "").startswith(f"{kind.__name__}(") else kind.__doc__  # by a person
    name = getattr(kind, "wire_name", _NAMES.get(kind.__name__, kind.__name__))
    return msgspec.defstruct(name, keys, kw_only=True, namespace={"__doc__": documented})


def _operation(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "tags": [_tag(endpoint.path)],
        "x-scope": endpoint.scope,
        "responses": _responses(endpoint, schemas),
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    if endpoint.query is not None:
        body = schemas.fields(endpoint.query)
        parameters += [
            {"name": name, "in": "query", "required": name in body.get("required", ()), "schema": _not_null(schema)}
            for name, schema in body["properties"].items()
        ]
    if parameters:
        operation["parameters"] = parameters
    if endpoint.takes is not None:
        schema = {} if endpoint.takes in (msgspec.Raw, bytes) else schemas.of(endpoint.takes)
        content = {media: {"schema": schema} for media in endpoint.accepts}
        operation["requestBody"] = {"required": not endpoint.optional, "content": content}
    return operation


def _responses(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.gives is not None:
        answer["content"] = {endpoint.media: {"schema": schemas.of(endpoint.gives)}}
    statuses = {*_ALWAYS, *endpoint.errors, *(_WITH_BODY if endpoint.takes is not None else ())}
    if endpoint.query is not None or "{" in endpoint.path:
        statuses.add(422)
    if "{" in endpoint.path:
        statuses.add(404)
    responses = {str(endpoint.status): answer}
    for status in sorted(statuses - {endpoint.status}):
        if status < 400:
            responses[str(status)] = {**answer, "description": _REASONS[status]}
        else:
            error = {JSON: {"schema": schemas.of(ErrorBody)}}
            responses[str(status)] = {"description": _REASONS[status], "content": error}
    return responses


def _path_schema(name: str) -> dict[str, Any]:
    pattern = _PATH_PATTERNS.get(name)
    return {"type": "string", "minLength": 1, **({"pattern": pattern} if pattern else {})}


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter is omitted rather than null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return {**options[0], **rest}
    return schema


def _tag(path: str) -> str:
    parts = [part for part in path.split("/") if part and not part.startswith("{")]
    return parts[1] if len(parts) > 1 and parts[0] == "v1" else parts[0]
