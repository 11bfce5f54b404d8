"""Turn the JSON of a coding agent's hook into signals. Reads only numbers, tool names and ids; stores no text.

Headway's own format, for scripts and for agents without hooks:

    {"decision": "dec_…", "signals": {"tests_passed": 1, "minutes": 4.5}}
    {"session_id": "abc", "tests": {"passed": 12, "failed": 1}}            → tests_passed 0, tests_share 0.923
    {"session_id": "abc", "tests_passed": true}                            → tests_passed 1
    {"session_id": "abc", "change": "kept"}                                → change_kept 1; "reverted": 0

A coding agent's event after a shell command (`hook_event_name`, `session_id`, `tool_input.command`, `tool_response`):

    pytest, npm test, cargo test, … succeeded or failed                    → tests_passed 1 or 0
    git commit succeeded                                                   → change_kept 1
    git revert, git restore, git reset --hard, git checkout -- succeeded   → change_kept 0

The exit code decides whether the command succeeded; without one, the event does: `PostToolUse` means success,
`PostToolUseFailure` failure. Tests before `|`, `||`, `;` or `&` are ignored, because the exit code belongs to another
command. In `a && b`, a failure counts only if the test is the last part, because any part may have failed. Codex gives
the output as a text and no exit code: then the summary of the tests in it decides, and nothing is known of git.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headway.nouns import errors

if TYPE_CHECKING:
    from headway.project import Project

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
_LATEST_S = 24 * 3600.0
_OTHERS = 100  # newer decisions of other keys that are skipped, at most
_COUNTED = re.compile(r"\b(\d+) (passed|failed|failing|failures?|errors?)\b")
_VERDICTS = {"OK": True, "ok": True, "FAILED": False, "FAIL": False}  # unittest and go test


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReport:
    """What one hook call reports: its subject and its signals. Without signals there is nothing to store."""

    decision: str | None
    session: str | None
    task: str | None
    signals: Mapping[str, float]
    label: str = ""
    key: str = ""


def parsed(raw: bytes) -> object:
    """What a hook has sent."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"The hook's input is not JSON: {str(error)[:200]}.") from None


def read(body: object, tests: Sequence[str] = ()) -> HookReport:
    """Read a hook's JSON. `tests` are prefixes of further commands that run tests."""
    if not isinstance(body, Mapping):
        raise _wrong(f"The hook's input is {type(body).__name__}, expected a JSON object.")
    signals = {**_from_command(body, tests), **_own_signals(body)}
    return HookReport(
        decision=_text(body, ("decision",)),
        session=_text(body, _SESSIONS),
        task=_text(body, ("task",)),
        signals=signals,
        label=_text(body, ("label", *_EVENTS)) or "",
        key=_text(body, _KEYS) or "",
    )


def _own_signals(body: Mapping[str, Any]) -> dict[str, float]:
    """Signals in Headway's own format."""
    signals: dict[str, float] = {}
    tests = body.get("tests")
    if isinstance(tests, Mapping):
        passed, failed = (
            _number("tests.passed", tests.get("passed", 0)),
            _number("tests.failed", tests.get("failed", 0)),
        )
        if passed < 0 or failed < 0 or passed + failed == 0:
            raise _bad("tests", tests, "counts of passed and failed tests, at least one")
        signals = {"tests_passed": float(failed == 0), "tests_share": passed / (passed + failed)}
    if "tests_passed" in body:
        signals["tests_passed"] = _number("tests_passed", body["tests_passed"])
    change = body.get("change")
    if change is not None:
        if change not in ("kept", "reverted"):
            raise _bad("change", change, "kept or reverted")
        signals["change_kept"] = float(change == "kept")
    named = body.get("signals")
    if named is not None:
        if not isinstance(named, Mapping):
            raise _bad("signals", named, "named numbers")
        signals |= {str(name): _number(f"signals.{name}", value) for name, value in named.items()}
    return signals


def _from_command(body: Mapping[str, Any], tests: Sequence[str]) -> dict[str, float]:
    """Signals from a shell command and its exit status."""
    command, succeeded = _command(body), _succeeded(body)
    if not command or succeeded is None:
        return {}
    signals: dict[str, float] = {}
    known = [tuple(line.split()) for line in (*_TESTS.split(";"), *tests)]
    chain = _chain(command)
    for place, words in enumerate(chain):
        if _begins(words, known) and (succeeded or place == len(chain) - 1):
            signals["tests_passed"] = float(succeeded)
        if succeeded and _begins(words, _KEEPS):
            signals["change_kept"] = 1.0
        if succeeded and _begins(words, _REVERTS):
            signals["change_kept"] = 0.0
    return signals


def _command(body: Mapping[str, Any]) -> str:
    """The line for the shell; empty if there is none whose end the event tells."""
    tool_input = _table(body, _INPUTS)
    command = tool_input.get("command", body.get("command"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        command = shlex.join(command)
    if not isinstance(command, str) or len(command) > _MOST_COMMAND or tool_input.get("run_in_background"):
        return ""
    return command


def _succeeded(body: Mapping[str, Any]) -> bool | None:
    """Whether the command succeeded; None if the event does not say."""
    response = _table(body, _RESPONSES)
    for table in (response, body):
        for name in _EXITS:
            code = table.get(name)
            if isinstance(code, int) and not isinstance(code, bool):
                return code == 0
    if response.get("interrupted"):
        return None
    said = _text(body, _RESPONSES)
    if said is not None and "turn_id" in body:
        return _summarised(said)
    event = (_text(body, _EVENTS) or "").lower()
    if event == "posttoolusefailure":
        return False
    if event == "posttooluse":
        return not (response.get("is_error") or response.get("isError") or response.get("success") is False)
    return None


def _summarised(output: str) -> bool | None:
    """Whether tests passed, by their last summary. Codex reports a command that failed like one that did not."""
    for line in reversed(output[-10_000:].splitlines()):
        counts = _COUNTED.findall(line)
        if counts:
            return not any(int(count) for count, word in counts if word != "passed")
        verdict = _VERDICTS.get(line.partition("\t")[0].split(" ")[0])
        if verdict is not None:
            return verdict
    return None


def _chain(command: str) -> list[list[str]]:
    """The parts of the last `a && b && c`; the exit code of the line is theirs."""
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word == "&&":
                parts.append([])
            elif word in _SEPARATORS:
                if word in ("|", "|&", "||", "&"):
                    return []  # the exit code belongs to another command
                parts = [[]]
            else:
                parts[-1].append(word)
    except ValueError:  # an open quote: it is unknown what ran
        return []
    return [_unwrapped(part) for part in parts if part]


def _unwrapped(words: list[str]) -> list[str]:
    """The command without leading variables and wrappers: `CI=1 uv run pytest -q` runs pytest."""
    while words:
        if "=" in words[0] and words[0].partition("=")[0].isidentifier():
            words = words[1:]
            continue
        width = next((len(wrapper) for wrapper in _WRAPPERS if tuple(words[: len(wrapper)]) == wrapper), 0)
        if width == 0:
            break
        words = words[width:]
    return [words[0].rpartition("/")[2], *words[1:]] if words else []


def _begins(words: Sequence[str], known: Sequence[tuple[str, ...]]) -> bool:
    return any(start and tuple(words[: len(start)]) == start for start in known)


def _table(body: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    return next((body[name] for name in names if isinstance(body.get(name), Mapping)), {})


def _text(body: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((body[name] for name in names if isinstance(body.get(name), str) and body[name]), None)


def _number(name: str, value: object) -> float:
    if isinstance(value, (bool, int, float)) and math.isfinite(value):
        return float(value)
    raise _bad(name, value, "a finite number or true or false")


def _bad(name: str, value: object, expected: str) -> errors.InvalidInput:
    return _wrong(f"{name!r} is {str(value)[:60]!r}, expected {expected}.")


def _wrong(message: str) -> errors.InvalidInput:
    return errors.InvalidInput(message, code="bad_hook", hint="`headway hook --help` shows the accepted formats.")


def subject_of(project: Project, report: HookReport, task: str | None, *, latest: bool, key: str | None = None) -> str:
    """What a report is about: the decision that it names, its session's episode, or the task's newest decision.

    With `key`, the newest decision made with this key: a key cannot rate decisions whose id it was never told.
    """
    if report.decision is not None:
        return report.decision
    if task is None:
        raise errors.InvalidInput(
            "The hook names neither a decision nor a task.",
            code="no_subject",
            hint="Add --task, or name the decision in the JSON or with --decision.",
        )
    known = project.settings.task(task).name
    if report.session is not None:
        episode = project.episode(known, report.session)
        if project.query.task_of(episode) is not None:
            return episode
    newest = project.query.latest(known, 1 if key is None else _OTHERS) if latest else []
    own = next((one for one in newest if key is None or one.key == key), None)
    if own is not None and project.clock() - own.at < _LATEST_S:
        return own.id
    raise errors.UnknownName(
        f"No decision of {known!r} belongs to the session {(report.session or '')[:80]!r}.",
        code="unknown_decision",
        hint="Decide with episode set to the session's id, or use --latest.",
    )
