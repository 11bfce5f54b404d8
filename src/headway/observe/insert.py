"""The rows that the store inserts for decisions, and their SQL. Runs for every decision, so speed matters."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from headway.nouns import SOURCES, Candidate, Decision, ids
from headway.observe.database import Connection, placeholders
from headway.observe.rows import dumps

COLUMNS = (
    "id", "task_id", "episode", "step", "at", "text", "state", "candidate_set_id", "probabilities", "action",
    "propensity", "policy_id", "seed", "config_id", "exploration_id", "source", "role_id", "key_id", "draw",
    "assigned_id", "state_seq", "unit", "position",
)  # fmt: skip
INSERT = f"INSERT INTO decisions ({', '.join(COLUMNS)}) VALUES ({placeholders(COLUMNS)}) ON CONFLICT (id) DO NOTHING"
TOGETHER = 64  # rows per statement
_HEAD, _, _TAIL = INSERT.partition("VALUES ")
_ROW, _, _TAIL = _TAIL.partition(" ON CONFLICT")


@cache
def insert_many(rows: int) -> str:
    """SQL that inserts `rows` rows (at most `TOGETHER`) at once.

    A statement releases the interpreter's lock once, and under a busy event loop the writer waits to get it back.
    """
    return f"{_HEAD}VALUES {', '.join([_ROW] * rows)} ON CONFLICT{_TAIL}"


_COMMON = ("task_id", "candidate_set_id", "policy_id", "config_id", "exploration_id", "source", "role_id", "key_id",
           "state_seq")  # fmt: skip
_OWN = ("id", "at", "text", "state", "probabilities", "action", "propensity", "seed")


@cache
def insert_alike(rows: int) -> str:
    """SQL for rows that share the `_COMMON` columns, bound once: half the time. Only SQLite supports `?1`."""
    marks = [f"?{n}" for n in range(1, 1 + len(_COMMON) + rows * len(_OWN))]
    common, own = marks[: len(_COMMON)], marks[len(_COMMON) :]
    values = (", ".join((*common, *own[place : place + len(_OWN)])) for place in range(0, len(own), len(_OWN)))
    return (
        f"INSERT INTO decisions ({', '.join((*_COMMON, *_OWN))}) VALUES {', '.join(f'({value})' for value in values)} "
        "ON CONFLICT (id) DO NOTHING"
    )


class CandidateSet(NamedTuple):
    """A set as the store keeps it."""

    digest: bytes
    body: str  # plain names as strings, candidates with features as [name, features]
    names: list[str]
    candidates: Sequence[Candidate]


_encoded: dict[int, CandidateSet] = {}


def encode_candidates(candidates: Sequence[Candidate]) -> CandidateSet:
    """The set of a decision; callers intern theirs, so most decisions share one tuple."""
    known = _encoded.get(id(candidates))
    if known is None or known.candidates is not candidates:
        body = dumps([[each.name, each.features] if each.features else each.name for each in candidates])
        digest = hashlib.blake2b(body.encode(), digest_size=16).digest()
        if len(_encoded) > 4096:
            _encoded.clear()
        known = _encoded[id(candidates)] = CandidateSet(digest, body, [each.name for each in candidates], candidates)
    return known


def request_of(decision: Decision) -> tuple[object, ...]:
    """The client's request: two decisions with the same id must agree in it."""
    situation = decision.situation
    return (
        situation.task,
        situation.text,
        dumps(situation.state),
        situation.episode,
        situation.role,
        encode_candidates(decision.candidates).body,
    )


class Prepared(NamedTuple):
    """A decision, with everything that can be computed before the transaction."""

    decision: Decision
    candidates: CandidateSet
    own: tuple[Any, ...]  # the values of `_OWN`, in their order

    @property
    def raw(self) -> bytes:
        """The id."""
        return self.own[0]  # type: ignore[no-any-return]


@cache
def _packer(numbers: int) -> Callable[..., bytes]:
    return struct.Struct(f"<{numbers}d").pack


def ready(decisions: Sequence[Decision]) -> list[Prepared]:
    prepared: list[Prepared] = []
    when, at = -1.0, -1  # decisions of one batch have the same time
    for decision in decisions:
        situation, candidates = decision.situation, encode_candidates(decision.candidates)
        probabilities, seed = decision.probabilities, decision.seed
        if decision.at != when:
            when, at = decision.at, round(decision.at * 1e6)
        own = (
            ids.raw(decision.id),
            at,
            situation.text,
            dumps(situation.state) if situation.state else "{}",
            _packer(len(probabilities))(*probabilities),
            candidates.names.index(decision.action),
            decision.propensity,
            seed - (1 << 64) if seed >= 1 << 63 else seed,  # no database has unsigned 64-bit integers
        )
        prepared.append(Prepared(decision, candidates, own))
    return prepared


def row_of(
    intern: Interner, prepared: Prepared, configs: Mapping[str, str], episode: bytes | None, step: int | None
) -> tuple[Any, ...]:
    """The row of a decision, in the order of `INSERT`."""
    decision, candidates, (raw, at, text, state, probabilities, action, propensity, seed) = prepared
    situation = decision.situation
    shared = (situation.task, decision.policy, decision.policy_hash, decision.config_hash, decision.exploration,
              situation.role, decision.key)  # fmt: skip
    interned = intern.known.get(shared) or intern.new.get(shared)
    if interned is None:
        interned = intern.new[shared] = (
            intern.name("task", situation.task),
            intern.policy(decision.policy, decision.policy_hash),
            intern.config(decision.config_hash, configs[decision.config_hash]),
            intern.name("exploration", decision.exploration),
            intern.name("role", situation.role),
            intern.name("key", decision.key),
        )
    task, policy, config, exploration, role, key = interned
    return (
        raw,
        task,
        episode,
        step,
        at,
        text,
        state,
        intern.known.get(candidates.digest) or intern.candidate_set(candidates.digest, candidates.body),
        probabilities,
        action,
        propensity,
        policy,
        seed,
        config,
        exploration,
        SOURCES.index(decision.source),
        role,
        key,
        ids.raw(decision.draw_id) if decision.draw_id else None,
        intern.name("assigned", decision.assigned) if decision.assigned else None,
        decision.state_seq,
        ids.raw(decision.unit) if decision.unit else None,
        decision.position or None,
    )


def alike(prepared: Sequence[Prepared]) -> bool:
    """Whether the rows differ only in `_OWN`: one task, one policy, one set of candidates, one caller."""
    first = prepared[0].decision
    task, role = first.situation.task, first.situation.role
    for decision, *_ in prepared:
        here = decision.situation
        if not (
            decision.candidates is first.candidates
            and decision.policy_hash == first.policy_hash
            and decision.policy == first.policy
            and decision.config_hash == first.config_hash
            and decision.state_seq == first.state_seq
            and decision.exploration == first.exploration
            and decision.key == first.key
            and decision.source == first.source
            and here.task == task
            and here.role == role
            and here.step is None
            and not decision.draw_id
            and not decision.unit
            and not decision.assigned
        ):
            return False
    return True


def alike_values(row: Sequence[Any], prepared: Sequence[Prepared]) -> list[Any]:
    """The values that `insert_alike` binds; `row` is the `row_of` any of the decisions."""
    values = [row[1], row[7], row[11], row[13], row[14], row[15], row[16], row[17], row[20]]
    for item in prepared:
        values += item.own
    return values


def stamped(decision: Decision, seq: int, step: int | None) -> Decision:
    """The decision with the number that the store assigned: the only field that is set afterwards."""
    if step != decision.situation.step:
        decision = replace(decision, situation=replace(decision.situation, step=step))
    object.__setattr__(decision, "seq", seq)  # a copy of the whole record would cost 9 µs
    return decision


class Interner(NamedTuple):
    """One transaction's view: known ids, then the database, then a new row."""

    connection: Connection
    known: Mapping[Any, Any]  # value → id; or the values that decisions share → their ids
    new: dict[Any, Any]

    def name(self, kind: str, name: str) -> int:
        key = (kind, name)
        return self.known.get(key) or self._intern(key, "names", ("kind", "name"), key)

    def policy(self, ref: str, digest: str) -> int:
        key = ("policy", ref, digest)
        return self.known.get(key) or self._intern(key, "policies", ("ref", "hash"), (ref, digest))

    def candidate_set(self, digest: bytes, body: str) -> int:
        return self._intern(digest, "candidate_sets", ("hash",), (digest,), body)

    def config(self, digest: str, body: str) -> int:
        key = ("config", digest)
        return self.known.get(key) or self._intern(key, "configs", ("hash",), (digest,), body)

    def _intern(
        self, key: Any, table: str, columns: tuple[str, ...], values: tuple[Any, ...], body: str | None = None
    ) -> int:
        known: int | None = self.new.get(key)
        if known is not None:
            return known
        where = " AND ".join(f"{column} = ?" for column in columns)
        row = self.connection.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()
        if row is None:
            if body is not None:
                columns, values = (*columns, "body"), (*values, body)
            marks = placeholders(values)
            row = self.connection.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) RETURNING id", values
            ).fetchone()
        self.new[key] = int(row[0])
        return int(row[0])
