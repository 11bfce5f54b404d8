"""The tables of headway.toml, one struct each: a key, its type, its bounds and its default are declared here, once.

The reader (strict), the list of keys, the stored configuration and the headings of docs/reference/settings.md follow
from these structs. `Settings` is the whole file, checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from headway.nouns import CHOICE, Kind, errors
from headway.reward import Combine, Rewards, Term, Worth
from headway.settings.strict import Setting, Url, Variable
from headway.settings.table import NAME

Exploration = Literal["epsilon", "softmax", "squarecb", "thompson", "none"]
Redaction = Literal["secrets", "email", "phone", "card"]

# State that every rule may use without declaring it, besides the situation's own (text_length, role, step).
STATE = ("task_complexity_score", "primary_failure_count")

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_REWARD: Mapping[str, Term] = MappingProxyType({"reward": Term()})

# Annotations that several keys share.
_ACTS = Setting(acts=True)
_SOME = Setting(some=True)
_SOME_ACTS = Setting(acts=True, some=True)
_INSIDE = Setting(inside=True)
_SHARE = Meta(ge=0, le=1)
_POSITIVE = Meta(gt=0)
_AMOUNT = Meta(ge=0)


def is_task_name(name: object) -> bool:
    """Whether the name is valid in a path, a URL and a table heading."""
    return isinstance(name, str) and NAME.match(name) is not None


class RuleSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The action to use when a condition holds; the first rule that holds decides."""

    when: Annotated[str, Setting(expected="a condition")]
    use: Annotated[str, Setting(expected="an action")]
    role: str = ""  # empty: any role


class Role(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the static table: `primary`, or `fallback` as soon as any trigger holds."""

    primary: Annotated[str, Setting(expected="an action")]
    fallback: str = ""
    triggers: tuple[str, ...] = ()


class GuardSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal that must not get worse by more than `tolerance`; `direction` is the better direction."""

    tolerance: Annotated[float, _AMOUNT] = 0.0
    direction: Literal["lower", "higher"] = "lower"
    range: tuple[float, float] | None = None  # no value is outside; None: nothing can be shown


class Explore(Struct, frozen=True, forbid_unknown_fields=True):
    """How a policy explores. `value`: epsilon's share, softmax's temperature, SquareCB's gamma, Thompson's scale."""

    kind: Exploration = "epsilon"
    value: float = 0.1


class EncoderEndpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenAI-compatible embedding endpoint."""

    model: Annotated[str, Setting(expected="the name of an embedding model")]
    url: Url
    key_env: Variable = ""
    width: Annotated[int, Meta(ge=1, le=16_384)] = 1536
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 30.0


class TaskSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about one task."""

    name: Annotated[str, Setting(acts=True, inside=True)]
    kind: Annotated[str, _ACTS] = "choice"
    traits: Annotated[Kind, _INSIDE] = CHOICE  # of its kind
    own: Annotated[Any, _INSIDE] = None  # the keys that only its kind has: a struct of the kit that brings it
    unit: Literal["decision", "request", "episode"] = "decision"  # what gets one outcome
    actions: Annotated[tuple[str, ...], _SOME_ACTS] = ()  # empty: each decision has its own
    family: Annotated[str, _ACTS] = "bandit"
    # the quality
    reward: Mapping[str, Term] | str = _REWARD  # or "module:function", or a preset
    combine: Combine = "additive"
    required: tuple[str, ...] = ("reward",)  # empty: the first signal that counts settles
    range: tuple[float, float] = (-1.0, 1.0)
    capped: bool = False  # what counts is the mean of the reward cut to the range
    on_failure: Worth = -1.0
    on_censored: Worth = "exclude"
    reward_after_s: Annotated[float, _POSITIVE] = 86_400.0
    # how a proof counts an outcome that is missing and has no worth of its own
    missing: Literal["worst case", "at random"] = "worst case"
    consensus: bool = False  # several raters are weighed against each other
    # who decides where no policy does, and below the confidence floor
    rules: Annotated[tuple[RuleSettings, ...], _SOME_ACTS] = ()
    fallback: Annotated[str, _SOME_ACTS] = ""
    state: Annotated[tuple[str, ...], _ACTS] = ()
    roles: Annotated[Mapping[str, Role], _SOME_ACTS] = _EMPTY
    # acting
    encoder: Annotated[str | EncoderEndpoint, _ACTS] = "hashing"
    explore: Annotated[Explore, _SOME_ACTS] = Explore()
    floor: Annotated[float, _SHARE, _SOME_ACTS] = 0.02
    confidence_floor: Annotated[float, _SHARE, _SOME_ACTS] = 0.0
    # the share of uniform choices while an alarm is open: outcomes changed, and nobody knows yet what is best now
    most_exploration: Annotated[float, _SHARE, _SOME] = 0.5
    sticky: Annotated[bool, _SOME_ACTS] = False
    keep_replies: Annotated[bool, _SOME] = False  # what upstreams answer, without secrets
    episode_timeout_s: Annotated[float, _POSITIVE, _ACTS] = 3600.0
    online: Annotated[Literal["frozen", "live"], _SOME_ACTS] = "frozen"
    costs: Annotated[Mapping[str, float], _SOME_ACTS] = _EMPTY
    cost_weight: Annotated[float, _AMOUNT, _SOME_ACTS] = 0.0
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1), _ACTS] = 0
    # learning, proving, promoting
    retrain_after: Annotated[int, Meta(ge=1, le=10**9)] = 50
    promote: Literal["ask", "auto"] = "ask"
    # the share of traffic on which a candidate that is not refused may act before promotion
    canary: Annotated[float, Meta(ge=0, le=0.5), _SOME] = 0.0
    # an experiment where the log alone cannot decide in time: offered ("ask") or opened by the loop ("auto"), with
    # which share at most. None: as the task promotes, so that nothing unproven acts where a person promotes
    experiment: Annotated[Literal["ask", "auto", "off"] | None, _SOME] = None
    most_share: Annotated[float, Meta(gt=0, le=0.5), _SOME] = 0.5
    # the time in which a verdict is wanted: decisions or days, whichever comes first
    decide_within: Annotated[int, Meta(ge=200, le=10**9), _SOME] = 5000
    decide_within_days: Annotated[float, Meta(gt=0, le=3650), _SOME] = 14.0
    final_after_s: Annotated[float, Meta(ge=0)] = 86_400.0  # the least age of a log before the loop promotes by it
    gate: Literal["on", "off"] = "on"
    ramp: Literal["on", "off"] = "on"  # whether a promotion takes over the traffic in steps
    margin: Annotated[float, _AMOUNT] = 0.0
    trust_keys: tuple[str, ...] = ()  # raters that may decide a verdict alone
    guards: Mapping[str, GuardSettings] = _EMPTY
    world: Annotated[str, _ACTS] = ""

    @property
    def experiments(self) -> Literal["ask", "auto", "off"]:
        """Who opens an experiment, as it is set or follows from who promotes."""
        return self.experiment or self.promote

    @property
    def variables(self) -> tuple[str, ...]:
        """The state that this task's rules may use."""
        return (*STATE, *self.state)


@lru_cache(maxsize=1024)
def _undeclared(name: str, routes: bool) -> TaskSettings:
    """A task that is created on first use; cached for every decision."""
    return TaskSettings(name=name, unit="request" if routes else "decision")


def _own(host: str) -> bool:
    """Whether it is this machine or one of your network: a private address, or a name without a public domain."""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model server. Prices are US dollars per million tokens; a key is named, never written down."""

    name: Annotated[str, Setting(inside=True)]
    url: Url
    model: Annotated[str, Setting(expected="the model's name at that server")]
    key_env: Variable = ""
    price_in: Annotated[float, _AMOUNT] | None = None  # None, as price_out: free on a near host, unknown elsewhere
    price_out: Annotated[float, _AMOUNT] | None = None
    price_cached: Annotated[float, _AMOUNT] | None = None  # of prompt tokens from its cache; None: as price_in
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    max_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 0  # per answer; 0: as in the request
    # after so many failures in a row it is no candidate until a probe succeeds, this many seconds later; 0: never
    breaker_failures: Annotated[int, Meta(ge=0, le=1_000)] = 5
    breaker_wait_s: Annotated[float, Meta(gt=0, le=3600)] = 30.0

    @property
    def priced(self) -> bool:
        """Whether it is known what a call costs: a price is set, or the server is one of your own, which is free."""
        return self.price_in is not None or self.price_out is not None or _own(urlsplit(self.url).hostname or "")

    def cost_usd(self, prompt: float, completion: float, cached: float = 0.0) -> float:
        """The price of so many tokens; `cached` are those of the prompt that came from its cache."""
        read = self.price_in or 0.0
        cached = min(cached, prompt)
        again = read if self.price_cached is None else self.price_cached
        return ((prompt - cached) * read + cached * again + completion * (self.price_out or 0.0)) / 1e6


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP server."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8765
    workers: Annotated[int, Meta(ge=1, le=64)] = 1
    hosts: tuple[str, ...] = ()  # more names that the Host header may have
    require_key: Literal["auto", "always", "remote"] = "auto"  # of callers on loopback; elsewhere always
    max_body_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 1_000_000
    max_batch_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 16_000_000
    read_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 10.0
    write_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 10.0  # in which a client must take 64 kB
    connections: Annotated[int, Meta(ge=16, le=40_000)] = 4096  # of each worker
    connections_per_peer: Annotated[int, Meta(ge=1, le=40_000)] = 256  # without a key; another machine's address
    stop_timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 5.0
    rate_per_s: Annotated[float, _AMOUNT] = 0.0  # requests per key and second; 0: no limit
    otel: bool = False  # decisions, calls and signals as OpenTelemetry spans

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it; any other address requires a key for everything."""
        return self.host in ("127.0.0.1", "::1", "localhost")


class StoreSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The store of decisions and signals."""

    url: str = "sqlite"  # may contain a password
    durability: Literal["power", "process"] = "power"
    queue: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000  # writes that may wait; more are refused with 429
    synthetic: bool = False  # every decision of this project is synthetic, from any interface
    redact: tuple[Redaction, ...] = ("secrets",)  # removed from texts before they are decided on and stored
    keep_days: Annotated[float, _AMOUNT] = 0.0  # older decisions are deleted by the loop; 0: kept

    @property
    def embedded(self) -> bool:
        return self.url == "sqlite"

    def __repr__(self) -> str:
        fields = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "url")
        return f"StoreSettings({', '.join(fields)})"


class WatchSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the background loop may work."""

    interval_s: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    window: tuple[int, int] | None = None  # minutes after midnight, local time; may pass midnight; None: always
    idle_s: Annotated[float, _AMOUNT] = 0.0  # only after this many seconds without a decision
    free_disk_mb: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 256  # not with less free on the project's disk
    free_memory_mb: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 256  # nor with less memory available, where known
    max_load: Annotated[float, _AMOUNT] = 0.0  # nor above this load average per core; 0: no limit


class KitSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which installed kits the project uses."""

    use: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """headway.toml and HEADWAY_*, checked.

    settings.task("route")       # a declared task; with none declared, a default one made on the spot
    settings.rewards("route")    # the reward definition
    settings.key("LARGE_KEY")    # the value of a variable that the file names with key_env
    """

    directory: Path
    file: Path | None = None
    tasks: Mapping[str, TaskSettings] = field(default_factory=lambda: _EMPTY)
    upstreams: Mapping[str, Upstream] = field(default_factory=lambda: _EMPTY)
    server: ServerSettings = field(default_factory=ServerSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    kits: tuple[str, ...] = ()  # the installed kits in use, of [kits] and HEADWAY_KITS
    kit_tables: Mapping[str, Any] = field(default_factory=lambda: _EMPTY)  # tables that kits declare, as their structs
    declared: bool = False  # whether any task is: then an unknown one is an error
    policy_override: str | None = None  # HEADWAY_POLICY: "off", "current" or a policy reference
    cache: Path = Path(".headway/cache")  # HEADWAY_CACHE: the directory of models and caches
    keys: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False, compare=False)

    def task(self, name: str) -> TaskSettings:
        """The task of that name."""
        task = self.tasks.get(name)
        if task is not None:
            return task
        if not is_task_name(name):
            raise errors.InvalidInput(
                f"{name!r} is not a task name.",
                code="bad_task_name",
                hint="Use up to 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit.",
            )
        if self.declared:
            raise errors.UnknownName(
                f"No task is called {name!r}.",
                code="unknown_task",
                hint=f"{errors.did_you_mean(name, self.tasks)} Tasks are declared in {self.file}.",
            )
        return _undeclared(name, bool(self.upstreams))

    def rewards(self, name: str) -> Rewards:
        """The task's rewards; a reward function is loaded from the project's directory."""
        task = self.task(name)
        return Rewards.from_settings(
            reward=task.reward,
            combine=task.combine,
            required=task.required,
            range=task.range,
            on_failure=task.on_failure,
            on_censored=task.on_censored,
            reward_after_s=task.reward_after_s,
            consensus=task.consensus,
            directory=self.directory,
        )

    def upstream(self, name: str) -> Upstream:
        """The upstream of that name."""
        upstream = self.upstreams.get(name)
        if upstream is None:
            raise errors.UnknownName(
                f"No upstream is called {name!r}.",
                code="unknown_upstream",
                hint=errors.did_you_mean(name, self.upstreams) or f"Declare [upstreams.{name}] in headway.toml.",
            )
        return upstream

    def key(self, variable: str) -> str:
        """The secret in an environment variable that the file names; only those are kept."""
        secret = self.keys.get(variable, "")
        if not secret:
            raise errors.InvalidSettings(
                f"The environment variable {variable} is not set.",
                code="missing_key",
                hint=f"headway.toml names it with key_env. Set it and start again: export {variable}=…",
            )
        return secret
