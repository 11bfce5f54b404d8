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


def config(task: TaskSettings) -> str:
    """The settings that affect acting, as canonical JSON: the body behind `config_hash`."""
    tables: list[Struct] = [task] if task.own is None else [task, task.own]
    acting = {
        key.name: _plain(getattr(table, key.name))
        for table in tables
        for key in fields_of(type(table))
        if key.setting.acts
    }
    if task.unit == "episode":  # attempts change no draw: others keep the hashes that they had before there were units
        acting["unit"] = task.unit
    return json.dumps(_FORMER | acting, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


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
