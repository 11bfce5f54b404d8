"""Conservative Q-learning and cloning from logged CartPole episodes, against d3rlpy's DiscreteCQL and DiscreteBC.

    python benchmarks/offline.py --json

Speed: gradient steps per CPU second of one thread at batch 64 and 256, both sides with two hidden layers of 256 on the
same episodes; d3rlpy through `fit`, ours through the function that the learner calls. Its `fit` is timed after a
first call of 200 steps, so that building the networks does not count. The sides take turns.

Return: both sides take the same number of gradient steps at batch 64 with the same learning rate, alpha, gamma and
target interval, on the same episodes; then 20 greedy episodes online, evaluation not timed. Two sets of episodes, from
these behaviours (shares are of steps; the controller is a weighted sum of the four observations):

mixed     a third by the good controller with 10% random actions, a third with 40%, a third uniformly random
five      5% by the good controller with 10% random actions, 95% by a poor one that steers by the cart's position alone,
          30% of it random

CQL must reach 475 on every seed on the mixed set; on the second one it must beat cloning with an interval. Both alphas,
the falling rate and the second set's poor controller were chosen on these seeds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import io
import logging
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from _contract import arguments, finish, say

from headway.kits.offline.clone_learner import CloneLearner
from headway.kits.offline.cql_learner import CQLLearner
from headway.kits.offline.gradient import Steps, train_clone, train_q
from headway.kits.offline.transitions import Transitions
from headway.kits.practice.mlp import Network, Shape
from headway.nouns.kit import catalogue
from headway.nouns.records import Candidate, Decision, Settled, Situation

ARMS = ("left", "right")
CANDIDATES = tuple(Candidate(name) for name in ARMS)
HIDDEN = (256, 256)
GAMMA, RATE, TARGET_EVERY = 0.99, 1e-3, 500
ALPHA = 1.0  # d3rlpy's own
ALPHA_FIVE = 0.1  # where nearly all data is bad, staying close to it costs more than it saves
GOOD = np.array([0.05, 0.12, 1.0, 0.45])


@dataclass(frozen=True)
class Episodes:
    """Steps of episodes, one after the other."""

    observation: Any  # [step, 4]
    action: Any
    terminated: Any
    truncated: Any

    def __len__(self) -> int:
        return len(self.action)


def behave(kind: str, observation: Any, rng: np.random.Generator) -> Any:
    good = (observation @ GOOD > 0).astype(np.int64)
    poor = (observation[:, 0] > 0).astype(np.int64)
    base, noise = {"good": (good, 0.1), "fair": (good, 0.4), "random": (good, 1.0), "poor": (poor, 0.3)}[kind]
    return np.where(rng.random(len(base)) < noise, rng.integers(2, size=len(base)), base)


def made(shares: Mapping[str, float], steps: int, seed: int) -> Episodes:
    """Whole episodes of each behaviour until it has its share of the steps."""
    import gymnasium

    rng = np.random.default_rng(seed)
    parts: list[Any] = []
    for number, (kind, share) in enumerate(shares.items()):
        env, left = gymnasium.make("CartPole-v1"), int(steps * share)
        seen, _ = env.reset(seed=seed * 1000 + number)
        while left > 0:
            action = int(behave(kind, seen[None, :], rng)[0])
            after, _, terminated, truncated, _ = env.step(action)
            left -= 1
            truncated = truncated or (left == 0 and not terminated)
            parts.append((seen, action, terminated, truncated and not terminated))
            seen = after
            if terminated or truncated:
                seen, _ = env.reset()
    columns = list(zip(*parts, strict=True))
    return Episodes(
        np.array(columns[0], dtype=np.float32), np.array(columns[1]), np.array(columns[2]), np.array(columns[3])
    )


class Log:
    """The episodes as settled decisions; all of them are in the train part."""

    def __init__(self, episodes: Episodes) -> None:
        self.rows: list[Settled] = []
        self._endings: dict[str, str] = {}
        episode, step = 0, 0
        for number in range(len(episodes)):
            name = f"episode {episode}"
            situation = Situation(
                task="cartpole", state={"observation": episodes.observation[number].tolist()}, episode=name, step=step
            )
            decision = Decision(
                id=f"dec_{number}", situation=situation, candidates=CANDIDATES, probabilities=(0.5, 0.5),
                action=ARMS[episodes.action[number]], propensity=0.5, policy="uniform@0", policy_hash="",
                config_hash="", encoder="", exploration="", seed=number, at=float(number), source="synthetic",
            )  # fmt: skip
            self.rows.append(Settled(seq=number + 1, decision=decision, reward=1.0, status="rewarded"))
            step += 1
            if episodes.terminated[number] or episodes.truncated[number]:
                self._endings[name] = "terminated" if episodes.terminated[number] else "truncated"
                episode, step = episode + 1, 0

    def __iter__(self) -> Iterator[Settled]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, name: str) -> list[Settled]:
        return self.rows if name == "train" else []

    def endings(self) -> Mapping[str, str]:
        return self._endings


def played(act: Callable[[Any], Any], seed: int, episodes: int = 20) -> float:
    """The mean return of greedy episodes."""
    import gymnasium

    envs = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    seen, _ = envs.reset(seed=10_000 + seed)
    alive, total = np.ones(episodes, dtype=bool), np.zeros(episodes)
    for _ in range(500):
        seen, _, terminated, truncated, _ = envs.step(act(seen))
        total += alive
        alive &= ~(terminated | truncated)
        if not alive.any():
            break
    return float(total.mean())


def ours(family: str, episodes: Episodes, steps: int, seed: int, alpha: float = ALPHA) -> float:
    """Trains with the family's learner, plays with its policy."""
    knobs: dict[str, Any] = {"hidden": HIDDEN, "batch": 64, "rate": RATE, "decay": 0.0, "steps": steps}
    log: Any = Log(episodes)
    if family == "cql":
        learned = CQLLearner().learn(
            log, {**knobs, "gamma": GAMMA, "alpha": alpha, "target_every": TARGET_EVERY}, seed=seed
        )
    else:
        learned = CloneLearner().learn(log, knobs, seed=seed)
    policy = catalogue().build(learned.family, learned.knobs, learned.tensors, learned.extra)

    def act(seen: Any) -> Any:
        situations = [Situation(task="cartpole", state={"observation": row.tolist()}) for row in seen]
        acting: Any = policy
        return acting.opinions(situations, CANDIDATES, range(len(situations))).probabilities.argmax(axis=1)

    return played(act, seed)


def peer(family: str, episodes: Episodes, batch: int, steps: int, seed: int) -> tuple[Any, float]:
    """The learner from d3rlpy's own entry point, and its gradient steps per CPU second."""
    import d3rlpy
    from d3rlpy.logging import NoopAdapterFactory

    d3rlpy.seed(seed)
    data = d3rlpy.dataset.MDPDataset(
        observations=episodes.observation,
        actions=episodes.action[:, None],
        rewards=np.ones((len(episodes), 1), np.float32),
        terminals=episodes.terminated.astype(np.float32),
        timeouts=episodes.truncated.astype(np.float32),
    )
    if family == "cql":
        config: Any = d3rlpy.algos.DiscreteCQLConfig(
            batch_size=batch, learning_rate=RATE, gamma=GAMMA, alpha=ALPHA, target_update_interval=TARGET_EVERY
        )
    else:
        config = d3rlpy.algos.DiscreteBCConfig(batch_size=batch, learning_rate=RATE, beta=0.0)
    learner = config.create(device="cpu:0")
    quiet = {"logger_adapter": NoopAdapterFactory(), "show_progress": False}
    learner.fit(data, n_steps=200, n_steps_per_epoch=200, **quiet)
    start = time.process_time()
    learner.fit(data, n_steps=steps, n_steps_per_epoch=steps, **quiet)
    return learner, steps / (time.process_time() - start)


def speed(family: str, episodes: Episodes, batch: int, steps: int, seed: int) -> float:
    """Gradient steps per CPU second of our learner."""
    rows = len(episodes)
    ended = episodes.terminated | episodes.truncated
    after = np.where(ended, -1, np.arange(rows) + 1)
    after[-1] = -1
    log = Transitions(
        x=np.concatenate([np.ones((rows, 1), np.float32), episodes.observation], axis=1),
        action=episodes.action,
        reward=np.ones(rows, np.float32),
        weight=np.ones(rows, np.float32),
        propensity=np.full(rows, 0.5),
        offered=np.ones((rows, 2), dtype=bool),
        next=after,
        usable=np.flatnonzero(~episodes.truncated),
        left_out=0,
    )
    network = Network(Shape(inputs=5, hidden=HIDDEN, towers=(("q0", 2),), activation="relu"), seed=seed)
    take = Steps(steps=steps, batch=batch, rate=RATE, gamma=GAMMA, alpha=ALPHA, target_every=TARGET_EVERY)
    rng = np.random.default_rng(seed)
    start = time.process_time()
    if family == "cql":
        train_q(network, log, take, rng)
    else:
        train_clone(network, log.x, log.action, log.offered, log.weight, take, rng)
    return steps / (time.process_time() - start)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], seeds=5)
    parser.add_argument("--peer-seeds", type=int, default=1, help="seeds of the peer's returns (about a minute each)")
    options = parser.parse_args()
    _silence()
    seeds = 2 if options.quick else options.seeds
    size, steps, repeats = (10_000, 3_000, 1) if options.quick else (30_000, 6_000, 3)
    if options.quick:
        say("quick: two seeds, 10,000 rows and 3,000 gradient steps, so returns are lower than in the full run")
    mixed = {"good": 1 / 3, "fair": 1 / 3, "random": 1 / 3}
    five = {"good": 0.05, "poor": 0.95}
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}

    episodes = made(mixed, size, 0)
    for family in ("cql", "bc"):
        for batch in (64, 256):
            mine, theirs = [], []
            for repeat in range(repeats):
                theirs.append(peer(family, episodes, batch, 400, repeat)[1])
                mine.append(speed(family, episodes, batch, 2_000, repeat))
            figures[f"{family}_{batch}_steps_per_s"] = statistics.median(mine)
            figures[f"{family}_{batch}_steps_per_s_d3rlpy"] = statistics.median(theirs)
            ratios[f"{family}_{batch}_vs_d3rlpy"] = statistics.median(mine) / statistics.median(theirs)
            say(f"{family} at batch {batch}: ours {mine[-1]:.0f}, d3rlpy {theirs[-1]:.0f} steps/s")

    returns: dict[str, list[float]] = {}
    for name, shares in (("mixed", mixed), ("five", five)):
        for seed in range(seeds):
            episodes = made(shares, size, seed)
            for family, short in (("cql", "cql"), ("clone", "bc")):
                result = ours(family, episodes, steps, seed, ALPHA if name == "mixed" else ALPHA_FIVE)
                returns.setdefault(f"{short}_{name}", []).append(result)
                say(f"{name}, seed {seed}: our {short} {result:.0f}")
            if name == "mixed" and seed < (0 if options.quick else options.peer_seeds):
                for family in ("cql", "bc"):
                    learner, _ = peer(family, episodes, 64, steps, seed)
                    result = played(lambda seen, it=learner: it.predict(seen), seed)
                    returns.setdefault(f"{family}_{name}_d3rlpy", []).append(result)
                    say(f"{name}, seed {seed}: d3rlpy's {family} {result:.0f}")
    for name, values in returns.items():
        figures[f"return_{name}"] = statistics.fmean(values)
        figures[f"return_{name}_least"] = min(values)
    gain = np.array(returns["cql_five"]) - np.array(returns["bc_five"])
    low, high = _interval(gain)
    figures |= {"five_cql_over_bc": float(gain.mean()), "five_cql_over_bc_low": low, "five_cql_over_bc_high": high}
    figures["seeds"] = float(seeds)
    finish("offline", figures, ratios, packages=("d3rlpy", "torch", "gymnasium"), as_json=options.json)


def _interval(values: Any) -> tuple[float, float]:
    """95%, Student's t over seeds."""
    from scipy.stats import t

    if len(values) < 2:
        return float("-inf"), float("inf")
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return float(values.mean() - half), float(values.mean() + half)


def _silence() -> None:
    """d3rlpy logs through structlog, and imports the old gym, which prints a deprecation notice to stderr."""
    warnings.filterwarnings("ignore")
    import structlog
    import torch

    torch.set_num_threads(1)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with contextlib.redirect_stderr(io.StringIO()):
        import d3rlpy  # noqa: F401


if __name__ == "__main__":
    main()
