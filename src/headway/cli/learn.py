"""`headway learn`: a candidate from what has settled, or from practice in a world."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.output import number, signed
from headway.cli.verb import Session, pairs, quoted, task_argument, typed, verb
from headway.nouns.checkpoint import Header
from headway.nouns.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from headway.project.practising import Practised

__all__ = ["learn"]

NOT_DUE = 3
_FEW = 10  # prompts: an interval by the bootstrap over fewer is too narrow


@verb("learn", "headway learn route", "headway learn --world cartpole --seed 7")
@task_argument(required=False)
@click.option("--family", help="How the policy is built and learned; each kind of task has a default.")
@click.option("--seed", type=int, help="Makes random choices in learning reproducible.")
@click.option(
    "--set", "knobs", multiple=True, metavar="KNOB=VALUE", help="A knob of the family, for example ridge=3.0."
)
@click.option("--trust", multiple=True, metavar="FIELD", help="Use this field although it looks leaky.")
@click.option("--mined", is_flag=True, help="Read rows with mined labels too; they are left out by default.")
@click.option("--check", is_flag=True, help="Only say whether it would train: exit status 0 if it is due, 3 if not.")
@click.option(
    "--world", metavar="WORLD", help="Practise instead: cartpole, acrobot, lunarlander, prompts, any Gymnasium id."
)
@click.option("--steps", type=click.IntRange(1), help="With --world: how many steps to practise at most.")
@click.option("--target", type=float, help="With --world: stop at this mean return; nan: never stop early.")
@click.option("--device", type=click.Choice(["cpu", "cuda", "mps"]), default="cpu", help="With --world: where.")
@click.option("--resume", is_flag=True, help="With --world: go on from the last snapshot of this world and seed.")
@click.option(
    "--model",
    metavar="NAME",
    help="With --world prompts: practise on what this model answers; a local one, or an upstream of headway.toml.",
)
@click.option(
    "--prompts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --model: JSON lines of id, class, text and check; 84 generated tasks by default.",
)
def learn(
    session: Session,
    task: str | None,
    family: str | None,
    seed: int | None,
    knobs: tuple[str, ...],
    check: bool,
    mined: bool,
    trust: tuple[str, ...],
    world: str | None,
    **practice: Any,
) -> int:
    """Learn a candidate policy from what has settled.

    The candidate decides nothing until it is proven and promoted. With --world it practises there instead, by PPO.
    """
    settings: dict[str, Any] = {name: typed(value) for name, value in pairs(knobs, "knob").items()}
    if practice["model"] is not None and world != "prompts":
        raise click.UsageError("--model is for practice on prompts: headway learn --world prompts --model smollm2")
    if practice["prompts"] is not None and practice["model"] is None:
        raise click.UsageError("--prompts needs the --model that answers them: --world prompts --model smollm2")
    if world is not None:
        return _practise(session, world, task, seed, settings, check=check, family=family, **practice)
    given = (practice["steps"], practice["resume"], practice["target"] is not None, practice["device"] != "cpu")
    if task is None or any(given):
        raise click.UsageError(
            "Name a TASK (headway learn route) or a --world to practise in (headway learn --world cartpole)."
            if task is None
            else "--steps, --target, --device and --resume are for practice in a --world."
        )
    with session.project() as project:
        if check:
            missing = project.due(task)
            session.out.document({"task": task, "due": missing == 0, "missing": missing})
            if missing:
                session.out.line(f"Not due: {missing:,} more settled decisions until {task!r} is learned again.")
                return NOT_DUE
            session.out.line(f"Due: {task!r} has enough new outcomes.")
            session.next(f"headway learn {task}")
            return 0
        begun = time.perf_counter()
        with session.out.progress() as progress:
            ref = project.learn(task, family=family, seed=seed, progress=progress, trust=trust, mined=mined, **settings)
        taken = time.perf_counter() - begun
        header = project.registry.header(project.registry.find(ref))
        made_up = session.synthetic(project, task)
    count = sum(header.trained_on.get("sources", {}).values())
    session.out.document(
        {
            "task": task,
            "policy": ref,
            "family": header.family,
            "parameters": header.parameters,
            "seed": header.seed,
            "trained_on": dict(header.trained_on),
            "metrics": dict(header.metrics),
            "baselines": dict(header.baselines),
            "synthetic": made_up,
        }
    )
    session.out.line(f"{ref}  learned from {count:,} decisions in {taken:.1f} s, seed {header.seed}.", style="bold")
    for each in header.trained_on.get("left_out", ()):
        session.out.note(f"left out: {each} gives the outcome away (headway data leaks {task} shows how).")
    values = values_of(ref, header)
    if values:
        session.out.line("On the rows kept for tuning (no evidence: `prove` has rows of its own):")
        session.out.table(("policy", "value"), [(name, number(value)) for name, value in values], right=("value",))
    session.next(f"headway prove {task}")
    return 0


def values_of(ref: str, header: Header) -> list[tuple[str, float]]:
    """The learner's own estimate of its candidate, beside the baselines that it was measured with."""
    own = [(ref, header.metrics["tune_value"])] if "tune_value" in header.metrics else []
    others = [(name.replace("_", " "), value) for name, value in header.baselines.items()]
    return own + [(name, value) for name, value in others if not name.startswith("error ")]


def _practise(
    session: Session,
    world: str,
    task: str | None,
    seed: int | None,
    knobs: dict[str, Any],
    *,
    check: bool,
    family: str | None,
    steps: int | None,
    target: float | None,
    device: str,
    resume: bool,
    model: str | None,
    prompts: Path | None,
) -> int:
    if check or family not in (None, "actor_critic"):
        raise InvalidInput(
            "In a world the family actor_critic practises, and it is always due.",
            code="nothing_named",
            hint="Leave --check and --family away.",
        )
    begun = time.perf_counter()
    seed = 0 if seed is None else seed
    own: dict[str, Any] = {}
    if model is not None:  # the rest are the learner's
        own = {"model": model, "prompts": prompts}
        own |= {name: knobs.pop(name) for name in ("most_steps", "max_tokens") if name in knobs}
    again = f"headway learn {f'{task} ' if task else ''}--world {world} --seed {seed}"
    with session.project(create=True) as project:
        try:
            with session.out.progress() as progress:
                done = project.practise(
                    world, task=task, steps=steps, seed=seed, device=device, target=target, resume=resume,
                    settings=own, progress=progress, **knobs,
                )  # fmt: skip
        except KeyboardInterrupt:
            if model is None:
                session.next(f"{again} --resume")
            else:  # what was answered is remembered, and practising takes seconds
                named = f" --prompts {quoted(str(prompts))}" if prompts else ""
                session.next(f"{again} --model {quoted(model)}{named}")
            raise
    taken = time.perf_counter() - begun
    plot: str | None = None
    missing = ""
    path = session.folder / f"{done.task}-curve.png"
    if done.curve:
        try:
            from headway.cli.picture import curve_picture

            curve_picture(path, done.world, done.curve, done.target)
            plot = str(path)
        except MissingExtra as error:
            missing = str(error)
    session.out.document(
        {
            "world": done.world,
            "task": done.task,
            "policy": done.policy,
            "steps": done.steps,
            "resumed_from": done.resumed_from,
            "seed": done.seed,
            "device": done.device,
            "target": done.target,
            "reached": done.reached,
            "mean_return": done.mean_return,
            "episodes": done.episodes,
            "curve": [list(each) for each in done.curve],
            "seconds": taken,
            "plot": plot,
            **({} if done.kept_apart is None else {"kept_apart": asdict(done.kept_apart)}),
        }
    )
    session.out.line(
        f"{done.policy}  practised {done.steps - done.resumed_from:,} steps in {done.world}, {taken:.1f} s, "
        f"seed {done.seed}.",
        style="bold",
    )
    if done.target is not None:
        word = "reached" if done.reached else "not reached"
        session.out.line(
            f"Target {done.target:g}: {word} (greedy episodes as it learned, then new ones to bear it out)."
        )
    if done.kept_apart is not None:
        _say_apart(session, done)
    else:
        session.out.line(
            f"Mean return {done.mean_return:.1f} in {done.episodes} greedy episodes that were not looked at."
        )
    session.out.line(f"Plot: {plot}" if plot else f"No plot: {missing or 'nothing was evaluated'}")
    if done.kept_apart is not None:
        session.next(f"headway prove {done.task}    (once decisions of {done.task!r} have settled)")
        return 0
    session.next(f"headway learn --world {world} --seed {seed} --steps {2 * done.steps} --target nan --resume")
    return 0


def _say_apart(session: Session, done: Practised) -> None:
    """The policy beside choices that look at nothing, on prompts that it has not practised on."""
    found = done.kept_apart
    assert found is not None
    out = session.out
    out.line(
        f"{found.model} was asked {found.asked:,} times, {found.recalled:,} answers were remembered. On "
        f"{found.prompts} prompts kept apart, after practice on {found.practised}:"
    )
    rows = [
        (done.policy, "greedy"),
        ("the same, drawn from its distribution", "drawn"),
        ("uniform choice", "uniform"),
        (f"always {found.fixed_mutation}, best on the practised ones", "fixed"),
        ("the prompt as it is", "unchanged"),
    ]
    out.table(
        ("choice", "reward", "passed"),
        [(name, number(float(getattr(found, key))), f"{found.passed[key]:.0%}") for name, key in rows],
        right=("reward", "passed"),
    )
    gains = {
        "uniform choice": found.over_uniform,
        "the one mutation": found.over_fixed,
        "the prompt as it is": found.over_unchanged,
    }
    for what, (mean, low, high) in gains.items():
        word = "more" if low > 0 else "less" if high < 0 else "no clear difference"
        if found.prompts < _FEW:
            word = "too few prompts to tell"
        out.line(f"{signed(mean)} over {what}, 95% interval [{signed(low)}, {signed(high)}]: {word}.")
    if found.estimated:
        out.note("The endpoint did not count tokens: they are estimated as a quarter of the characters.")
