"""The prompt-mutation service that callers know by its eight endpoints: vectors in, one of five mutations out.

    service = Embedded(project)
    service.select(vector, deterministic=False)     # Selected(action, log_prob, value)
    service.store(step, key="")                     # how many steps wait for the next update
    service.update()                                # a worker's: learns, and publishes the policy
    service.save("first"), service.load("first")    # names inside the registry, never paths

Its task is `mutate-embedded`. Until something was learned every mutation is as likely as any other and every value 0. A
policy that acts is immutable; an update gives another one, a row of the ledger (`snapshot`, with its gate off: callers
of this service ask for each update themselves) and the number of the last step that it learned from, so an update
that was killed anywhere is simply done again. Reading needs no training code.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headway.kits.prompts import MUTATIONS
from headway.kits.prompts.experiences import Experiences, Step, wrong_width
from headway.nouns.errors import InvalidInput, UnknownName, did_you_mean
from headway.nouns.protocols import Learned
from headway.project import add_bundle, record_change

if TYPE_CHECKING:
    from headway.kits.practice.learner import Experiences as Arrays
    from headway.kits.practice.policy import ActorCritic
    from headway.project import Project
    from headway.promote.ledger import Entry

__all__ = ["BUFFER", "LEAST", "TASK", "Embedded", "Selected", "service"]

TASK = "mutate-embedded"
LEAST = 128  # steps that an update needs
BUFFER = 2048  # the newest ones that it learns from
_SAVED = "policy"  # the name of a policy that was saved without one


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    action: int
    log_prob: float
    value: float


_services: WeakKeyDictionary[Project, Embedded] = WeakKeyDictionary()


def service(project: Project) -> Embedded:
    """The service of a project: one object while the project is open."""
    known = _services.get(project)
    if known is None:
        known = _services.setdefault(project, Embedded(project))
    return known


class Embedded:
    """The service of one project. Safe from threads."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.steps = Experiences(project.database, TASK)
        self._lock = threading.Lock()
        self._served: tuple[str, ActorCritic | None] = ("", None)  # hash, policy
        # Each thread reads through a connection of its own, and a store's version is that connection's.
        self._known = threading.local()

    # -- reading: any process

    def select(self, embedding: Sequence[float], *, deterministic: bool, draw: float | None = None) -> Selected:
        """One mutation, drawn from the policy's distribution or its first choice."""
        shares, value = self._look(embedding)
        if deterministic:
            action = max(range(len(shares)), key=lambda place: shares[place])
        else:
            action = _drawn(shares, secrets.randbelow(1 << 53) / (1 << 53) if draw is None else draw)
        return Selected(action=action, log_prob=math.log(shares[action]), value=value)

    def distribution(self, embedding: Sequence[float]) -> list[float]:
        return self._look(embedding)[0]

    def _look(self, embedding: Sequence[float]) -> tuple[list[float], float]:
        policy = self.policy()
        if policy is None:
            return [1.0 / len(MUTATIONS)] * len(MUTATIONS), 0.0
        if len(embedding) != (wanted := _width(policy)):
            raise wrong_width(len(embedding), wanted)
        import numpy as np

        from headway.decide.explore import softmax

        x = policy.rows(np.array([embedding], dtype=np.float64))
        shares = softmax(policy.logits(x), 1.0)[0]
        return [float(each) for each in shares], float(policy.values(x)[0])

    def policy(self) -> ActorCritic | None:
        """Who acts now; None: nobody has learned anything yet. A change of the ledger counts at once."""
        entry = self.current()
        digest = entry.policy_hash if entry is not None else ""
        with self._lock:
            if self._served[0] != digest:
                self._served = (digest, self._read(digest))
            return self._served[1]

    def current(self) -> Entry | None:
        """The row that made it so."""
        version = self._project.database.version()
        known: tuple[int, Entry | None] | None = getattr(self._known, "row", None)
        if known is None or known[0] != version:
            known = self._known.row = (version, self._project.ledger.current(TASK))
        return known[1]

    def _read(self, digest: str) -> ActorCritic:
        from headway.kits.practice.policy import read

        header, tensors = self._project.registry.load(digest, task=TASK)
        return read(header.knobs, tensors, header.extra, None)

    def waiting(self) -> int:
        """Steps that the next update would learn from."""
        return self.steps.count(after=_upto(self.current()))

    def stats(self) -> dict[str, float]:
        """How it went so far, derived from what is stored."""
        totals = self.steps.totals()
        updates = [each.detail["metrics"] for each in self._snapshots()]

        def mean(name: str) -> float:
            return sum(each[name] for each in updates) / len(updates) if updates else 0.0

        return {
            "total_updates": len(updates),
            "total_episodes": totals.episodes,
            "avg_reward": totals.mean_reward,
            "max_reward": totals.most_reward,
            "avg_policy_loss": mean("policy_loss"),
            "avg_value_loss": mean("value_loss"),
            "avg_entropy": mean("entropy"),
            "avg_kl": mean("approx_kl"),
        }

    def _snapshots(self) -> list[Entry]:
        return self._project.ledger.entries(TASK, "snapshot")

    # -- writing: small things that any process may do

    def store(self, step: Step, *, key: str = "") -> int:
        """Keep one step; numbers that are not finite, an unknown action or another width store nothing."""
        numbers = (step.reward, step.log_prob, step.value, *step.state, *step.next_state)
        if not all(map(math.isfinite, numbers)) or any(abs(each) > _LARGEST for each in numbers):
            raise InvalidInput(
                "The step holds something that is not a finite number of usable size.",
                code="not_finite",
                hint="Nothing was stored; leave such steps out.",
            )
        if not 0 <= step.action < len(MUTATIONS):
            raise InvalidInput(
                f"There is no action {step.action!r}.", code="unknown_action", hint=f"0 to 4: {', '.join(MUTATIONS)}."
            )
        policy = self.policy()
        return self.steps.add(
            step,
            now=self._project.clock(),
            key=key,
            after=_upto(self.current()),
            width=None if policy is None else _width(policy),
        )

    def save(self, name: str | None = None, *, who: str = "") -> str:
        """Keep the policy that acts now under a name; a name that was used before means the newest."""
        entry = self.current()
        if entry is None:
            raise UnknownName(
                "Nothing was learned yet, so there is nothing to save.",
                code="policy_missing",
                hint=f"Store at least {LEAST} steps and update first.",
            )
        name = name or _SAVED
        record_change(
            self._project,
            TASK,
            "candidate",
            entry.policy,
            entry.policy_hash,
            who=who,
            why=f"saved as {name}",
            detail={"name": name, "metrics": dict(entry.detail.get("metrics", {}))},
        )
        return entry.policy

    def load(self, name: str, *, who: str = "") -> str:
        """Make a saved policy act again. Steps that were stored meanwhile still count for the next update."""
        saved = {
            str(each.detail["name"]): each for each in self._project.ledger.entries(TASK) if each.detail.get("name")
        }
        found = saved.get(name)
        if found is None:
            raise UnknownName(
                f"No policy was saved as {name!r}.", code="unknown_policy", hint=did_you_mean(name, saved)
            )
        self._read(found.policy_hash)  # damaged, or of another kind: said before anything changes
        now = self.current()
        record_change(
            self._project,
            TASK,
            "promote",
            found.policy,
            found.policy_hash,
            expects=now.policy_hash if now is not None else "",
            who=who,
            why=f"loaded {name}",
            detail={"gate": "off", "upto": _upto(now), "loaded": name},
        )
        self._known.row = None
        return found.policy

    # -- learning: a worker's

    def update(self, *, who: str = "") -> dict[str, Any]:
        """One PPO update from the steps that wait; the policy that acted is never changed."""
        from headway.kits.practice.learner import PROMPTS, embedding_features, fresh
        from headway.kits.practice.learner import update as learn
        from headway.kits.practice.threads import one_thread

        self._known.row = None
        entry, policy = self.current(), self.policy()
        number = len(self._snapshots())
        steps = self.steps.rows(after=_upto(entry), most=BUFFER)
        if len(steps) < LEAST:
            return {"message": "Not enough experiences"}
        if policy is None:
            policy = fresh(arms=MUTATIONS, features=embedding_features(len(steps[0].state)), seed=0)
        with one_thread():
            new, metrics = learn(policy, _experience(steps), PROMPTS, seed=number)
        upto = steps[-1].seq
        published = add_bundle(
            self._project,
            _learned(new, metrics, len(steps)),
            task=TASK,
            kind="choice",
            encoder="",
            seed=number,
            upto=upto,
            packages=("gymnasium",),
            uncounted="adam",
        )
        told = {name: metrics[name] for name in _TOLD}
        record_change(
            self._project,
            TASK,
            "snapshot",
            published.ref,
            published.digest,
            expects=entry.policy_hash if entry is not None else "",
            who=who,
            why=f"update {number + 1} from {len(steps)} steps",
            detail={"gate": "off", "upto": upto, "metrics": told, "steps": len(steps)},
        )
        self.steps.forget(upto=upto)
        self._known.row = None
        return {**told, "buffer_size": self.waiting(), "update_count": number + 1, "policy": published.ref}


_TOLD = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "learning_rate")
_LARGEST = 3e38  # what a 32-bit float holds


def _experience(steps: Sequence[Step]) -> Arrays:
    """Steps as the arrays that an update learns from."""
    import numpy as np

    from headway.kits.practice import learner

    return learner.Experiences(
        state=np.array([step.state for step in steps], dtype=np.float64),
        action=np.array([step.action for step in steps], dtype=np.int64),
        reward=np.array([step.reward for step in steps]),
        next_state=np.array([step.next_state for step in steps], dtype=np.float64),
        done=np.array([step.done for step in steps], dtype=np.bool_),
        log_prob=np.array([step.log_prob for step in steps]),
        value=np.array([step.value for step in steps]),
    )


def _learned(policy: ActorCritic, metrics: Mapping[str, float], steps: int) -> Learned:
    """What an update gives. The optimiser is among the tensors, so that the next update resumes it."""
    extra = {
        "arms": list(policy.arms.names),
        "features": policy.features.to_json(),
        "actions": policy.actions.to_json(),
    }
    return Learned(
        family=policy.family,
        tensors=dict(policy.tensors),
        knobs=dict(policy.knobs),
        metrics=dict(metrics),
        baselines={},
        trained_on={"steps": steps},
        extra=extra,
    )


def _upto(entry: Entry | None) -> int:
    return int(entry.detail.get("upto", 0)) if entry is not None else 0


def _width(policy: ActorCritic) -> int:
    return sum(length for _, length in policy.features.vectors_of)


def _drawn(shares: Sequence[float], draw: float) -> int:
    """The first place whose cumulative share exceeds the draw."""
    reached = 0.0
    for place, share in enumerate(shares):
        reached += share
        if draw * sum(shares) < reached:
            return place
    return len(shares) - 1
