"""A decision as the row that the store inserts, and the statements that insert it. On the path of every decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from headway.nouns.ids import id_bytes
from headway.nouns.records import SOURCES, Decision
from headway.observe.names import Names
from headway.observe.rows import dumps, encode_candidates, microseconds, pack, signed

__all__ = ["INSERT", "TOGETHER", "Prepared", "insert_many", "ready", "row_of", "stamped"]

INSERT = (
    "INSERT INTO decisions (id, task_id, episode, step, at, text, state, candidate_set_id, probabilities, action, "
    "propensity, policy_id, seed, config_id, exploration_id, source, role_id, key_id, draw, assigned_id, state_seq) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
)
TOGETHER = 64
_HEAD, _, _TAIL = INSERT.partition("VALUES ")
_ROW, _, _TAIL = _TAIL.partition(" ON CONFLICT")


@cache
def insert_many(rows: int) -> str:
    """So many rows, at most `TOGETHER`, in one statement: the interpreter's lock is let go of once per statement, and
    a busy event loop keeps a writer waiting for it each time.
    """
    return f"{_HEAD}VALUES {', '.join([_ROW] * rows)} ON CONFLICT{_TAIL}"


class Prepared(NamedTuple):
    """A decision with everything that can be computed outside the transaction."""

    decision: Decision
    raw: bytes
    candidates: tuple[bytes, str]
    state: str


def ready(decisions: Sequence[Decision]) -> list[Prepared]:
    return [
        Prepared(each, id_bytes(each.id), encode_candidates(each.candidates), dumps(each.situation.state))
        for each in decisions
    ]


def row_of(
    intern: Names.Session,
    prepared: Prepared,
    configs: Mapping[str, str],
    episode: bytes | None,
    step: int | None,
    shared: dict[Any, tuple[int, ...]] | None = None,
) -> tuple[Any, ...]:
    """The row of a decision; `shared` keeps the ids that the decisions of one batch have in common."""
    decision = prepared.decision
    situation = decision.situation
    whose = (situation.task, decision.policy, decision.policy_hash, decision.config_hash, decision.exploration,
             situation.role, decision.key)  # fmt: skip
    ids = None if shared is None else shared.get(whose)
    if ids is None:
        ids = (
            intern.name("task", situation.task),
            intern.policy(decision.policy, decision.policy_hash),
            intern.config(decision.config_hash, configs[decision.config_hash]),
            intern.name("exploration", decision.exploration),
            intern.name("role", situation.role),
            intern.name("key", decision.key),
        )
        if shared is not None:
            shared[whose] = ids
    task, policy, config, exploration, role, key = ids
    return (
        prepared.raw,
        task,
        episode,
        step,
        microseconds(decision.at),
        situation.text,
        prepared.state,
        intern.candidate_set(*prepared.candidates),
        pack(decision.probabilities),
        decision.index,
        decision.propensity,
        policy,
        signed(decision.seed),
        config,
        exploration,
        SOURCES.index(decision.source),
        role,
        key,
        id_bytes(decision.draw_id) if decision.draw_id else None,
        intern.name("assigned", decision.assigned) if decision.assigned else None,
        decision.state_seq,
    )


def stamped(decision: Decision, seq: int, step: int | None) -> Decision:
    """The decision with the number that the store gave it: the one field that is filled in after the fact."""
    if step != decision.situation.step:
        decision = replace(decision, situation=replace(decision.situation, step=step))
    object.__setattr__(decision, "seq", seq)  # a copy of the whole record would cost 9 µs
    return decision
