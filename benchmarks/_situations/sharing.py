"""Several decisions share one result: steps of an episode, and attempts of one request."""

from __future__ import annotations

from functools import partial

import numpy as np

from _situations.client import Client
from _situations.late import context
from _situations.trial import Ending, learn, settle_it
from headway.nouns.errors import HeadwayError

_TASK = 'actions = ["a", "b"]\nrange = [0, 1]\nfloor = {}\nrules = [{{ when = "text_length >= 0", use = "a" }}]\n'
_STEPS = 4
_SUCCESS = (0.2, 0.9, 0.5, 0.1, 0.05)  # of an episode, by how many of its steps chose `b`
_TOGETHER = (0.5, 0.4, 0.4, 0.4, 0.9)


def _looked(client: Client, candidate: str | None, ending: Ending, uplift: float) -> bool:
    ending.looks, ending.decisions = ending.looks + 1, client.made
    try:
        verdict = client.project.prove(candidate, task=client.task)
    except HeadwayError as error:
        ending.state, ending.reason, ending.said = "error", error.code, error.message
        return False
    return settle_it(client, candidate, verdict, ending, uplift=uplift)


def _run(client: Client, ending: Ending, candidate: str | None, uplift: float, serve: object, until: int) -> Ending:
    while client.made < until:
        if candidate is None:
            candidate = learn(client, ending)
        for _ in range(25):
            serve()  # type: ignore[operator]
        if candidate is not None and _looked(client, candidate, ending, uplift):
            break
    return ending


def _value(success: tuple[float, ...], chance: float) -> float:
    """Of an episode whose steps choose `b` with this chance each."""
    ways = (1, 4, 6, 4, 1)
    return sum(ways[k] * chance**k * (1 - chance) ** (_STEPS - k) * success[k] for k in range(_STEPS + 1))


def steps(seed: int, *, sticky: bool = False, until: int = 2400) -> Ending:
    """One step with `b` helps, several ruin the episode; the log of a policy that rarely takes `b` shows the first."""
    success = _TOGETHER if sticky else _SUCCESS
    ending = Ending()
    with Client(_TASK.format(0.3 if sticky else 0.2) + ("sticky = true\n" if sticky else ""), seed=seed) as client:
        rng = np.random.default_rng([seed, 6])

        def episode() -> None:
            name = f"{seed}-{client.made}"
            chosen = []
            for _ in range(_STEPS):
                details = context(rng)
                made = client.project.decide(client.task, "", id=client.next_id(), episode=name, **details)
                chosen.append(made.action)
            client.project.signal(
                client.project.episode(client.task, name), reward=float(rng.random() < success[chosen.count("b")])
            )

        for _ in range(200):
            episode()
        uplift = 0.7 * (0.9 - 0.5) if sticky else _value(success, 0.9) - _value(success, 0.1)
        return _run(client, ending, learn(client, ending), uplift, episode, until)


steps_sticky = partial(steps, sticky=True, until=6000)


def attempts(seed: int, failing: float = 0.3, good: tuple[float, float] = (0.75, 0.9)) -> Ending:
    """`a` refuses some requests at once, which another attempt solves; per request it is the better one."""
    settings = 'actions = ["a", "b"]\nrange = [0, 1]\nrules = [{ when = "text_length >= 0", use = "a" }]\nfloor = 0.4\n'
    ending = Ending()
    with Client(settings, seed=seed) as client:
        rng = np.random.default_rng([seed, 6])
        solved = {"a": good[1], "b": good[0]}

        def request() -> None:
            project, details = client.project, context(rng)
            first = project.decide(client.task, "", id=client.next_id(), **details)
            if first.action == "b" or rng.random() >= failing:
                project.signal(first.id, reward=float(rng.random() < solved[first.action]))
                return
            project.signal(first.id, failed=1.0, rater="proxy:")
            second = project.decide(client.task, "", ["b"], id=client.next_id(), **details)
            project.submit_signals(
                project.checked_signals(second.id, {"attempt": 2.0}, rater="proxy:", label=first.id)
            ).result()
            project.signal(second.id, reward=float(rng.random() < 0.95))

        for _ in range(400):
            request()
        worth = (1 - failing) * solved["a"] + failing * 0.95
        return _run(client, ending, learn(client, ending), 0.6 * (solved["b"] - worth), request, 3000)


attempts_rare = partial(attempts, failing=0.004, good=(0.85, 0.5))
