"""The keys that only a reply task has: the model that answers, its system prompt, how it samples and learns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta, Struct

from headway.kits.models import Prompt, Turn
from headway.nouns import errors
from headway.settings import Setting, SettingsTable, TaskSettings

_ACTS = Setting(acts=True)


def _length(table: SettingsTable, key: str) -> tuple[int, int]:
    expected = "two numbers of tokens, the lower one first, such as [7, 24]"
    low, high = table.value(key, tuple[int, int], expected)
    if not 0 < low <= high:
        raise table.error(key, expected)
    return low, high


def _knobs(table: SettingsTable, key: str) -> Mapping[str, Any]:
    """Knobs for `headway learn`; the family checks their names and values when it learns."""
    values = table.table(key)
    for name, value in values.items():
        if not isinstance(value, (str, int, float)):
            raise table.error((key, name), "a text, a number, true or false", value)
    return MappingProxyType(dict(values))


class ReplySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[tasks.NAME] with kind = "reply"."""

    base: Annotated[str, _ACTS] = "smollm2"  # an installed model, ./a/folder, or an upstream
    system: Annotated[str, Setting(acts=True, reader=SettingsTable.passage)] = ""
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000), _ACTS] = 256
    temperature: Annotated[float, Meta(ge=0, le=100), _ACTS] = 0.7  # 0: greedy
    top_p: Annotated[float, Meta(gt=0, le=1), _ACTS] = 0.95
    detectors: tuple[str, ...] = ("rules",)  # what flags a reply as unsafe: "rules", or the folder of a classifier
    reply_length: Annotated[tuple[int, int], Setting(reader=_length)] = (1, 256)  # tokens that `length` rewards
    learn: Annotated[Mapping[str, Any], Setting(reader=_knobs)] = MappingProxyType({})  # how an adapter is learned


def reply_settings(task: TaskSettings) -> ReplySettings:
    """The keys of a reply task; refuses a task of another kind."""
    if not isinstance(task.own, ReplySettings):
        raise errors.InvalidInput(
            f"The task {task.name!r} has the kind {task.kind!r}, expected 'reply'.",
            code="bad_kind",
            hint='Declare a task with kind = "reply" in headway.toml.',
        )
    return task.own


def question_prompt(own: ReplySettings, question: str, *, seed: int, max_tokens: int) -> Prompt:
    """A question by itself, sampled as the task samples."""
    system = (Turn("system", own.system),) if own.system else ()
    turns = (*system, Turn("user", question))
    return Prompt(turns=turns, max_tokens=max_tokens, temperature=own.temperature, top_p=own.top_p, seed=seed)


def knobs(task: TaskSettings) -> dict[str, Any]:
    """What its family learns with."""
    return dict(reply_settings(task).learn)
