"""`headway sim report`: a learned policy beside fixed arms, rules, a bandit and the oracle on held-out problems."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headway.cli import Output, Session, renders, task_argument, verb, written
from headway.kits.report import plot_figure
from headway.nouns import errors

if TYPE_CHECKING:
    from headway.kits.practice import ActorCritic
    from headway.project import Project


_FILE = click.Path(path_type=Path, dir_okay=False)
_PARTS = {"test": "Held-out problems", "families": "Families that nobody practised on"}


@verb(
    "report",
    "headway sim report route --tasks problems.jsonl",
    "headway sim report route --policy actor_critic@8743 --policy actor_critic@51c0 --run-pack packs/sim --json",
)
@task_argument()
@click.option("--tasks", type=_FILE, metavar="FILE", help="A file of problems; that of the policy by default.")
@click.option(
    "--policy", "refs", multiple=True, metavar="REF", help="The newest candidate by default; may be repeated."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the attempts and the intervals.")
@click.option("--plot", type=_FILE, metavar="FILE", help="A picture of the values.")
@click.option("--run-pack", "pack", type=click.Path(path_type=Path), metavar="DIR", help="For `headway verify`.")
def report(
    session: Session,
    task: str,
    tasks: Path | None,
    refs: tuple[str, ...],
    seed: int,
    plot: Path | None,
    pack: Path | None,
) -> None:
    """Compare policies of TASK with rules, fixed arms, a bandit and the oracle on held-out problems."""
    from headway.kits.offline import played_summary
    from headway.kits.simulator.report import played_rows

    begun = time.perf_counter()
    with session.project() as project:
        named = [str(policy) for policy in refs] or [_newest(project, task)]
        loaded, path, encoder = _policies(project, task, named, tasks)
        rows, chosen = played_rows(path, {"learned": loaded}, encoder=encoder, seed=seed, progress=session.out.progress)
        digests = {ref: project.registry.find(ref) for ref in named}
    summary = played_summary(rows, seed=seed)
    done = SimReport(
        task=task, policies=digests, file=str(path), seed=seed, chosen=chosen, parts=summary,
        seconds=time.perf_counter() - begun,
    )  # fmt: skip
    if pack is not None:
        _pack(pack, done, rows, session.folder)
    session.show(done)
    if plot is not None:
        _draw(session, plot, done)
    session.next(f"headway verify {quote(str(pack))}" if pack is not None else f"headway prove {task}")


def _newest(project: Project, task: str) -> str:
    candidate = project.standing(task).candidate
    return candidate.ref if candidate is not None else str(project.current(task).ref)


def _policies(project: Project, task: str, refs: list[str], tasks: Path | None) -> tuple[list[ActorCritic], Path, str]:
    """(the policies, the problem file, the encoder); a policy that did not practise in this world is refused."""
    policies: list[ActorCritic] = []
    path, encoder = tasks, ""
    settings = project.settings.task(task)
    for ref in refs:
        known, digest = project.servings.resolve(settings, ref)
        trained = {} if known.endswith("@0") else project.registry.header(digest).trained_on
        if trained.get("world") != "sim":
            raise errors.InvalidInput(
                f"The policy {known} did not practise in the world 'sim'.",
                code="no_world",
                hint=f"Learn one with `headway sim train {task}`, or name one with --policy.",
            )
        path = path or Path(str(trained["fresh"]["tasks"]))
        encoder = str(trained["fresh"]["encoder"])
        policy: Any = project.servings.policy(task, project.servings.body(settings), known, digest)
        policies.append(policy)
    assert path is not None
    return policies, path, encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class SimReport:
    """Ways of solving problems, compared on held-out ones."""

    task: str
    policies: Mapping[str, str]
    file: str
    seed: int
    chosen: Mapping[str, str]
    parts: Mapping[str, Any]
    seconds: float


def _pack(pack: Path, done: SimReport, rows: list[dict[str, Any]], folder: Path) -> None:

    from headway.kits.offline import manifest, plain, write

    about = manifest(
        folder, command=shlex.join(["headway", *sys.argv[1:]]), at=time.time(), seed=done.seed, task=done.task,
        policies=dict(done.policies), data=done.file,
    )  # fmt: skip
    lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
    results = msgspec.json.encode({"played": plain(done.parts)})
    write(pack, {"manifest.json": msgspec.json.encode(about), "results.json": results, "played.jsonl": lines})


def _draw(session: Session, path: Path, done: SimReport) -> None:
    try:
        report_picture(path, done.parts)
    except errors.MissingExtra as error:
        session.out.note(str(error))
    else:
        session.out.line(f"Plot: {path}")


@renders(SimReport)
def _reported(out: Output, done: SimReport) -> None:
    names = ", ".join(done.policies)
    out.line(f"{names} on problems of {done.file}, value net of cost, {done.seconds:.1f} s.", style="bold")
    out.line("The oracle knows family, difficulty and every solver's chances, not what a single draft will be.")
    for part, title in _PARTS.items():
        shown = done.parts[part]
        out.line()
        out.line(f"{title}: {shown['subjects']:,}", style="bold")
        heads = ("way", "value", "95%", "of oracle", "95% of it", "solved", "cost")
        rows = [
            (
                f"{way} ({done.chosen[way]})" if way in done.chosen else way,
                written.number(entry["value"], 3),
                written.interval(entry["low"], entry["high"], 3),
                f"{entry['share']:.1%}",
                f"{entry['share_low']:.1%} to {entry['share_high']:.1%}",
                f"{entry['solved']:.1%}",
                written.number(entry["cost"], 3),
            )
            for way, entry in sorted(shown["ways"].items(), key=lambda pair: pair[1]["value"])
        ]
        out.table(heads, rows, right=heads[1:])


_COLOURS = {"learned": "C0", "oracle": "C2"}


def report_picture(path: Path, parts: Mapping[str, Any]) -> None:
    """One panel per part; a bar per way with its 95% interval."""
    figure = plot_figure(figsize=(9.0, 3.8), dpi=150, layout="constrained")
    for axes, (part, shown) in zip(figure.subplots(1, len(parts), sharex=True), sorted(parts.items()), strict=True):
        ways = sorted(shown["ways"].items(), key=lambda pair: pair[1]["value"])
        for place, (way, entry) in enumerate(ways):
            reach = [[entry["value"] - entry["low"]], [entry["high"] - entry["value"]]]
            axes.barh(place, entry["value"], xerr=reach, color=_COLOURS.get(way, "C3"), height=0.7)
        axes.set_yticks(range(len(ways)), [way for way, _ in ways])
        axes.set_xlabel("value net of cost, per problem")
        axes.set_title(f"{part}: {shown['subjects']:,} problems", loc="left")
    figure.savefig(path)
