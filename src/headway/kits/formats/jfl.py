"""jfl training buffers: an agent's actions in a project, and how much they improved it.

Real buffers mix two kinds of rows, which differ in what they measure:

- `round`: `state {composite_score, dimension_scores, tests_passing, recent_deltas, …}`, `reward {composite_delta, …}`;
- `review`: `state {pr_number, branch}`, `reward {quality_score, model_agreement, dim_…}`, no `composite_delta`.

A row becomes a decision of `next-action` whose only candidate is the action that was taken: the buffer contains neither
the alternatives nor the propensity. Rows that jfl mined (`metadata.source: mined`) keep the source `mined`. The branch
is the episode, so that two measurements of one change never end up on both sides of a split.
"""

from __future__ import annotations

from typing import Any

from headway.kits.data import (
    Format,
    ImportedSignal,
    Options,
    Record,
    Wrong,
    by_line,
    fields_left,
    finite,
    flat,
    moment,
    name_of,
    object_of,
    text_of,
)
from headway.nouns import Candidate, Value

TASK = "next-action"
LABEL = "composite_delta"
_USED = ("id", "v", "ts", "agent", "state", "action", "reward", "metadata")
_ACTION = ("type", "description", "scope", "files_affected", "branch")


def looks_like_buffer(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), dict) for name in ("state", "action", "reward")) and "agent" in row


def read_buffer(line: int, row: dict[str, Any], _: Options) -> Record:
    left = fields_left(row, _USED)
    state, action, reward = object_of(row, "state"), object_of(row, "action"), object_of(row, "reward", optional=True)
    about = object_of(row, "metadata", optional=True)
    rater = name_of(about, "source", optional=True)
    mined = rater == "mined"
    known = {name: value for name, value in state.items() if name not in ("agent", "branch")}
    if "pr_number" in known:
        known["pr_number"] = str(known["pr_number"])  # a name, not a quantity
    at = moment(row, "ts")
    branch = name_of(action, "branch", optional=True) or name_of(state, "branch", optional=True)
    candidate = taken(action, left)
    return Record(
        line=line,
        origin=name_of(row, "id"),
        action=candidate.name,
        candidates=(candidate,),
        state=flat(known, "state", left=left),
        role=name_of(row, "agent", optional=True),
        episode=branch or None,
        at=at,
        source="mined" if mined else "imported",
        signals=signals_of(
            reward, "reward", at, f"mined:{name_of(about, 'mine_source', optional=True)}" if mined else rater, left
        ),
        schema="round" if LABEL in reward else "review",
        ignored=(*left, *(f"metadata.{name}" for name in about if name not in ("source", "mine_source", "branch"))),
    )


def taken(action: dict[str, Any], left: list[str]) -> Candidate:
    """The action that was taken, described as `headway rank next-action` describes candidates."""
    kind, description = name_of(action, "type", optional=True), text_of(action, "description", optional=True)
    if not kind and not description:
        raise Wrong("action", "action has neither a type nor a description, expected at least one of them.")
    features: dict[str, Value] = {"type": kind, "description": description}
    features["scope"] = name_of(action, "scope", optional=True)
    files = action.get("files_affected")
    if files is not None:
        if not isinstance(files, list):
            raise Wrong("action.files_affected", "action.files_affected is not a list of file names.")
        features["files_affected"] = len(files)
    left += [f"action.{name}" for name in fields_left(action, _ACTION)]
    return Candidate((description or kind)[:2000], {name: value for name, value in features.items() if value != ""})


def signals_of(
    values: dict[str, Any], path: str, at: float | None, rater: str, left: list[str], *, words: bool = False
) -> tuple[ImportedSignal, ...]:
    """Every number of an object as a signal; true and false are 1 and 0."""
    signals = []
    for name, value in flat(values, path, left=left, words=words).items():
        if isinstance(value, (bool, int, float)):
            signals.append(ImportedSignal(name=name, value=finite(f"{path}.{name}", value), rater=rater, at=at))
        else:
            left.append(f"{path}.{name}")
    return tuple(signals)


BUFFER = Format(
    name="jfl-buffer",
    about="jfl training buffers, both shapes",
    task=TASK,
    read=by_line(read_buffer),
    looks=looks_like_buffer,
    label=LABEL,
    priority=20,
)
