"""What ranker.py compares with: other learners on the same vectors, and the judge of all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _contract import say

from headway.kits.next_action.layout import Layout, rows_of
from headway.kits.next_action.measures import Measures, measure
from headway.kits.next_action.world import Projects
from headway.nouns.protocols import Experience
from headway.nouns.records import Candidate, Situation

__all__ = ["Judge", "Predict", "peers"]

STATES, SLATE = 300, 10
Predict = Callable[[Situation, Sequence[Candidate]], Any]


class Judge:
    """Fresh states with slates in held-out words, and true mean rewards."""

    def __init__(self, world: Projects, seed: int) -> None:
        rng = np.random.default_rng([seed, 0xBE])
        self.slates = []
        for situation, state in world.fresh(STATES, rng):
            actions = world.slate(state, SLATE, rng, vocabulary="prove")
            truth = np.array([world.expected(state, action, age=1.0) for action in actions])
            self.slates.append((situation, [action.candidate for action in actions], truth))
        self.truth = np.concatenate([truth for *_, truth in self.slates])

    def regrets(self, predict: Predict) -> tuple[Any, Measures]:
        predicted = [np.asarray(predict(situation, offers)) for situation, offers, _ in self.slates]
        truths = [truth for *_, truth in self.slates]
        regrets = np.array([t.max() - t[int(p.argmax())] for p, t in zip(predicted, truths, strict=True)])
        owner = np.repeat(np.arange(len(truths)), SLATE).tolist()
        return regrets, measure(np.concatenate(predicted), self.truth, owner)

    def majority(self) -> tuple[float, float]:
        """Regret and sign accuracy of a guess that is the same for every action."""
        regret = float(np.mean([truth.max() - truth.mean() for *_, truth in self.slates]))
        positive = float((self.truth > 0.0).mean())
        return regret, max(positive, 1.0 - positive)


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows as the peers read them, sorted by state."""

    x: Any
    reward: Any
    owner: Any

    @property
    def sizes(self) -> Any:
        return np.unique(self.owner, return_counts=True)[1]

    def __add__(self, more: _Table) -> _Table:
        owner = np.concatenate([self.owner, more.owner + self.owner.max() + 1])
        return _Table(np.vstack([self.x, more.x]), np.concatenate([self.reward, more.reward]), owner)


def peers(tuples: Experience, layout: Layout, until: float, encoder: Any, seed: int) -> dict[str, Predict]:
    """Rankers and a ridge regression on the vectors of a layout; picked on tuning rows, refitted with them."""

    def table(name: str) -> _Table:
        kept = [row for row in tuples.part(name) if row.decision.at <= until]
        arrays = rows_of(kept, layout, encoder, 0.25)
        order = np.argsort(arrays.owner, kind="stable")
        x = np.hstack([arrays.states[arrays.owner], arrays.actions])[order]
        return _Table(x, arrays.reward[order], arrays.owner[order])

    train, tune = table("train"), table("tune")
    predicts: dict[str, Predict] = {}
    for name, learn in {"lightgbm": _lightgbm, "catboost": _catboost, "ridge": _ridge}.items():
        try:
            score = learn(train, tune, layout, seed)
        except ImportError:
            say(f"{name} is not installed")
            continue

        def predict(situation: Situation, offers: Sequence[Candidate], score: Any = score) -> Any:
            states = np.repeat(layout.states((situation,), encoder), len(offers), axis=0)
            return score(np.hstack([states, layout.actions(offers, encoder)]))

        predicts[name] = predict
    return predicts


def _rewards(apart: Any, whole: Any, tune: _Table) -> Callable[[Any], Any]:
    """Scores of a ranker with the scale and the centre of rewards, for their signs; from rows it was not fitted on."""
    slope, centre = np.polyfit(apart.predict(tune.x), tune.reward, 1)
    return lambda x: centre + abs(slope) * whole.predict(x)


def _lightgbm(train: _Table, tune: _Table, layout: Layout, seed: int) -> Callable[[Any], Any]:
    """lambdarank on 17 grades of the reward; early stopping did worse than 300 rounds on the seeds for tuning."""
    import lightgbm

    del layout
    edges, both = np.quantile(train.reward, np.linspace(0, 1, 17)[1:-1]), train + tune

    def model() -> Any:
        return lightgbm.LGBMRanker(
            objective="lambdarank", n_estimators=300, learning_rate=0.05, num_leaves=15, min_child_samples=10,
            subsample=0.8, subsample_freq=1, colsample_bytree=0.3, label_gain=list(range(17)), random_state=seed,
            n_jobs=1, verbose=-1,
        )  # fmt: skip

    apart = model().fit(train.x, np.digitize(train.reward, edges), group=train.sizes)
    whole = model().fit(both.x, np.digitize(both.reward, edges), group=both.sizes)
    return _rewards(apart, whole, tune)


def _catboost(train: _Table, tune: _Table, layout: Layout, seed: int) -> Callable[[Any], Any]:
    """YetiRank on rewards between 0 and 1; early stopping did worse than 300 rounds on the seeds for tuning."""
    import catboost

    del layout
    low, high = train.reward.min(), train.reward.max()

    def learn(rows: _Table) -> Any:
        model = catboost.CatBoost(
            {"loss_function": "YetiRank", "iterations": 300, "learning_rate": 0.08, "depth": 4, "random_seed": seed,
             "verbose": False, "thread_count": 1, "allow_writing_files": False}
        )  # fmt: skip
        grades = np.clip((rows.reward - low) / (high - low), 0.0, 1.0)
        return model.fit(catboost.Pool(rows.x, grades, group_id=rows.owner))

    return _rewards(learn(train), learn(train + tune), tune)


def _ridge(train: _Table, tune: _Table, layout: Layout, seed: int) -> Callable[[Any], Any]:
    """All columns, and products of state numbers with text and traits, and of state text with traits."""
    from sklearn.linear_model import Ridge

    del seed
    width, goal, words = layout.state.width, layout.state.text_width, layout.action.text_width

    def columns(x: Any) -> Any:
        states, actions = x[:, :width], x[:, width:]
        numbers, traits = states[:, 1 + goal :], actions[:, 1 + words :]
        pairs = ((numbers, actions[:, 1 : 1 + words]), (numbers, traits), (states[:, 1 : 1 + goal], traits))
        products = [(one[:, :, None] * other[:, None, :]).reshape(len(x), -1) for one, other in pairs]
        return np.hstack([x, *products])

    wide, judged, both = columns(train.x), columns(tune.x), train + tune

    def error(alpha: float) -> float:
        model = Ridge(alpha=alpha, solver="cholesky").fit(wide, train.reward)
        return float(((model.predict(judged) - tune.reward) ** 2).mean())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ill-conditioned is what the ridge is for
        alpha = min((1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), key=error)
        model = Ridge(alpha=alpha, solver="cholesky").fit(columns(both.x), both.reward)
    return lambda x: model.predict(columns(x))
