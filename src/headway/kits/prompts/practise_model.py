"""Practises which mutation a prompt needs on a real model's answers, and judges it on held-out prompts.

    practise_prompts(project, settings={"model": "smollm2"})                    # the 84 simple tasks
    practise_prompts(project, settings={"model": "small", "prompts": "mine.jsonl", "max_tokens": 64})

The model is a local one or an upstream of headway.toml. It answers greedily; its answers are cached in
`.headway/work/answers/<model>-<hash>.jsonl`, so that a text is sent once and an interrupted run resumes. One prompt in
five, by a hash of its id, is held out: the returns of the policy, of uniform choice and of the best single mutation are
on the held-out prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.kits.practice import Practised, SnapshotFolder, publish_practised, slug
from headway.kits.prompts.answers import Remembered
from headway.kits.prompts.checked_prompts import CheckedPrompt, corpus, simple_tasks
from headway.kits.prompts.choosers import (
    PromptValues,
    in_order,
    interval,
    parted,
    ranked,
    steps_from,
    uniform,
    values_of,
)
from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.prompts.outcomes import Outcomes, checked
from headway.kits.prompts.practise_synthetic import TASK, choosers
from headway.kits.prompts.world import MOST_STEPS, PromptsWorld
from headway.kits.reply import open_generator
from headway.kits.sandbox import Sandbox, sandbox
from headway.nouns import Progress, errors

if TYPE_CHECKING:
    from headway.kits.practice import Practice
    from headway.nouns import Encoder, Learned
    from headway.project import Project, Published


LEAST = 10  # prompts
MAX_TOKENS = 40  # of an answer
_AT_ONCE = 1 << 20  # unknown texts are requested at once; the caller splits them


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Rewards per held-out prompt. Gains are a mean and its 95% interval."""

    model: str
    practised: int  # practised prompts
    prompts: int  # held-out prompts
    greedy: float  # the policy's first choice
    drawn: float  # the same policy, sampled
    uniform: float
    fixed: float  # always the mutation that is best on the practised prompts
    fixed_mutation: str
    unchanged: float  # no mutation at all
    passed: Mapping[str, float]  # the share of passed answers, by the names above
    over_uniform: tuple[float, float, float]
    over_fixed: tuple[float, float, float]
    over_unchanged: tuple[float, float, float]
    asked: int
    recalled: int
    estimated: bool  # the endpoint did not count tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Settings of the world."""

    model: str
    prompts: Path | None = None
    most_steps: int = 1
    max_tokens: int = MAX_TOKENS


def practise_prompts(
    project: Project,
    *,
    settings: Mapping[str, Any],
    task: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    target: float | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    **knobs: Any,
) -> tuple[Practised, HeldOut]:
    """A candidate from practice on a real model's answers, and its results on held-out prompts."""
    from headway.kits.practice import Standardised, engine_on, on_text

    asked = _wanted(settings)
    how = _practice(steps, target, knobs)
    name = task or TASK
    encoder = project.servings.encoder(_encoder(project, task))
    build = engine_on(device)
    prompts = _prompts(asked.prompts)
    box = _sandbox(prompts)
    practised, kept = parted(prompts)
    folder = project.home / "work" / f"prompts-{slug(asked.model)}-{seed}"
    keeper = SnapshotFolder(folder, asked.model, seed, how, device)
    with open_generator(project, asked.model) as (model, depends):
        path = project.home / "work" / "answers" / f"{slug(asked.model)}-{depends}.jsonl"
        answers = Remembered(model, path, progress=progress)
        outcomes = Outcomes(answers, box, max_tokens=asked.max_tokens, batch=_AT_ONCE)
        outcomes.ask([*steps_from(prompts), *((prompt, prompt.text) for prompt in kept)])
        texts = [prompt.text for prompt in practised]
        if asked.most_steps > 1:
            texts += [text for _, text in steps_from(practised)]
        seen = Standardised(encoder, texts)
        fitted = keeper.practise(
            lambda count: PromptsWorld(count, practised, seen, outcomes, most_steps=asked.most_steps),
            build,
            progress=progress,
            resume=resume,
        )
        learned = on_text(fitted, encoder, seen, arms=MUTATIONS)
        apart = _judged(learned, encoder, practised, kept, outcomes, asked)
    apart = replace(apart, asked=answers.asked, recalled=answers.recalled, estimated=answers.estimated > 0)
    published = _published(project, learned, apart, encoder, name, seed, device, asked)
    run = keeper.practised(
        fitted, policy=published.ref, task=published.header.task, mean_return=apart.greedy, episodes=apart.prompts
    )
    run = replace(run, world="prompts")
    return run, apart


# -- settings


def _wanted(settings: Mapping[str, Any]) -> _Asked:
    for name in settings:
        if name not in _Asked.__dataclass_fields__:
            raise errors.InvalidSettings(
                f"The prompts world has no setting {name!r}.",
                code="unknown_key",
                hint=errors.did_you_mean(name, _Asked.__dataclass_fields__),
            )
    given = dict(settings)
    if given.get("prompts") is not None:
        given["prompts"] = Path(given["prompts"])
    asked = _Asked(**given)
    for name, most in (("most_steps", MOST_STEPS), ("max_tokens", 100_000)):
        value = getattr(asked, name)
        if type(value) is not int or not 1 <= value <= most:
            raise errors.InvalidSettings(
                f"{name} is {value!r}, expected a number from 1 to {most:,}.", code="bad_knob", hint="Give another."
            )
    return asked


def _practice(steps: int | None, target: float | None, knobs: Mapping[str, Any]) -> Practice:
    from headway.kits.practice import fit

    steps = steps or 12_288
    target = None if target is None or target != target else target
    base = fit.Practice(
        steps=steps, envs=64, horizon=16, epochs=4, minibatch=256, rate=1e-3, schedule="linear", gamma=1.0,
        entropy=0.01, hidden=(32,), activation="relu", normalise_rewards=False, decay=0.01,
        target=target, evaluate_every=max(2048, steps // 40),
    )  # fmt: skip
    # Features are standardised before the world gets them; the scales are folded into the policy afterwards.
    return replace(fit.settings_of(knobs, base), normalise_observations=False)


def _encoder(project: Project, task: str | None) -> Any:
    """The task's encoder, so that the policy can serve it."""
    if task is None and project.settings.declared and TASK not in project.settings.tasks:
        return "hashing"
    return project.servings.body(project.settings.task(task or TASK))["encoder_spec"] or "hashing"


def _prompts(path: Path | None) -> list[CheckedPrompt]:
    if path is None:
        return simple_tasks()
    prompts = corpus(path)
    different = len({prompt.text for prompt in prompts})
    if different < LEAST:
        raise errors.InvalidInput(
            f"{path.name} has {different} different prompts; a policy needs at least {LEAST}.",
            code="too_few_prompts",
            hint="Add more: one in five is held out.",
        )
    return prompts


def _sandbox(prompts: Sequence[CheckedPrompt]) -> Sandbox | None:
    """A working sandbox, if a check runs code."""
    first = next((prompt for prompt in prompts if prompt.needs_sandbox), None)
    if first is None:
        return None
    box = sandbox("auto")
    checked(first, first.good, box)
    return box


# -- results


def _judged(
    learned: Learned,
    encoder: Encoder,
    practised: list[CheckedPrompt],
    kept: list[CheckedPrompt],
    outcomes: Outcomes,
    asked: _Asked,
) -> HeldOut:
    from headway.kits.practice import read

    drawn, greedy = choosers(read(learned.knobs, learned.tensors, learned.extra, encoder), encoder)
    order = ranked(practised, outcomes)
    ways = {"greedy": greedy, "drawn": drawn, "uniform": uniform, "fixed": in_order(order)}
    values = {name: values_of(way, kept, outcomes, most_steps=asked.most_steps) for name, way in ways.items()}
    values["unchanged"] = PromptValues(
        np.array([outcomes.reward(prompt, prompt.text) for prompt in kept]),
        np.array([float(outcomes.outcome(prompt, prompt.text).passed >= 1.0) for prompt in kept]),
    )
    gain = {name: interval(values["greedy"].reward - value.reward) for name, value in values.items()}
    means = {name: float(value.reward.mean()) for name, value in values.items()}
    return HeldOut(
        model=asked.model,
        practised=len(practised),
        prompts=len(kept),
        greedy=means["greedy"],
        drawn=means["drawn"],
        uniform=means["uniform"],
        fixed=means["fixed"],
        unchanged=means["unchanged"],
        fixed_mutation=MUTATIONS[order[0]],
        passed={name: float(value.passed.mean()) for name, value in values.items()},
        over_uniform=gain["uniform"],
        over_fixed=gain["fixed"],
        over_unchanged=gain["unchanged"],
        asked=0,
        recalled=0,
        estimated=False,
    )


def _published(
    project: Project,
    result: Learned,
    apart: HeldOut,
    encoder: Encoder,
    task: str,
    seed: int,
    device: str,
    asked: _Asked,
) -> Published:
    told = {"prompts": apart.practised, "source": "outcomes", "model": asked.model, "max_tokens": asked.max_tokens}
    learned = replace(
        result,
        trained_on={**result.trained_on, **told, "device": device},
        metrics={**result.metrics, "mean_return": apart.greedy, "drawn_return": apart.drawn},
        baselines={"uniform": apart.uniform, "fixed": apart.fixed, "unchanged": apart.unchanged},
    )
    return publish_practised(
        project, learned, task=task, kind="choice", encoder=encoder.version, world="prompts", seed=seed
    )
