"""Convert records to rows and back. Runs for every decision, so it uses no reflection and makes no copies."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.nouns import SOURCES, Candidate, Decision, Settled, Situation, State, Status, ids
from headway.observe.damage import UNREADABLE, damaged

STATUSES: tuple[Status, ...] = ("pending", "rewarded", "failed", "censored")
BLOCK = 65_536  # numbers of decisions whose columns are stored together: see `frame`
_STATUS_NUMBERS = range(len(STATUSES))

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

DECISION_COLUMNS = (
    "d.seq, d.id, t.name, e.name, d.step, d.at, d.text, d.state, c.body, d.probabilities, d.action, d.propensity, "
    "p.ref, p.hash, d.seed, g.hash, x.name, d.source, r.name, k.name, d.draw, a.name, d.state_seq, g.body, "
    "d.unit, d.position"
)
DECISION_TABLES = (
    "decisions d JOIN names t ON t.id = d.task_id JOIN candidate_sets c ON c.id = d.candidate_set_id "
    "JOIN policies p ON p.id = d.policy_id JOIN configs g ON g.id = d.config_id "
    "JOIN names x ON x.id = d.exploration_id JOIN names r ON r.id = d.role_id JOIN names k ON k.id = d.key_id "
    "LEFT JOIN episodes e ON e.id = d.episode LEFT JOIN names a ON a.id = d.assigned_id"
)
_FIRST = (
    "CASE WHEN s.replaces IS NULL THEN s.seq ELSE (SELECT MIN(f.seq) FROM settled f WHERE f.decision = s.decision) END"
)
OUTCOME_COLUMNS = f"s.seq, s.reward, s.status, s.replaces, s.weight, {_FIRST}, s.clipped"
SETTLED_COLUMNS = f"{OUTCOME_COLUMNS}, {DECISION_COLUMNS}"
SETTLED_TABLES = "settled s JOIN " + DECISION_TABLES.replace(
    "decisions d JOIN", "decisions d ON d.seq = s.decision JOIN", 1
)
# The decisions that count: not those that repeat a draw, and of a request or an episode only the first one.
LEADS = "d.draw IS NULL AND d.position IS NULL"
REQUESTS = "(d.draw IS NULL OR d.position IS NULL)"  # all but the later attempts of a request, which is one decision
_WIDTH = DECISION_COLUMNS.count(",") + 1
OUTCOME_WIDTH = 7


def microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def dumps(value: object) -> str:
    """Canonical JSON: equal values give equal texts, which can be compared and hashed."""
    if type(value) is dict and not value:
        return "{}"
    return _encoder.encode(value).decode()


def loads(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except UNREADABLE as error:
        raise damaged("A stored value", error) from error


_sets: dict[str, tuple[Candidate, ...]] = {}


def decode_candidates(body: str) -> tuple[Candidate, ...]:
    """Interned: rows with the same candidate set share one tuple, so readers may compare by identity."""
    known = _sets.get(body)
    if known is None:
        loaded = loads(body)
        try:
            known = tuple(Candidate(one) if isinstance(one, str) else Candidate(one[0], one[1]) for one in loaded)
        except UNREADABLE as error:
            raise damaged("A candidate set", error) from error
        if len(_sets) > 4096:
            _sets.clear()
        _sets[body] = known
    return known


_encoders: dict[str, str] = {}


def _encoder_of(config: str) -> str:
    known = _encoders.get(config)
    if known is None:
        known = _encoders[config] = str(loads(config).get("encoder", ""))
    return known


_NOTHING: State = {}
_NO_SIGNALS: Mapping[str, float] = {}
_NO_RATERS: Mapping[str, Sequence[tuple[str, float]]] = {}


def decision_from_row(row: Sequence[Any]) -> Decision:
    """The decision in the first columns of `row`, as DECISION_COLUMNS selects them."""
    try:
        return _decision(row[:_WIDTH])
    except UNREADABLE as error:
        raise damaged(f"The decision in row {row[0]!r} of the store", error) from error


def _decision(row: Sequence[Any]) -> Decision:
    (seq, raw, task, episode, step, at, text, state, body, blob, action, propensity,
     ref, digest, seed, config_hash, exploration, source, role, key, draw, assigned, state_seq, config,
     unit, position,
     ) = row  # fmt: skip
    candidates = decode_candidates(body)
    probabilities = struct.unpack(f"<{len(blob) // 8}d", blob)
    if not (
        action >= 0
        and 0.0 <= propensity <= 1.0
        and math.isfinite(sum(probabilities))
        and (not blob or len(probabilities) == len(candidates))
        and (step is None or step >= 0)
    ):
        raise ValueError("an action, step or probability is none")
    return Decision(
        id=ids.text(raw),
        situation=situation_of(seq, task, episode, step, text, state, role),
        candidates=candidates,
        probabilities=probabilities,
        action=candidates[action].name,
        propensity=propensity,
        policy=ref,
        policy_hash=digest,
        config_hash=config_hash,
        encoder=_encoder_of(config),
        exploration=exploration,
        seed=seed & 0xFFFFFFFFFFFFFFFF,
        at=at / 1e6,
        source=SOURCES[source],
        draw_id=ids.text(draw) if draw else "",
        assigned=assigned or "",
        state_seq=state_seq,
        key=key,
        unit=ids.text(unit) if unit else "",
        position=position or 0,
        seq=seq,
    )


def situation_of(
    seq: int, task: str, episode: str | None, step: int | None, text: Any, state: Any, role: str
) -> Situation:
    """The situation in these columns of a row."""
    known = _NOTHING if state == "{}" else loads(state)
    if type(text) is not str or type(known) is not dict:
        raise damaged(f"The decision in row {seq!r} of the store", "its text or state is none")
    return Situation(task=task, text=text, state=known, episode=episode, step=step, role=role)


def settled_from_row(row: Sequence[Any]) -> Settled:
    """The row of the outcome log that SETTLED_COLUMNS selects."""
    return settled_of(row, decision_from_row(row[OUTCOME_WIDTH:]))


def settled_of(
    row: Sequence[Any],
    decision: Decision,
    signals: Mapping[str, float] = _NO_SIGNALS,
    said: Mapping[str, Sequence[tuple[str, float]]] = _NO_RATERS,
) -> Settled:
    """A decision with the outcome in the first columns of `row`, as OUTCOME_COLUMNS selects them."""
    seq, reward, status, replaces, weight, first, clipped = row[:OUTCOME_WIDTH]
    if status not in _STATUS_NUMBERS or not _is_number(reward) or not _is_number(weight):
        raise damaged(f"The outcome in row {seq!r} of the store", "its reward, status or weight is none")
    return Settled(
        seq=seq,
        reward=reward,
        status=STATUSES[status],
        replaces=replaces,
        first=first,
        clipped=bool(clipped),
        weight=1.0 if weight is None else weight,
        decision=decision,
        signals=signals,
        said=said,
    )


def _is_number(value: object) -> bool:
    return value is None or type(value) is float
