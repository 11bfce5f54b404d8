"""The prompt-mutation service behind eight endpoints: vectors in, one of five mutations out.

    service = Embedded(project)
    service.select(vector, deterministic=False)     # SelectedMutation(action, log_prob, value)
    service.store(step, key="")                     # the number of steps for the next update
    service.update()                                # for a worker: learns, and publishes the policy
    service.save("first"), service.load("first")    # names inside the registry, never paths

Its task is `mutate-embedded`. Before the first update all mutations are equally likely and every value is 0. Policies
are immutable; an update creates a new one, a row of the ledger (`snapshot`, with its gate off: callers request each
update themselves) and the number of the last step that it used, so an interrupted update is simply repeated. Reads need
no training code.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headway.kits.prompts.experiences import ExperienceStore, Step, wrong_width
from headway.kits.prompts.kinds import MUTATIONS
from headway.nouns import Learned, errors

if TYPE_CHECKING:
    from headway.kits.practice import ActorCritic, Experiences as Arrays
    from headway.project import Project
    from headway.promote import Entry

TASK = "mutate-embedded"
LEAST = 128  # steps that an update needs
BUFFER = 2048  # the newest steps, used by an update
_SAVED = "policy"  # the default name of a saved policy
logger = logging.getLogger("headway.loop")
_UPDATE = "update"  # the kind of its jobs
_LEASE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedMutation:
    wire_name = "SelectAnswer"
    action: int
    mutation_type: str
    log_prob: float
    value: float


_services: WeakKeyDictionary[Project, Embedded] = WeakKeyDictionary()


def service(project: Project) -> Embedded:
    """The service of a project: one object per open project."""
    known = _services.get(project)
    if known is None:
        known = _services.setdefault(project, Embedded(project))
    return known


class Embedded:
    """The service of one project. Safe from threads."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.steps = ExperienceStore(project.database, TASK)
        self._lock = threading.Lock()
        self._served: tuple[str, ActorCritic | None] = ("", None)  # hash, policy
        # Each thread has its own connection, and a store's version belongs to that connection.
        self._known = threading.local()

    # -- reading: any process

    def select(self, embedding: Sequence[float], *, deterministic: bool) -> SelectedMutation:
        """One mutation, drawn from the policy's distribution or its first choice."""
        shares, value = self._look(embedding)
        if deterministic:
            action = max(range(len(shares)), key=lambda place: shares[place])
        else:
            action = _drawn(shares, secrets.randbelow(1 << 53) / (1 << 53))
        kind, chance = MUTATIONS[action], math.log(shares[action])
        return SelectedMutation(action=action, mutation_type=kind, log_prob=chance, value=value)

    def distribution(self, embedding: Sequence[float]) -> list[float]:
        return self._look(embedding)[0]

    def _look(self, embedding: Sequence[float]) -> tuple[list[float], float]:
        policy = self.policy()
        if policy is None:
            return [1.0 / len(MUTATIONS)] * len(MUTATIONS), 0.0
        if len(embedding) != (wanted := _width(policy)):
            raise wrong_width(len(embedding), wanted)
        import numpy as np

        from headway.decide import explore

        x = policy.rows(np.array([embedding], dtype=np.float64))
        shares = explore.softmax(policy.logits(x), 1.0)[0]
        return [float(share) for share in shares], float(policy.values(x)[0])

    def policy(self) -> ActorCritic | None:
        """The policy that decides now; None before the first update. Follows the ledger immediately."""
        entry = self.current()
        digest = entry.policy_hash if entry is not None else ""
        with self._lock:
            if self._served[0] != digest:
                self._served = (digest, self._read(digest))
            return self._served[1]

    def current(self) -> Entry | None:
        """The ledger row of the policy that decides now."""
        version = self._project.database.version()
        known: tuple[int, Entry | None] | None = getattr(self._known, "row", None)
        if known is None or known[0] != version:
            known = self._known.row = (version, self._project.ledger.current(TASK))
        return known[1]

    def _read(self, digest: str) -> ActorCritic:
        from headway.kits.practice import read

        header, tensors = self._project.registry.load(digest, task=TASK)
        return read(header.knobs, tensors, header.extra, None)

    def waiting(self) -> int:
        """The number of steps for the next update."""
        return self.steps.count(after=_upto(self.current()))

    def stats(self) -> dict[str, float]:
        """Statistics so far, from the stored steps and updates."""
        totals = self.steps.totals()
        updates = [snapshot.detail["metrics"] for snapshot in self._snapshots()]

        def mean(name: str) -> float:
            return sum(update[name] for update in updates) / len(updates) if updates else 0.0

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

    # -- small writes: any process

    def store(self, step: Step, *, key: str = "") -> int:
        """Store one step; a number that is not finite, an unknown action or another width is refused."""
        numbers = (step.reward, step.log_prob, step.value, *step.state, *step.next_state)
        if not all(map(math.isfinite, numbers)) or any(abs(number) > _LARGEST for number in numbers):
            raise errors.InvalidInput(
                "The step has a number that is not finite or too large.",
                code="not_finite",
                hint="Nothing was stored; omit such steps.",
            )
        if not 0 <= step.action < len(MUTATIONS):
            raise errors.InvalidInput(
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
        """Save the present policy under a name; a repeated name refers to the newest."""
        entry = self.current()
        if entry is None:
            raise errors.UnknownName(
                "There was no update yet, so there is nothing to save.",
                code="policy_missing",
                hint=f"Store at least {LEAST} steps and update first.",
            )
        name = name or _SAVED
        self._project.record_change(
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
        """Make a saved policy current. Steps stored since still count for the next update."""
        saved = {
            str(entry.detail["name"]): entry for entry in self._project.ledger.entries(TASK) if entry.detail.get("name")
        }
        saved_entry = saved.get(name)
        if saved_entry is None:
            raise errors.UnknownName(
                f"No policy was saved as {name!r}.", code="unknown_policy", hint=errors.did_you_mean(name, saved)
            )
        self._read(saved_entry.policy_hash)  # a damaged bundle, or one of another kind, fails before anything changes
        now = self.current()
        self._project.record_change(
            TASK,
            "promote",
            saved_entry.policy,
            saved_entry.policy_hash,
            expects=now.policy_hash if now is not None else "",
            who=who,
            why=f"loaded {name}",
            detail={"gate": "off", "upto": _upto(now), "loaded": name},
        )
        self._known.row = None
        return saved_entry.policy

    # -- learning: workers

    def update(self, *, who: str = "") -> dict[str, Any]:
        """One PPO update from the waiting steps; the present policy is never changed."""
        from headway.kits.practice import PROMPTS, embedding_features, fresh, one_thread, update as learn

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
        published = self._project.add_bundle(
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
        self._project.record_change(
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
_LARGEST = 3e38  # limit of a 32-bit float


def _experience(steps: Sequence[Step]) -> Arrays:
    """Steps as the arrays of an update."""
    import numpy as np

    from headway.kits.practice import Experiences

    return Experiences(
        state=np.array([step.state for step in steps], dtype=np.float64),
        action=np.array([step.action for step in steps], dtype=np.int64),
        reward=np.array([step.reward for step in steps]),
        next_state=np.array([step.next_state for step in steps], dtype=np.float64),
        done=np.array([step.done for step in steps], dtype=np.bool_),
        log_prob=np.array([step.log_prob for step in steps]),
        value=np.array([step.value for step in steps]),
    )


def _learned(policy: ActorCritic, metrics: Mapping[str, float], steps: int) -> Learned:
    """The result of an update. Its tensors include the optimiser, so that the next update resumes it."""
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
    """The first index whose cumulative share exceeds the draw."""
    reached = 0.0
    for place, share in enumerate(shares):
        reached += share
        if draw * sum(shares) < reached:
            return place
    return len(shares) - 1


def do_updates(project: Project, worker: str, clock: Callable[[], float], say: Callable[[str], None]) -> None:
    """Run every waiting update, one after another. A failed one records why and leaves the policy unchanged."""
    jobs = project.jobs
    while jobs.waiting((_UPDATE,), now=clock()):
        job = jobs.claim(worker, now=clock(), lease_s=_LEASE_S, kinds=(_UPDATE,))
        if job is None:
            return
        try:
            result = service(project).update(who=job.key or worker)
        except errors.HeadwayError as error:
            logger.warning("update failed code=%s", error.code)
            body = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
            jobs.finish(job.job, body, worker=worker, now=clock(), failed=True)
            continue
        except Exception as error:  # noqa: BLE001 — one request must not end the loop
            logger.warning("update failed error=%s", error)
            body = {"error": {"code": "failed", "message": f"{type(error).__name__}: {error}"[:500], "hint": ""}}
            jobs.finish(job.job, body, worker=worker, now=clock(), failed=True)
            continue
        jobs.finish(job.job, result, worker=worker, now=clock())
        if "policy" in result:
            say(f"mutate-embedded: {result['policy']} decides now, after update {result['update_count']}")
