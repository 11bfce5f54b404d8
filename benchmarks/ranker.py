"""Which action next: the ranker beside a linear model, gradient-boosted rankers and simple guesses.

    python benchmarks/ranker.py --json

The world `projects`, 2,764 tuples per seed; what is learned reads the train and tune parts of the first 70% in time.
All models get the same vectors (WordLlama's for texts, standardised numbers, one-hot types and scopes), are picked on
the tuning rows and fitted again with them. Judged on 300 fresh states with ten candidates each, described in words that
no training row has, by their true mean rewards:

- `regret_*`: what the first choice earns less than the best one;  `tau_*`: Kendall's rank correlation within a state;
  `sign_*`: sign accuracy. `*_majority` is a guess that is the same for every action.
- `ranker` is the best of `linear`, `small` and `full` on the tuning rows. Peers: `ridge` (all
  columns and state × text products), `lightgbm` (lambdarank), `catboost` (YetiRank), `type` (the mean of a type).
  Scores of the two rankers get a scale and a centre from the tuning rows.
- `lead_PEER_low/high`: 95% interval of its regret minus the ranker's, paired over the states of all seeds;
  `lead_PEER_seeds_low/high`: over the means of the seeds.
- `coverage_80`: held-out rewards inside their 80% intervals. `promoted_on_noise`: of as many candidates.
- `export_error_*`: the exported graph and torch, on held-out rows; `int8_spearman_*`: predictions with 8 and 32 bits.
- `rank_N_vs_torch`: N candidates by the exported graph and by the torch module that reads whole pairs; CPU time.
- `train_cpu_s`: all architectures of the default choice. `cold_rank_*`: `headway rank` of 3 actions, a new process.

Settings were tuned with seeds 1 to 9; the figures are of seeds 201 to 205. `--quick` does one seed and no full size.
`--rows 20000 --device cuda` reports the training on a GPU alone.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _contract import ROOT, arguments, finish, say
from _ranking import Judge, Predict, peers

sys.path.insert(0, str(ROOT))  # tuples as experience

from headway.kits.models.wordllama import WordllamaEncoder
from headway.kits.next_action.architectures import eight_bits, spearman
from headway.kits.next_action.layout import ActionInputs, StateInputs, rows_of
from headway.kits.next_action.learner import RankerLearner
from headway.kits.next_action.measures import Measures
from headway.kits.next_action.policy import Z80, Ranker, read
from headway.kits.next_action.shapes import SIZES, RankerShape
from headway.kits.next_action.world import Projects
from tests.kits.next_action.tuples import Tuples

FIRST_SEED = 201
T_95 = {5: 2.776}  # Student's t, by the number of seeds


def learned(tuples: Tuples, seed: int, encoder: Any, **knobs: Any) -> tuple[Any, Ranker, float, float]:
    """What was learned, the policy, and the seconds that it took: of the processor and in all."""
    begun, processor = time.perf_counter(), time.process_time()
    result = RankerLearner(encoder).learn(tuples, knobs, seed=seed)
    took = time.process_time() - processor, time.perf_counter() - begun
    return result, read(result.knobs, result.tensors, result.extra, encoder), *took


def default_choice(errors: dict[str, float]) -> str:
    """The least error on the tuning rows, if it beats the linear model's by 1%; `auto` asks for two standard errors."""
    best = min(errors, key=lambda name: errors[name])
    return best if errors[best] < 0.99 * errors["linear"] else "linear"


class Scores:
    """Regrets and measures of every model, over the seeds."""

    def __init__(self) -> None:
        self.regrets: dict[str, list[Any]] = {}
        self.measures: dict[str, list[Measures]] = {}
        self.figures: dict[str, list[float]] = {}

    def judge(self, judge: Judge, name: str, predict: Predict) -> None:
        regret, measured = judge.regrets(predict)
        self.regrets.setdefault(name, []).append(regret)
        self.measures.setdefault(name, []).append(measured)

    def copy(self, name: str, source: str) -> None:
        self.regrets.setdefault(name, []).append(self.regrets[source][-1])
        self.measures.setdefault(name, []).append(self.measures[source][-1])

    def note(self, **figures: float) -> None:
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def summary(self) -> dict[str, float]:
        figures = {name: float(np.mean(values)) for name, values in self.figures.items()}
        for name, many in self.measures.items():
            figures[f"regret_{name}"] = float(np.mean(np.concatenate(self.regrets[name])))
            figures[f"tau_{name}"] = float(np.mean([one.rank_correlation or 0.0 for one in many]))
            figures[f"sign_{name}"] = float(np.mean([one.sign_accuracy or 0.0 for one in many]))
        for name in self.regrets.keys() - {"ranker"}:
            figures |= self._lead(name)
        return figures

    def _lead(self, name: str) -> dict[str, float]:
        by_seed = [theirs - ours for theirs, ours in zip(self.regrets[name], self.regrets["ranker"], strict=True)]
        lead, means = np.concatenate(by_seed), np.array([one.mean() for one in by_seed])
        middle, error = float(lead.mean()), 1.96 * float(lead.std()) / len(lead) ** 0.5
        figures = {f"lead_{name}_low": middle - error, f"lead_{name}_high": middle + error}
        if len(means) in T_95:
            error = T_95[len(means)] * float(means.std(ddof=1)) / len(means) ** 0.5
            figures |= {f"lead_{name}_seeds_low": middle - error, f"lead_{name}_seeds_high": middle + error}
        return figures


def compare(scores: Scores, encoder: Any, seed: int, rows: int, quick: bool) -> None:
    """One seed: every architecture, the default choice among them, and the peers."""
    world = Projects(leak=False)
    tuples, judge = Tuples(world, rows, seed), Judge(world, seed)
    errors, covered = dict[str, float](), dict[str, float]()
    processor = elapsed = 0.0
    for name in ("linear", "small") if quick else ("linear", "small", "full"):
        result, policy, cpu_s, wall_s = learned(tuples, seed, encoder, architecture=name, device="cpu")
        processor, elapsed = processor + cpu_s, elapsed + wall_s
        scores.judge(judge, name, lambda s, c, p=policy: p.predict((s,), c)[0][0])
        errors[name] = result.metrics["tune_error"]
        covered[name] = coverage(policy, tuples)
        scores.note(**{f"coverage_80_{name}": covered[name], f"train_cpu_s_{name}": cpu_s})
        if name in SIZES:
            scores.note(**exported(name, result, policy, tuples))
        say(f"seed {seed}: {cpu_s:.1f} s. {' '.join(result.extra['notes'])}")
    choice = default_choice(errors)
    scores.copy("ranker", choice)
    scores.note(train_cpu_s=processor, train_s=elapsed, coverage_80=covered[choice])
    scores.note(**{f"chosen_{name}": float(name == choice) for name in errors})
    rival = policy.rivals()["the mean of its type"]
    scores.judge(judge, "type", lambda s, c: rival.opinions((s,), c, (0,)).mean[0])
    for name, predict in peers(tuples, policy.layout, policy.until, encoder, seed).items():
        scores.judge(judge, name, predict)
    regret, sign = judge.majority()
    scores.note(regret_majority=regret, sign_majority=sign)
    say(f"seed {seed}: {choice}; " + ", ".join(f"{n} {r[-1].mean():.4f}" for n, r in scores.regrets.items()))


def compared(scores: Scores) -> tuple[dict[str, float], dict[str, float]]:
    """Figures and ratios over all seeds."""
    figures = scores.summary()
    figures |= {"coverage_80_least": min(scores.figures["coverage_80"])}
    figures |= {"coverage_80_most": max(scores.figures["coverage_80"])}
    others = [name for name in scores.regrets if name != "ranker"]
    return figures, {f"regret_vs_{name}": figures[f"regret_{name}"] / figures["regret_ranker"] for name in others}


def coverage(policy: Ranker, tuples: Tuples) -> float:
    """The share of held-out rewards inside their 80% intervals."""
    held = tuples.held_out(policy.until)
    pairs = [policy.predict((row.decision.situation,), row.decision.candidates) for row in held]
    inside = [abs(m[0, 0] - row.reward) <= Z80 * d[0, 0] for (m, d), row in zip(pairs, held, strict=True)]
    return float(np.mean(inside))


def exported(name: str, result: Any, policy: Ranker, tuples: Tuples) -> dict[str, float]:
    """On held-out rows: the graph beside torch with the same weights, and predictions with 8 bits beside 32."""
    from headway.kits.next_action.graph import Scorer
    from headway.kits.next_action.network import RankerNetwork
    from headway.kits.next_action.policy import restored
    from headway.kits.next_action.train import NetworkRows, outputs_of

    rows = rows_of(tuples.held_out(policy.until), policy.layout, policy.encoder, 0.25)
    states, actions = rows.inputs()
    assert isinstance(policy.scorer, Scorer)
    shape = policy.scorer._shape
    network = RankerNetwork(shape, seed=0)
    network.load({tensor: result.tensors[f"net.{tensor}"] for tensor in shape.tensors()})
    zeros = np.zeros(len(rows.reward))
    trained = outputs_of(network, NetworkRows(states, rows.owner, actions, zeros, zeros, zeros), "cpu")
    small = eight_bits({tensor: result.tensors[f"net.{tensor}"] for tensor in shape.tensors()})
    eight = Scorer(
        shape, {tensor: restored(small, tensor, size, prefix="") for tensor, size in shape.tensors().items()}
    )

    def by(scorer: Scorer) -> Any:
        ours = np.empty_like(trained)
        for place in range(len(states.text)):
            state = StateInputs(*(part[place : place + 1] for part in (states.text, states.numbers, states.steps)))
            mine = np.flatnonzero(rows.owner == place)
            ours[mine] = scorer(state, ActionInputs(actions.text[mine], actions.traits[mine]))
        return ours

    whole, rounded = by(policy.scorer), by(eight)
    linear = np.array([
        float(policy._linear((rows.situations[owner],), (row.decision.candidates[0],))[0, 0])
        for owner, row in zip(rows.owner, tuples.held_out(policy.until), strict=True)
    ]) / policy.scale  # fmt: skip
    return {
        f"export_error_{name}": float(np.abs(whole - trained).max()),
        f"int8_spearman_{name}": spearman(linear + whole[:, 0], linear + rounded[:, 0]),
        f"int8_spearman_correction_{name}": spearman(whole[:, 0], rounded[:, 0]),
    }


def speed(size: str) -> tuple[dict[str, float], dict[str, float]]:
    """The exported graph beside the torch module that reads whole pairs."""
    import torch

    from headway.kits.next_action.graph import Scorer
    from headway.kits.next_action.network import RankerNetwork

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    shape = RankerShape.of(size, text=256, numbers=23, traits=14)
    network = RankerNetwork(shape, seed=0).eval()
    for weight in network.weights.values():
        torch.nn.init.normal_(weight.data, std=0.02)
    scorer = Scorer(shape, network.tensors())

    def some(*sizes: int) -> Any:
        return rng.normal(size=sizes).astype(np.float32)

    figures, ratios = {f"parameters_{size}": float(shape.parameters)}, {}
    state = StateInputs(some(1, shape.text), some(1, shape.numbers), some(1, 8, 2))
    for count in (3, 10, 100):
        actions = ActionInputs(some(count, shape.text), some(count, shape.traits))
        parts = [np.repeat(part, count, axis=0) for part in (state.text, state.numbers, state.steps)]
        whole = tuple(torch.as_tensor(part) for part in parts)
        pair = (torch.as_tensor(actions.text), torch.as_tensor(actions.traits))

        def by_torch(whole: Any = whole, pair: Any = pair, count: int = count) -> Any:
            with torch.no_grad():
                return network(whole, pair, torch.arange(count))[0].numpy()

        ours = scorer(state, actions)[:, 0]
        assert np.abs(ours - by_torch()).max() < 1e-4
        mine, theirs = quickest(lambda a=actions: scorer(state, a)), quickest(by_torch)
        figures |= {f"rank_{count}_ms": 1e3 * mine, f"torch_{count}_ms": 1e3 * theirs}
        ratios[f"rank_{count}_vs_torch"] = theirs / mine
    return figures, ratios


def quickest(call: Callable[[], Any], tries: int = 9) -> float:
    """The median CPU time of a call, in seconds."""
    call()
    times = []
    for _ in range(tries):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return float(np.median(times))


TOML = '[tasks.next-action]\nkind = "ranking"\nencoder = "wordllama"\nreward = { composite_delta = 1.0 }\n'


def noise(count: int) -> dict[str, float]:
    """Projects whose rewards nothing explains: how many candidates pass."""
    import headway

    passed = 0
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "headway.toml").write_text(TOML, "utf-8")
            with headway.open(folder) as project:
                world = Projects(noise_only=True, leak=False)
                decisions, signals = zip(*world.history("next-action", 2764, seed, project.clock()), strict=True)
                project.store.add(decisions, {decisions[0].config_hash: json.dumps({"encoder": ""})})
                project.store.signal(signals)
                ref = project.learn("next-action", architecture="linear")
                passed += project.prove(ref, task="next-action").state == "pass"
    return {"promoted_on_noise": float(passed), "noise_candidates": float(count)}


def cold() -> dict[str, float]:
    """`headway rank` of 3 actions in a new process, by the linear model and by the full transformer; median of 5."""
    import headway

    actions = [{"type": "fix", "description": f"Fix the {word}"} for word in ("parser", "cache", "login")]
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "headway.toml").write_text(TOML, "utf-8")
        (Path(folder) / "actions.json").write_text(json.dumps(actions), "utf-8")
        with headway.open(folder) as project:
            decisions, signals = zip(*Projects().history("next-action", 600, 1, project.clock()), strict=True)
            project.store.add(decisions, {decisions[0].config_hash: json.dumps({"encoder": ""})})
            project.store.signal(signals)
            refs = {size: project.learn("next-action", architecture=size, epochs=1) for size in ("linear", "full")}
        for size, ref in refs.items():
            command = ["-m", "headway", "-C", folder, "rank", "next-action", f"{folder}/actions.json", "--policy", ref]
            walls, processors = [], []
            for _ in range(5):
                begun, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([sys.executable, *command], check=True, capture_output=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                walls.append(time.perf_counter() - begun)
                processors.append(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
            figures |= {f"cold_rank_{size}_s": float(np.median(walls))}
            figures |= {f"cold_rank_{size}_cpu_s": float(np.median(processors))}
    return figures


def on_gpu(rows: int) -> dict[str, float]:
    """One training of every size on a GPU, and what it predicts."""
    import torch

    encoder, world = WordllamaEncoder(), Projects(leak=False)
    tuples, judge = Tuples(world, rows, FIRST_SEED), Judge(world, FIRST_SEED)
    figures: dict[str, float] = {"rows": float(rows)}
    for name in ("linear", "small", "full", "larger"):
        torch.cuda.reset_peak_memory_stats()
        result, policy, cpu_s, wall_s = learned(tuples, FIRST_SEED, encoder, architecture=name, device="cuda")
        regret, measured = judge.regrets(lambda s, c, p=policy: p.predict((s,), c)[0][0])
        figures |= {f"train_s_{name}": wall_s, f"train_cpu_s_{name}": cpu_s, f"regret_{name}": float(regret.mean())}
        figures |= {f"tau_{name}": measured.rank_correlation or 0.0, f"tune_error_{name}": result.metrics["tune_error"]}
        figures |= {f"sign_{name}": measured.sign_accuracy or 0.0, f"coverage_80_{name}": coverage(policy, tuples)}
        figures |= {f"gpu_mb_{name}": torch.cuda.max_memory_allocated() / 2**20}
        say(f"{name}: {wall_s:.1f} s, regret {regret.mean():.4f}. {' '.join(result.extra['notes'])}")
    return figures


def main() -> None:
    parser = arguments(__doc__ or "", seeds=5)
    parser.add_argument("--rows", type=int, default=2764)
    options = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + (1 if options.quick else options.seeds))
    ratios: dict[str, float] = {}
    if options.device == "cuda":
        figures = on_gpu(options.rows)
    else:
        scores, encoder = Scores(), WordllamaEncoder()
        for seed in seeds:
            compare(scores, encoder, seed, options.rows, options.quick)
        figures, ratios = compared(scores)
        figures |= noise(1 if options.quick else 5) | cold()
        more, faster = speed("full")
        figures, ratios = figures | more, ratios | faster
    finish(
        "ranker", figures, ratios, packages=("torch", "onnxruntime", "lightgbm", "catboost", "scikit-learn"),
        device=options.device, as_json=options.json,
    )  # fmt: skip


if __name__ == "__main__":
    main()
