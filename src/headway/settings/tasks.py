"""A [tasks.NAME] table → TaskSettings: the keys whose value depends on others, and the checks across keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from headway.decide import BUILT_IN, parse
from headway.nouns import Catalogue, Kind, errors, load
from headway.reward import PRESET_RANGE, PRESETS, RESERVED, Rewards, Term, Worth, default_required, is_name, term
from headway.settings.kits import kit_hint
from headway.settings.schema import (
    EncoderEndpoint,
    Exploration,
    Explore,
    GuardSettings,
    Role,
    RuleSettings,
    TaskSettings,
)
from headway.settings.strict import Special, fields_of, keys_of, read
from headway.settings.table import SettingsTable, quoted

# The default of a value, and its bounds (above the first, up to the second).
EXPLORATION_VALUES: Mapping[Exploration, tuple[float, float, float]] = MappingProxyType(
    {
        "epsilon": (0.1, 0.0, 1.0),  # the share of uniform choices
        "softmax": (0.1, 0.0, math.inf),  # the temperature, in units of reward
        "squarecb": (100.0, 0.0, math.inf),  # gamma: larger is greedier
        "thompson": (1.0, 0.0, math.inf),  # the factor on deviations: smaller is greedier
    }
)
_ENDPOINT = "endpoint"  # the encoder of a table { url, model }; not a name to write
_Values = Mapping[str, Any]  # the keys that are read already


def task(name: str, table: SettingsTable, catalogue: Catalogue, upstreams: Set[str] = frozenset()) -> TaskSettings:
    """The task that a table declares, with the kinds, families, encoders and action sets of a catalogue."""
    kind = kind_of(table, catalogue)
    traits = catalogue.kind(kind)
    _check_kind(table, kind, catalogue)
    filled = table.filled(traits.defaults)
    special: dict[str, Special] = {
        **_SPECIAL,
        "actions": partial(_actions, catalogue),
        "family": partial(_family, catalogue),
        "encoder": partial(_encoder, catalogue),
        "required": partial(_required, traits),
    }
    own = _own(traits, table, catalogue)
    task = read(TaskSettings, filled, special, name=name, kind=kind, traits=traits, own=own)
    _check_state(table, task)
    if (
        task.unit == "decision"
        and kind == "choice"
        and upstreams
        and not upstreams.isdisjoint(task.actions or upstreams)
    ):
        task = replace(task, unit="request")  # a call that fails is tried elsewhere
    if task.sticky and task.unit == "episode":
        raise table.error("unit", 'no "episode" beside sticky = true: an episode that keeps to one draw is one already')
    _check_actions(table, task)
    _check_conditions(table, task)
    _check_rewards(table, task)
    return task


def task_keys(catalogue: Catalogue, tables: Iterable[Any]) -> tuple[str, ...]:
    """The keys that these tables of tasks may have: those of kits' kinds too, if some table needs more than ours."""
    ours = keys_of(TaskSettings)
    if all(table.keys() <= set(ours) for table in tables if isinstance(table, Mapping)):
        return ours
    return tuple(dict.fromkeys((*ours, *(key for kind in catalogue.all("kinds").values() for key in _own_keys(kind)))))


def _own_keys(kind: Kind) -> tuple[str, ...]:
    return keys_of(load(kind.settings)) if kind.settings else ()


def _check_kind(table: SettingsTable, kind: str, catalogue: Catalogue) -> None:
    """No key that only other kinds have."""
    having: Mapping[str, Kind] = catalogue.all("kinds")
    allowed = {key.name for key in fields_of(TaskSettings) if not key.setting.some}
    allowed |= {*having[kind].keys, *_own_keys(having[kind])}
    for key in table.values:
        if key not in allowed:
            kinds = [name for name, other in having.items() if key in (*other.keys, *_own_keys(other))]
            raise table.misplaced(key, kinds, kind)


def _own(kind: Kind, table: SettingsTable, catalogue: Catalogue) -> Struct | None:
    """The keys that only this kind has."""
    if not kind.settings:
        return None
    struct: type[Struct] = load(kind.settings)
    own: Struct = load(kind.reads)(catalogue, table) if kind.reads else read(struct, table)
    return own


# -- keys whose value depends on others or on the catalogue, or that may be written in several ways


def kind_of(table: SettingsTable, catalogue: Catalogue) -> str:
    """The kind of a task: one that some family decides."""
    if "kind" not in table:
        return "choice"
    return table.one_of("kind", tuple(catalogue.all("kinds")), partial(kit_hint, catalogue))


def _family(catalogue: Catalogue, table: SettingsTable, values: _Values) -> str:
    families = catalogue.families(values["kind"])
    return table.one_of("family", families, partial(kit_hint, catalogue)) if "family" in table else families[0]


def _actions(catalogue: Catalogue, table: SettingsTable, _: _Values) -> tuple[str, ...]:
    if "actions" not in table:
        return ()
    value = table.values["actions"]
    if isinstance(value, str):
        sets: Mapping[str, tuple[str, ...]] = catalogue.all("actions")
        if value not in sets:
            expected = " or ".join(('a list such as ["small", "large"]', *map(quoted, sets)))
            hint = errors.did_you_mean(value, sets)
            raise table.error("actions", expected, value, hint if hint.startswith("Did") else "")
        return sets[value]
    actions = table.texts("actions")
    if not actions:
        raise table.error("actions", "at least one action", value)
    return actions


def _reward(table: SettingsTable, _: _Values) -> Mapping[str, Term] | str:
    if "reward" not in table:
        return MappingProxyType({"reward": Term()})
    value = table.values["reward"]
    if isinstance(value, str):
        if value not in PRESETS and not is_name(value):
            raise table.error(
                "reward",
                'a table of signals, "module:function" or a preset',
                value,
                errors.did_you_mean(value, PRESETS),
            )
        return value
    if not isinstance(value, Mapping) or not value:
        raise table.error("reward", "a table of signals and weights, such as { solved = 1.0 }", value)
    terms: dict[str, Term] = {}
    for name, weight in value.items():
        if name in RESERVED:
            why = "on_failure sets what a failed call is worth" if name == "failed" else "it is a gate, not a weight"
            raise table.error(("reward", name), f"no weight: {why}", weight)
        try:
            terms[name] = term(weight)
        except ValueError as error:
            raise table.error(("reward", name), str(error), weight) from None
    return MappingProxyType(terms)


def _required(traits: Kind, table: SettingsTable, values: _Values) -> tuple[str, ...]:
    if "required" not in table:
        needed = tuple(name for name in default_required(values["reward"]) if name not in traits.measures)
        return () if traits.ratings and set(needed) == set(traits.ratings) else needed  # whichever comes
    required = table.texts("required")
    for name in required:
        if name in RESERVED:
            raise table.error("required", f"signals that come with every outcome; {name!r} does not")
    return required


def _range(table: SettingsTable, values: _Values) -> tuple[float, float]:
    if "range" in table:
        return _limits(table)
    reward = values["reward"]
    return PRESET_RANGE if isinstance(reward, str) and reward in PRESETS else (-1.0, 1.0)


def _guard_range(table: SettingsTable, _: _Values) -> tuple[float, float] | None:
    return _limits(table) if "range" in table else None


def _limits(table: SettingsTable) -> tuple[float, float]:
    expected = "two finite numbers, the lower one first, such as [-1, 1]"
    low, high = table.value("range", tuple[float, float], expected)
    if not -math.inf < low < high < math.inf:
        raise table.error("range", expected)
    return low, high


def _on_failure(table: SettingsTable, values: _Values) -> Worth:
    low: float = values["range"][0]
    return _worth(table, "on_failure", values) if "on_failure" in table else low


def _on_censored(table: SettingsTable, values: _Values) -> Worth:
    return _worth(table, "on_censored", values) if "on_censored" in table else "exclude"


def _worth(table: SettingsTable, key: str, values: _Values) -> Worth:
    low, high = values["range"]
    if table.values[key] == "exclude":
        return "exclude"
    expected = f'"exclude" or a number within the range [{low:g}, {high:g}]'
    worth = table.value(key, float, expected)
    if not low <= worth <= high:
        raise table.error(key, expected)
    return worth


def _rules(table: SettingsTable, _: _Values) -> tuple[RuleSettings, ...]:
    value = table.values.get("rules", [])
    if not isinstance(value, list):
        raise table.error("rules", 'a list such as [{ when = "…", use = "large" }]', value)
    rules = []
    for place, row in enumerate(value):
        keys = ("rules", str(place))
        if not isinstance(row, Mapping):
            raise table.error(keys, 'a table { when = "…", use = "…" }', row)
        rules.append(read(RuleSettings, table.inner(keys, row, keys_of(RuleSettings))))
    return tuple(rules)


def _roles(table: SettingsTable, _: _Values) -> Mapping[str, Role]:
    roles = {}
    for name in table.table("roles"):
        table.text(("roles", name), name)
        row = table.below("roles", name, keys_of(Role))
        roles[name] = read(Role, row)
        if roles[name].triggers and "fallback" not in row:
            raise row.missing("fallback", "the action that the triggers lead to")
    return MappingProxyType(roles)


def _encoder(catalogue: Catalogue, table: SettingsTable, _: _Values) -> str | EncoderEndpoint:
    value = table.values.get("encoder", "hashing")
    if isinstance(value, Mapping):
        return read(EncoderEndpoint, table.inner(("encoder",), value, keys_of(EncoderEndpoint)))
    names = tuple(name for name in catalogue.all("encoders") if name != _ENDPOINT)
    if isinstance(value, str) and "+" in value:
        parts = value.split("+")
        if any(part not in names or parts.count(part) > 1 for part in parts):
            raise table.error(
                "encoder", "names of encoders joined by '+', each once, such as \"minilm+structure\"", value
            )
        return value
    if "encoder" not in table:
        return "hashing"
    return table.one_of("encoder", names, partial(kit_hint, catalogue))


def _explore(table: SettingsTable, _: _Values) -> Explore:
    if "explore" not in table:
        return Explore()
    kinds: tuple[Exploration, ...] = get_args(Exploration)
    value = table.values["explore"]
    if not isinstance(value, Mapping):
        kind = table.one_of("explore", kinds)
        return Explore(kind, EXPLORATION_VALUES[kind][0] if kind in EXPLORATION_VALUES else 0.0)
    row = table.inner(("explore",), value, keys_of(Explore))
    if "kind" not in row:
        raise row.missing("kind", f"one of {', '.join(kinds)}")
    kind = row.one_of("kind", kinds)
    if kind not in EXPLORATION_VALUES:
        if "value" in row:
            raise row.error("value", f'no value: "{kind}" takes none')
        return Explore(kind, 0.0)
    default, low, high = EXPLORATION_VALUES[kind]
    return Explore(kind, row.number("value", low=low, high=high, above=True) if "value" in row else default)


def _costs(table: SettingsTable, values: _Values) -> Mapping[str, float]:
    costs = table.table("costs")
    row = table.inner(("costs",), costs, costs)
    for name in costs:
        _check_action(table, ("costs", name), name, values["actions"])
    return MappingProxyType({name: row.number(name, low=0) for name in costs})


def _guards(table: SettingsTable, _: _Values) -> Mapping[str, GuardSettings]:
    values = table.table("guards")
    row = table.inner(("guards",), values, values)
    return MappingProxyType(
        {
            name: read(GuardSettings, table.below("guards", name, keys_of(GuardSettings)), {"range": _guard_range})
            if isinstance(value, Mapping)
            else GuardSettings(tolerance=row.number(name, low=0))
            for name, value in values.items()
        }
    )


_SPECIAL: Mapping[str, Special] = MappingProxyType(
    {
        "reward": _reward,
        "range": _range,
        "on_failure": _on_failure,
        "on_censored": _on_censored,
        "rules": _rules,
        "roles": _roles,
        "explore": _explore,
        "costs": _costs,
        "guards": _guards,
    }
)


# -- checks across keys


def _check_state(table: SettingsTable, task: TaskSettings) -> None:
    for name in task.state:
        if not name.isidentifier() or name in BUILT_IN:
            why = "is built in" if name in BUILT_IN else "is not one"
            raise table.error("state", f"names of variables (letters, digits and '_'), and {name!r} {why}")


def _check_actions(table: SettingsTable, task: TaskSettings) -> None:
    for place, rule in enumerate(task.rules):
        _check_action(table, ("rules", str(place), "use"), rule.use, task.actions)
    _check_action(table, ("fallback",), task.fallback, task.actions)
    for name, role in task.roles.items():
        _check_action(table, ("roles", name, "primary"), role.primary, task.actions)
        _check_action(table, ("roles", name, "fallback"), role.fallback, task.actions)


def _check_action(table: SettingsTable, keys: tuple[str, ...], action: str, actions: tuple[str, ...]) -> None:
    """An action that a key names is one of the task's, where the task has its own."""
    if action and actions and action not in actions:
        raise table.error(keys, "one of this task's actions", action, errors.did_you_mean(action, actions))


def _check_conditions(table: SettingsTable, task: TaskSettings) -> None:
    for place, rule in enumerate(task.rules):
        _check_condition(table, ("rules", str(place), "when"), rule.when, task.variables)
    for name, role in task.roles.items():
        for place, trigger in enumerate(role.triggers):
            _check_condition(table, ("roles", name, "triggers", str(place)), trigger, task.variables)


def _check_condition(table: SettingsTable, keys: tuple[str, ...], text: str, variables: tuple[str, ...]) -> None:
    try:
        parse(text, variables)
    except errors.InvalidSettings as error:
        hint = f'{error.hint} Your own variables are declared with state = ["…"].'
        raise table.within(keys, errors.InvalidSettings(error.message, code=error.code, hint=hint)) from None


def _check_rewards(table: SettingsTable, task: TaskSettings) -> None:
    # Conflicts between parts (a weight of 2 in a product) are reported now, by the code that uses them.
    # A user's function is not imported here: reading settings runs no user code.
    if isinstance(task.reward, str):
        return
    try:
        Rewards.from_settings(
            reward=task.reward,
            combine=task.combine,
            required=task.required,
            range=task.range,
            on_failure=task.on_failure,
        )
    except errors.InvalidSettings as error:
        raise table.error("reward", error.message.partition(", expected ")[2].rstrip("."), None) from None
