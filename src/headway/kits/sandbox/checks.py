"""Checks whether an answer does what was asked.

    check("The result is 1,024.", {"kind": "numeric", "value": 1024})                  # CheckResult(status="passed", …)
    check(answer, {"kind": "includes", "all": ["Paris"], "none": ["Lyon"]})
    check(answer, {"kind": "exact", "value": "blue"})                                  # of the answer or its last line
    check(answer, {"kind": "regex", "pattern": r"^\\d{4}-\\d{2}-\\d{2}$"})
    check(answer, {"kind": "json", "schema": {"type": "object", "required": ["name"]}})
    check(answer, {"kind": "code", "function": "add", "cases": [[[1, 2], 3]]}, sandbox=box)
    check(answer, {"kind": "all", "checks": [...]})                                    # each of them

Statuses are a sandbox's: `error` says nothing about the answer (for example, no sandbox) and never counts as failed.
Code runs in the sandbox and returns its results; the expected results stay outside, so a program cannot print its way
to a pass. Patterns are matched by RE2, in time linear in the text.

Not covered: the quality of a text. That needs a rater.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from headway.kits.sandbox.records import Limits, Sandbox, Status
from headway.nouns import errors

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
        raise errors.InvalidInput(
            f"The schema uses {keyword!r}, which is not supported.",
            code="bad_check",
            hint=errors.did_you_mean(keyword, _KEYWORDS),
        )
    if "type" in schema and not _is(value, schema["type"]):
        return [f"{where} is {value!r:.60}, expected {schema['type']}"]
    wrong = []
    if "const" in schema and value != schema["const"]:
        wrong.append(f"{where} is {value!r:.60}, expected {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        wrong.append(f"{where} is {value!r:.60}, expected one of {schema['enum']!r}")
    if isinstance(value, dict):
        wrong += _object_violations(value, schema, where)
    if isinstance(value, list):
        wrong += _list_violations(value, schema, where)
    if isinstance(value, str):
        wrong += _between(len(value), schema, "minLength", "maxLength", f"{where} has {len(value)} characters")
        if "pattern" in schema and not _matches(schema["pattern"], value):
            wrong.append(f"{where} is {value!r:.60}, expected to match {schema['pattern']!r}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        wrong += _between(value, schema, "minimum", "maximum", f"{where} is {value!r}")
    return wrong


def _object_violations(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    wrong = [f"{where} lacks {name!r}" for name in schema.get("required", []) if name not in value]
    known = schema.get("properties", {})
    for name, inner in value.items():
        if name in known:
            wrong += violations(inner, known[name], f"{where}.{name}")
        elif schema.get("additionalProperties", True) is False:
            wrong.append(f"{where} has {name!r}, which is not allowed")
    return wrong


def _list_violations(value: Sequence[Any], schema: Mapping[str, Any], where: str) -> list[str]:
    wrong = _between(len(value), schema, "minItems", "maxItems", f"{where} has {len(value)} items")
    for place, inner in enumerate(value if "items" in schema else []):
        wrong += violations(inner, schema["items"], f"{where}[{place}]")
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


Check = Mapping[str, Any]
LONGEST = 64_000  # characters of an answer that are checked
_NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:[, ]\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FENCE = re.compile(r"```[\w+-]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_PREFIX = re.compile(r"^\s*(?:the )?(?:final )?(?:answer|result|output)(?: is)?\s*[:=]?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of a check; `score` is 1 or 0, or the share of passed parts for `all` and `code`."""

    status: Status
    score: float
    why: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"


def check(answer: str, wanted: Check, sandbox: Sandbox | None = None, limits: Limits | None = None) -> CheckResult:
    """Run one check on one answer. An answer that cannot be compared, such as 64,000 brackets, has failed."""
    validate(wanted)
    try:
        return _checked(answer[:LONGEST], wanted, sandbox, limits)
    except (RecursionError, OverflowError, MemoryError) as error:
        return CheckResult(status="failed", score=0.0, why=f"it cannot be compared ({type(error).__name__})")


def _checked(answer: str, wanted: Check, sandbox: Sandbox | None, limits: Limits | None) -> CheckResult:
    if wanted["kind"] == "code":
        return _code(answer, wanted, sandbox, limits)
    if wanted["kind"] == "all":
        outcomes = [check(answer, part, sandbox, limits) for part in wanted["checks"]]
        # A check that failed decides, also where another could not be run.
        worst = min(outcomes, key=lambda outcome: _DECIDES.index(outcome.status))
        return CheckResult(
            status=worst.status, score=sum(outcome.score for outcome in outcomes) / len(outcomes), why=worst.why
        )
    why = _PLAIN[wanted["kind"]](answer, wanted)
    return CheckResult(status="failed" if why else "passed", score=0.0 if why else 1.0, why=why)


_DECIDES: tuple[Status, ...] = ("failed", "timeout", "error", "passed")


def _exact(answer: str, wanted: Check) -> str:
    def plain(text: str) -> str:
        return " ".join(_PREFIX.sub("", text).strip(" \t\n\"'`*.").casefold().split())

    lines = [line for line in answer.splitlines() if line.strip()]
    options = wanted["value"] if isinstance(wanted["value"], list) else [wanted["value"]]
    said = {plain(answer), plain(lines[-1]) if lines else ""}
    return "" if said & {plain(option) for option in options} else f"it is not {options[0]!r}"


def _includes(answer: str, wanted: Check) -> str:
    text = " ".join(answer.casefold().split())

    def there(word: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(' '.join(word.casefold().split()))}(?!\w)", text) is not None

    for word in wanted.get("all", []):
        if not there(word):
            return f"it does not say {word!r}"
    for word in wanted.get("none", []):
        if there(word):
            return f"it says {word!r}"
    choices = wanted.get("any", [])
    return "" if not choices or any(there(word) for word in choices) else f"it says none of {choices!r}"


def _regex(answer: str, wanted: Check) -> str:
    return "" if _matches(wanted["pattern"], answer.strip()) else f"it does not match {wanted['pattern']!r}"


def _numeric(answer: str, wanted: Check) -> str:
    numbers = [float(number.replace("−", "-").replace(",", "").replace(" ", "")) for number in _NUMBER.findall(answer)]
    if not numbers:
        return "it has no number"
    tolerance = wanted.get("tolerance", 0.0)
    near = [abs(number - wanted["value"]) <= tolerance + 1e-9 * abs(wanted["value"]) for number in numbers]
    said = any(near) if wanted.get("anywhere", False) else near[-1]
    return "" if said else f"its last number is {numbers[-1]:g}, expected {wanted['value']:g}"


def _json(answer: str, wanted: Check) -> str:
    try:
        value = json_in(answer)
    except ValueError:
        return "it has no JSON"
    wrong = violations(value, wanted["schema"])
    return wrong[0] if wrong else ""


def _words(answer: str, wanted: Check) -> str:
    count = len(answer.split())
    least, most = wanted.get("least", 0), wanted.get("most", math.inf)
    return "" if least <= count <= most else f"it has {count} words, expected {least} to {most}"


def json_in(answer: str) -> Any:
    """The JSON value of an answer: the whole of it, a fenced block, or the first object or list in it."""
    for text in (answer, *_FENCE.findall(answer)):
        try:
            return json.loads(text)
        except ValueError:
            continue
    decoder = json.JSONDecoder()
    for match in re.finditer(r"[{\[]", answer):
        try:
            return decoder.raw_decode(answer, match.start())[0]
        except ValueError:
            continue
    raise ValueError("no JSON")


def code_in(answer: str) -> str:
    """The code of an answer: its fenced blocks, or the whole of it."""
    blocks = _FENCE.findall(answer)
    return "\n".join(blocks) if blocks else answer


# Runs in the sandbox. What the program prints goes to stderr; results are the only thing on stdout.
_HARNESS = """
import json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
job = json.load(open("job.json"))
space = {"__name__": "answer"}
exec(compile(open("answer.py").read(), "answer.py", "exec"), space)
function = space[job["function"]]
for arguments in job["arguments"]:
    try:
        line = json.dumps({"value": function(*arguments)})
    except Exception as error:
        line = json.dumps({"error": type(error).__name__ + ": " + str(error)})
    out.write(line + "\\n")
    out.flush()
"""


def _code(answer: str, wanted: Check, sandbox: Sandbox | None, limits: Limits | None) -> CheckResult:
    if sandbox is None:
        return CheckResult(status="error", score=0.0, why="there is no sandbox to run code in")
    cases: Sequence[Sequence[Any]] = wanted["cases"]
    job = json.dumps({"function": wanted["function"], "arguments": [case[0] for case in cases]})
    ran = sandbox.run(
        _HARNESS,
        files={"answer.py": code_in(answer), "job.json": job},
        limits=limits or Limits(wall_s=5, cpu_s=3, memory_bytes=256 << 20, processes=8),
    )
    if ran.status in {"error", "timeout"}:
        return CheckResult(status=ran.status, score=0.0, why=ran.why)
    right, why = 0, ""
    lines = ran.stdout.splitlines()
    for place, (arguments, expected) in enumerate(cases):
        try:
            said = json.loads(lines[place]) if place < len(lines) else {}
        except (ValueError, RecursionError):
            said = {}
        if isinstance(said, dict) and "value" in said and _same(said["value"], expected):
            right += 1
        elif not why:
            told = said.get("value", said.get("error")) if isinstance(said, dict) and said else _last(ran.stderr)
            why = f"{wanted['function']}({', '.join(map(repr, arguments))}) gave {told!r:.100}, expected {expected!r}"
    whole = right == len(cases)
    return CheckResult(status="passed" if whole else "failed", score=right / len(cases), why=why)


def _same(value: Any, expected: Any) -> bool:
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(expected, int | float) and isinstance(value, int | float):
        try:
            return value == expected or math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
        except OverflowError:  # an integer beyond all floats
            return False
    if isinstance(expected, list) and isinstance(value, list):
        return len(value) == len(expected) and all(map(_same, value, expected))
    return bool(value == expected)


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "nothing"


_PLAIN: Mapping[str, Callable[[str, Check], str]] = {
    "exact": _exact,
    "includes": _includes,
    "regex": _regex,
    "numeric": _numeric,
    "json": _json,
    "words": _words,
}
KINDS = (*_PLAIN, "code", "all")
_NEEDS = dict(
    zip(
        ("exact", "regex", "numeric", "json", "code", "all"),
        ("value", "pattern", "value", "schema", "cases", "checks"),
        strict=True,
    )
)


def validate(wanted: Check) -> None:
    """Refuse an invalid check before running it."""
    kind = wanted.get("kind")
    if kind not in KINDS:
        raise _bad(f"There is no check of the kind {kind!r}.", errors.did_you_mean(str(kind), KINDS))
    if kind in _NEEDS and not (wanted.get(_NEEDS[kind]) or wanted.get(_NEEDS[kind]) == 0):
        raise _bad(f"A check of the kind {kind!r} needs {_NEEDS[kind]!r}.", "See headway.kits.sandbox.checks.")
    if kind == "regex":
        _compiled(wanted["pattern"])
    if kind == "includes" and not any(wanted.get(key) for key in ("all", "any", "none")):
        raise _bad("A check of the kind 'includes' has no word.", "Give 'all', 'any' or 'none'.")
    if kind == "code":
        _validate_code(wanted)
    for part in wanted["checks"] if kind == "all" else ():
        validate(part)


def _validate_code(wanted: Check) -> None:
    if not str(wanted.get("function", "")).isidentifier():
        raise _bad(f"The function to call is {wanted.get('function')!r}, expected a name.", "Give 'function'.")
    if not all(isinstance(case, list | tuple) and len(case) == 2 for case in wanted["cases"]):
        raise _bad("A case is not a list of arguments and a result.", 'Write "cases": [[[1, 2], 3]].')


def _bad(what: str, hint: str) -> errors.InvalidInput:
    return errors.InvalidInput(what, code="bad_check", hint=hint)


_LONGEST = 500  # of a pattern
_MOST = 65_536  # characters that are matched
_MEMORY = 8 << 20


def _matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere, case-insensitive and line by line."""
    return _compiled(pattern).search(text[:_MOST].encode("utf-8", "replace").decode()) is not None


@lru_cache(256)
def _compiled(pattern: str) -> Any:
    try:
        if len(pattern) > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST} characters")
        options = re2.Options()
        options.log_errors, options.max_mem = False, _MEMORY
        return re2.compile(f"(?im){pattern}", options)
    except (ValueError, TypeError, re2.error) as error:
        said = error.args[0] if error.args else error
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise errors.InvalidInput(
            f"The pattern {pattern!r:.100} cannot be used: {reason}.",
            code="bad_check",
            hint="It is read by RE2: no lookaround, no back references, \\z for the end of the text.",
        ) from error
