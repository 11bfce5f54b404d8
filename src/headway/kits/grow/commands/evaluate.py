"""`headway grow evaluate` and `grow ablate`: policies beside baselines, or without their parts, on held-out hosts.

The policies that `headway grow evaluate` and `ablate` name: refs of the project, or files.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import Output, Session, renders, verb, written
from headway.files import open_regular
from headway.kits.grow.kept_evaluations import GrowEvaluation, keep_evaluation
from headway.kits.report import plot_figure
from headway.nouns import errors, rfc3339

if TYPE_CHECKING:
    from headway.kits.grow.morph.evaluate import EpisodeLanes
    from headway.kits.grow.morph.ways import WayComparison
    from headway.kits.grow.policy import RecurrentPolicy

_EPISODES = 4  # that the page shows step by step
_HOSTS = click.option("--hosts", type=click.IntRange(2, 4096), default=64, show_default=True, help="How many hosts.")
_SEED = click.option(
    "--seed", type=int, default=3000, show_default=True, help="Of the hosts; another than any of practice."
)
_DEVICE = click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
_SOURCE = click.option(
    "--source", type=click.Choice(["digits", "teachers"]), default="digits", help="What hosts learn."
)


@verb(
    "evaluate",
    "headway grow evaluate recurrent@8743 --report report",
    "headway grow evaluate recurrent@8743 recurrent@51c0 --hosts 320 --json",
)
@click.argument("policies", nargs=-1, metavar="POLICY...")
@_HOSTS
@_SEED
@_DEVICE
@_SOURCE
@click.option(
    "--report", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Markdown, HTML, plots."
)
def evaluate(
    session: Session, policies: tuple[str, ...], hosts: int, seed: int, device: str, source: str, report: Path | None
) -> None:
    """Play POLICY and the baselines on held-out hosts: accuracy on test images, net of rent.

    POLICY is a ref of the project or a .safetensors file; several are seeds of one way. This command alone reads the
    test images. The page of the task shows the result, with four episodes step by step.
    """
    from headway.kits.grow.morph.evaluate import lanes, policy_chooser
    from headway.kits.grow.morph.ways import compared

    loaded = named_policies(session, policies)
    begun = time.perf_counter()
    comparison = compared(
        {"learned": [partial(policy_chooser, policy) for policy in loaded.values()]},
        seed=seed, hosts=hosts, device=device, source=source, progress=session.out.progress,
    )  # fmt: skip
    first = policy_chooser(next(iter(loaded.values())))
    episodes = lanes(first, seed=seed, hosts=_EPISODES, source=source)
    pages, missing = _written(report, comparison, episodes[0])
    _keep(session, policies, comparison, episodes)
    session.show(
        GrowComparison(
            policies=tuple(loaded),
            comparison=comparison,
            report=pages,
            missing=missing,
            seconds=time.perf_counter() - begun,
        )
    )
    session.next(f"headway grow ablate {policies[0]}")


@verb(
    "ablate",
    "headway grow ablate recurrent@8743",
    "headway grow ablate recurrent@8743 --hosts 128 --json",
)
@click.argument("policy")
@_HOSTS
@_SEED
@_DEVICE
@_SOURCE
def ablate(session: Session, policy: str, hosts: int, seed: int, device: str, source: str) -> None:
    """Show what the parts of POLICY are worth: without memory, without inputs, with one head drawn at random."""
    from headway.kits.grow.morph.evaluate import without
    from headway.kits.grow.morph.ways import compared

    loaded = named_policies(session, (policy,))[policy]
    begun = time.perf_counter()
    comparison = compared(
        {name: [make] for name, make in without(loaded).items()},
        seed=seed, hosts=hosts, baselines=(), device=device, source=source, progress=session.out.progress,
    )  # fmt: skip
    session.show(
        GrowComparison(
            policies=(policy,), comparison=comparison, report=None, missing="", seconds=time.perf_counter() - begun
        )
    )
    session.next(f"headway grow evaluate {policy}")


def _keep(
    session: Session, policies: tuple[str, ...], comparison: WayComparison, episodes: tuple[EpisodeLanes, ...]
) -> None:
    """Store the evaluation for the page, if the first policy is of this project and of a task."""
    from headway.kits.grow.morph.evaluate import shown_episode

    if policies[0].endswith(".safetensors"):
        return
    with session.project() as project:
        digest = project.registry.find(policies[0])
        ref, task = str(project.registry.ref(digest)), project.registry.header(digest).task
        keep_evaluation(
            project.home,
            GrowEvaluation(
                task=task, policies=[ref, *policies[1:]], at=rfc3339(project.clock()), hosts=comparison.hosts,
                seed=comparison.seed, source=comparison.source, ways=comparison.shown(),
                episodes=[shown_episode(each) for each in episodes],
            ),
        )  # fmt: skip


def _written(report: Path | None, comparison: WayComparison, episode: EpisodeLanes) -> tuple[str | None, str]:
    """The folder of the report, and why pictures are missing from it."""
    from headway.kits.grow.morph.ways import write_report

    if report is None:
        return None, ""
    report.mkdir(parents=True, exist_ok=True)
    pictures: tuple[Path, ...] = ()
    missing = ""
    try:
        frontier_picture(report / "frontier.png", comparison)
        lanes_picture(report / "episode.png", episode)
        pictures = (report / "frontier.png", report / "episode.png")
    except errors.MissingExtra as error:
        missing = str(error)
    write_report(report, comparison, pictures)
    return str(report), missing


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowComparison:
    """Ways of growing on held-out hosts, the first beside the others."""

    policies: tuple[str, ...]
    comparison: WayComparison
    report: str | None
    missing: str
    seconds: float

    def document(self) -> dict[str, Any]:
        compared = self.comparison
        return {
            "policies": list(self.policies),
            "hosts": compared.hosts,
            "seed": compared.seed,
            "source": compared.source,
            "ways": [asdict(row) for row in compared.ways],
            "differences": {
                way: {"mean": mean, "low": low, "high": high} for way, (mean, low, high) in compared.differences.items()
            },
            "report": self.report,
            "seconds": self.seconds,
        }


@renders(GrowComparison)
def _compared(out: Output, done: GrowComparison) -> None:
    compared = done.comparison
    first = compared.ways[0].way
    out.line(f"{compared.hosts} held-out hosts of {compared.source}, {done.seconds:.0f} s.", style="bold")
    rows = []
    for row in compared.ways:
        mean, low, high = compared.differences.get(row.way, (0.0, 0.0, 0.0))
        apart = "" if row.way == first else f"{mean:+.3f} {written.interval(low, high)}"
        means = (written.number(row.test_accuracy), written.number(row.rent), f"{row.parameters:,.0f}")
        rows.append((row.way, written.number(row.net), written.interval(row.low, row.high), *means, apart))
    header = ("way", "net", "95% interval", "test accuracy", "rent", "parameters", f"{first} is better by")
    out.table(header, rows, right=header[1:])
    if done.report:
        out.line(f"Report: {done.report}/report.html and report.md")
    if done.missing:
        out.note(f"No pictures: {done.missing}")


def frontier_picture(path: Path, comparison: WayComparison) -> None:
    """Test accuracy against parameters, and net accuracy with its interval."""
    figure = plot_figure(figsize=(11.0, 4.2), dpi=140, layout="constrained")
    left, right = figure.subplots(1, 2)
    for place, row in enumerate(comparison.ways):
        colour = "C3" if place else "C0"
        left.scatter(row.parameters, row.test_accuracy, s=60, color=colour, zorder=3)
        left.annotate(row.way, (row.parameters, row.test_accuracy), (6, 4), textcoords="offset points", fontsize=9)
        reach = [[row.net - row.low], [row.high - row.net]]
        right.barh(place, row.net, xerr=reach, color=colour, height=0.7)
    left.set_xlabel("parameters of seeds at the end")
    left.set_ylabel("test accuracy")
    left.set_title("Accuracy against parameters", loc="left")
    right.set_yticks(range(len(comparison.ways)), [row.way for row in comparison.ways])
    right.invert_yaxis()
    right.set_xlabel("accuracy net of rent")
    right.set_title(f"{comparison.hosts} held-out hosts", loc="left")
    figure.savefig(path)


def lanes_picture(path: Path, episode: EpisodeLanes) -> None:
    """One lane per slot: stage, alpha and contribution over the epochs; accuracy below."""
    from headway.kits.grow.morph.blueprints import NAMES
    from headway.kits.grow.morph.lifecycle import SeedStage

    slots = episode.stages.shape[1]
    figure = plot_figure(figsize=(11.0, 1.6 * slots + 1.8), dpi=140, layout="constrained")
    axes = figure.subplots(slots + 1, 1, sharex=True)
    for slot in range(slots):
        lane = axes[slot]
        alphas = episode.alphas[:, slot]
        lane.fill_between(range(len(alphas)), alphas, step="mid", color="C0", alpha=0.25)
        lane.plot(episode.contributions[:, slot], color="C1", linewidth=1.5)
        before = -1
        for epoch, stage in enumerate(episode.stages[:, slot].tolist()):
            if stage != before and stage != SeedStage.DORMANT:
                blueprint = int(episode.blueprints[epoch, slot])
                named = NAMES[blueprint] if stage == SeedStage.GERMINATED else SeedStage(stage).name.lower()
                lane.axvline(epoch, color="C3", linewidth=0.8)
                lane.text(epoch, 1.02, named, fontsize=7, rotation=30, ha="left", va="bottom")
            before = stage
        lane.set_ylim(-0.1, 1.0)
        lane.set_ylabel(f"r0c{slot}")
    axes[-1].plot(episode.accuracy, color="C0")
    axes[-1].set_ylabel("accuracy")
    axes[-1].set_xlabel("epoch (blue: alpha, orange: contribution)")
    figure.savefig(path)


def named_policies(session: Session, refs: tuple[str, ...]) -> dict[str, RecurrentPolicy]:
    """Policies by name: `recurrent@8743`, or a file NAME.safetensors with the shape in its header."""
    from headway.kits.grow.morph.blueprints import SPACE

    if not refs:
        raise errors.InvalidInput(
            "No policy was named.", code="nothing_named", hint="Name one, for example recurrent@8743, or a file."
        )
    loaded = {}
    for ref in refs:
        policy = load_policy(Path(ref)) if ref.endswith(".safetensors") else _registered(session, ref)
        if policy.space != SPACE:
            raise errors.InvalidInput(
                f"{ref} does not act in the world morph: its heads are {', '.join(policy.space.names)}, "
                f"not {', '.join(SPACE.names)}.",
                code="bad_shape",
                hint="Name a policy of `headway grow train`.",
            )
        loaded[ref] = policy
    return loaded


def _registered(session: Session, ref: str) -> RecurrentPolicy:
    with session.project() as project:
        digest = project.registry.find(ref)
        header = project.registry.header(digest)
        if header.family != "recurrent":
            raise errors.InvalidInput(
                f"{ref} is of the family {header.family}, not recurrent.",
                code="bad_shape",
                hint="Name a policy of `headway grow train`.",
            )
        header, tensors = project.registry.load(digest, task=header.task)
    return _read(header.knobs, tensors, header.extra)


def _read(knobs: Any, tensors: Any, extra: Any) -> RecurrentPolicy:
    from headway.kits.grow.policy import read

    return read(knobs, tensors, extra)


def load_policy(path: Path) -> RecurrentPolicy:
    """A policy in a safetensors file whose header has `extra` and `knobs` as JSON."""
    from safetensors import SafetensorError, safe_open

    try:
        os.close(open_regular(path, follow=True))  # safetensors would wait for a pipe
        with safe_open(path, framework="numpy") as file:
            told = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — not a mapping
        return _read(json.loads(told["knobs"]), tensors, json.loads(told["extra"]))
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise errors.Damaged(
            f"{str(path)!r} is not a policy: {error}.",
            code="bundle_damaged",
            hint="Name a policy of the project, for example recurrent@8743.",
        ) from error
