"""Prompts with checkable answers: 63 built-in ones, nine of each class, or a file of the same form.

    for prompt in corpus():
        outcome = check(answer_of(prompt.text), prompt.check, sandbox=box)

One JSON object per line: id, class, text, check (checks.py), and an answer that passes (`good`) and one that does not
(`bad`), to test the check itself: `validated` runs both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.files import read_regular
from headway.kits.sandbox import Sandbox, check, validate
from headway.nouns import errors

CLASSES = (
    "code generation",
    "code review",
    "content",
    "marketing",
    "data analysis",
    "question answering",
    "creative",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPrompt:
    id: str
    kind: str  # one of CLASSES
    text: str
    check: Mapping[str, Any]
    good: str
    bad: str

    @property
    def needs_sandbox(self) -> bool:
        """Whether its check runs code."""
        return '"code"' in json.dumps(self.check)


def corpus(path: Path | None = None) -> list[CheckedPrompt]:
    """The prompts of a file; the built-in ones by default."""
    where = path or Path(__file__).with_name("corpus.jsonl")
    prompts: list[CheckedPrompt] = []
    try:
        lines = read_regular(where).decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _bad(f"{str(where)!r} cannot be read: {why}.", "Name a file with one prompt per line.") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            prompts.append(_prompt(line, f"{where.name}:{number}"))
    if len({prompt.id for prompt in prompts}) != len(prompts):
        raise _bad(f"{where.name} has a duplicate id.", "Give every prompt its own id.")
    return prompts


def simple_tasks() -> list[CheckedPrompt]:
    """84 prompts, twelve similar ones of each class: what practice on a real model's answers plays by default."""
    return corpus(Path(__file__).with_name("simple_tasks.jsonl"))


def validated(prompts: list[CheckedPrompt], sandbox: Sandbox) -> list[str]:
    """Problems of the checks themselves: a good answer that fails, or a bad one that passes."""
    wrong = []
    for prompt in prompts:
        good, bad = check(prompt.good, prompt.check, sandbox), check(prompt.bad, prompt.check, sandbox)
        if not good.passed:
            wrong.append(f"{prompt.id}: its good answer is {good.status}: {good.why}")
        if bad.status not in {"failed", "timeout"}:
            wrong.append(f"{prompt.id}: its bad answer is {bad.status}")
    return wrong


def _prompt(line: str, where: str) -> CheckedPrompt:
    try:
        row = json.loads(line)
        kind, text, wanted = row["class"], row["text"], row["check"]
        prompt = CheckedPrompt(
            id=str(row["id"]), kind=kind, text=text, check=wanted, good=row.get("good", ""), bad=row.get("bad", "")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _bad(f"{where} is not a prompt ({error!r}).", "It needs id, class, text and check.") from error
    if kind not in CLASSES:
        raise _bad(f"{where} has the unknown class {kind!r}.", errors.did_you_mean(str(kind), CLASSES))
    if not isinstance(text, str) or not text.strip():
        raise _bad(f"{where} has no text.", "Give 'text'.")
    try:
        validate(wanted)
        check("0", wanted)  # a value of the wrong type fails here, not after an hour of requests
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"{where}: {error.message}", code=error.code, hint=error.hint) from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise _bad(f"{where} has a check that cannot be run ({error!r}).", "See the kinds of checks.") from error
    return prompt


def _bad(what: str, hint: str) -> errors.InvalidInput:
    return errors.InvalidInput(what, code="bad_corpus", hint=hint)
