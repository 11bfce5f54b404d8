"""What a coding agent's hook says, as signals. Only numbers, the names of tools and ids are read; no text is kept.

Ours, for scripts and agents without a format of their own:

    {"decision": "dec_…", "signals": {"tests_passed": 1, "minutes": 4.5}}
    {"session_id": "abc", "tests": {"passed": 12, "failed": 1}}            → tests_passed 0, tests_share 0.923
    {"session_id": "abc", "tests_passed": true}                            → tests_passed 1
    {"session_id": "abc", "change": "kept"}                                → change_kept 1; "reverted": 0

A coding agent's, after a shell command (`hook_event_name`, `session_id`, `tool_input.command`, `tool_response`):

    pytest, npm test, cargo test, … succeeded or failed                    → tests_passed 1 or 0
    git commit succeeded                                                   → change_kept 1
    git revert, git restore, git reset --hard, git checkout -- succeeded   → change_kept 0

How the command ended is its exit code where there is one, else the event: `PostToolUse` comes after success,
`PostToolUseFailure` after failure. A test behind `|`, `||`, `;` or `&` says nothing, since the exit code is another
command's; a failure that an earlier or later part of the line may have caused counts only if the test came last.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.nouns.errors import InvalidInput

__all__ = ["Seen", "read"]

_SESSIONS = ("episode", "session_id", "sessionId", "conversation_id", "thread_id", "thread-id")
_KEYS = ("key", "tool_use_id", "toolUseId", "tool_call_id", "generation_id")
_EVENTS = ("hook_event_name", "hookEventName", "event", "type")
_INPUTS = ("tool_input", "toolInput", "tool_args", "toolArgs")
_RESPONSES = ("tool_response", "toolResponse", "tool_result", "toolResult", "tool_output")
_EXITS = ("exit_code", "exitCode", "exit_status", "returncode")
_TESTS = """pytest; py.test; tox; nox; python -m pytest; python3 -m pytest; python -m unittest; python3 -m unittest;
npm test; npm t; npm run test; pnpm test; yarn test; bun test; deno test; node --test; jest; vitest;
npx jest; npx vitest;
cargo test; cargo nextest; go test; make test; make check; mvn test; mvn verify; gradle test; gradlew test; dotnet test;
rspec; bundle exec rspec; mix test; ctest; swift test"""
_WRAPPERS = {("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipenv", "run"), ("time",), ("env",)}
_KEEPS = (("git", "commit"),)
_REVERTS = (("git", "revert"), ("git", "restore"), ("git", "reset", "--hard"), ("git", "checkout", "--"))
_SEPARATORS = {"&&", "||", "|", "|&", ";", ";;", "&", "(", ")"}
_MOST_COMMAND = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one hook call says: about whom, and which signals. Without signals there is nothing to store."""

    decision: str | None
    session: str | None
    task: str | None
    signals: Mapping[str, float]
    label: str = ""
    key: str = ""


def read(body: object, tests: Sequence[str] = ()) -> Seen:
    """The signals in a hook's JSON. `tests` are further commands that run tests, by how they begin."""
    if not isinstance(body, Mapping):
        raise InvalidInput(
            f"The hook's input is {type(body).__name__}, expected a JSON object.",
            code="bad_hook",
            hint="`headway hook --help` shows what is understood.",
        )
    signals = {**_from_command(body, tests), **_told(body)}
    return Seen(
        decision=_text(body, ("decision",)),
        session=_text(body, _SESSIONS),
        task=_text(body, ("task",)),
        signals=signals,
        label=_text(body, ("label", *_EVENTS)) or "",
        key=_text(body, _KEYS) or "",
    )


def _told(body: Mapping[str, Any]) -> dict[str, float]:
    """Our own words."""
    found: dict[str, float] = {}
    tests = body.get("tests")
    if isinstance(tests, Mapping):
        passed, failed = (
            _number("tests.passed", tests.get("passed", 0)),
            _number("tests.failed", tests.get("failed", 0)),
        )
        if passed < 0 or failed < 0 or passed + failed == 0:
            raise _bad("tests", tests, "counts of passed and failed tests, at least one")
        found = {"tests_passed": float(failed == 0), "tests_share": passed / (passed + failed)}
    if "tests_passed" in body:
        found["tests_passed"] = _number("tests_passed", body["tests_passed"])
    change = body.get("change")
    if change is not None:
        if change not in ("kept", "reverted"):
            raise _bad("change", change, "kept or reverted")
        found["change_kept"] = float(change == "kept")
    given = body.get("signals")
    if given is not None:
        if not isinstance(given, Mapping):
            raise _bad("signals", given, "named numbers")
        found |= {str(name): _number(f"signals.{name}", value) for name, value in given.items()}
    return found


def _from_command(body: Mapping[str, Any], tests: Sequence[str]) -> dict[str, float]:
    """What the end of a shell command tells."""
    given = _table(body, _INPUTS)
    command = given.get("command", body.get("command"))
    if isinstance(command, list) and all(isinstance(each, str) for each in command):
        command = shlex.join(command)
    if not isinstance(command, str) or len(command) > _MOST_COMMAND or given.get("run_in_background"):
        return {}
    succeeded = _succeeded(body)
    if succeeded is None:
        return {}
    found: dict[str, float] = {}
    known = [tuple(each.split()) for each in (*_TESTS.split(";"), *tests)]
    chain = _chain(command)
    for place, words in enumerate(chain):
        if _begins(words, known) and (succeeded or place == len(chain) - 1):
            found["tests_passed"] = float(succeeded)
        if succeeded and _begins(words, _KEEPS):
            found["change_kept"] = 1.0
        if succeeded and _begins(words, _REVERTS):
            found["change_kept"] = 0.0
    return found


def _succeeded(body: Mapping[str, Any]) -> bool | None:
    """Whether the command ended well; None where nothing says so."""
    response = _table(body, _RESPONSES)
    for table in (response, body):
        for name in _EXITS:
            code = table.get(name)
            if isinstance(code, int) and not isinstance(code, bool):
                return code == 0
    if response.get("interrupted"):
        return None
    event = (_text(body, _EVENTS) or "").lower()
    if event == "posttoolusefailure":
        return False
    if event == "posttooluse":
        return not (response.get("is_error") or response.get("isError") or response.get("success") is False)
    return None


def _chain(command: str) -> list[list[str]]:
    """The parts of the last `a && b && c`: those whose failure is the command's."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word == "&&":
                parts.append([])
            elif word in _SEPARATORS:
                if word in ("|", "|&", "||", "&"):
                    return []  # the exit code is another command's
                parts = [[]]
            else:
                parts[-1].append(word)
    except ValueError:  # an open quote: nobody knows what ran
        return []
    return [_unwrapped(each) for each in parts if each]


def _unwrapped(words: list[str]) -> list[str]:
    """Without variables and wrappers in front: `CI=1 uv run pytest -q` runs pytest."""
    while words:
        if "=" in words[0] and words[0].partition("=")[0].isidentifier():
            words = words[1:]
            continue
        width = next((len(each) for each in _WRAPPERS if tuple(words[: len(each)]) == each), 0)
        if width == 0:
            break
        words = words[width:]
    return [words[0].rpartition("/")[2], *words[1:]] if words else []


def _begins(words: Sequence[str], known: Sequence[tuple[str, ...]]) -> bool:
    return any(each and tuple(words[: len(each)]) == each for each in known)


def _table(body: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    return next((body[name] for name in names if isinstance(body.get(name), Mapping)), {})


def _text(body: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((body[name] for name in names if isinstance(body.get(name), str) and body[name]), None)


def _number(name: str, value: object) -> float:
    if isinstance(value, (bool, int, float)) and math.isfinite(value):
        return float(value)
    raise _bad(name, value, "a finite number or true or false")


def _bad(name: str, value: object, expected: str) -> InvalidInput:
    return InvalidInput(
        f"{name!r} is {str(value)[:60]!r}, expected {expected}.",
        code="bad_hook",
        hint="`headway hook --help` shows what is understood.",
    )
