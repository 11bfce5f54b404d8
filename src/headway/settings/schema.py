"""What headway.toml says, as frozen values with their defaults; docs/reference/settings.md explains each key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from headway.nouns.errors import InvalidInput, InvalidSettings, UnknownName, did_you_mean
from headway.nouns.spaces import MUTATIONS, Kind
from headway.reward.compose import Combine, Rewards, Worth
from headway.reward.signals import Term

__all__ = [
    "FAMILIES",
    "MUTATIONS",
    "STATE",
    "Durability",
    "EncoderEndpoint",
    "Exploration",
    "Explore",
    "GuardRule",
    "Redaction",
    "Role",
    "Rule",
    "ServerSettings",
    "Settings",
    "StoreSettings",
    "TaskSettings",
    "Upstream",
    "WatchSettings",
    "is_task_name",
]

Exploration = Literal["epsilon", "softmax", "squarecb", "thompson", "none"]
Durability = Literal["power", "process"]
Redaction = Literal["secrets", "email", "phone", "card"]

# The first family of a kind is its default.
FAMILIES: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        "choice": ("bandit", "outcome", "clone", "cql", "actor_critic"),
        "ranking": ("ranker", "bandit"),
        "reply": ("language",),
        "factored": ("recurrent",),
    }
)

# State that every rule may use without declaring it, beside what is read off the situation (text_length, role, step).
STATE = ("task_complexity_score", "primary_failure_count")

_TASK_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}\Z")


def is_task_name(name: object) -> bool:
    """Whether the name can stand in a path, a URL and a table heading alike."""
    return isinstance(name, str) and _TASK_NAME.match(name) is not None


def _nothing() -> Mapping[str, float]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Rule:
    """The action to use when a condition holds; the first rule that holds decides."""

    when: str
    use: str
    role: str = ""  # empty: whatever the role


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One row of the static table: `primary`, or `fallback` as soon as any trigger holds."""

    primary: str
    fallback: str = ""
    triggers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardRule:
    """A signal that must not get worse by more than `tolerance`; `direction` is the good one."""

    tolerance: float
    direction: Literal["lower", "higher"] = "lower"


@dataclass(frozen=True, slots=True)
class Explore:
    """How a policy explores. `value`: epsilon's share, softmax's temperature, SquareCB's gamma, Thompson's scale."""

    kind: Exploration = "epsilon"
    value: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEndpoint:
    """An OpenAI-compatible embedding endpoint."""

    url: str
    model: str
    key_env: str = ""
    width: int = 1536
    timeout_s: float = 30.0


def _reward() -> Mapping[str, Term]:
    return MappingProxyType({"reward": Term()})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """Everything about one task."""

    name: str
    kind: Kind = "choice"
    actions: tuple[str, ...] = ()  # empty: each decision brings its own
    family: str = "bandit"
    # how good was it
    reward: Mapping[str, Term] | str = field(default_factory=_reward)  # or "module:function", or a preset
    combine: Combine = "additive"
    required: tuple[str, ...] = ("reward",)  # empty: the first signal that counts settles
    range: tuple[float, float] = (-1.0, 1.0)
    on_failure: Worth = -1.0
    on_censored: Worth = "exclude"
    reward_after_s: float = 86_400.0
    consensus: bool = False  # several raters are weighed against each other
    # who decides where no policy does, and below the confidence floor
    rules: tuple[Rule, ...] = ()
    fallback: str = ""
    state: tuple[str, ...] = ()
    roles: Mapping[str, Role] = field(default_factory=lambda: MappingProxyType({}))
    # acting
    encoder: str | EncoderEndpoint = "hashing"
    explore: Explore = field(default_factory=Explore)
    floor: float = 0.02
    confidence_floor: float = 0.0
    sticky: bool = False
    episode_timeout_s: float = 3600.0
    online: Literal["frozen", "live"] = "frozen"
    costs: Mapping[str, float] = field(default_factory=_nothing)
    cost_weight: float = 0.0
    seed: int = 0
    # learning, proving, promoting
    retrain_after: int = 50
    promote: Literal["ask", "auto"] = "ask"
    canary: float = 0.0  # the share of traffic on which a candidate that is not refused may act before promotion
    gate: Literal["on", "off"] = "on"
    margin: float = 0.0
    trust_keys: tuple[str, ...] = ()  # raters that may decide a verdict alone
    guards: Mapping[str, GuardRule] = field(default_factory=lambda: MappingProxyType({}))
    world: str = ""
    model: str = ""
    learner: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The state that this task's rules may use."""
        return (*STATE, *self.state)

    @property
    def rule_rows(self) -> tuple[Mapping[str, str], ...]:
        """The rules, then each role's triggers, as rows {when, use, role}: what `baseline("rules@0")` takes."""
        triggers = ((name, each, role.fallback) for name, role in self.roles.items() for each in role.triggers)
        rows = [{"when": each.when, "use": each.use, "role": each.role} for each in self.rules]
        return (*rows, *({"when": when, "use": use, "role": name} for name, when, use in triggers))

    @property
    def defaults(self) -> Mapping[str, str]:
        """The action where no rule holds: by role, and under "" for everybody else."""
        return {"": self.fallback, **{name: role.primary for name, role in self.roles.items()}}


@lru_cache(maxsize=1024)
def _undeclared(name: str) -> TaskSettings:
    """A task that is made on first use; asked for at every decision."""
    return TaskSettings(name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A model server. Prices are US dollars per million tokens; a key is named, never written down."""

    name: str
    url: str
    model: str
    key_env: str = ""
    price_in: float = 0.0
    price_out: float = 0.0
    timeout_s: float = 60.0
    max_tokens: int = 0  # the most that one answer may have; 0: as the request says


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 1
    hosts: tuple[str, ...] = ()  # more names that the Host header may have
    max_body_bytes: int = 1_000_000
    max_batch_bytes: int = 16_000_000
    read_timeout_s: float = 10.0
    stop_timeout_s: float = 5.0
    rate_per_s: float = 0.0  # requests per key and second; 0: no limit
    otel: bool = False  # decisions, calls and signals as OpenTelemetry spans

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it; any other address asks for keys for everything."""
        return self.host in ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    url: str = field(default="sqlite", repr=False)  # may hold a password
    durability: Durability = "power"
    queue: int = 10_000  # writes that may wait; more are refused with 429
    synthetic: bool = False  # everything decided here is made up, whichever door it comes through
    redact: tuple[Redaction, ...] = ("secrets",)  # what is taken out of texts before they are decided on and stored
    keep_days: float = 0.0  # what is older is deleted by the loop; 0: kept

    @property
    def embedded(self) -> bool:
        return self.url == "sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """When the background loop may work."""

    interval_s: float = 30.0
    window: tuple[int, int] | None = None  # minutes after midnight, local time; may pass midnight; None: always
    idle_s: float = 0.0  # only after so many seconds without a decision
    free_disk_mb: int = 256  # not with less than this free on the project's disk
    free_memory_mb: int = 256  # nor with less memory available, where the system tells
    max_load: float = 0.0  # nor above this load average per core; 0: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """headway.toml and HEADWAY_*, checked.

    settings.task("route")       # a declared task; with none declared, a default one made on the spot
    settings.rewards("route")    # what its signals come to
    settings.key("LARGE_KEY")    # the value of a variable that the file names with key_env
    """

    directory: Path
    file: Path | None = None
    tasks: Mapping[str, TaskSettings] = field(default_factory=lambda: MappingProxyType({}))
    upstreams: Mapping[str, Upstream] = field(default_factory=lambda: MappingProxyType({}))
    server: ServerSettings = field(default_factory=ServerSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    declared: bool = False  # whether any task is: then an unknown one is an error
    policy_override: str | None = None  # HEADWAY_POLICY: "off", "current" or a policy reference
    cache: Path = Path(".headway/cache")  # HEADWAY_CACHE: where models and caches of this user are kept
    keys: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False, compare=False)

    def task(self, name: str) -> TaskSettings:
        """The task of that name."""
        found = self.tasks.get(name)
        if found is not None:
            return found
        if not is_task_name(name):
            raise InvalidInput(
                f"{name!r} is not a task name.",
                code="bad_task_name",
                hint="Use up to 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit.",
            )
        if self.declared:
            raise UnknownName(
                f"No task is called {name!r}.",
                code="unknown_task",
                hint=f"{did_you_mean(name, self.tasks)} Tasks are declared in {self.file}.",
            )
        return _undeclared(name)

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
        found = self.upstreams.get(name)
        if found is None:
            raise UnknownName(
                f"No upstream is called {name!r}.",
                code="unknown_upstream",
                hint=did_you_mean(name, self.upstreams) or f"Declare [upstreams.{name}] in headway.toml.",
            )
        return found

    def key(self, variable: str) -> str:
        """The secret in an environment variable that the file names; only those are kept."""
        found = self.keys.get(variable, "")
        if not found:
            raise InvalidSettings(
                f"The environment variable {variable} is not set.",
                code="missing_key",
                hint=f"headway.toml names it with key_env. Set it and start again: export {variable}=…",
            )
        return found
