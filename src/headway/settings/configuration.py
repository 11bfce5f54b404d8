"""The settings of a task that affect acting: the body that is stored with each decision, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headway.settings.schema import TaskSettings
from headway.settings.strict import fields_of

# A key that tasks had once: every stored body has it, so that equal settings keep equal hashes.
_FORMER = {"model": ""}
_LATER = {"factored", "reply"}  # kinds whose own keys no other body has, for the same reason


def config(task: TaskSettings) -> str:
    """The settings that affect acting, as canonical JSON: the body behind `config_hash`."""
    acting = {
        key.name: _plain(getattr(task, key.name))
        for key in fields_of(TaskSettings)
        if key.setting.acts and not _of_another_kind(task.kind, key.setting.kinds)
    }
    return json.dumps(_FORMER | acting, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _of_another_kind(kind: str, kinds: tuple[str, ...]) -> bool:
    return bool(kinds) and kind not in kinds and set(kinds) <= _LATER


def config_hash(task: TaskSettings) -> str:
    """The same for the same way of acting, in every process: 16 hex digits. Rewards and gates do not enter."""
    return hashlib.sha256(config(task).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
