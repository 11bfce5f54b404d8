"""The pipeline that decides for a task now: the ledger names the policy, the bundle and the configuration define it.

A `Serving` is immutable and complete; a change of the ledger replaces all of it, so that a decision never sees
half a policy. The same function builds the pipeline that acts, the one that `prove` evaluates and the one that
`explain --replay` uses: from the stored configuration, not from the present file.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.decide import Explorer, Pipeline, baseline
from headway.encode import encoder
from headway.nouns import Catalogue, Decision, Encoder, Kind, Policy, PolicyRef, errors, hook
from headway.observe import Database, dumps, loads
from headway.promote import Entry, Heads, Ledger, Registry
from headway.settings import Settings, TaskSettings, config

_LOOK_AGAIN_S = 0.2
_EVEN = "uniform@0"
_QUICK = ("hashing", "wordllama", "structure", "hashing+structure")
_DEFINED_BY = {
    "rules@0": ("rules", "roles", "fallback", "actions"), "fixed@0": ("fallback",),
}  # fmt: skip
_EXPLORER_VALUE = {"epsilon": "share", "softmax": "temperature", "squarecb": "gamma", "thompson": "scale"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The acting pipeline of a task, with everything that a decision stores about it."""

    ref: str
    digest: str
    pipeline: Any  # a Pipeline, or what its kind has instead
    config: str  # canonical JSON; the hash below is of this text
    config_hash: str
    encoder: str  # its version
    canary: str = ""  # the policy that decides on a share: a canary, or the candidate of an experiment
    share: float = 0.0  # of the episodes, if it decides on whole ones …
    beside: Pipeline | None = None  # … and its pipeline then; otherwise it is in `pipeline`
    state_seq: int = 0
    ledger_seq: int = 0
    kit_missing: str = ""  # the family of the current policy, if no kit has it: the baseline decides


def acting_floor(body: Mapping[str, Any]) -> float:
    """The share of uniform choices under a configuration body: more than usual while an alarm is open."""
    return max(float(body["floor"]), float(body.get("alarm", {}).get("floor", 0.0)))


def by_episode(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The policy that decides on a share of whole episodes under a configuration body; None without one."""
    canary: Mapping[str, Any] | None = body.get("canary")
    return canary if canary is not None and canary.get("per") == "episode" else None


def drew(body: Mapping[str, Any], decision: Decision) -> tuple[str, str]:
    """(reference, hash) of the policy whose pipeline drew a decision under its configuration body."""
    whole = by_episode(body)
    if whole is not None and decision.assigned == whole["ref"]:
        return whole["ref"], whole["hash"]
    return decision.policy, decision.policy_hash


class Servings:
    """The servings of a project, rebuilt when the ledger has changed."""

    def __init__(
        self, settings: Settings, registry: Registry, ledger: Ledger, database: Database, catalogue: Catalogue
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._ledger = ledger
        self._database = database
        self._catalogue = catalogue
        self._encoders: dict[str, Encoder] = {}
        # Tasks whose texts take milliseconds or a call to encode: see `prepare`.
        self.slow = frozenset(task.name for task in settings.tasks.values() if task.encoder not in _QUICK)
        # Tasks whose kind decides by itself, which blocks.
        self.blocking = frozenset(task.name for task in settings.tasks.values() if task.traits.decide)
        # Tasks whose policies are compared blind: a decision between two policies is the order in which they are shown.
        self.compared = frozenset(
            task.name for task in settings.tasks.values() if "preference" in self._evidence(task.family)
        )
        self.watched = False  # a server that calls `refresh` itself: decisions never wait for a bundle to load
        self._current: dict[str, tuple[float, Serving]] = {}

    # -- acting

    def of(self, task: TaskSettings) -> Serving:
        """The serving of a task; checks for a newer ledger row at most five times a second."""
        known = self._current.get(task.name)
        if known is not None and self.watched:
            return known[1]
        now = time.monotonic()
        if known is not None and now - known[0] < _LOOK_AGAIN_S:
            return known[1]
        return self._look(task, known, now)

    def evenly(self, task: TaskSettings) -> Serving:
        """Uniform choice, whoever is current: for the order in which two policies are shown to a voter."""
        body = self.body(task)
        text, digest = dumps(body), self.baseline_digest(_EVEN, body)
        return Serving(
            ref=_EVEN,
            digest=digest,
            pipeline=Pipeline(self._baseline(_EVEN, body), floor=body["floor"]),
            config=text,
            config_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
            encoder=body["encoder"],
        )

    def _evidence(self, family: str) -> Sequence[str]:
        known = self._catalogue.all("families").get(family)
        return () if known is None else known.evidence

    def refresh(self) -> None:
        """Check the ledger for every task that has decided here; decisions use the old serving meanwhile."""
        failed: errors.HeadwayError | None = None
        for name, known in list(self._current.items()):
            try:
                self._look(self._settings.task(name), known, time.monotonic())
            except errors.HeadwayError as error:  # a damaged bundle of one task must not stop the others
                failed = error
        if failed is not None:
            raise failed

    def _look(self, task: TaskSettings, known: tuple[float, Serving] | None, now: float) -> Serving:
        if known is None or known[1].ledger_seq != self._ledger.head(task.name):
            known = (now, self._build(task, self._ledger.heads(task.name)))
        self._current[task.name] = (now, known[1])
        return known[1]

    def forget(self, task: str) -> None:
        """Check the ledger at the next decision (after this process changed it)."""
        self._current.pop(task, None)

    def renew(self, task: TaskSettings, heads: Heads) -> Serving:
        """The serving from the caller's view of the ledger, without reading it again after a change."""
        serving = self._build(task, heads)
        self._current[task.name] = (time.monotonic(), serving)
        return serving

    def _build(self, task: TaskSettings, heads: Heads) -> Serving:
        missing = ""
        body = self.body(task)
        override = self._settings.policy_override
        if override and override not in ("current", "off"):
            ref, digest = self.resolve(task, override)
        elif override == "off":
            ref, digest = self.baseline_ref(body), ""
        else:
            entry = heads.current
            missing = self.kit_missing(entry)
            ref, digest = self.baseline_ref(body), ""
            if entry is not None and not missing:
                ref, digest = self.as_defined(body, entry.policy, entry.policy_hash)
        digest = digest or self.baseline_digest(ref, body)
        canary = heads.canary or heads.experiment
        if canary is not None and (override or self._missing_family(canary.policy)):
            canary = None
        if canary is not None:
            named, hashed = self.as_defined(body, canary.policy, canary.policy_hash)
            body["canary"] = {"ref": named, "hash": hashed, "share": canary.share}
            if canary.kind == "experiment":
                body["canary"]["name"] = "experiment"
            elif canary.ramp is not None:
                body["canary"]["name"] = "ramp"
            if task.unit == "episode" and task.kind == "choice":
                body["canary"]["per"] = "episode"
        widened = 0.0 if heads.alarm is None or override else _widened(heads.alarm, task)
        if widened > body["floor"]:
            body["alarm"] = {"floor": widened}
        text = dumps(body)
        whole = by_episode(body)
        return Serving(
            ref=ref,
            digest=digest,
            pipeline=self.acting(task.name, body, ref, digest),
            share=float(whole["share"]) if whole else 0.0,
            beside=self.pipeline(task.name, body, whole["ref"], whole["hash"]) if whole else None,
            config=text,
            config_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
            encoder=body["encoder"],
            canary=canary.policy if canary else "",
            state_seq=self._state_seq(ref, digest),
            ledger_seq=heads.seq,
            kit_missing=missing,
        )

    def kit_missing(self, current: Entry | None) -> str:
        """The family of the current policy, if no kit has it."""
        return "" if current is None else self._missing_family(current.policy)

    def _missing_family(self, ref: str) -> str:
        """The family of a policy if no kit on this machine has it; empty if one does."""
        parsed = PolicyRef.parse(ref)
        return "" if parsed.built_in or parsed.family in self._catalogue.families() else parsed.family

    def _state_seq(self, ref: str, digest: str) -> int:
        if PolicyRef.parse(ref).built_in:
            return 0
        return int(self._registry.header(digest).trained_on.get("upto", 0))

    # -- policies and configurations

    def body(self, task: TaskSettings) -> dict[str, Any]:
        """The present acting configuration of a task, without share and alarm. Loads no policy: one may be damaged."""
        body: dict[str, Any] = loads(config(task))
        body["encoder_spec"] = body["encoder"]
        body["encoder"] = self.encoder(body["encoder"]).version if task.encoder else ""
        return body

    def resolve(self, task: TaskSettings, ref: str) -> tuple[str, str]:
        """A reference as (ref, content hash); "current" is the live policy."""
        if ref == "current":
            serving = self.of(task)
            return serving.ref, serving.digest
        parsed = PolicyRef.parse(ref)
        if parsed.built_in:
            return ref, self.baseline_digest(ref, loads(config(task)))
        digest = self._registry.find(ref)
        return str(self._registry.ref(digest)), digest

    def traits(self, body: Mapping[str, Any]) -> Kind:
        """What is special about the kind of task that a configuration body is of."""
        return self._catalogue.kind(body.get("kind", "choice"))

    floor = staticmethod(acting_floor)

    def baseline_ref(self, body: Mapping[str, Any]) -> str:
        """The first policy of a task: its kind's, or the rules if there are any, else uniform choice."""
        return self.traits(body).first or ("rules@0" if body["rules"] or body["roles"] else "uniform@0")

    def acting(self, task: str, body: Mapping[str, Any], ref: str, digest: str) -> Any:
        """What acts under a configuration body: a Pipeline, or what the kind has instead."""
        make = hook(path) if (path := self.traits(body).pipeline) else Servings._choosing
        return make(self, task, body, ref, digest)

    def pipeline(self, task: str, body: Mapping[str, Any], ref: str, digest: str) -> Pipeline:
        """The pipeline from situation to distribution over candidates under a configuration body."""
        acting = self.acting(task, body, ref, digest)
        if not isinstance(acting, Pipeline):
            raise errors.InvalidInput(
                f"{task!r} is {body['kind']}: there is no list of candidates to rank, score or compare.",
                code="bad_kind",
            )
        return acting

    def _choosing(self, task: str, body: Mapping[str, Any], ref: str, digest: str) -> Pipeline:
        policy = self.policy(task, body, ref, digest)
        if not hasattr(policy, "opinions"):
            raise errors.Conflict(
                f"{ref} does not choose among candidates, as the task {task!r} does.",
                code="other_heads",
                hint="Declare the task with the kind that the policy was learned for.",
            )
        fallback = self._baseline(self.baseline_ref(body), body)
        if body.get("fallback") and self.baseline_ref(body) != "rules@0":
            fallback = baseline("fixed@0", arm=body["fallback"])
        explore = body["explore"]
        named = _EXPLORER_VALUE.get(explore["kind"]) if explore["value"] else None  # 0: not set
        value = {named: explore["value"]} if named else {}
        kind: Any = "policy" if explore["kind"] == "none" else explore["kind"]
        canary = None if by_episode(body) else body.get("canary")
        return Pipeline(
            policy,
            fallback=fallback,
            confidence_floor=body["confidence_floor"],
            floor=acting_floor(body),
            explore=Explorer(kind=kind, **value),
            canary=self.policy(task, body, canary["ref"], canary["hash"]) if canary else None,
            canary_share=canary["share"] if canary else 0.0,
            canary_name=canary.get("name", "canary") if canary else "canary",
        )

    def policy(self, task: str, body: Mapping[str, Any], ref: str, digest: str) -> Policy:
        """A policy by its content hash: built in, or from its verified bundle."""
        if PolicyRef.parse(ref).built_in:
            if digest and digest not in (self.baseline_digest(ref, body), _digest(ref, {})):
                raise errors.Conflict(
                    f"The rules of {ref} have changed since this decision.",
                    code="policy_changed",
                    hint="The configuration of that time is stored with the decision, not its rules file.",
                )
            return self._baseline(ref, body)
        header, tensors = self._registry.load(digest, task=task)
        mine = self.encoder(body.get("encoder_spec") or body["encoder"])
        if header.encoder and header.encoder != mine.version:
            raise errors.Conflict(
                f"{ref} was learned with the encoder {header.encoder!r}; the task now has {mine.version!r}.",
                code="encoder_changed",
                hint=f"Learn again with the present encoder: headway learn {task}",
            )
        load = getattr(mine, "load", None)
        if load is not None and header.extra.get("features", {}).get("encoder", header.encoder):
            load()  # now, and not at the first decision: a missing package is reported here
        return self._catalogue.build(header.family, header.knobs, tensors, header.extra, mine)

    def encoder(self, spec: Any) -> Encoder:
        key = dumps(spec)
        if key not in self._encoders:
            settings = self._settings
            vectors = settings.directory / ".headway" / "vectors.db"
            self._encoders[key] = encoder(
                spec, find=self._catalogue.encoder, models=settings.cache, keys=settings.keys, vectors=vectors
            )
        return self._encoders[key]

    def encoder_of(self, task: TaskSettings) -> Encoder:
        """The encoder that a task's configuration names."""
        return self.encoder(self.body(task)["encoder_spec"])

    def prepare(self, task: TaskSettings, texts: Sequence[str]) -> None:
        """Encode texts before their decisions, if encoding is slow: a server does it in a thread."""
        serving = self.of(task)
        if serving.canary or not PolicyRef.parse(serving.ref).built_in:
            self.encoder(loads(serving.config)["encoder_spec"]).encode(texts)

    def close(self) -> None:
        """Close the files and connections of encoders."""
        for opened in self._encoders.values():
            close = getattr(opened, "close", None)
            if close is not None:
                close()

    def forget_vectors(self) -> None:
        """Delete all cached vectors of texts, also on disk. They are computed again on demand."""
        self.close()
        self._encoders.clear()
        for path in (self._settings.directory / ".headway").glob("vectors.db*"):
            path.unlink(missing_ok=True)

    def as_defined(self, body: Mapping[str, Any], ref: str, digest: str) -> tuple[str, str]:
        """(reference, hash) of a policy in the ledger: a built-in one is what the configuration says now."""
        return ref, self.baseline_digest(ref, body) if PolicyRef.parse(ref).built_in else digest

    def baseline_digest(self, ref: str, body: Mapping[str, Any]) -> str:
        """A built-in policy's content is its definition: such as the rules table of rules@0."""
        traits = self.traits(body)
        keys = traits.first_keys if ref == traits.first else _DEFINED_BY.get(ref, ())
        return _digest(ref, {key: body.get(key) for key in keys})

    def _baseline(self, ref: str, body: Mapping[str, Any]) -> Policy:
        if ref != "rules@0":
            return baseline(ref, arm=body.get("fallback") or "")
        return rules_policy(body)


def _widened(alarm: Entry, task: TaskSettings) -> float:
    """The share of uniform choices while this alarm is open: what it asks for, within the task's limit."""
    return min(float(alarm.detail.get("explore", 0.0)), task.most_exploration)


def _digest(ref: str, definition: Mapping[str, Any]) -> str:
    """Without a definition: what decisions of fixed@0 carried before its arm was part of its hash."""
    return hashlib.sha256(dumps([ref, definition]).encode()).hexdigest()


def rules_policy(body: Mapping[str, Any]) -> Policy:
    """The rules table of a configuration body: plain rules, and a primary and a fallback per role.

    If no rule holds: the role's primary, the task's `fallback`, or its first action.
    """
    rules: list[dict[str, Any]] = []
    default: dict[str, str] = {}
    for role, row in body["roles"].items():
        default[role] = row["primary"]
        rules += [{"role": role, "when": condition, "use": row["fallback"]} for condition in row["triggers"]]
    rules += [dict(rule) for rule in body["rules"]]
    if body["fallback"] or body["actions"]:
        default[""] = body["fallback"] or body["actions"][0]
    return baseline("rules@0", rules=rules, default=default, actions=body["actions"] or None)
