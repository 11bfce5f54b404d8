"""Caches a model's answers in a file: each question is asked once, and answers survive an interruption.

    kept = Remembered(generator, folder / "answers.jsonl")
    kept.generate(prompts)               # asks the model for missing answers, and appends them line by line
    kept.asked, kept.recalled

One JSON object per line: a hash of the question, the answer, and how many tokens it took. A truncated or foreign
line is skipped, and its question is asked again. Only greedy answers are cached: a sampled answer is one of many.
The file belongs to one model; deleting it only costs time.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headway.files import read_regular
from headway.kits.models import Completion, Counted, Delta, Generator, Prompt, Scored
from headway.nouns import Progress, errors

_BATCH = 24  # questions at a time
Each = Callable[[Sequence[Prompt]], Iterator[tuple[int, Completion]]]


class Remembered:
    """A caching generator in front of another. One process at a time writes; each line is one write."""

    def __init__(self, generator: Generator, path: Path, *, progress: Progress | None = None) -> None:
        self._generator, self._path, self._progress = generator, path, progress
        # An endpoint yields answers as they arrive.
        self._each: Each = getattr(generator, "each", None) or self._batches
        self._known, self._torn = _read(path)
        self.asked = 0
        self.recalled = 0
        self.estimated = 0

    @property
    def model(self) -> str:
        return self._generator.model

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """A reply to each prompt, from the file or from the model."""
        if any(prompt.temperature > 0 for prompt in prompts):
            raise errors.InvalidInput("Only greedy answers are cached.", code="bad_prompt", hint="Set temperature=0.")
        keys = [_key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        self.recalled += len(set(keys)) - len(new)
        if new:
            self._ask(new, before=len(set(keys)) - len(new))
        self.estimated += sum(self._known[key].estimated for key in set(keys))
        return [self._known[key] for key in keys]

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        return self._generator.stream(prompt)

    def score(self, prompt: Prompt, reply: str | Sequence[int], *, ended: bool = False) -> Scored:
        return self._generator.score(prompt, reply, ended=ended)

    def _ask(self, new: dict[str, Prompt], *, before: int) -> None:
        order = list(new)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:
            if self._torn:
                file.write(b"\n")
                self._torn = False
            for number, (place, reply) in enumerate(self._each(list(new.values())), 1):
                kept = _counted(reply)
                file.write(_line(order[place], kept))  # one write: the line is complete, or truncated at its end
                self._known[order[place]] = kept
                self.asked += 1
                if self._progress is not None:
                    self._progress("answers", before + number, before + len(new))

    def _batches(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Completion]]:
        for begin in range(0, len(prompts), _BATCH):
            yield from enumerate(self._generator.generate(prompts[begin : begin + _BATCH]), begin)


def _key(prompt: Prompt) -> str:
    turns = [[turn.role, turn.content] for turn in prompt.turns]
    question = [turns, prompt.text, prompt.tokens, prompt.max_tokens, prompt.stop, prompt.stop_tokens]
    return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def _counted(reply: Completion) -> Counted:
    if isinstance(reply, Counted):
        return reply
    return Counted(
        text=reply.text,
        finish=reply.finish,
        read=len(reply.prompt_tokens),
        written=len(reply.tokens),
        temperature=reply.temperature,
        model=reply.model,
    )


def _line(key: str, reply: Counted) -> bytes:
    row = {"key": key, "text": reply.text, "finish": reply.finish, "read": reply.read, "written": reply.written}
    if reply.estimated:
        row["estimated"] = True
    return json.dumps(row).encode() + b"\n"


def _read(path: Path) -> tuple[dict[str, Counted], bool]:
    """The answers in the file, and whether its last line is truncated."""
    try:
        body = read_regular(path)
    except FileNotFoundError:
        return {}, False
    answers: dict[str, Counted] = {}
    for line in body.split(b"\n"):
        try:
            row = json.loads(line)
            key, text, finish, read, written = (row[name] for name in ("key", "text", "finish", "read", "written"))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        sound = isinstance(key, str) and isinstance(text, str) and finish in ("stop", "length")
        if sound and all(type(count) is int and count >= 0 for count in (read, written)):
            answers[key] = Counted(
                text=text, finish=finish, read=read, written=written, estimated=row.get("estimated") is True,
                temperature=0.0,
            )  # fmt: skip
    return answers, bool(body) and not body.endswith(b"\n")
