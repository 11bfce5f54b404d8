"""The terms of a proof: what a PASS is bound to, and what has changed since.

A candidate is proven as it would be served: with this configuration, this reward, these declarations, against this
policy. If one of them changes, the proof is about something else and a new one is needed. `changes` says what changed
in the words of the settings file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headway.nouns import Evidence

_WORDS = {"encoder_spec": "encoder"}  # a key of the configuration under another name than in the settings
_LONGEST = 60  # characters of a value that a reason quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a proof of this candidate against the current policy is bound to, as of now."""

    candidate: str
    candidate_hash: str
    against: str
    against_hash: str
    reward_version: str
    config_hash: str
    behaviour: str
    declared: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)  # the body behind `config_hash`
    since: int = 0  # the ledger row of the last promotion or rollback
    changed: int = 0  # the ledger row of the last alarm: what was decided before then no longer counts
    lineage: str = ""  # the opponent's hash; of one that learns as it decides, the hash that it started from
    live: bool = False  # the opponent learns as it decides: its hash changes, and the test goes on


def changes(evidence: Evidence, now: Terms, config: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Why the evidence does not apply any more, most important first; empty if it does.

    `config` is the configuration body of the time of the proof, if it is stored.
    """
    same_opponent = evidence.against == now.against or (now.live and evidence.behaviour == now.behaviour)
    if evidence.candidate != now.candidate or not same_opponent:
        return (f"{evidence.candidate} was proven against {evidence.against}; {now.against} is current now",)
    if not evidence.config_hash:
        return ("the evidence does not say which configuration it was made under",)
    why: list[str] = []
    if evidence.config_hash != now.config_hash:
        why += _settings(config, now.config) or ["the configuration of the task has changed"]
    if evidence.reward_version != now.reward_version:
        why.append("the definition of the reward has changed")
    why += _declared(evidence.declared, now.declared)
    policies = (
        (evidence.candidate, evidence.candidate_hash, now.candidate_hash),
        (evidence.against, evidence.against_hash, evidence.against_hash if now.live else now.against_hash),
    )
    if not why:
        why += [f"{ref} is not what it was" for ref, then, is_now in policies if then != is_now]
    if not why and evidence.behaviour != now.behaviour:
        why.append("what would be served has changed")
    if not why and evidence.test and int(evidence.test) < now.since:
        why.append("another policy became current and was taken back since")
    if not why and evidence.test and int(evidence.test) < now.changed:
        why.append("outcomes have changed since")
    return tuple(why)


def _settings(then: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """The settings that differ, by name. The encoder appears twice in a configuration: as set, and by its version."""
    if then is None:
        return []
    keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    if "encoder_spec" in keys and "encoder" in keys:
        keys.remove("encoder")
    return [_was(_WORDS.get(key, key), then.get(key), now.get(key)) for key in keys]


def setting_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two configurations, each as "name, from A to B"."""
    keys = [key for key in {**then, **now} if then.get(key) != now.get(key)]
    if "encoder_spec" in keys and "encoder" in keys:
        keys.remove("encoder")
    changes = []
    for key in keys:
        before, after = _value(then.get(key)), _value(now.get(key))
        short = max(len(before), len(after)) <= _LONGEST
        changes.append(f"{_WORDS.get(key, key)}, from {before} to {after}" if short else _WORDS.get(key, key))
    return changes


def _declared(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    names: Iterable[str] = {**then, **now}
    return [_was(name, then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)]


def _was(name: str, then: Any, now: Any) -> str:
    before, after = _value(then), _value(now)
    if len(before) > _LONGEST or len(after) > _LONGEST:
        return f"{name} is not what it was when it was proven"
    return f"{name} was {before} when it was proven and is {after} now"


def _value(value: Any) -> str:
    """A setting as a person would write it."""
    if value is None or value in ("", [], {}):
        return "not set"
    if isinstance(value, Mapping):
        if set(value) == {"kind", "value"}:  # exploration
            return f"{value['kind']} {value['value']:g}" if value["value"] else str(value["kind"])
        return ", ".join(f"{key} {_value(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_value(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
