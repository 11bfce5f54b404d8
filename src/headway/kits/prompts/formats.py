"""Prompt-mutation experiences: `{"state", "action", "reward", "next_state", "done", "log_prob", "value"}`.

One line is one step of a PPO trainer: `state` is the prompt's embedding, `action` one of the five mutations (by number
or name), `log_prob` the logarithm of its probability; the other four share the rest.

Consecutive lines form an episode until `done`, or until a `state` is not the `next_state` of the line before.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from typing import Any

from headway.kits.data import (
    Format,
    ImportedSignal,
    Options,
    Problem,
    Record,
    Row,
    Wrong,
    fields_left,
    finite,
    flag,
    moment,
    name_of,
    number,
    shown,
)
from headway.kits.prompts.kinds import MUTATIONS
from headway.nouns import Candidate

TASK = "mutate"
_CANDIDATES = tuple(Candidate(name) for name in MUTATIONS)
_USED = ("state", "action", "reward", "next_state", "done", "log_prob", "value", "timestamp", "id")
_WIDEST = 8192


def looks_like_experience(row: dict[str, Any]) -> bool:
    return isinstance(row.get("state"), list) and {"action", "reward", "log_prob"} <= row.keys()


def read_experiences(rows: Iterable[Row | Problem], _: Options) -> Iterator[Record | Problem]:
    episode, step, expected = "", 0, None  # of the line before
    seen: dict[str, int] = {}
    width: int | None = None
    for entry in rows:
        if isinstance(entry, Problem):
            yield entry
            expected = None
            continue
        line, row = entry
        try:
            state = _vector(row, "state", width)
            width = len(state)
            after = _vector(row, "next_state", width) if row.get("next_state") is not None else None
            if expected is None or state != expected:
                episode, step = _opened(state, seen), 0
            else:
                step += 1
            done = flag(row, "done")
            yield _record(line, row, state, episode, step, bool(done))
            expected = None if done else after
        except Wrong as wrong:
            yield Problem(line, wrong.field, wrong.message, wrong.cure)
            expected = None


def _opened(state: list[float], seen: dict[str, int]) -> str:
    """An episode's name: a hash of its first prompt, and the number of earlier episodes with the same one."""
    name = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    seen[name] = seen.get(name, 0) + 1
    return f"{name}-{seen[name]}"


def _vector(row: dict[str, Any], field: str, width: int | None) -> list[float]:
    values = row.get(field)
    if not isinstance(values, list) or not 0 < len(values) <= _WIDEST:
        raise Wrong(field, f"{field} is {shown(values)}, expected a list of 1 to {_WIDEST:,} numbers.")
    if width is not None and len(values) != width:
        raise Wrong(
            field, f"{field} has {len(values)} numbers, the lines before have {width}.", "Use one encoder per file."
        )
    return [finite(f"{field}[{place}]", value) for place, value in enumerate(values)]


def _record(line: int, row: dict[str, Any], state: list[float], episode: str, step: int, done: bool) -> Record:
    action = _action(row)
    at = moment(row, "timestamp", optional=True)
    told = [
        ImportedSignal(name=name, value=value, at=at)
        for name in ("reward", "value")
        if (value := number(row, name, optional=name == "value" or row.get("reward") is None)) is not None
    ]
    return Record(
        line=line,
        origin=name_of(row, "id", optional=True),
        action=MUTATIONS[action],
        candidates=_CANDIDATES,
        state={"embedding": state},
        episode=episode,
        step=step,
        at=at,
        probabilities=_probabilities(row, action),
        signals=tuple(told),
        ending="terminated" if done else None,
        ignored=tuple(fields_left(row, _USED)),
    )


def _action(row: dict[str, Any]) -> int:
    action = row.get("action")
    if isinstance(action, str) and action in MUTATIONS:
        return MUTATIONS.index(action)
    if isinstance(action, int) and not isinstance(action, bool) and 0 <= action < len(MUTATIONS):
        return action
    raise Wrong("action", f"action is {shown(action)}, expected 0 to 4 or one of {', '.join(MUTATIONS)}.")


def _probabilities(row: dict[str, Any], action: int) -> tuple[float, ...] | None:
    logarithm = number(row, "log_prob", optional=True)
    if logarithm is None:
        return None
    if logarithm > 1e-6 or logarithm < -30.0:
        raise Wrong(
            "log_prob",
            f"log_prob is {logarithm!r}, expected the logarithm of a probability, from -30 to 0.",
            "Omit it if it is unknown; a proof then cannot use the line.",
        )
    chosen = min(1.0, math.exp(logarithm))
    rest = (1.0 - chosen) / (len(MUTATIONS) - 1)
    return tuple(chosen if place == action else rest for place in range(len(MUTATIONS)))


EXPERIENCES = Format(
    name="mutations",
    about="prompt-mutation experiences of a PPO trainer",
    task=TASK,
    read=read_experiences,
    looks=looks_like_experience,
    priority=45,
)
