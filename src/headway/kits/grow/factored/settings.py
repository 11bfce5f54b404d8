"""The keys of a factored task: `heads`, `needs` and `masks` of a [tasks.NAME] table.

    heads = { op = ["ANSWER", "RETRY", "STOP"], model = ["small", "large"], effort = ["low", "high"] }
    needs = { STOP = [], RETRY = ["model"] }            # ANSWER is not named: it uses every other head
    masks = { model = { RETRY = ["large"] } }           # a retry goes to the large model

`heads` may also name what a kit brings: heads = "morph".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Struct

from headway.kits.grow.factored.space import Factored, Head
from headway.nouns import Catalogue, errors
from headway.settings import Setting, SettingsTable

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_ACTS = Setting(acts=True)
_Heads = tuple[tuple[str, tuple[str, ...]], ...]
_HEADS = 'a table of heads and their choices, such as { op = ["ANSWER", "STOP"], model = ["small", "large"] }'
_MOST_HEADS = 64
_MOST_CHOICES = 1000


class FactoredSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[tasks.NAME] with kind = "factored"."""

    heads: Annotated[tuple[tuple[str, tuple[str, ...]], ...], _ACTS] = ()  # (name, choices) each, the lead first
    needs: Annotated[Mapping[str, tuple[str, ...]], _ACTS] = _EMPTY  # which heads each choice of the lead uses
    masks: Annotated[Mapping[str, Any], _ACTS] = _EMPTY  # what is allowed: head → choices, or lead choice → choices

    @property
    def space(self) -> Factored:
        """The heads as a space."""
        return Factored(tuple(Head(name, choices) for name, choices in self.heads), self.needs)


def read_factored(catalogue: Catalogue, table: SettingsTable) -> FactoredSettings:
    """The keys of a factored task; its heads may be those that a kit brings by name, or by its world."""
    heads = _heads(catalogue, table)
    needs = _needs(catalogue, table, heads)
    return FactoredSettings(heads=heads, needs=needs, masks=_masks(table, heads, needs))


def _heads(catalogue: Catalogue, table: SettingsTable) -> _Heads:
    """(name, choices) of each head, in the order of the file."""
    value = table.values.get("heads", table.values.get("world", {}))
    if isinstance(value, str):
        return tuple((head.name, head.choices) for head in _space_of(catalogue, table, value).heads)
    if not isinstance(value, Mapping):
        raise table.error("heads", _HEADS, value)
    if not value:
        raise table.missing("heads", _HEADS)
    if len(value) > _MOST_HEADS:
        raise table.error("heads", f"at most {_MOST_HEADS} heads", None)
    heads = tuple((name, _choices(table, ("heads", name), choices)) for name, choices in value.items())
    _checked(table, "heads", heads, {})
    return heads


def _needs(catalogue: Catalogue, table: SettingsTable, heads: _Heads) -> Mapping[str, tuple[str, ...]]:
    named = table.values.get("heads", table.values.get("world"))
    if isinstance(named, str):
        if "needs" in table:
            raise table.error("needs", f'no value: heads = "{named}" brings its own', None)
        return MappingProxyType(dict(_space_of(catalogue, table, named).needs))
    given = table.table("needs")
    needs = {choice: _names(table, ("needs", choice), used) for choice, used in given.items()}
    _checked(table, "needs", heads, needs)
    return MappingProxyType(needs)


def _masks(table: SettingsTable, heads: _Heads, needs: Mapping[str, tuple[str, ...]]) -> Mapping[str, Any]:
    choices, lead = dict(heads), heads[0][0]
    masks: dict[str, Any] = {}
    for head, allowed in table.table("masks").items():
        _known(table, ("masks", head), head, choices)
        if not isinstance(allowed, Mapping):
            masks[head] = _allowed(table, ("masks", head), allowed, choices[head])
            continue
        if head == lead:
            raise table.error(("masks", head), "a list: the first head depends on nothing", allowed)
        for choice in allowed:
            _known(table, ("masks", head, choice), choice, choices[lead])
        masks[head] = {
            choice: _allowed(
                table, ("masks", head, choice), some, choices[head], least=head in needs.get(choice, (head,))
            )
            for choice, some in allowed.items()
        }
    return MappingProxyType(masks)


def _space_of(catalogue: Catalogue, table: SettingsTable, name: str) -> Factored:
    key = "heads" if "heads" in table else "world"
    spaces = catalogue.all("spaces")
    if name not in spaces:
        known = " or ".join((_HEADS, *(f'"{space}"' for space in spaces)))
        hint = errors.did_you_mean(name, spaces)
        if key == "world":
            raise table.missing("heads", _HEADS)
        raise table.error(key, known, name, hint if hint.startswith("Did") else "")
    space: Factored = catalogue.load(spaces[name])
    return space


def _checked(table: SettingsTable, key: str, heads: Iterable[Any], needs: Mapping[str, tuple[str, ...]]) -> None:
    """What the heads themselves refuse, with the place in the file."""
    try:
        Factored(tuple(Head(name, choices) for name, choices in heads), needs)
    except errors.InvalidSettings as error:
        raise table.within((key,), error) from None


def _choices(table: SettingsTable, keys: tuple[str, ...], value: object) -> tuple[str, ...]:
    choices = _names(table, keys, value)
    if not 0 < len(choices) <= _MOST_CHOICES:
        raise table.error(keys, f"1 to {_MOST_CHOICES:,} choices", None)
    return choices


def _allowed(
    table: SettingsTable, keys: tuple[str, ...], value: object, choices: tuple[str, ...], *, least: bool = True
) -> tuple[str, ...]:
    """Choices that are allowed; at least one where the head is used."""
    allowed = _names(table, keys, value)
    if least and not allowed:
        raise table.error(keys, "at least one choice", value)
    for choice in allowed:
        _known(table, keys, choice, choices)
    return allowed


def _names(table: SettingsTable, keys: tuple[str, ...], value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise table.error(keys, 'a list of names such as ["small", "large"]', value)
    return tuple(value)


def _known(table: SettingsTable, keys: tuple[str, ...], name: str, known: Iterable[str]) -> None:
    if name not in known:
        names = list(known)
        listed = ", ".join(map(json.dumps, names))
        raise table.error(keys, f"names among {listed}", name, errors.did_you_mean(name, names))
