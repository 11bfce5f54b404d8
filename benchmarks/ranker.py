"""Which action next: the ranker beside a linear model, gradient-boosted rankers and simple guesses.

    python benchmarks/ranker.py --json

The world `projects`, 2,764 tuples per seed; what is learned reads the train and tune parts of the first 70% in time.
All models get the same vectors (WordLlama's for texts, standardised numbers, one-hot types and scopes). Judged on fresh
states with ten candidates each, described in words that no training row has, by their true mean rewards:

- `regret_*`: what the first choice earns less than the best one;  `tau_*`: Kendall's rank correlation within a state;
  `sign_*`: sign accuracy, with `sign_majority` beside it. Scores of LightGBM (lambdarank) and CatBoost (YetiRank) get a
  scale and a centre from the tuning rows.
- `regret_lead_low/high`: 95% interval of the best peer's regret minus ours, paired over states of all seeds.
- `coverage_80`: held-out rewards inside their 80% intervals. `promoted_on_noise`: of as many projects.
- `rank_N_vs_torch`: N candidates by the exported graph, and by the torch module that reads whole pairs; one thread.

`--quick` does one seed and small transformers only. `--rows 20000 --device cuda` reports the training on a GPU.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _contract import ROOT, arguments, finish, say

sys.path.insert(0, str(ROOT))  # tuples as experience

from headway.kits.models.encoders.wordllama import WordllamaEncoder
from headway.kits.next_action.inputs import ActionInputs, StateInputs
from headway.kits.next_action.learner import RankerLearner
from headway.kits.next_action.measures import Measures, measure, sign_accuracy
from headway.kits.next_action.policy import Z80, Ranker, read
from headway.kits.next_action.rows import rows_of
from headway.kits.next_action.shapes import RankerShape
from headway.kits.next_action.world import Projects
from headway.nouns.records import Candidate, Situation
from tests.kits.next_action.tuples import Tuples

STATES, SLATE = 300, 10
Predict = Callable[[Situation, Sequence[Candidate]], Any]


class Judge:
    """Fresh states with slates, and true mean rewards."""

    def __init__(self, world: Projects, seed: int) -> None:
        rng = np.random.default_rng([seed, 0xBE])
        self.slates = []
        for situation, state in world.fresh(STATES, rng):
            actions = world.slate(state, SLATE, rng, vocabulary="prove")
            truth = np.array([world.expected(state, action, age=1.0) for action in actions])
            self.slates.append((situation, [action.candidate for action in actions], truth))

    def regrets(self, predict: Predict) -> tuple[Any, Measures]:
        predicted = [np.asarray(predict(situation, offers)) for situation, offers, _ in self.slates]
        truths = [truth for *_, truth in self.slates]
        regrets = np.array([t.max() - t[int(p.argmax())] for p, t in zip(predicted, truths, strict=True)])
        owner = np.repeat(np.arange(len(truths)), SLATE).tolist()
        return regrets, measure(np.concatenate(predicted), np.concatenate(truths), owner)


def learned(world: Projects, seed: int, rows: int, encoder: Any, **knobs: Any) -> tuple[Tuples, Any, Ranker, float]:
    tuples = Tuples(world, rows, seed)
    begun = time.perf_counter()
    result = RankerLearner(encoder).learn(tuples, knobs, seed=seed)
    seconds = time.perf_counter() - begun
    return tuples, result, read(result.knobs, result.tensors, result.extra, encoder), seconds


def peers(tuples: Tuples, policy: Ranker, encoder: Any, seed: int) -> dict[str, Predict]:
    """LightGBM and CatBoost on the same vectors, with early stopping on the same tuning rows."""
    layout, until = policy.layout, policy.until

    def table(name: str) -> tuple[Any, Any, Any]:
        kept = [row for row in tuples.part(name) if row.decision.at <= until]
        arrays = rows_of(kept, layout, encoder, 0.25)
        order = np.argsort(arrays.owner, kind="stable")
        x = np.hstack([arrays.states[arrays.owner], arrays.actions])[order]
        return x, arrays.reward[order], arrays.owner[order]

    train, tune = table("train"), table("tune")
    edges = np.quantile(train[1], np.linspace(0, 1, 17)[1:-1])
    scorers: dict[str, Callable[[Any], Any]] = {}
    try:
        import lightgbm

        model = lightgbm.LGBMRanker(
            objective="lambdarank", n_estimators=600, learning_rate=0.03, num_leaves=15, min_child_samples=10,
            subsample=0.8, subsample_freq=1, colsample_bytree=0.3, label_gain=list(range(17)), random_state=seed,
            n_jobs=2, verbose=-1,
        )  # fmt: skip
        sizes = [np.unique(part[2], return_counts=True)[1] for part in (train, tune)]
        model.fit(
            train[0], np.digitize(train[1], edges), group=sizes[0], eval_set=[(tune[0], np.digitize(tune[1], edges))],
            eval_group=[sizes[1]], eval_at=[1, 4], callbacks=[lightgbm.early_stopping(60, verbose=False)],
        )  # fmt: skip
        scorers["lightgbm"] = model.predict
    except ImportError:
        say("lightgbm is not installed")
    try:
        import catboost

        boosted = catboost.CatBoost(
            {"loss_function": "YetiRank", "iterations": 400, "learning_rate": 0.05, "depth": 6, "random_seed": seed,
             "verbose": False, "od_type": "Iter", "od_wait": 60, "thread_count": 2, "allow_writing_files": False}
        )  # fmt: skip
        boosted.fit(catboost.Pool(*train[:2], group_id=train[2]), eval_set=catboost.Pool(*tune[:2], group_id=tune[2]))
        scorers["catboost"] = boosted.predict
    except ImportError:
        say("catboost is not installed")

    def rewards(score: Callable[[Any], Any]) -> Predict:
        slope, centre = np.polyfit(score(tune[0]), tune[1], 1)

        def predict(situation: Situation, offers: Sequence[Candidate]) -> Any:
            states = np.repeat(layout.states((situation,), encoder), len(offers), axis=0)
            return centre + abs(slope) * score(np.hstack([states, layout.actions(offers, encoder)]))

        return predict

    return {name: rewards(score) for name, score in scorers.items()}


def compare(seeds: Sequence[int], rows: int, device: str, quick: bool) -> tuple[dict[str, float], dict[str, float]]:
    encoder = WordllamaEncoder()
    figures: dict[str, float] = {}
    regrets: dict[str, list[Any]] = {}
    measures: dict[str, list[Measures]] = {}
    majority, covered, seconds = [], [], []
    for seed in seeds:
        world = Projects(leak=False)
        architecture = "small" if quick else "auto"
        tuples, result, policy, took = learned(world, seed, rows, encoder, architecture=architecture, device=device)
        seconds.append(took)
        say(f"seed {seed}: {took:.1f} s. {' '.join(result.extra['notes'])}")
        rivals = {name: rival.opinions for name, rival in policy.rivals().items()}
        models: dict[str, Predict] = {"ranker": lambda s, c, p=policy: p.predict((s,), c)[0][0]}
        models["type"] = lambda s, c, r=rivals["the mean of its type"]: r((s,), c, (0,)).mean[0]
        models["linear"] = lambda s, c, p=policy: p._linear((s,), c)[0]
        models |= peers(tuples, policy, encoder, seed)
        judge = Judge(world, seed)
        for name, predict in models.items():
            regret, measured = judge.regrets(predict)
            regrets.setdefault(name, []).append(regret)
            measures.setdefault(name, []).append(measured)
        truth = np.concatenate([truth for *_, truth in judge.slates])
        positive = sign_accuracy(np.ones(len(truth)), truth) or 0.0
        majority.append(max(positive, 1.0 - positive))
        held = tuples.held_out(policy.until)
        pairs = [policy.predict((row.decision.situation,), row.decision.candidates) for row in held]
        inside = [abs(m[0, 0] - row.reward) <= Z80 * d[0, 0] for (m, d), row in zip(pairs, held, strict=True)]
        covered.append(float(np.mean(inside)))
    for name, many in measures.items():
        figures[f"regret_{name}"] = float(np.mean(np.concatenate(regrets[name])))
        figures[f"tau_{name}"] = float(np.mean([one.rank_correlation or 0.0 for one in many]))
        figures[f"sign_{name}"] = float(np.mean([one.sign_accuracy or 0.0 for one in many]))
    figures |= {"sign_majority": float(np.mean(majority)), "train_s": float(np.mean(seconds))}
    figures |= {"coverage_80": float(np.mean(covered)), "coverage_80_least": min(covered)}
    others = {name: np.concatenate(many) for name, many in regrets.items() if name != "ranker"}
    best = min(others, key=lambda name: float(others[name].mean()))
    lead = others[best] - np.concatenate(regrets["ranker"])
    error = 1.96 * float(lead.std()) / len(lead) ** 0.5
    figures |= {"regret_lead_low": float(lead.mean()) - error, "regret_lead_high": float(lead.mean()) + error}
    say(f"best peer: {best}")
    return figures, {f"regret_vs_{name}": figures[f"regret_{name}"] / figures["regret_ranker"] for name in others}


def speed(size: str) -> tuple[dict[str, float], dict[str, float]]:
    """The exported graph beside the torch module that reads whole pairs."""
    import torch

    from headway.kits.next_action.graph import Scorer
    from headway.kits.next_action.network import RankerNetwork

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    shape = RankerShape.of(size, text=256, numbers=23, traits=15)
    network = RankerNetwork(shape, seed=0).eval()
    for weight in network.weights.values():
        torch.nn.init.normal_(weight.data, std=0.02)
    scorer = Scorer(shape, network.tensors())

    def some(*sizes: int) -> Any:
        return rng.normal(size=sizes).astype(np.float32)

    figures, ratios = {"parameters_full": float(shape.parameters)}, {}
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
        figures[f"export_error_{count}"] = float(np.abs(ours - by_torch()).max())
        mine, theirs = quickest(lambda a=actions: scorer(state, a)), quickest(by_torch)
        figures |= {f"rank_{count}_ms": 1e3 * mine, f"torch_{count}_ms": 1e3 * theirs}
        ratios[f"rank_{count}_vs_torch"] = theirs / mine
    return figures, ratios


def quickest(call: Callable[[], Any], tries: int = 9) -> float:
    times = []
    for _ in range(tries):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


def noise(count: int) -> dict[str, float]:
    """Projects whose rewards nothing explains: how many candidates pass."""
    import headway

    toml = '[tasks.next-action]\nkind = "ranking"\nencoder = "wordllama"\nreward = { composite_delta = 1.0 }\n'
    passed = 0
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "headway.toml").write_text(toml, "utf-8")
            with headway.open(folder) as project:
                world = Projects(noise_only=True, leak=False)
                decisions, signals = zip(*world.history("next-action", 2764, seed, project.clock()), strict=True)
                project.store.add(decisions, {decisions[0].config_hash: json.dumps({"encoder": ""})})
                project.store.signal(signals)
                ref = project.learn("next-action", architecture="linear")
                passed += project.prove(ref, task="next-action").state == "pass"
    return {"promoted_on_noise": float(passed), "noise_projects": float(count)}


def main() -> None:
    parser = arguments(__doc__ or "", seeds=5)
    parser.add_argument("--rows", type=int, default=2764)
    options = parser.parse_args()
    seeds = range(42, 42 + (1 if options.quick else options.seeds))
    figures, ratios = compare(seeds, options.rows, options.device, options.quick)
    if options.device == "cpu":
        more, faster = speed("full")
        figures |= more | noise(1 if options.quick else 5)
        ratios |= faster
    finish(
        "ranker", figures, ratios, packages=("torch", "onnxruntime", "lightgbm", "catboost"), device=options.device,
        as_json=options.json,
    )  # fmt: skip


if __name__ == "__main__":
    main()
