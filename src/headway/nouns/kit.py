"""Kits extend the loop. A kit's passport lists what it adds; the catalogue finds it by name.

    KIT = Kit(name="prompts", summary="…", worlds={"prompts": "headway.kits.prompts.synthetic:synthetic"})
    catalogue().family("bandit")                # the family, or UnknownName with the nearest name
    catalogue().load("headway.kits.x:thing")    # the object itself, imported now

Everything heavy is a "module:object" string that is imported on first use, so a passport costs nothing. Built-in kits
are always available. An installed kit (entry point group `headway.kits`) is imported only if it is named. One that
cannot be loaded, or that claims a name of another kit, is reported with the reason and affects no other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.nouns.errors import UnknownName, did_you_mean
from headway.nouns.kind import NOTHING as _NOTHING, Kind

if TYPE_CHECKING:
    from headway.nouns.protocols import Encoder, Learner, Policy


API = 1  # of passports: a kit written for another number is refused
GROUP = "headway.kits"
# Records here are named tuples: every --help reads them, and they are the fastest to declare.


class Family(NamedTuple):
    """One way to build and learn a policy. The first family of a kind is its default, unless another says so."""

    kinds: tuple[str, ...]
    policy: str  # "module:function" (knobs, tensors, extra, encoder) → Policy
    learner: str  # "module:Class" (encoder) → Learner
    knobs: str = ""  # "module:Class", a frozen dataclass with a docstring per field
    online: bool = False  # its learner also updates row by row
    resumable: bool = False  # its `learn` takes `resume`: a policy to continue from
    evidence: tuple[str, ...] = ("log", "heldout")  # kinds of evidence: `prove` uses the first that applies
    default: bool = False  # of its kinds, before the families that come earlier
    interruptible: bool = False  # its `learn` takes `work`: a folder in which interrupted learning is carried on
    practice: str = ""  # "module:function" (project, world, **how): how it practises in a world, if it does so itself
    material: str = ""  # "module:function" (project, task's settings): what its `learn` takes as `material`


class Command(NamedTuple):
    """A terminal command: "module:object" of a click command, and its line in --help."""

    target: str
    summary: str
    group: str = "More"


class Worker(NamedTuple):
    """A process that `headway up` keeps running: `python -m module FOLDER --url URL`, with the server's address.

    It ends with its parent. If it ends with status 0, it has finished; otherwise it is started again.
    """

    module: str
    needed: str  # "module:function" (settings) → bool
    starting: str = ""  # what `headway up` says while it starts


class Kit(NamedTuple):
    """A kit's passport. Names are unique over all kits; paths are "module:object"."""

    name: str
    summary: str
    api: int = API
    needs: tuple[str, ...] = ()  # the kits that it imports
    kinds: Mapping[str, Kind] = _NOTHING
    families: Mapping[str, Family] = _NOTHING
    encoders: Mapping[str, str] = _NOTHING  # name → function (models, keys, and its settings by name) → Encoder
    worlds: Mapping[str, str] = _NOTHING  # name → function (count=…, **settings) → Environments
    samples: Mapping[str, str] = _NOTHING  # synthetic traffic: name → function () → world
    formats: Mapping[str, str] = _NOTHING  # importers: name → Format; tried by their priority
    exports: Mapping[str, str] = _NOTHING  # name → function that writes another program's format
    evidence: Mapping[str, str] = _NOTHING  # kinds of evidence: name → ProofKind
    actions: Mapping[str, tuple[str, ...]] = _NOTHING  # named sets of actions: actions = "mutations"
    routes: tuple[str, ...] = ()  # modules with @endpoint functions
    commands: Mapping[str, Command] = _NOTHING  # "data synth" is a path
    options: Mapping[str, str] = _NOTHING  # command → hook that adds options to it
    jobs: Mapping[str, str] = _NOTHING  # kind of job → function (project, worker, clock, say)
    workers: Mapping[str, Worker] = _NOTHING
    tables: Mapping[str, str] = _NOTHING  # of headway.toml: name → msgspec Struct; "improve.*": [improve.NAME]
    checks: tuple[str, ...] = ()  # for doctor: function (settings) → findings
    errors: Mapping[str, str] = _NOTHING  # error code → when it is raised
    crews: Mapping[str, str] = _NOTHING  # name → function (workers) → Crew
    demos: Mapping[str, Command] = _NOTHING  # the demos of `headway demo NAME`
    spaces: Mapping[str, str] = _NOTHING  # heads by name, heads = "morph": name → Factored of the kit grow
    contracts: Mapping[str, str] = _NOTHING  # name → function that `headway.testing` offers
    verbs: Mapping[str, str] = _NOTHING  # methods of a project: name → function (project, …)
    calls: Mapping[str, str] = _NOTHING  # methods of `Client`: name → function (client, …) → ServerCall
    stores: Mapping[str, str] = _NOTHING  # schemes of [store] url → function (url, durability) → Database
    tellers: Mapping[str, str] = _NOTHING  # whom the loop tells about alarms: name → function (clock) → Teller
    observers: Mapping[str, str] = _NOTHING  # of a server with [server] NAME = true, or a table [NAME]: (project) → Any
    explains: tuple[str, ...] = ()  # function (project, decision) → more fields of its Explanation
    starts: tuple[str, ...] = ()  # function (project), called when a server starts
    cycles: tuple[str, ...] = ()  # after each cycle: function (project, CycleResult, number, at, took_s) → file or ""
    outages: tuple[str, ...] = ()  # function (project) → outages of what its tasks choose, oldest first
    erases: tuple[str, ...] = ()  # copies of what is deleted: function (project, Erasing) → how many went

    @property
    def built_in(self) -> bool:
        """Whether it is part of Headway."""
        return self.name == "core" or self.name in load(f"{GROUP}:BUILT_IN")


REPAIR = "Install or repair its package, or take the kit out of [kits] use."  # what to do about a broken kit


class BrokenKit(NamedTuple):
    """A kit that cannot be used, and the reason."""

    name: str
    reason: str


# The names in a passport, and the type of each value. Names are unique over all kits, except for options.
_NAMED: Mapping[str, type] = {
    "kinds": Kind, "families": Family, "encoders": str, "worlds": str, "samples": str, "formats": str, "exports": str,
    "evidence": str, "actions": tuple, "commands": Command, "options": str, "jobs": str, "workers": Worker,
    "tables": str, "errors": str, "crews": str, "demos": Command, "spaces": str,
    "verbs": str, "calls": str, "observers": str, "stores": str, "tellers": str, "contracts": str,
}  # fmt: skip


class Catalogue:
    """The kits of this process, and what they add, by name. Immutable."""

    __slots__ = ("_merged", "broken", "kits")

    def __init__(self, kits: tuple[Kit, ...], broken: tuple[BrokenKit, ...] = ()) -> None:
        self.kits, self.broken = kits, broken
        self._merged: dict[str, Mapping[str, Any]] = {}

    def __iter__(self) -> Iterator[Kit]:
        return iter(self.kits)

    def all(self, what: str) -> Mapping[str, Any]:
        """Everything of one sort, name → value, in the order of the kits: `all("worlds")`."""
        merged = self._merged.get(what)
        if merged is None:
            merged = MappingProxyType({name: value for kit in self.kits for name, value in getattr(kit, what).items()})
            self._merged[what] = merged
        return merged

    def owner(self, what: str, name: str) -> Kit:
        """The kit that adds a name."""
        return next(kit for kit in self.kits if name in getattr(kit, what))

    def look_up(self, what: str, name: str, *, called: str, code: str) -> Any:
        """The value of a name, or UnknownName with the nearest one: look_up("worlds", "cartpol", …)."""
        known = self.all(what)
        if name not in known:
            raise UnknownName(f"There is no {called} {name!r}.", code=code, hint=did_you_mean(name, known))
        return known[name]

    def method(self, what: str, owner: object, name: str, wrap: Callable[[Any], Any] = lambda made: made) -> Any:
        """What a kit adds to an object: `project.rank` is method("verbs", project, "rank")."""
        if name not in self.all(what):
            raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
        return wrap(load(self.all(what)[name])).__get__(owner, type(owner))

    def usable(self, paths: Iterable[tuple[Kit, str]]) -> Iterator[tuple[Kit, Any]]:
        """The objects at these paths. One of an installed kit that cannot be loaded is logged and omitted."""
        for kit, path in paths:
            try:
                yield kit, load(path)
            except (Exception, SystemExit) as error:
                if kit.built_in:
                    raise
                import logging

                logger = logging.getLogger("headway.kits")
                logger.warning("kit=%s path=%s omitted: %s: %s", kit.name, path, type(error).__name__, error)

    # -- families and kinds

    def family(self, name: str) -> Family:
        family: Family = self.look_up("families", name, called="family", code="family_missing")
        return family

    def build(
        self,
        family: str,
        knobs: Mapping[str, Any],
        tensors: Mapping[str, Any],
        extra: Mapping[str, Any],
        encoder: Encoder | None = None,
    ) -> Policy:
        """The policy from a learner's result; the same input gives the same policy, bit for bit."""
        policy: Policy = load(self.family(family).policy)(knobs, tensors, extra, encoder)
        return policy

    def learner(self, family: str, *, encoder: Encoder | None = None) -> Learner:
        """The learner of a family. Without an encoder it reads numbers and categories only."""
        learner: Learner = load(self.family(family).learner)(encoder)
        return learner

    def online_learner(self, family: str, *, encoder: Encoder | None = None) -> Any:
        """The learner of a family that can also be updated row by row: start, state_from, update, snapshot, learned."""
        if not self.family(family).online:
            online = [name for name, row in self.all("families").items() if row.online]
            raise UnknownName(
                f"The family {family!r} cannot learn row by row.", code="not_online", hint=did_you_mean(family, online)
            )
        return load(self.family(family).learner)(encoder)

    def kind(self, name: str) -> Kind:
        kind: Kind = self.look_up("kinds", name, called="kind of task", code="kind_missing")
        return kind

    def families(self, kind: str | None = None) -> tuple[str, ...]:
        """The families of a kind; the first is its default."""
        if kind is None:
            return tuple(self.all("families"))
        more = self.kind(kind).families
        fitting = [pair for pair in self.all("families").items() if kind in pair[1].kinds or pair[0] in more]
        fitting.sort(key=lambda pair: not pair[1].default)
        return tuple(name for name, _ in fitting)

    # -- the other names

    def encoder(self, name: str) -> Any:
        """The function that makes an encoder of this name."""
        return load(self.look_up("encoders", name, called="encoder", code="encoder_missing"))

    def format(self, name: str) -> Any:
        """The format of this name, loaded."""
        return load(self.look_up("formats", name, called="format", code="unknown_format"))

    def all_formats(self) -> list[Any]:
        """Every format, loaded; without those of an installed kit that cannot be loaded."""
        paths = [(kit, path) for kit in self.kits for path in kit.formats.values()]
        return [form for _, form in self.usable(paths)]

    def load(self, path: str) -> Any:
        return load(path)


def load(path: str) -> Any:
    """The object at "module:object", or the module at "module"; what it imports is imported now."""
    module, _, name = path.partition(":")
    loaded: Any = importlib.import_module(module)
    for part in name.split(".") if name else ():
        loaded = getattr(loaded, part)
    return loaded


hook = lru_cache(maxsize=256)(load)  # of a kind, on the path of a decision


def installed() -> dict[str, Callable[[], Any]]:
    """Kits of installed packages, name → function that imports the passport. Runs no code of theirs."""
    from importlib.metadata import entry_points

    offered: dict[str, Callable[[], Any]] = {}
    places: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        if places.setdefault(point.name, point.value) == point.value:
            offered[point.name] = point.load
        else:
            offered[point.name] = partial(_offered_twice, point.name, (places[point.name], point.value))
    return offered


def _offered_twice(name: str, places: tuple[str, str]) -> None:
    raise UnknownName(
        f"Two installed packages offer a kit {name!r}: {places[0]} and {places[1]}.",
        code="kit_offered_twice",
        hint="Uninstall one of them.",
    )


@lru_cache(maxsize=16)
def catalogue(use: tuple[str, ...] = ()) -> Catalogue:
    """The built-in kits, and the installed ones that `use` names."""
    kits: list[Kit] = [load("headway.nouns.core_kit:CORE")]
    broken: list[BrokenKit] = []
    for name in load(f"{GROUP}:BUILT_IN"):
        _add(kits, broken, name, partial(load, f"{GROUP}.{name}:KIT"))
    if use:
        offered = installed()
        for name in _in_order(use, offered):
            if name in offered:
                _add(kits, broken, name, offered[name])
            elif all(kit.name != name for kit in kits):
                hint = did_you_mean(name, offered)
                broken.append(BrokenKit(name, f"no installed package offers a kit of this name. {hint}".rstrip()))
    return Catalogue(tuple(kits), tuple(broken))


def _in_order(use: Sequence[str], offered: Mapping[str, Callable[[], Any]]) -> list[str]:
    """The names, each after those that it needs."""
    ordered: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in ordered or name in above or name not in use:
            return
        with suppress(Exception, SystemExit):  # `_add` reads it again, and keeps the reason
            for need in offered[name]().needs:
                add(need, (*above, name))
        ordered[name] = None

    for name in use:
        add(name, ())
    return list(ordered)


def _add(kits: list[Kit], broken: list[BrokenKit], name: str, read: Callable[[], Any]) -> None:
    """Add the kit, or the reason why it cannot be used."""
    try:
        kit = read()
        reason = _unusable(kit, name, kits)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — a kit may raise anything while it is imported
        reason = f"it cannot be imported: {type(error).__name__}: {error}"
    if reason:
        broken.append(BrokenKit(name, reason))
    else:
        kits.append(kit)


def _unusable(kit: Any, name: str, kits: Sequence[Kit]) -> str:
    if not isinstance(kit, Kit):
        return f"its entry point gives {type(kit).__name__}, not headway.nouns.kit.Kit"
    if kit.name != name:
        return f"its passport says {kit.name!r}, its entry point {name!r}"
    if kit.api != API:
        return f"it was written for version {kit.api} of the kit interface; this is version {API}"
    for what, kind in _NAMED.items():
        for key, value in getattr(kit, what).items():
            if not isinstance(key, str) or not isinstance(value, kind):
                return f"its {what} name {key!r} with {type(value).__name__}, expected {kind.__name__}"
    reserved = sorted({name.removesuffix(".*") for name in kit.tables} & set(load("headway.nouns.core_kit:TABLES")))
    if reserved:
        return f"its tables claim {reserved[0]!r}, a table of Headway itself"
    missing = [need for need in kit.needs if need not in {other.name for other in kits}]
    if missing:
        return f"it needs the kit {missing[0]!r}, which is not in use"
    for other in kits:
        if other.name == kit.name:
            return f"there is a kit {name!r} already"
        for what in _NAMED.keys() - {"options"}:
            twice = sorted(set(getattr(kit, what)) & set(getattr(other, what)))
            if twice:
                return f"its {what} claim {twice[0]!r}, which the kit {other.name!r} has"
    return ""
