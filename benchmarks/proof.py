"""Is the proof right, and how fast: coverage, false promotions under peeking, power, planning; compared with obp.

    python benchmarks/proof.py --json [--quick] [--data DIR_OR_FILE] [--seed 1]
    python benchmarks/proof.py --only coverage --seed 7 --replications 1000 --json      # where policies agree

Simulations go through the functions that `headway prove` uses (LogProof, evidence_of, gate.verdict) with the shipped
defaults; the situations of situations.py go through `headway.Project`, and their table is printed before the result.
`--data` is nine_models_train.jsonl.gz (or its folder); without it those figures are omitted. `--quick` uses
fewer replications, so its shares are rough.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist, median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import _estimators as estimators
import numpy as np
import situations
from _contract import data_file, finish, say
from _coverage import agreement_coverage, five_arm_coverage
from _worlds import EXACT_VALUES, NineModels, nine_models, routing_log

from headway.nouns.evidence import Evidence, Plan
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.evidence import evidence_of, from_log
from headway.prove.log import Floats, Log
from headway.prove.power import plan
from headway.prove.proof import LogProof

LOOK = 50
UPLIFT = 0.025
# long enough that the floors let the gate decide: under eps .1 that takes some 10,000 decisions
NULLS = {("horizon", 0.1): 20_000, ("horizon", 0.3): 5_000, ("sequence", 0.1): 15_000, ("sequence", 0.3): 5_000}
NULLS_QUICK = {("horizon", 0.3): 3_000, ("sequence", 0.3): 3_000}


def about(horizon: int | None) -> About:
    """The shipped defaults, with a registered horizon or without."""
    base = About(task="route", candidate="router@1", against="fixed@0")
    if horizon is None:
        return base
    registered = Plan(horizon=horizon, uplift=UPLIFT, power=0.8, alpha=base.share)
    return About(task="route", candidate="router@1", against="fixed@0", plan=registered)


def promoted(log: Log, horizon: int | None) -> bool:
    """Whether the gate passes at any look."""
    what = about(horizon)
    proof = LogProof(plan=what.plan, hashing=False)
    for start in range(0, len(log), LOOK):
        proof.update(log.rows(start, start + LOOK))
        if verdict(evidence_of(proof, what)).passed:
            return True
    return False


def share(replications: int, trial: Callable[[np.random.Generator], bool], seed: int) -> float:
    return float(np.mean([trial(np.random.default_rng([seed, replication])) for replication in range(replications)]))


def display_coverage(replications: int) -> dict[str, float]:
    """Two-sided 95% intervals of five policies from 650 rows of the synthetic routing task."""
    hits = dict.fromkeys(EXACT_VALUES, 0)
    matched, primary = [], []
    for replication in range(replications):
        log, policies = routing_log(650, np.random.default_rng([1, replication]))
        q = estimators.cross_fitted(log)
        for name, exact in EXACT_VALUES.items():
            estimate = estimators.estimate(log, policies[name], q=q, seed=replication)
            hits[name] += estimate.low <= exact <= estimate.high
            if name == "always_primary":
                primary.append(estimate.value)
        matched.append(float(log.reward[log.action == 0].mean()))
    figures = {f"coverage_{name}": count / replications for name, count in hits.items()}
    return figures | {
        "mean_always_primary": float(np.mean(primary)),
        "matched_rows_always_primary": float(np.mean(matched)),
    }


def gate_coverage(world: NineModels, replications: int) -> dict[str, float]:
    """How often the gate's lower bound is below the true uplift, for both rules."""
    truth = world.value(world.better) - world.value(world.current)
    figures = {}
    for epsilon in (0.1, 0.3):
        hits = {(n, rule): 0 for n in (200, 1_000, 5_000) for rule in ("horizon", "sequence")}
        for replication in range(replications):
            rng = np.random.default_rng([2, int(epsilon * 10), replication])
            log = world.log(5_000, rng, target=world.better, epsilon=epsilon)
            for n, rule in hits:
                what = about(n if rule == "horizon" else None)
                proof = LogProof(plan=what.plan, hashing=False)
                proof.update(log.rows(0, n))
                bounds = evidence_of(proof, what).bounds
                hits[n, rule] += bounds is not None and bounds[0] <= truth
        for (n, rule), count in hits.items():
            figures[f"coverage_{rule}_{n}_eps{epsilon:g}"] = count / replications
    return figures


def looked_at(log: Log, horizon: int | None) -> tuple[bool, bool, bool]:
    """Over all looks: did the gate pass, did its rule pass with every floor waived, could the gate decide at all?"""
    what = about(horizon)
    proof = LogProof(plan=what.plan, hashing=False)
    passed = crossed = open_ = False
    for start in range(0, len(log), LOOK):
        proof.update(log.rows(start, start + LOOK))
        evidence = evidence_of(proof, what)
        answer = verdict(evidence)
        passed = passed or answer.passed
        open_ = open_ or all(diagnostic.ok for diagnostic in evidence.diagnostics)
        crossed = crossed or verdict(replace(evidence, diagnostics=())).passed
        if passed and crossed:
            break
    return passed, crossed, open_


def false_promotions(world: NineModels, replications: int, lengths: dict[tuple[str, float], int]) -> dict[str, float]:
    """A policy that is exactly as good as the current one, looked at after every 50 decisions.

    `false_crossings` has all floors waived: if floors refuse every look, the gate's 0 shows nothing about the
    rule. `decidable` is the share of replications in which the gate was not refused at every look.
    """
    figures: dict[str, float] = {}
    for (name, epsilon), rows in lengths.items():
        shares = np.array(
            [
                looked_at(
                    world.log(rows, np.random.default_rng([3, replication]), target=world.null, epsilon=epsilon),
                    rows if name == "horizon" else None,
                )
                for replication in range(replications)
            ]
        ).mean(axis=0)
        for what, value in zip(("false_promotions", "false_crossings", "decidable"), shares.tolist(), strict=True):
            figures[f"{what}_{name}_{rows}_eps{epsilon:g}"] = value
        gate, rule, decided = shares
        say(f"  {name} {rows:,} eps {epsilon}: promoted {gate:.3f}, crossed {rule:.3f}, decided {decided:.2f}")
    for what in ("false_promotions", "false_crossings"):
        figures[what] = max(value for key, value in figures.items() if key.startswith(what))
    return figures


def power(world: NineModels, replications: int, horizon: int, epsilon: float, canary: float) -> float:
    return share(
        replications,
        lambda rng: promoted(world.log(horizon, rng, target=world.better, epsilon=epsilon, canary=canary), horizon),
        seed=4,
    )


def planning(
    world: NineModels, replications: int, pilots: int, epsilon: float, canary: float
) -> tuple[float, float, float]:
    """The n for 80% power by simulation, the planner's median error, and the share of pilots within 25%."""
    truth = world.value(world.better) - world.value(world.current)
    planned = []
    for pilot in range(pilots):
        log = world.log(1_000, np.random.default_rng([5, pilot]), target=world.better, epsilon=epsilon, canary=canary)
        planned.append(plan([log], uplift=truth).plan.horizon)
    middle = median(planned)
    normal = NormalDist()
    points = []
    for factor in (0.75, 1.0, 1.3):
        horizon = int(round(middle * factor / LOOK) * LOOK)
        won = power(world, replications, horizon, epsilon, canary)
        points.append((np.log(horizon), normal.inv_cdf(min(max(won, 0.02), 0.98))))
        say(f"  power at {horizon:,}: {won:.3f}")
    slope, offset = np.polyfit(*zip(*points, strict=True), deg=1)
    simulated = float(np.exp((normal.inv_cdf(0.8) - offset) / slope))
    error = np.abs(np.array(planned) / simulated - 1.0)
    return simulated, float(np.median(error)), float((error <= 0.25).mean())


def peer() -> Any:
    """obp's own estimators. Its package imports torch for classes that are not used here: where torch is absent, only
    the modules with the estimators are loaded, unchanged."""
    try:
        return importlib.import_module("obp.ope.estimators"), importlib.import_module("obp.ope.estimators_tuning")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return None
    spec = importlib.util.find_spec("obp")
    if spec is None or not spec.submodule_search_locations:
        return None
    for loaded in [name for name in sys.modules if name == "obp" or name.startswith("obp.")]:
        del sys.modules[loaded]
    where = Path(next(iter(spec.submodule_search_locations)))
    for name, path in (("obp", where), ("obp.ope", where / "ope")):
        module = types.ModuleType(name)
        module.__path__ = [str(path)]
        sys.modules[name] = module
    stand_in = types.ModuleType("torch")
    stand_in.Tensor = stand_in.tensor = object  # type: ignore[attr-defined]  # named in annotations only
    sys.modules["torch"] = stand_in
    try:
        return importlib.import_module("obp.ope.estimators"), importlib.import_module("obp.ope.estimators_tuning")
    finally:
        del sys.modules["torch"]


def drawn(rounds: int, arms: int, seed: int) -> tuple[Log, Floats, dict[str, Any]]:
    """A log, a reward model's estimates, and the same as obp's arguments. Odd seeds have real-valued rewards and sparse
    targets, so that weights are wild and the choice of lambda matters."""
    rng = np.random.default_rng([6, seed])
    wild = seed % 2 == 1
    logged = rng.dirichlet(np.ones(arms), rounds) * 0.9 + 0.1 / arms
    target = rng.dirichlet(np.full(arms, 0.3 if wild else 1.0), rounds)
    action = (rng.random(rounds)[:, None] > np.cumsum(logged, axis=1)).sum(axis=1).clip(0, arms - 1)
    chance = rng.random((rounds, arms))
    mean = chance[np.arange(rounds), action]
    reward = mean + rng.normal(0.0, 1.0, rounds) if wild else (rng.random(rounds) < mean).astype(np.float64)
    q = chance + rng.normal(0.0, 0.1, chance.shape)
    log = Log.of(reward=reward, action=action, logged=logged, target=target)
    theirs = {
        "reward": reward,
        "action": action,
        "pscore": log.propensity,
        "position": np.zeros(rounds, dtype=np.int64),
        "action_dist": target[:, :, None],
        "estimated_rewards_by_reg_model": q[:, :, None],
    }
    return log, q, theirs


def largest_difference(modules: Any, draws: int) -> float:
    """Over many logs, between our six estimators (DRos with its chosen lambda) and obp's; NaN would be the largest."""
    obp, tuning = modules
    lambdas = [bound for bound in estimators.LAMBDAS if bound < np.inf]
    differences = []
    for seed in range(draws):
        log, q, theirs = drawn((1_000, 1_003, 9_999, 20_000)[seed % 4], 7, seed)
        weight, direct, fitted = estimators.terms(log, log.target, q)
        chosen = estimators.choose_lambda(weight, log.reward - fitted, direct, tuple(lambdas))
        alone = {key: value for key, value in theirs.items() if key != "estimated_rewards_by_reg_model"}
        shrinking = tuning.DoublyRobustWithShrinkageTuning(lambdas=lambdas, tuning_method="mse")
        values = {
            "ips": obp.InverseProbabilityWeighting().estimate_policy_value(**alone),
            "snips": obp.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**alone),
            "dm": obp.DirectMethod().estimate_policy_value(**theirs),
            "dr": obp.DoublyRobust().estimate_policy_value(**theirs),
            "sndr": obp.SelfNormalizedDoublyRobust().estimate_policy_value(**theirs),
            "dros": shrinking.estimate_policy_value_with_tuning(**theirs),
        }
        for method in estimators.METHODS:
            rows = estimators.rows(
                method, reward=log.reward, weight=weight, direct=direct, fitted=fitted, shrinkage=chosen
            )
            differences.append(abs(float(rows.mean()) - float(values[method])))
    return float(np.max(differences))  # np.max, unlike max, lets a NaN through


def against_obp(modules: Any, rounds: int, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """The largest difference of estimates on identical inputs, and the speed of DR with 1,000 resamples."""
    obp, _ = modules
    worst = largest_difference(modules, 8 if repeats == 1 else 40)
    log, q, theirs = drawn(rounds, 10, 0)
    reward, target = log.reward, log.target
    ours_s, theirs_s, estimate_s, peer_s = [], [], [], []
    for repeat in range(repeats):
        start = time.process_time()
        estimators.estimate(log, q=q, interval="bootstrap", seed=repeat)
        ours_s.append(time.process_time() - start)
        start = time.process_time()
        obp.DoublyRobust().estimate_interval(n_bootstrap_samples=1000, random_state=repeat, **theirs)
        theirs_s.append(time.process_time() - start)
        start = time.process_time()
        estimators.rows(
            "dr",
            reward=reward,
            **dict(zip(("weight", "direct", "fitted"), estimators.terms(log, target, q), strict=True)),
        ).mean()
        estimate_s.append(time.process_time() - start)
        start = time.process_time()
        obp.DoublyRobust().estimate_policy_value(**theirs)
        peer_s.append(time.process_time() - start)
    ratios = {
        "dr_bootstrap_vs_obp": median(theirs_s) / median(ours_s),
        "dr_vs_obp": median(peer_s) / median(estimate_s),
    }
    return ratios, {
        "obp_largest_difference": worst,
        "dr_bootstrap_cpu_s": median(ours_s),
        "obp_dr_bootstrap_cpu_s": median(theirs_s),
    }


def streamed(rounds: int, arms: int = 10, width: int = 8, size: int = 100_000) -> Iterator[Log]:
    """Rounds made on the fly."""
    rng = np.random.default_rng(7)
    for start in range(0, rounds, size):
        n = min(size, rounds - start)
        x = rng.standard_normal((n, width))
        target, logged = np.zeros((n, arms)), np.full((n, arms), 0.3 / arms)
        rows = np.arange(n)
        target[rows, (x[:, 0] > 0).astype(np.int64)] = 1.0
        logged[:, 0] += 0.7
        baseline = np.zeros((n, arms))
        baseline[:, 0] = 1.0
        action = np.where(rng.random(n) < 0.7, 0, rng.integers(0, arms, n))
        reward = (rng.random(n) < 0.5 + 0.1 * np.tanh(x[:, 0]) * (action == 1)).astype(np.float64)
        yield Log.of(
            reward=reward, action=action, logged=logged, target=target, baseline=baseline, features=x, first_row=start
        )


def stream(rounds: int) -> Evidence:
    return from_log(streamed(rounds), about(None))


def stream_in_a_process(rounds: int) -> dict[str, float]:
    """Peak memory and time of a proof over many rounds, measured in a process of its own."""
    code = (
        "import sys, time, resource; sys.path.insert(0, sys.argv[1]); import proof; start = time.process_time();"
        f"evidence = proof.stream({rounds});"
        "print(evidence.n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time() - start)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], check=True, capture_output=True, text=True
    )
    n, kilobytes, seconds = result.stdout.split()
    return {"stream_rounds": float(n), "stream_peak_gb": float(kilobytes) / 1e6, "stream_cpu_s": float(seconds)}


def main() -> None:
    options = situations.parser((__doc__ or "").partition("\n")[0]).parse_args()
    quick = options.quick
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    clock = time.process_time()

    def done(what: str) -> None:
        nonlocal clock
        say(f"{what}: {time.process_time() - clock:.0f} CPU s")
        clock = time.process_time()

    if options.only == "coverage":
        figures |= agreement_coverage(options.replications or (20 if quick else 1_000), options.seed)
        finish("proof", figures, ratios, packages=(), as_json=options.json)
        return
    figures |= display_coverage(60 if quick else 500)
    figures |= five_arm_coverage(20 if quick else 1_000, options.seed)
    done("display coverage")
    path = data_file(options.data, "routing/nine_models_train.jsonl.gz")
    if path is None:
        say("nine_models_train.jsonl.gz is missing (pass it with --data): its figures are omitted")
    else:
        say(f"using {path.name}")
        world = nine_models(path)
        figures["uplift"] = world.value(world.better) - world.value(world.current)
        figures["disagreement"] = float((world.better != world.current).mean())
        figures["null_uplift"] = world.value(world.null) - world.value(world.current)
        figures |= gate_coverage(world, 60 if quick else 1_000)
        done("gate coverage")
        figures |= false_promotions(world, 40 if quick else 1_000, NULLS_QUICK if quick else NULLS)
        done("false promotions")
        figures["power_20000_eps0.3"] = power(world, 30 if quick else 400, 20_000, 0.3, 0.0)
        figures["power_10000_eps0.1_canary0.2"] = power(world, 30 if quick else 400, 10_000, 0.1, 0.2)
        if not quick:
            figures["power_20000_eps0.1"] = power(world, 60, 20_000, 0.1, 0.0)
        done("power")
        for name, epsilon, canary in (("_canary", 0.1, 0.2), ("", 0.3, 0.0))[: 1 if quick else 2]:
            planned = planning(world, 30 if quick else (250 if canary else 120), 40 if quick else 200, epsilon, canary)
            figures |= dict(zip((f"plan_n{name}", f"plan_error{name}", f"plan_within_25{name}"), planned, strict=True))
        done("planning")
    modules = peer()
    if modules is None:
        say("obp is not installed (pip install --no-deps --ignore-requires-python obp==0.5.7): no ratio")
    else:
        ratios, more = against_obp(modules, 100_000, 1 if quick else 5)
        figures |= more
        done("obp")
    figures |= situations.run(options, 3)
    done("situations")
    figures |= stream_in_a_process(1_000_000 if quick else 10_000_000)
    figures["replications_quick"] = float(quick)
    finish("proof", figures, ratios, packages=("obp",), as_json=options.json)


if __name__ == "__main__":
    main()
