"""jfl journals, service events and map events: decisions with weak labels, marked as mined.

If a line has a measured number (`score_delta`, the `delta` of `eval:scored`), that number is the label and the rater is
`mined:measured`. Otherwise the label is inferred from a status or a type, by the table that jfl's own miner uses, and
the rater is `mined:inferred`. The decision's source is always `mined`: learning and proving ignore it by default.

Not covered: sessions (they need several files at once) and telemetry archives.

jfl training buffers: an agent's actions in a project, and how much they improved it.

Real buffers mix two kinds of rows, which differ in what they measure:

- `round`: `state {composite_score, dimension_scores, tests_passing, recent_deltas, …}`, `reward {composite_delta, …}`;
- `review`: `state {pr_number, branch}`, `reward {quality_score, model_agreement, dim_…}`, no `composite_delta`.

A row becomes a decision of `next-action` whose only candidate is the action that was taken: the buffer contains neither
the alternatives nor the propensity. Rows that jfl mined (`metadata.source: mined`) keep the source `mined`. The branch
is the episode, so that two measurements of one change never end up on both sides of a split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headway.kits.data import (
    Format,
    ImportedSignal,
    Options,
    Problem,
    Record,
    Row,
    Skipped,
    Wrong,
    by_line,
    fields_left,
    finite,
    flat,
    moment,
    name_of,
    number,
    object_of,
    text_of,
)
from headway.nouns import Candidate, Value

MEASURED, INFERRED = "mined:measured", "mined:inferred"
_TYPES = {
    "feature": "feature",
    "fix": "fix",
    "decision": "config",
    "discovery": "experiment",
    "milestone": "feature",
    "spec": "config",
    "experiment": "experiment",
    "progress": "feature",
}
_BY_STATUS = {"blocked": -0.01, "incomplete": -0.005}
_BY_TYPE = {"milestone": 0.05, "feature": 0.02, "fix": 0.015, "discovery": 0.005, "decision": 0.0, "spec": 0.005}
_OTHER = 0.01
_USED = ("v", "ts", "session", "type", "status", "title", "files", "score_delta", "agent_id", "hypothesis")
_FLOW_S = 60.0  # a flow that has not completed by then has failed
_OPEN = 10_000  # open flows at a time
TASK = "next-action"
LABEL = "composite_delta"
_TUPLE_FIELDS = ("id", "v", "ts", "agent", "state", "action", "reward", "metadata")
_ACTION = ("type", "description", "scope", "files_affected", "branch")


def looks_like_journal(row: dict[str, Any]) -> bool:
    return isinstance(row.get("title"), str) and {"ts", "type", "session"} <= row.keys() and "data" not in row


def read_journal(line: int, row: dict[str, Any], _: Options) -> Record | Skipped:
    kind = name_of(row, "type")
    if kind not in _TYPES:
        return Skipped(line, f"journal entries of type {kind!r} hold no action")
    session, title = name_of(row, "session", optional=True), text_of(row, "title", most=10_000)
    if not title:
        raise Wrong("title", "title is empty, expected what was done.")
    at, status = moment(row, "ts"), name_of(row, "status", optional=True)
    files = row.get("files") or []
    if not isinstance(files, list):
        raise Wrong("files", "files is not a list of file names.")
    scope = "small" if len(files) <= 3 else "medium" if len(files) <= 7 else "large"
    measured = number(row, "score_delta", optional=True, words=True)
    features: dict[str, Value] = {"type": _TYPES[kind], "description": title, "scope": scope}
    weak = measured if measured is not None else _BY_STATUS.get(status, _BY_TYPE.get(kind, _OTHER))
    signal = ImportedSignal(name=LABEL, value=weak, rater=INFERRED if measured is None else MEASURED, at=at)
    candidate = Candidate(title[:2000], features)
    return Record(
        line=line,
        origin="",
        action=candidate.name,
        candidates=(candidate,),
        state={"journal": session} if session else {},
        role=name_of(row, "agent_id", optional=True),
        episode=f"{session} {str(row['ts'])[:10]}",  # keeps a day's work on one side of a split
        at=at,
        source="mined",
        signals=(signal,),
        schema="measured" if measured is not None else "inferred",
        # The outcome in an entry is not part of the situation.
        ignored=tuple(fields_left(row, _USED)),
    )


def looks_like_event(row: dict[str, Any]) -> bool:
    return isinstance(row.get("data"), dict) and isinstance(row.get("type"), str) and "ts" in row


def read_events(rows: Iterable[Row | Problem], _: Options) -> Iterator[Record | Skipped | Problem]:
    """Yield scored evaluations and reviews at once, and a flow when it completes, fails, or the file ends."""
    flows: dict[tuple[str, str], tuple[int, Record]] = {}
    last = 0.0
    for item in rows:
        if isinstance(item, Problem):
            yield item
            continue
        line, row = item
        try:
            kind = name_of(row, "type")
            at = moment(row, "ts")
            assert at is not None
            last = max(last, at)
            for key in _overdue(flows, at):
                yield flows.pop(key)[1]
            if kind in ("eval:scored", "review:scored"):
                yield _scored(line, row, kind, at)
            elif kind == "flow:triggered":
                key = _flow(row)
                if key in flows:
                    yield flows.pop(key)[1]
                flows[key] = (line, _triggered(line, row, key[0], at))
            elif kind == "flow:completed":
                yield from _ended(line, row, flows.pop(_flow(row), None), at)
            else:
                why = "repeats an entry of a journal" if kind == "journal:entry" else "holds no action"
                yield Skipped(line, f"{kind} {why}")
        except Wrong as wrong:
            yield Problem(line, wrong.field, wrong.message, wrong.cure)
    for line, flow in flows.values():
        if flow.at is not None and last - flow.at > _FLOW_S:
            yield flow
        else:
            yield Skipped(line, "a flow that is still running: import again when it has ended")


def _overdue(flows: Mapping[tuple[str, str], tuple[int, Record]], at: float) -> Iterable[tuple[str, str]]:
    """The flows that have failed by now, and the oldest of too many."""
    late = [key for key, (_, flow) in flows.items() if flow.at is not None and at - flow.at > _FLOW_S]
    if len(flows) >= _OPEN:
        late.append(next(iter(flows)))
    return dict.fromkeys(late)


def _scored(line: int, row: dict[str, Any], kind: str, at: float) -> Record:
    data = object_of(row, "data")
    left = fields_left(row, ("ts", "type", "source", "data", "id", "session"))
    branch = name_of(data, "branch", optional=True)
    values = {name: data[name] for name in data if name.startswith(("dim_", "tests_")) or name in _SCORES}
    known = {"baseline": "composite_score", "pr_number": "pr_number"}
    state = flat({ours: data[name] for name, ours in known.items() if name in data}, "data", left=left, words=True)
    if "pr_number" in state:
        state["pr_number"] = str(data["pr_number"])
    signals = signals_of(values, "data", at, MEASURED, left, words=True)
    if "delta" in data:
        delta = number(data, "delta", words=True)
        assert delta is not None
        signals += (ImportedSignal(name=LABEL, value=delta, rater=MEASURED, at=at),)
    label = branch or f"PR {data.get('pr_number', '?')}"
    candidate = Candidate(label, {"type": "experiment", "description": label, "scope": "medium"})
    used = (*values, *known, "delta", "branch", "agent")
    return Record(
        line=line,
        origin=name_of(row, "id", optional=True),
        action=candidate.name,
        candidates=(candidate,),
        state=state,
        role=name_of(data, "agent", optional=True) or name_of(row, "source", optional=True),
        episode=branch or None,
        at=at,
        source="mined",
        signals=signals,
        schema=kind,
        ignored=(*left, *(f"data.{name}" for name in fields_left(data, used))),
    )


_SCORES = (
    "composite", "improved", "quality_score", "model_agreement", "dimensions", "findings_count", "has_blockers",
    "severity_counts",
)  # fmt: skip


def _flow(row: dict[str, Any]) -> tuple[str, str]:
    """The key of a flow: its name and the event that triggered it, so that two runs never share an outcome."""
    data = object_of(row, "data")
    name = name_of(data, "flow_name", optional=True) or name_of(data, "flow", optional=True)
    if not name:
        raise Wrong("data.flow_name", "data.flow_name is missing, expected the name of the flow.")
    return name, name_of(data, "trigger_event_id", optional=True)


def _triggered(line: int, row: dict[str, Any], name: str, at: float) -> Record:
    """A flow that has not ended: a weak negative label, until it completes."""
    by = name_of(object_of(row, "data"), "trigger_event_type", optional=True)
    candidate = Candidate(f"flow {name}", {"type": "config", "description": f"flow {name}", "scope": "small"})
    return Record(
        line=line,
        origin=name_of(row, "id", optional=True),
        action=candidate.name,
        candidates=(candidate,),
        state={"trigger": by} if by else {},
        role="flow-engine",
        at=at,
        source="mined",
        signals=(ImportedSignal(name=LABEL, value=-0.005, rater=INFERRED, at=at),),
        schema="flow",
    )


def _ended(line: int, row: dict[str, Any], waiting: tuple[int, Record] | None, at: float) -> Iterator[Record | Skipped]:
    """The flow that an event completes."""
    if waiting is None:
        yield Skipped(line, "a flow that completed without a start, or too late")
        return
    failed = number(row, "data.actions_failed", optional=True, words=True) or 0.0
    yield _completed(waiting[1], failed == 0.0, at)
    yield Skipped(line, "flow:completed is the outcome of an earlier line")


def _completed(flow: Record, well: bool, at: float) -> Record:
    from msgspec.structs import replace

    signal = ImportedSignal(name=LABEL, value=0.005 if well else -0.005, rater=INFERRED, at=at)
    return replace(flow, signals=(signal,))


JOURNAL = Format(
    name="jfl-journal",
    about="jfl session journals (weak labels)",
    task=TASK,
    read=by_line(read_journal),
    looks=looks_like_journal,
    label=LABEL,
    weak=True,
    priority=21,
)
EVENTS = Format(
    name="jfl-events",
    about="jfl service and map events (weak labels)",
    task=TASK,
    read=read_events,
    looks=looks_like_event,
    label=LABEL,
    weak=True,
    priority=22,
)


def looks_like_buffer(row: dict[str, Any]) -> bool:
    return all(isinstance(row.get(name), dict) for name in ("state", "action", "reward")) and "agent" in row


def read_buffer(line: int, row: dict[str, Any], _: Options) -> Record:
    left = fields_left(row, _TUPLE_FIELDS)
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
