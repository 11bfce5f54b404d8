"""A [tasks.NAME] table → TaskSettings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args

from headway.decide.conditions import BUILT_IN, parse
from headway.nouns.errors import InvalidSettings, did_you_mean
from headway.nouns.spaces import Kind
from headway.reward.compose import COMBINES, Rewards, Worth, default_required
from headway.reward.function import is_name
from headway.reward.presets import PRESET_RANGE, PRESETS
from headway.reward.signals import RESERVED, Term, term
from headway.settings.fields import Table, shown
from headway.settings.schema import (
    FAMILIES,
    MUTATIONS,
    STATE,
    EncoderEndpoint,
    Exploration,
    Explore,
    GuardRule,
    Role,
    Rule,
    TaskSettings,
)

__all__ = ["ENCODERS", "EXPLORATION_VALUES", "LEARNERS", "TASK_KEYS", "task"]

TASK_KEYS = (
    "kind", "actions", "family", "reward", "combine", "required", "range", "on_failure", "on_censored",
    "reward_after_s", "consensus", "rules", "fallback", "state", "roles", "encoder", "explore", "floor",
    "confidence_floor", "sticky", "episode_timeout_s", "online", "costs", "cost_weight", "seed", "retrain_after",
    "promote", "canary", "gate", "margin", "trust_keys", "guards", "world", "model", "learner",
)  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
ENCODERS = ("hashing", "wordllama", "minilm", "structure")
LEARNERS = ("kto", "ppo")
# What a value means, its default, and its bounds (above the first, up to the second).
EXPLORATION_VALUES: Mapping[Exploration, tuple[str, float, float, float]] = MappingProxyType(
    {
        "epsilon": ("the share of uniform choices", 0.1, 0.0, 1.0),
        "softmax": ("the temperature, in units of reward", 0.1, 0.0, math.inf),
        "squarecb": ("gamma, larger is greedier", 100.0, 0.0, math.inf),
        "thompson": ("what deviations are multiplied with, smaller is greedier", 1.0, 0.0, math.inf),
    }
)
_ONLY: Mapping[str, tuple[Kind, ...]] = {
    "actions": ("choice", "ranking"),
    "rules": ("choice",),
    "roles": ("choice",),
    "fallback": ("choice",),
    "costs": ("choice",),
    "cost_weight": ("choice",),
    "online": ("choice",),
    "sticky": ("choice",),
    "canary": ("choice",),
    "explore": ("choice", "ranking"),
    "floor": ("choice", "ranking"),
    "confidence_floor": ("choice", "ranking"),
    "model": ("reply",),
    "learner": ("reply",),
}


def task(name: str, table: Table) -> TaskSettings:
    """The task that a table declares."""
    kind = table.one_of("kind", KINDS, "choice")
    for key, kinds in _ONLY.items():
        if key in table and kind not in kinds:
            right = " or ".join(map(shown, kinds))
            raise table.error(key, f"nothing: it is for kind = {right}, and this task is of kind {shown(kind)}", None)
    actions = _actions(table)
    state = table.words_list("state")
    for each in state:
        if not each.isidentifier() or each in BUILT_IN:
            why = "is known already" if each in BUILT_IN else "is none"
            raise table.error("state", f"names of variables (letters, digits and '_'), and {each!r} {why}")
    reward = _reward(table)
    combine = table.one_of("combine", COMBINES, "additive")
    low, high = _range(table, PRESET_RANGE if isinstance(reward, str) and reward in PRESETS else (-1.0, 1.0))
    required = _required(table, reward)
    made = TaskSettings(
        name=name,
        kind=kind,
        actions=actions,
        family=table.one_of("family", FAMILIES[kind], FAMILIES[kind][0]),
        reward=reward,
        combine=combine,
        required=required,
        range=(low, high),
        on_failure=_worth(table, "on_failure", low, low, high),
        on_censored=_worth(table, "on_censored", "exclude", low, high),
        reward_after_s=table.number("reward_after_s", 86_400.0, low=0, above=True),
        consensus=table.flag("consensus", False),
        rules=_rules(table, actions, state),
        fallback=_action(table, "fallback", table.text("fallback", ""), actions),
        state=state,
        roles=_roles(table, actions, state),
        encoder=_encoder(table),
        explore=_explore(table),
        floor=table.number("floor", 0.02, low=0, high=1),
        confidence_floor=table.number("confidence_floor", 0.0, low=0, high=1),
        sticky=table.flag("sticky", False),
        episode_timeout_s=table.number("episode_timeout_s", 3600.0, low=0, above=True),
        online=table.one_of("online", ("frozen", "live"), "frozen"),
        costs=_costs(table, actions),
        cost_weight=table.number("cost_weight", 0.0, low=0),
        seed=table.whole("seed", 0, low=0, high=2**63 - 1),
        retrain_after=table.whole("retrain_after", 50, low=1, high=10**9),
        promote=table.one_of("promote", ("ask", "auto"), "ask"),
        canary=table.number("canary", 0.0, low=0, high=0.5),
        gate=table.one_of("gate", ("on", "off"), "on"),
        margin=table.number("margin", 0.0, low=0),
        trust_keys=table.words_list("trust_keys"),
        guards=_guards(table),
        world=table.text("world", ""),
        model=table.text("model", "smollm2" if kind == "reply" else ""),
        learner=table.one_of("learner", LEARNERS, "kto") if kind == "reply" else "",
    )
    _compose(table, made)
    return made


def _compose(table: Table, made: TaskSettings) -> None:
    # What only shows when the parts meet (a weight of 2 in a product) is found now, by the code that will use them. A
    # user's function is not imported here: reading settings runs nobody's code.
    if isinstance(made.reward, str):
        return
    try:
        Rewards.from_settings(
            reward=made.reward,
            combine=made.combine,
            required=made.required,
            range=made.range,
            on_failure=made.on_failure,
        )
    except InvalidSettings as error:
        raise table.error("reward", error.message.partition(", expected ")[2].rstrip("."), None) from None


def _actions(table: Table) -> tuple[str, ...]:
    if "actions" not in table:
        return ()
    value = table.raw("actions")
    if isinstance(value, str):
        if value != "mutations":
            raise table.error("actions", 'a list such as ["small", "large"], or "mutations"', value)
        return MUTATIONS
    found = table.words_list("actions")
    if not found:
        raise table.error("actions", "at least one action", value)
    return found


def _action(table: Table, key: str | tuple[str, ...], value: str, actions: tuple[str, ...]) -> str:
    if value and actions and value not in actions:
        raise table.error(key, "one of this task's actions", value, did_you_mean(value, actions))
    return value


def _reward(table: Table) -> Mapping[str, Term] | str:
    if "reward" not in table:
        return MappingProxyType({"reward": Term()})
    value = table.raw("reward")
    if isinstance(value, str):
        if value not in PRESETS and not is_name(value):
            raise table.error(
                "reward", 'a table of signals, "module:function" or a preset', value, did_you_mean(value, PRESETS)
            )
        return value
    if not isinstance(value, Mapping) or not value:
        raise table.error("reward", "a table of signals and weights, such as { solved = 1.0 }", value)
    terms: dict[str, Term] = {}
    for name, each in value.items():
        if name in RESERVED:
            why = "on_failure says what a failed call is worth" if name == "failed" else "it is a gate, not a weight"
            raise table.error(("reward", name), f"no weight: {why}", each)
        try:
            terms[name] = term(each)
        except ValueError as error:
            raise table.error(("reward", name), str(error), each) from None
    return MappingProxyType(terms)


def _required(table: Table, reward: Mapping[str, Term] | str) -> tuple[str, ...]:
    required = table.words_list("required", default_required(reward))
    for each in required:
        if each in RESERVED:
            raise table.error("required", f"signals that come with every outcome, and not {each!r}")
    return required


def _range(table: Table, default: tuple[float, float]) -> tuple[float, float]:
    if "range" not in table:
        return default
    value = table.raw("range")
    expected = "two finite numbers, the lower one first, such as [-1, 1]"
    if not isinstance(value, list) or len(value) != 2 or any(not _finite(each) for each in value):
        raise table.error("range", expected, value)
    low, high = float(value[0]), float(value[1])
    if low >= high:
        raise table.error("range", expected, value)
    return low, high


def _finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _worth(table: Table, key: str, default: Worth, low: float, high: float) -> Worth:
    if key not in table:
        return default
    value = table.raw(key)
    if value == "exclude":
        return "exclude"
    if not _finite(value) or not low <= value <= high:
        raise table.error(key, f'"exclude" or a number within the range [{low:g}, {high:g}]', value)
    return float(value)


def _condition(table: Table, keys: tuple[str, ...], value: object, state: tuple[str, ...]) -> str:
    condition = table.words(keys, value)
    try:
        parse(condition, (*STATE, *state))
    except InvalidSettings as error:
        hint = f'{error.hint} Your own variables are declared with state = ["…"].'
        raise table.within(keys, InvalidSettings(error.message, code=error.code, hint=hint)) from None
    return condition


def _rules(table: Table, actions: tuple[str, ...], state: tuple[str, ...]) -> tuple[Rule, ...]:
    value = table.raw("rules") if "rules" in table else []
    if not isinstance(value, list):
        raise table.error("rules", 'a list such as [{ when = "…", use = "large" }]', value)
    found = []
    for place, each in enumerate(value):
        keys = ("rules", str(place))
        if not isinstance(each, Mapping):
            raise table.error(keys, 'a table { when = "…", use = "…" }', each)
        row = table.inner(keys, each, ("when", "use", "role"))
        for key in ("when", "use"):
            if key not in row:
                raise row.missing(key, "a condition" if key == "when" else "an action")
        use = _action(table, (*keys, "use"), row.text("use", ""), actions)
        found.append(Rule(_condition(table, (*keys, "when"), each["when"], state), use, row.text("role", "")))
    return tuple(found)


def _roles(table: Table, actions: tuple[str, ...], state: tuple[str, ...]) -> Mapping[str, Role]:
    found = {}
    for name in table.table("roles"):
        table.words(("roles", name), name)
        row = table.below("roles", name, ("primary", "fallback", "triggers"))
        if "primary" not in row:
            raise row.missing("primary", "an action")
        triggers = row.words_list("triggers")
        if triggers and "fallback" not in row:
            raise row.missing("fallback", "the action that the triggers lead to")
        found[name] = Role(
            primary=_action(row, "primary", row.text("primary", ""), actions),
            fallback=_action(row, "fallback", row.text("fallback", ""), actions),
            triggers=tuple(_condition(row, ("triggers", str(n)), each, state) for n, each in enumerate(triggers)),
        )
    return MappingProxyType(found)


def _encoder(table: Table) -> str | EncoderEndpoint:
    value = table.raw("encoder") if "encoder" in table else "hashing"
    if isinstance(value, Mapping):
        row = table.inner(("encoder",), value, ("url", "model", "key_env", "width", "timeout_s"))
        if "model" not in row:
            raise row.missing("model", "the name of an embedding model")
        return EncoderEndpoint(
            url=row.url("url"),
            model=row.text("model", ""),
            key_env=row.variable("key_env"),
            width=row.whole("width", 1536, low=1, high=16_384),
            timeout_s=row.number("timeout_s", 30.0, low=0, high=600, above=True),
        )
    if isinstance(value, str) and "+" in value:
        parts = value.split("+")
        wrong = next((each for each in parts if each not in ENCODERS or parts.count(each) > 1), None)
        if wrong is not None:
            raise table.error("encoder", "different names joined by '+', such as \"minilm+structure\"", value)
        return value
    return table.one_of("encoder", ENCODERS, "hashing")


def _explore(table: Table) -> Explore:
    kinds: tuple[Exploration, ...] = get_args(Exploration)
    if "explore" not in table:
        return Explore()
    value = table.raw("explore")
    if isinstance(value, Mapping):
        row = table.inner(("explore",), value, ("kind", "value"))
        if "kind" not in row:
            raise row.missing("kind", f"one of {', '.join(kinds)}")
        kind = row.one_of("kind", kinds, "epsilon")
        if kind not in EXPLORATION_VALUES:
            if "value" in row:
                raise row.error("value", f"no value: {kind} has none to set")
            return Explore(kind, 0.0)
        _, default, low, high = EXPLORATION_VALUES[kind]
        return Explore(kind, row.number("value", default, low=low, high=high, above=True))
    kind = table.one_of("explore", kinds, "epsilon")
    return Explore(kind, EXPLORATION_VALUES[kind][1] if kind in EXPLORATION_VALUES else 0.0)


def _costs(table: Table, actions: tuple[str, ...]) -> Mapping[str, float]:
    values: Mapping[str, Any] = table.table("costs")
    row = table.inner(("costs",), values, values)
    for name in values:
        _action(table, ("costs", name), name, actions)
    return MappingProxyType({name: row.number(name, 0.0, low=0) for name in values})


def _guards(table: Table) -> Mapping[str, GuardRule]:
    found = {}
    values = table.table("guards")
    row = table.inner(("guards",), values, values)
    for name, value in values.items():
        if isinstance(value, Mapping):
            each = table.below("guards", name, ("tolerance", "direction"))
            found[name] = GuardRule(
                tolerance=each.number("tolerance", 0.0, low=0),
                direction=each.one_of("direction", ("lower", "higher"), "lower"),
            )
        else:
            found[name] = GuardRule(tolerance=row.number(name, 0.0, low=0))
    return MappingProxyType(found)
