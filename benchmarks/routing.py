"""Which model should answer? Real outcomes, RouteLLM's metrics, baselines, and Vowpal Wabbit online.

    python benchmarks/routing.py --json
    python benchmarks/routing.py --data mmlu_two_models.csv.gz --protocol few-label --json

Ours is the family `outcome` on one of our encoders, learned from full-feedback rows by its own learner; encoder, ridge
and share are chosen on a fifth of the *training* prompts (or of the training subjects, if whole subjects are held
out). Baselines: random, prompt length, the subject's mean gain, TF-IDF and MiniLM logistic pairs (scikit-learn), and
the rank average of length, TF-IDF and MiniLM. `…_per_cost` divides a predicted gain by the extra cost of the strong
model, like sweeping `cost_weight`; the baselines get it too.

few-label            1,500 prompts with labels, the rest is the test; 5 seeds
leave-subjects-out   five folds of whole subjects; the test scores of all folds together
zero-label           no label of these models: ours is learned on the other file's weakest and strongest model
bandit               every prompt once, only the chosen model's score is revealed; 5 shuffles, against Vowpal Wabbit

Without --protocol and --data all protocols run on the available files. The bandit's knobs and its encoder were chosen
on other shuffles of the same prompts, and run once on these. Vowpal Wabbit's best setting (on words, on our vectors, or
on our vectors with structure) is chosen in hindsight on these.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hashlib
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _contract import ROOT, arguments, data_file, finish, say
from _routing import (
    Outcomes,
    apgr,
    bootstrap,
    call_thresholds,
    extra_cost,
    fraction,
    logistic_pair,
    ours,
    ranks,
    read,
    tfidf_pair,
    tfidf_ridge,
)

from headway.decide.explore import draw, uniform
from headway.encode import encoder
from headway.encode.state import Features
from headway.nouns.errors import HeadwayError
from headway.nouns.kit import catalogue
from headway.nouns.records import Candidate, Decision, Settled, Situation

PROTOCOLS = ("few-label", "leave-subjects-out", "zero-label", "bandit")
PAIR, NINE = "routing/mmlu_two_models.csv.gz", "routing/nine_models_train.jsonl.gz"
BANDIT = {"ridge": 30.0, "prior": "shared", "explore": {"kind": "thompson", "scale": 0.45}}
VW = (  # setting, and what it sees of a prompt
    ("--squarecb --gamma_scale 100", "words"),
    ("--epsilon 0.02", "words"),
    ("--rnd 3 --epsilon 0.01", "words"),
    ("--regcb --mellowness 0.01", "words"),
    ("--squarecb --gamma_scale 100", "vectors"),
    ("--squarecb --gamma_scale 1000", "vectors"),
    ("--epsilon 0.02", "vectors"),
    ("--squarecb --gamma_scale 100", "vectors+structure"),
    ("--epsilon 0.02", "vectors+structure"),
)


class Known:
    """One of our encoders with its vectors computed once, in advance."""

    def __init__(self, inner: Any, texts: list[str]) -> None:
        self.version, self.width = inner.version, inner.width
        self._inner, self._place = inner, {}
        self._vectors = np.empty((0, inner.width))
        self.add(texts)

    def add(self, texts: list[str]) -> None:
        new = list(dict.fromkeys(text for text in texts if text not in self._place))
        parts = [self._inner.encode(new[begin : begin + 500]) for begin in range(0, len(new), 500)]
        self._place |= {text: len(self._place) + place for place, text in enumerate(new)}
        self._vectors = np.concatenate([self._vectors, *parts])

    def encode(self, texts: Any) -> Any:
        return self._vectors[[self._place[text] for text in texts]]


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], seeds=5)
    parser.add_argument("--protocol", choices=PROTOCOLS, help="only this one (default: all that the files allow)")
    parser.add_argument("--vectors", type=Path, help="a file that keeps MiniLM's vectors between runs")
    parser.add_argument("--models", type=Path, help="folder of `headway models add minilm` (default: HEADWAY_CACHE)")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    own = None if options.data is None or options.data.is_dir() else options.data
    files = {name: data_file(options.data, name) for name in (PAIR, NINE)}
    if own is not None:
        files = {
            PAIR: own if ".csv" in own.name else None,
            NINE: own if ".jsonl" in own.name else None,
        }
    data_sets = {name: read(path) for name, path in files.items() if path is not None}
    if not data_sets:
        parser.error("no data: name a file or a folder with --data, or set HEADWAY_DATA")
    seeds = min(2, options.seeds) if options.quick else options.seeds
    draws = 50 if options.quick else 300
    wanted = (options.protocol,) if options.protocol else PROTOCOLS
    vectors = options.vectors or Path(tempfile.mkdtemp(prefix="headway-routing-")) / "vectors.db"
    encoders = _encoders(options.models, vectors, [text for data in data_sets.values() for text in data.prompts])
    figures: dict[str, float] = {}
    if PAIR in data_sets:
        data = data_sets[PAIR]
        if "few-label" in wanted:
            splits = [_few(data, seed) for seed in range(seeds)]
            figures |= _labelled("few_label", data, splits, encoders, data.groups, draws, pooled=False)
        if "leave-subjects-out" in wanted and len(set(data.subjects.tolist())) > 5:
            splits = list(_folds(data))
            figures |= _labelled("leave_subjects_out", data, splits, encoders, data.subjects, draws, pooled=True)
        if "zero-label" in wanted:
            figures |= _zero(data, data_sets.get(NINE), encoders)
    if NINE in data_sets:
        if "few-label" in wanted or options.protocol is None:
            figures |= _many(data_sets[NINE], encoders, draws)
        if "bandit" in wanted:
            figures |= _bandit(data_sets[NINE], encoders, seeds, quick=options.quick)
    finish("routing", figures, {}, packages=("scikit-learn", "vowpalwabbit", "onnxruntime"), as_json=options.json)


def _encoders(models: Path | None, vectors: Path, texts: list[str]) -> list[Known]:
    """Candidate encoders, the most promising first; without the text model, those of the core."""
    folder = models or Path(os.environ.get("HEADWAY_CACHE", ROOT / ".venv" / "headway-cache"))
    specs = ("minilm+structure", "minilm")
    try:
        return [Known(encoder(spec, find=catalogue().encoder, models=folder, vectors=vectors), texts) for spec in specs]
    except HeadwayError as error:
        say(f"{error} Continuing with hashing: these figures are not comparable with the text model's.")
        return [Known(encoder(spec), texts) for spec in ("hashing+structure", "hashing")]


def _hash(rows: Any, data: Outcomes) -> str:
    names = sorted(hashlib.blake2b(data.prompts[row].encode(), digest_size=8).hexdigest() for row in rows)
    return hashlib.sha256("".join(names).encode()).hexdigest()[:16]


def _few(data: Outcomes, seed: int, labels: int = 1500) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(int(data.groups.max()) + 1)
    train = np.isin(data.groups, order[:labels])
    return np.flatnonzero(train), np.flatnonzero(~train)


def _folds(data: Outcomes, folds: int = 5) -> Any:
    subjects = sorted(set(data.subjects.tolist()), key=lambda subject: fraction(f"fold\0{subject}"))
    for fold in range(folds):
        test = np.isin(data.subjects, subjects[fold::folds])
        same = np.isin(data.groups, data.groups[test])  # a prompt in two subjects is not a training row
        yield np.flatnonzero(~same), np.flatnonzero(test)


def _labelled(
    name: str, data: Outcomes, splits: list[Any], encoders: list[Known], by: Any, draws: int, *, pooled: bool
) -> dict[str, float]:
    """APGR of ours and of the baselines over the splits; `pooled` judges all test scores together."""
    weak, strong, cost = data.scores[:, 0], data.scores[:, -1], extra_cost(data.prompts)
    scores: dict[str, list[tuple[Any, Any]]] = {}
    for number, (train, test) in enumerate(splits):
        say(f"{name} {number}: {len(train)} training rows, test hash {_hash(test, data)}")
        predicted, _ = ours(data, train, test, encoders, by, say)
        gain = predicted[:, -1] - predicted[:, 0]
        minilm = encoders[-1]
        text = tfidf_pair(data, train, test)
        vector = logistic_pair(
            minilm.encode([data.prompts[row] for row in train]),
            minilm.encode([data.prompts[row] for row in test]),
            data.scores[train],
        )
        length = np.array([float(len(data.prompts[row])) for row in test])
        router_scores: dict[str, Any] = {
            "ours": gain,
            "random": np.random.default_rng(number).random(len(test)),
            "length": length,
            "tfidf": text,
            "minilm": vector,
            "ensemble": ranks(length) + ranks(text) + ranks(vector),
        }
        if not pooled:
            router_scores["subject"] = _subject_gain(data, train, test)
        for key in ("ours", "tfidf", "minilm"):
            router_scores[f"{key}_per_cost"] = router_scores[key] / cost[test]
        for key, score in router_scores.items():
            scores.setdefault(key, []).append((score, test))
    if pooled:
        scores = {
            key: [(np.concatenate([s for s, _ in parts]), np.concatenate([t for _, t in parts]))]
            for key, parts in scores.items()
        }
    means = {
        key: np.mean([apgr(score, weak[rows], strong[rows], cost[rows]) for score, rows in parts], axis=0)
        for key, parts in scores.items()
    }
    for key, (calls, costs) in means.items():
        say(f"  {name} {key:16} APGR {calls:.3f} by calls, {costs:.3f} by cost")
    figures = {f"apgr_{name}": means["ours"][0], f"apgr_{name}_cost": means["ours_per_cost"][1]}
    thresholds = [call_thresholds(s, weak[rows], strong[rows], cost[rows]) for s, rows in scores["ours"]]
    figures |= {f"cpt50_{name}": np.mean(thresholds, axis=0)[0], f"cpt80_{name}": np.mean(thresholds, axis=0)[1]}
    for axis, mine, suffix in ((0, "ours", ""), (1, "ours_per_cost", "_cost")):
        others = {key: value[axis] for key, value in means.items() if not key.startswith("ours")}
        best = max(others, key=lambda key: others[key])
        low, high = bootstrap(scores[mine], scores[best], weak, strong, cost, axis, draws=draws)
        figures[f"apgr_{name}{suffix}_best_baseline"] = others[best]
        figures[f"apgr_{name}{suffix}_over_best_low"] = low
        figures[f"apgr_{name}{suffix}_over_best_high"] = high
        say(f"  {name}{suffix}: best baseline {best} {others[best]:.3f}; ours minus that [{low:+.4f}, {high:+.4f}]")
    for key in ("random", "length", "tfidf", "minilm", "ensemble"):
        figures[f"apgr_{name}_{key}"], figures[f"apgr_{name}_cost_{key}"] = means[key]
    return {key: float(value) for key, value in figures.items()}


def _subject_gain(data: Outcomes, train: Any, test: Any) -> Any:
    """The subject's mean gain in the training rows, shrunk towards the overall mean with a weight of five rows."""
    gain = data.scores[train, -1] - data.scores[train, 0]
    usual = gain.mean()
    table = {
        subject: (gain[data.subjects[train] == subject].sum() + 5 * usual)
        / ((data.subjects[train] == subject).sum() + 5)
        for subject in set(data.subjects[train].tolist())
    }
    return np.array([table.get(subject, usual) for subject in data.subjects[test].tolist()])


def _zero(data: Outcomes, other: Outcomes | None, encoders: list[Known]) -> dict[str, float]:
    weak, strong, cost = data.scores[:, 0], data.scores[:, -1], extra_cost(data.prompts)
    length = np.array([float(len(prompt)) for prompt in data.prompts])
    figures = dict(zip(("apgr_zero_label_length", "apgr_zero_label_cost_length"), apgr(length, weak, strong, cost),
                       strict=True))  # fmt: skip
    if other is None:
        say("zero-label: no other file to learn from")
        return figures
    means = other.scores.mean(axis=0)
    pair = [int(np.argsort(means)[len(means) // 2]), int(means.argmax())]  # the median model and the best one
    both = Outcomes(
        [*other.prompts, *data.prompts], np.concatenate([other.subjects, data.subjects]), ("weak", "strong"),
        np.concatenate([other.scores[:, pair], np.full((len(data.prompts), 2), np.nan)]),
        np.arange(len(other.prompts) + len(data.prompts)),
    )  # fmt: skip
    train, test = np.arange(len(other.prompts)), np.arange(len(other.prompts), len(both.prompts))
    predicted, _ = ours(both, train, test, encoders, both.groups, say)
    gain = predicted[:, 1] - predicted[:, 0]
    figures["apgr_zero_label"] = apgr(gain, weak, strong, cost)[0]
    figures["apgr_zero_label_cost"] = apgr(gain / cost, weak, strong, cost)[1]
    say(f"zero-label: ours {figures['apgr_zero_label']:.3f}, by cost {figures['apgr_zero_label_cost']:.3f}")
    return figures


def _many(data: Outcomes, encoders: list[Known], draws: int) -> dict[str, float]:
    """70/30 by prompt: the mean score of the model that is chosen for each test prompt."""
    test = np.flatnonzero([fraction(f"test\0{prompt}") < 0.3 for prompt in data.prompts])
    train = np.setdiff1d(np.arange(len(data.prompts)), test)
    say(f"{len(data.models)} models: {len(train)} training rows, test hash {_hash(test, data)}")
    predicted, _ = ours(data, train, test, encoders, data.groups, say)
    best = int(data.scores[train].mean(axis=0).argmax())
    rows = np.arange(len(test))
    gained = data.scores[test][rows, predicted.argmax(axis=1)] - data.scores[test, best]
    rng = np.random.default_rng(0)
    means = [gained[rng.integers(len(gained), size=len(gained))].mean() for _ in range(draws * 10)]
    text = tfidf_ridge(data, train, test)
    figures = {
        "many_models_value": float(data.scores[test][rows, predicted.argmax(axis=1)].mean()),
        "many_models_best_single": float(data.scores[test, best].mean()),
        "many_models_tfidf_ridge": float(data.scores[test][rows, text.argmax(axis=1)].mean()),
        "many_models_oracle": float(data.scores[test].max(axis=1).mean()),
        "many_models_gain_low": float(np.quantile(means, 0.025)),
        "many_models_gain_high": float(np.quantile(means, 0.975)),
    }
    say(
        f"  ours {figures['many_models_value']:.4f}, best single {figures['many_models_best_single']:.4f}, gain "
        f"[{figures['many_models_gain_low']:+.4f}, {figures['many_models_gain_high']:+.4f}]"
    )
    return figures


def _bandit(data: Outcomes, encoders: list[Known], seeds: int, *, quick: bool) -> dict[str, float]:
    count = len(data.prompts) // (4 if quick else 1)
    orders = [np.random.default_rng(100 + seed).permutation(len(data.prompts))[:count] for seed in range(seeds)]
    half = count // 2
    known = {"vectors": encoders[-1], "vectors+structure": encoders[0]}
    mine = [_our_rounds(data, known["vectors"], order, seed) for seed, order in enumerate(orders)]
    best = [data.scores[order].mean(axis=0).max() for order in orders]
    best_half = [data.scores[order[half:]].mean(axis=0).max() for order in orders]
    for seed, got in enumerate(mine):
        say(f"bandit, shuffle {seed}: ours {got.mean():.4f}, second half {got[half:].mean():.4f}")
    # Every setting runs on the first two shuffles; the best of them runs on all.
    tried = {}
    for setting, seen in VW[:2] if quick else VW:
        runs = [_vw_rounds(data, known.get(seen), order, setting, seed) for seed, order in enumerate(orders[:2])]
        tried[setting, seen] = runs
        say(f"bandit, vw {setting} on {seen}: {np.mean([run.mean() for run in runs]):.4f}")
    winner = max(tried, key=lambda key: float(np.mean([run.mean() for run in tried[key]])))
    theirs = tried[winner] + [
        _vw_rounds(data, known.get(winner[1]), order, winner[0], seed) for seed, order in enumerate(orders) if seed >= 2
    ]
    gains = np.array([own.mean() - run.mean() for own, run in zip(mine, theirs, strict=True)])
    return {
        "bandit_mean_reward": float(np.mean([got.mean() for got in mine])),
        "bandit_vw_best": float(np.mean([run.mean() for run in theirs])),
        "bandit_over_vw_least": float(gains.min()),
        "bandit_best_single": float(np.mean(best)),
        "bandit_second_half": float(np.mean([got[half:].mean() for got in mine])),
        "bandit_second_half_vw": float(np.mean([run[half:].mean() for run in theirs])),
        "bandit_second_half_best_single": float(np.mean(best_half)),
    }


def _our_rounds(data: Outcomes, known: Known, order: Any, seed: int) -> Any:
    """The score of every round of our online bandit."""
    teach = catalogue().online_learner("bandit", encoder=known)  # type: ignore[arg-type]
    features = Features(encoder=known.version, text_width=known.width, means=(5.0,), scales=(1.0,))
    state = teach.start(features, BANDIT, data.models)
    candidates = tuple(Candidate(name) for name in data.models)
    got = np.empty(len(order))
    for number, row in enumerate(order):
        situation = Situation(task="route", text=data.prompts[row])
        chance = seed * 1_000_003 + number
        acting = state.policy.opinions((situation,), candidates, (chance,)).probabilities[0]
        place = draw(acting, uniform(chance))
        got[number] = data.scores[row, place]
        decision = Decision(
            id=f"dec_{number}", situation=situation, candidates=candidates, probabilities=tuple(acting.tolist()),
            action=data.models[place], propensity=float(acting[place]), policy="uniform@0", policy_hash="",
            config_hash="", encoder="", exploration="", seed=chance, at=0.0, source="imported",
        )  # fmt: skip
        teach.update(state, Settled(seq=number + 1, decision=decision, reward=float(got[number]), status="rewarded"))
    return got


def _vw_rounds(data: Outcomes, known: Known | None, order: Any, setting: str, seed: int) -> Any:
    """The same rounds through Vowpal Wabbit's own binding, on our vectors or (None) on the prompt's words."""
    import random

    from vowpalwabbit import Workspace

    learner = Workspace(
        f"--cb_explore_adf {setting} -q xa --quiet --random_seed {seed + 1}"
        + (" --ngram x2 -b 20" if known is None else "")
    )
    chance = random.Random(seed)
    got = np.empty(len(order))
    actions = [f"|a m{place}" for place in range(len(data.models))]
    for number, row in enumerate(order):
        if known is None:
            words = "".join(character if character.isalnum() else " " for character in data.prompts[row].lower())[:2000]
            shared = f"shared |x {words}"
        else:
            vector = known.encode([data.prompts[row]])[0]
            shared = "shared |x " + " ".join(f"{place}:{value:.5f}" for place, value in enumerate(vector))
        acting = learner.predict([shared, *actions])
        place = chance.choices(range(len(actions)), acting)[0]
        got[number] = data.scores[row, place]
        labelled = list(actions)
        labelled[place] = f"0:{-got[number]}:{acting[place]} {actions[place]}"
        learner.learn([shared, *labelled])
    learner.finish()
    return got


if __name__ == "__main__":
    main()
