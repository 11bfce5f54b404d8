"""The part of JSON Schema that checks need; describes every violation.

type, const, enum, required, properties, additionalProperties (false), items, minItems, maxItems, minimum, maximum,
minLength, maxLength, pattern. Any other keyword is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.kits.prompts import patterns
from headway.nouns.errors import InvalidInput, did_you_mean

_KEYWORDS = {
    "type", "const", "enum", "required", "properties", "additionalProperties", "items", "minItems", "maxItems",
    "minimum", "maximum", "minLength", "maxLength", "pattern",
}  # fmt: skip
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def violations(value: Any, schema: Mapping[str, Any], where: str = "it") -> list[str]:
    """Every violation of the schema by the value."""
    for keyword in schema.keys() - _KEYWORDS:
        raise InvalidInput(
            f"The schema uses {keyword!r}, which is not supported.",
            code="bad_check",
            hint=did_you_mean(keyword, _KEYWORDS),
        )
    if "type" in schema and not _is(value, schema["type"]):
        return [f"{where} is {value!r:.60}, expected {schema['type']}"]
    wrong = []
    if "const" in schema and value != schema["const"]:
        wrong.append(f"{where} is {value!r:.60}, expected {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{where} is {value!r:.60}, expected one of {schema['enum']!r}")
    if isinstance(value, dict):
        wrong += [f"{where} lacks {name!r}" for name in schema.get("required", []) if name not in value]
        known = schema.get("properties", {})
        for name, inner in value.items():
            if name in known:
                wrong += violations(inner, known[name], f"{where}.{name}")
            elif schema.get("additionalProperties", True) is False:
                wrong.append(f"{where} has {name!r}, which is not allowed")
    if isinstance(value, list):
        wrong += _between(len(value), schema, "minItems", "maxItems", f"{where} has {len(value)} items")
        for place, inner in enumerate(value if "items" in schema else []):
            wrong += violations(inner, schema["items"], f"{where}[{place}]")
    if isinstance(value, str):
        wrong += _between(len(value), schema, "minLength", "maxLength", f"{where} has {len(value)} characters")
        if "pattern" in schema and not patterns.matches(schema["pattern"], value):
            wrong.append(f"{where} is {value!r:.60}, expected to match {schema['pattern']!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        wrong += _between(value, schema, "minimum", "maximum", f"{where} is {value!r}")
    return wrong


def _is(value: Any, kind: str | list[str]) -> bool:
    kinds = [kind] if isinstance(kind, str) else kind
    return any(isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool)) for kind in kinds)


def _between(size: float, schema: Mapping[str, Any], least: str, most: str, said: str) -> list[str]:
    if least in schema and size < schema[least]:
        return [f"{said}, expected at least {schema[least]}"]
    if most in schema and size > schema[most]:
        return [f"{said}, expected at most {schema[most]}"]
    return []
