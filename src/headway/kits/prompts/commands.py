"""`headway mutate`, `demo mutate` and `learn --world prompts`: apply a mutation, and learn which one helps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from headway.cli import OptionHook, Output, Session, renders, verb, written
from headway.kits.practice import practice_values, show
from headway.kits.prompts.kinds import MUTATIONS
from headway.kits.report import plot_figure
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.prompts.mutations import Variation
    from headway.kits.prompts.practise_model import HeldOut
    from headway.kits.prompts.practise_synthetic import MutationRun
    from headway.nouns import Decision


CLOSE = 0.95  # of the optimum
SETTINGS = """\
# The demo's task. What was practised for it is synthetic: `headway learn --world prompts`.
[tasks.mutate]
kind = "choice"
actions = "mutations"
world = "prompts"
reward = { passed = 1.0, tokens = -0.0002 }
family = "actor_critic"
"""


@verb("mutate", "headway demo mutate --out mutations", "headway demo mutate --out mutations --seeds 5")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where the project goes; here by default.")
@click.option("--steps", type=click.IntRange(2048), help="Steps to practise; 200,000 by default.")
@click.option("--seeds", type=click.IntRange(1, 100), default=1, show_default=True, help="Runs to compare.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Another seed, other prompts.")
def demo_mutate(session: Session, out: Path | None, steps: int | None, seeds: int, seed: int) -> int:
    """Practise rewriting prompts in a synthetic world, and compare the result with the optimum.

    The figures are on held-out prompts; the best run becomes a candidate. Exit status 1 if a run stays more than 5%
    below the optimum.
    """
    from headway.kits.prompts.practise_synthetic import STEPS, TRAIN, learn_mutations, store
    from headway.project import Project

    folder = session.empty_folder(out, "mutate")
    say = session.out
    say.note("Everything here is synthetic: prompts come from the world 'prompts', and no model is called.")
    runs: list[MutationRun] = []
    for number in range(seed, seed + seeds):
        run = learn_mutations(seed=number, steps=steps or STEPS, progress=say.progress)
        runs.append(run)
        say.line(
            f"seed {run.seed}: {run.steps:,} mutations of {TRAIN:,} prompts in {run.seconds:.1f} s → "
            f"{run.value:.3f} per held-out prompt, {run.share:.1%} of the optimum"
        )
    best = max(runs, key=lambda other: other.share)
    session.new_project(folder, SETTINGS)
    with Project(folder, seed=seed, source="synthetic") as project:
        policy = store(project, best)
    plot, missing = _draw(folder / "mutate.png", runs, best)
    demo = MutationDemo(
        folder=str(folder.resolve()), policy=policy, runs=tuple(runs), best=best, plot=plot, why_no_plot=missing
    )
    session.show(demo)
    session.next("headway prove mutate")
    return 0 if demo.close else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationDemo:
    """The runs of the demo, and the policy of the best one."""

    folder: str
    policy: str
    runs: Sequence[MutationRun]
    best: MutationRun
    plot: str | None
    why_no_plot: str

    @property
    def close(self) -> bool:
        """Whether every run is within 5% of the optimum and better than the best fixed order."""
        return all(run.share >= CLOSE and run.gain[1] > 0 for run in self.runs)

    def document(self) -> dict[str, Any]:
        return {
            "world": "prompts",
            "source": "synthetic",
            "folder": self.folder,
            "policy": self.policy,
            "within_5_percent": self.close,
            "runs": [_run_document(run) for run in self.runs],
            "plot": self.plot,
        }


@renders(MutationDemo)
def _demo(out: Output, demo: MutationDemo) -> None:
    best = demo.best
    out.line()
    out.line("Reward per held-out prompt (exact expectation):", style="bold")
    out.table(
        ("policy", "value", "of the optimum"),
        [
            (name, f"{value:.3f}", f"{value / best.optimum:.0%}")
            for name, value in (
                ("best order for every class", best.optimum),
                ("learned, first choice", best.value),
                ("learned, sampled", best.sampled),
                ("best fixed order: " + ", ".join(best.fixed_order[:2]) + ", …", best.fixed),
                ("random mutations", best.uniform),
                (f"best single mutation: {best.best_action}", best.action),
            )
        ],
        right=("value", "of the optimum"),
    )
    for run in demo.runs:
        mean, low, high = run.gain
        out.line(f"seed {run.seed}: over the best fixed order {mean:+.3f} {written.interval(low, high)}")
    out.line()
    out.line("First choice by class (the class is hidden from the policy):", style="bold")
    out.table(
        ("class", "tried first", "how often", "uniform"),
        [
            (kind, max(shares, key=lambda name: shares[name]), f"{max(shares.values()):.0%}", "20%")
            for kind, shares in best.shares.items()
        ],
        right=("how often", "uniform"),
    )
    out.line(f"Plot: {demo.plot}" if demo.plot else f"No plot: {demo.why_no_plot}")
    out.line(f"{demo.policy} is a candidate of the task 'mutate'; it decides once it is proven and promoted.")


def _run_document(run: MutationRun) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "steps": run.steps,
        "seconds": round(run.seconds, 2),
        "value": run.value,
        "sampled": run.sampled,
        "optimum": run.optimum,
        "share": run.share,
        "fixed": run.fixed,
        "fixed_order": list(run.fixed_order),
        "fixed_action": run.action,
        "uniform": run.uniform,
        "over_fixed": {"mean": run.gain[0], "low": run.gain[1], "high": run.gain[2]},
        "shares": run.shares,
    }


def _draw(path: Path, runs: Sequence[MutationRun], best: MutationRun) -> tuple[str | None, str]:
    """The plot's path, or why there is none."""
    try:
        sheet = plot_figure(figsize=(11, 4.6), dpi=150, layout="constrained")
    except errors.MissingExtra as error:
        return None, str(error)
    left, right = sheet.subplots(1, 2, width_ratios=(1.0, 1.25))
    for run in runs:
        left.plot(*zip(*run.curve, strict=True), color="C0", linewidth=1.6, alpha=0.8)
    for value, colour, name in (
        (best.optimum, "C2", "optimum"),
        (best.fixed, "C1", "best fixed order"),
        (best.uniform, "C3", "uniform"),
    ):
        left.axhline(value, color=colour, linewidth=1.4, linestyle=(0, (5, 3)))
        left.annotate(
            name, (1.0, value), xycoords=("axes fraction", "data"), xytext=(-4, 4), textcoords="offset points",
            ha="right", color=colour, fontsize=9.5,
        )  # fmt: skip
    left.set_xlabel("mutations tried while learning")
    left.set_ylabel("reward per prompt, exploring included")
    left.set_title("Learning", loc="left", weight="bold", fontsize=11)
    names = list(next(iter(best.shares.values())))
    shown = right.imshow(
        [list(share.values()) for share in best.shares.values()], vmin=0, vmax=1, cmap="Blues", aspect="auto"
    )
    right.set_xticks(range(len(names)), names, rotation=20, ha="right")
    right.set_yticks(range(len(best.shares)), list(best.shares))
    for row, series in enumerate(best.shares.values()):
        for column, share in enumerate(series.values()):
            right.annotate(
                f"{share:.0%}", (column, row), ha="center", va="center", fontsize=9,
                color="white" if share > 0.6 else "C4",
            )  # fmt: skip
    right.set_title("First choice on held-out prompts", loc="left", weight="bold", fontsize=11)
    right.spines[:].set_visible(False)
    sheet.colorbar(shown, ax=right, shrink=0.8)
    least, most = min(run.share for run in runs), best.share
    reached = f"{most:.1%}" if len(runs) == 1 else f"{least:.1%} to {most:.1%}"
    sheet.suptitle(f"Synthetic prompts: {reached} of the optimum on held-out prompts", fontsize=12.5)
    try:
        sheet.savefig(path)
    except OSError as error:
        raise errors.InvalidInput(
            f"{path} cannot be written: {error.strerror}.", code="file_error", hint="Choose another folder with --out."
        ) from error
    return str(path), ""


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
            help="With --model: JSON lines of id, class, text and check; 84 simple tasks by default.",
        ),
    ),
    run=_run,
    needed=("--world prompts",),
)


@verb(
    "mutate",
    'headway mutate "Please could you write a slogan for a bakery?"',
    'headway mutate "Review this function" --kind constraint-addition --json',
)
@click.argument("prompt")
@click.option("--kind", type=click.Choice(MUTATIONS), help="Which mutation; without it, the task's policy decides.")
@click.option("--task", default="mutate", show_default=True, help="The task whose policy decides.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Chooses among wordings.")
def mutate(session: Session, prompt: str, kind: str | None, task: str, seed: int) -> None:
    """Change a prompt in one of five ways; what would change nothing is not offered.

    PROMPT is the text; "-" reads it from standard input. Nothing is logged where --kind names the mutation.
    """
    from headway.kits.prompts import mutations

    text = session.read(prompt)
    decision = None
    if kind is None:
        possible = [name for name, may in zip(MUTATIONS, mutations.allowed(text), strict=True) if may]
        if not possible:
            raise errors.InvalidInput(
                "No mutation would change this prompt.", code="no_candidate", hint="It has all five mutations."
            )
        with session.project(create=True) as project:
            decision = project.decide(task, text, possible)
        kind = decision.action
    mutated = mutations.mutate(text, kind, Random(seed))
    session.show(MutatedPrompt(kind=kind, mutated=mutated, decision=decision))
    if decision is not None:
        session.next(f"headway signal {decision.id} passed=1")
    else:
        session.next("headway mutate PROMPT    (without --kind the task's policy decides)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MutatedPrompt:
    """A prompt after one mutation, and the decision that chose it; None: it was named."""

    kind: str
    mutated: Variation
    decision: Decision | None

    def document(self) -> dict[str, Any]:
        mutated, decision = self.mutated, self.decision
        chosen: dict[str, Any] = {}
        if decision is not None:
            chosen = {"decision": decision.id, "propensity": decision.propensity, "policy": str(decision.policy)}
        return {
            "kind": self.kind,
            "text": mutated.text,
            "change": mutated.change,
            "no_op": mutated.no_op,
            "impact": asdict(mutated.impact),
            "metadata": dict(mutated.metadata),
            **chosen,
        }


@renders(MutatedPrompt)
def _mutated(out: Output, prompt: MutatedPrompt) -> None:
    out.line(prompt.mutated.text)
    out.line()
    out.note(f"{prompt.kind}: {prompt.mutated.change}." + (" It is a no-op." if prompt.mutated.no_op else ""))
    decision = prompt.decision
    if decision is not None:
        chance = written.number(decision.propensity, 2)
        out.note(f"{decision.policy} chose it with probability {chance}; decision {decision.id}.")
