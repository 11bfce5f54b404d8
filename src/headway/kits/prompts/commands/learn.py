"""`headway learn --world prompts --model NAME`: practice on a real model's answers."""

from __future__ import annotations

import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import OptionHook, Session, written
from headway.kits.practice import practice_values, show

if TYPE_CHECKING:
    from headway.kits.prompts.practise_model import HeldOut


_FEW = 10  # prompts: a bootstrap interval over fewer is too narrow


def _run(session: Session, values: dict[str, Any]) -> int | None:
    from headway.kits.prompts.practise_model import practise_prompts

    model, prompts = values.pop("model"), values.pop("prompts")
    if model is None:
        if prompts is not None:
            raise click.UsageError("--prompts needs the --model that answers them: --world prompts --model smollm2")
        return None
    if values["world"] != "prompts":
        raise click.UsageError("--model is for practice on prompts: headway learn --world prompts --model smollm2")
    given = practice_values(values)
    settings = {"model": model, "prompts": prompts}
    settings |= {name: given.pop(name) for name in ("most_steps", "max_tokens") if name in given}
    begun = time.perf_counter()
    with session.project(create=True) as project:
        try:
            done, kept = practise_prompts(project, settings=settings, progress=session.out.progress, **given)
        except KeyboardInterrupt:  # the answers so far are cached, and practice takes seconds
            task = f"{given['task']} " if given["task"] else ""
            named = f" --prompts {quote(str(prompts))}" if prompts else ""
            session.next(f"headway learn {task}--world prompts --seed {given['seed']} --model {quote(model)}{named}")
            raise
    show(session, done, time.perf_counter() - begun, kept)
    _show_held_out(session, done.policy, kept)
    session.next(f"headway prove {done.task}    (once decisions of {done.task!r} have settled)")
    return 0


def _show_held_out(session: Session, policy: str, kept: HeldOut) -> None:
    """Compare the policy with fixed choices on held-out prompts."""
    out = session.out
    out.line(
        f"{kept.model} was asked {kept.asked:,} times, {kept.recalled:,} answers were cached. On "
        f"{kept.prompts} held-out prompts, after practice on {kept.practised}:"
    )
    rows = [
        (policy, "greedy"),
        ("the same, sampled", "drawn"),
        ("uniform choice", "uniform"),
        (f"always {kept.fixed_mutation}, best in practice", "fixed"),
        ("the prompt as it is", "unchanged"),
    ]
    out.table(
        ("choice", "reward", "passed"),
        [(name, written.number(float(getattr(kept, key))), f"{kept.passed[key]:.0%}") for name, key in rows],
        right=("reward", "passed"),
    )
    gains = {
        "uniform choice": kept.over_uniform,
        "the one mutation": kept.over_fixed,
        "the prompt as it is": kept.over_unchanged,
    }
    for what, (mean, low, high) in gains.items():
        word = "more" if low > 0 else "less" if high < 0 else "no clear difference"
        if kept.prompts < _FEW:
            word = "too few prompts to tell"
        out.line(f"{mean:+.3f} over {what}, 95% interval {written.interval(low, high)}: {word}.")
    if kept.estimated:
        out.note("The endpoint did not count tokens: they are estimated as a quarter of the characters.")


LEARN = OptionHook(
    options=(
        click.Option(
            ["--model"],
            metavar="NAME",
            help="Practise on this model's answers; a local model, or an upstream.",
        ),
        click.Option(
            ["--prompts"],
            type=click.Path(dir_okay=False, path_type=Path),
            help="With --model: JSON lines of id, class, text and check; 84 generated tasks by default.",
        ),
    ),
    run=_run,
    needed=("--world prompts",),
)
