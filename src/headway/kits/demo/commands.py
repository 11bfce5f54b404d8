"""`headway demo route`, `data synth` and `up --demo`: the loop on synthetic traffic, where the truth is known."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import (
    Column,
    OptionHook,
    Output,
    RecordTable,
    Session,
    document_of,
    render,
    renders,
    task_argument,
    verb,
    written,
)
from headway.kits.report import plot_figure
from headway.nouns import Evidence, errors

if TYPE_CHECKING:
    from headway.kits.demo.routing import RoutingPrompt, RoutingWorld
    from headway.kits.demo.synth import SynthesisReport
    from headway.nouns import Estimate, Verdict
    from headway.project import Project
    from headway.settings import Settings


TASK = "route"
SETTINGS = """\
# The demo's task. Its traffic is synthetic: `headway.sample("route")`.
[tasks.route]
kind = "choice"
actions = ["small", "large"]
reward = { reward = 1.0 }
"""
BATCH = 100
FRESH = 5000  # prompts over which the true value of a policy is averaged


@verb("route", "headway demo route --out demo", "headway demo route --n 20000 --seed 3")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="The folder of the project; default: this one."
)
@click.option("--n", type=click.IntRange(500, 1_000_000), default=4000, show_default=True, help="Decisions to play.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Seed of the synthetic traffic.")
def route(session: Session, out: Path | None, n: int, seed: int) -> int | None:
    """Play the whole loop on synthetic routing traffic, from an empty folder.

    Decides, signals, learns, proves and promotes, then compares the result with the true value, which this world knows.
    """
    from headway.kits.demo.planted import own_store
    from headway.kits.demo.routing import two_arms
    from headway.project import Project

    folder = session.empty_folder(out, "route")
    own_store(folder)
    session.new_project(folder, SETTINGS)
    world = two_arms()
    say = session.out
    say.note("Everything here is synthetic: the traffic comes from the sample world 'route', and no model is called.")
    with Project(folder, seed=seed, source="synthetic") as project:
        policy, proof, truth = _loop(say, project, world, n, seed)
    plot, missing = draw(folder / "route.png", proof, truth, policy)
    session.show(
        PlayedDemo(
            folder=str(folder.resolve()),
            decisions=n,
            seed=seed,
            policy=policy,
            promoted=proof.passed,
            truth=truth,
            proof=proof,
            plot=plot,
            why_no_plot=missing,
        )
    )
    if proof.passed:
        session.undo(f"headway rollback {TASK}")
    session.next("headway status")
    return None


def _loop(
    say: Output, project: Project, world: RoutingWorld, n: int, seed: int
) -> tuple[str, Verdict, dict[str, float]]:
    """Play the four steps; returns the policy, its proof, and the true values."""
    started = time.perf_counter()
    for done in play(project, world, n, seed):
        say.progress("play", done, n)
    seconds = time.perf_counter() - started
    say.line(f"1. decide, signal  {n:,} synthetic decisions, logged with their probabilities, in {seconds:.1f} s")
    policy = project.learn(TASK, seed=seed, progress=say.progress)
    say.line(f"2. learn           {policy}, from the decisions that are not held out for proof")
    proof = project.prove(policy, progress=say.progress)
    truth = true_values(project, world, policy, seed)
    say.line("3. prove")
    render(say, proof)
    if proof.passed:
        project.promote(policy, because=proof, at_once=True)
        say.line(f"4. promote         {TASK} now {policy} (was uniform@0)")
    else:
        say.line(f"4. promote         not done: {policy} is not proven better")
    return policy, proof, truth


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedDemo:
    """The loop played once on synthetic traffic, beside the truth."""

    folder: str
    decisions: int
    seed: int
    policy: str
    promoted: bool
    truth: Mapping[str, float]
    proof: Verdict
    plot: str | None
    why_no_plot: str

    @property
    def uplift(self) -> float:
        return self.truth[self.policy] - self.truth["uniform@0"]

    @property
    def estimate(self) -> Estimate:
        assert self.proof.evidence is not None
        return self.proof.evidence.difference

    @property
    def inside(self) -> bool:
        return self.estimate.low <= self.uplift <= self.estimate.high

    def document(self) -> dict[str, Any]:
        return {
            "world": "route",
            "source": "synthetic",
            "folder": self.folder,
            "decisions": self.decisions,
            "seed": self.seed,
            "policy": self.policy,
            "promoted": self.promoted,
            "truth": dict(self.truth),
            "true_uplift": self.uplift,
            "inside_interval": self.inside,
            "plot": self.plot,
            **document_of(self.proof),
        }


_TRUTH = RecordTable[tuple[str, float]](
    Column.text("policy", lambda row: row[0]), Column.value("true value", lambda row: row[1])
)


@renders(PlayedDemo)
def _played(out: Output, demo: PlayedDemo) -> None:
    out.line()
    out.line("The true values, which only a synthetic world knows (mean reward per decision):", style="bold")
    _TRUTH.print(out, demo.truth.items())
    where = "inside" if demo.inside else "outside"
    bounds = written.interval(demo.estimate.low, demo.estimate.high)
    out.line(f"True uplift {demo.uplift:+.3f}: {where} the interval {bounds} estimated from the log.")
    out.line(f"Plot: {demo.plot}" if demo.plot else f"No plot: {demo.why_no_plot}")


def play(project: Project, world: RoutingWorld, n: int, seed: int) -> Iterator[int]:
    """Decide and reward n prompts. Each batch is one transaction of decisions and one of signals."""
    batch: list[tuple[RoutingPrompt, Any]] = []
    for done, prompt in enumerate(world.sample(n, seed), 1):
        made = project.consider(TASK, prompt.text, world.names, state=prompt.state, role=prompt.role)
        batch.append((prompt, made))
        if len(batch) < BATCH and done < n:
            continue
        project.submit([considered for _, considered in batch]).result()
        signals = [
            row
            for prompt, (decision, *_) in batch
            for row in project.checked_signals(decision.id, {"reward": prompt.outcome(decision.action)})
        ]
        project.submit_signals(signals).result()
        batch.clear()
        yield done


def true_values(project: Project, world: RoutingWorld, policy: str, seed: int) -> dict[str, float]:
    """The true value of each policy, including its exploration, as it was proven."""
    values = {policy: true_value(project, world, policy, seed), "uniform@0": world.uniform()}
    values |= {f"always {name}": world.constant(name) for name in world.names}
    values["the best arm for every prompt"] = world.optimum()
    return values


def true_value(project: Project, world: RoutingWorld, ref: str, seed: int) -> float:
    """The expected reward of a policy: its gain over uniform choice on fresh prompts, plus the exact uniform value.

    Uses expected rewards, not outcomes; the remaining error comes from the sample of prompts.
    """
    from headway.nouns import Candidate, Situation

    settings = project.settings.task(TASK)
    ref, digest = project.servings.resolve(settings, ref)
    pipeline = project.servings.pipeline(TASK, project.servings.body(settings), ref, digest)
    prompts = list(world.sample(FRESH, seed + 1_000_003))
    arms = tuple(Candidate(name) for name in world.names)
    situations = [Situation(task=TASK, text=prompt.text, state=prompt.state, role=prompt.role) for prompt in prompts]
    shares = pipeline.distributions(situations, [arms] * len(prompts), list(range(len(prompts)))).tolist()
    gain = sum(
        sum((share - 1 / len(arms)) * mean for share, mean in zip(row, prompt.means, strict=True))
        for row, prompt in zip(shares, prompts, strict=True)
    )
    return float(world.uniform() + gain / len(prompts))


def draw(path: Path, proof: Verdict, truth: Mapping[str, float], policy: str) -> tuple[str | None, str]:
    """The path of the plot, or the reason why there is none."""

    assert proof.evidence is not None
    try:
        demo_picture(path, proof.evidence, truth, policy)
    except errors.MissingExtra as error:
        return None, str(error)
    except OSError as error:
        raise errors.InvalidInput(
            f"{path} cannot be written: {error.strerror}.", code="file_error", hint="Choose another folder with --out."
        ) from error
    return str(path), ""


def demo_picture(path: Path, evidence: Evidence, truth: Mapping[str, float], policy: str) -> None:
    """Left: how the proof grew with the log. Right: what each policy earns, estimated and true."""
    figure = plot_figure(figsize=(11, 4.4), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    _growth(left, evidence, truth[policy] - truth["uniform@0"])
    _values(right, evidence, truth, policy)
    left.set_title("The proof grows with the log", loc="left", weight="bold", fontsize=11)
    right.set_title("What each policy earns", loc="left", weight="bold", fontsize=11)
    figure.suptitle(f"Synthetic routing traffic: {policy} against {evidence.against}", fontsize=12.5)
    figure.savefig(path)


def _growth(axes: Any, evidence: Evidence, uplift: float) -> None:
    rows, mean, low, high = zip(*evidence.curve, strict=True)
    axes.fill_between(rows, low, high, color="C0", alpha=0.14, linewidth=0, label="what the gate leaves possible")
    axes.plot(rows, mean, color="C0", linewidth=2, label="estimated uplift")
    axes.plot(rows, low, color="C0", linewidth=1)
    axes.axhline(0.0, color="C4", linewidth=1)
    axes.axhline(uplift, color="C2", linewidth=1.5, linestyle=(0, (5, 3)), label="true uplift (known in this world)")
    passed = next((row for row, bound in zip(rows, low, strict=True) if bound > evidence.margin), None)
    if passed is not None:
        axes.axvline(passed, color="C3", linewidth=1, linestyle=":")
        axes.annotate(
            f"proven after {passed:,} decisions", (passed, axes.get_ylim()[1]), xytext=(5, -4),
            textcoords="offset points", va="top", color="C4", fontsize=9.5,
        )  # fmt: skip
    axes.set_xlabel("logged decisions that learning never saw")
    axes.set_ylabel("uplift in reward per decision")
    axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    axes.margins(x=0.01)


def _values(axes: Any, evidence: Evidence, truth: Mapping[str, float], policy: str) -> None:
    estimates = {policy: evidence.values["candidate"], evidence.against: evidence.values["current"]}
    estimates |= {name: estimate for name, estimate in evidence.values.items() if name.startswith("always ")}
    names = [name for name in truth if name in estimates]
    best = max(truth, key=lambda name: truth[name])
    names = [best, *sorted(names, key=lambda name: -truth[name])]
    places = list(range(len(names)))[::-1]
    for name, place in zip(names, places, strict=True):
        estimate = estimates.get(name)
        if estimate is not None:
            colour = "C0" if name == policy else "C3"
            axes.plot(
                [estimate.low, estimate.high], [place, place], color=colour, linewidth=3.5, solid_capstyle="round"
            )
            axes.plot(estimate.value, place, "o", color=colour, markersize=8, zorder=3)
        axes.plot(truth[name], place, "D", color="C2", markersize=6.5, markerfacecolor="white", zorder=4)
        axes.annotate(
            f"{truth[name]:.3f}", (truth[name], place), xytext=(0, 9), textcoords="offset points",
            ha="center", fontsize=9, color="C2",
        )  # fmt: skip
    axes.set_yticks(places, names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("reward per decision")
    axes.plot([], [], "o-", color="C3", linewidth=3.5, label="estimate, 95% interval")
    axes.plot([], [], "D", color="C2", markerfacecolor="white", label="truth")
    axes.legend(frameon=False, loc="lower right", fontsize=9.5)
    axes.tick_params(axis="y", length=0)
    axes.locator_params(axis="x", nbins=6)
    axes.margins(x=0.08)


@verb("synth", "headway data synth route --rows 650 --seed 42", "headway data synth route --world escalation-priced")
@task_argument()
@click.option("--rows", type=click.IntRange(1, 1_000_000), default=650, show_default=True, help="Number of decisions.")
@click.option("--seed", type=int, default=42, show_default=True, help="The same seed again adds nothing.")
@click.option("--world", default="escalation", show_default=True, help="escalation, escalation-priced, or projects.")
def synth(session: Session, task: str, rows: int, seed: int, world: str) -> None:
    """Write the log of a router in a synthetic world: decisions with exact propensities.

    The rows have the source `synthetic`, which every screen, export and evidence says. The task's reward must read the
    world's signals: reward = "reward_v1", or "reward_v2" for escalation-priced, and { composite_delta = 1.0 } for
    projects, whose rows are described actions with unknown probabilities.
    """
    from headway.kits.demo.synth import WORLDS, synthesise

    with session.project(create=True) as project:
        report = synthesise(project, task, rows=rows, seed=seed, world=world, progress=session.out.progress)
        session.settle(project, task)
        session.synthetic(project, task)
    session.show(report)
    session.next(f"headway {'rewards analyze' if world in WORLDS else 'learn'} {task}")


@renders("SynthesisReport")
def _stored(out: Output, log: SynthesisReport) -> None:
    already = f"; {log.already:,} were stored before" if log.already else ""
    out.line(f"{log.stored:,} synthetic decisions of the world {log.world!r} stored{already}.")


OWN_FOLDER = "headway-demo"


def _run(session: Session, values: dict[str, Any]) -> None:
    if not values.pop("demo"):
        return
    from headway.kits.demo.planted import holds_project, prepare
    from headway.settings import load as load_settings

    notes = ["DEMO: all traffic is synthetic, from a sample world; no real user is involved."]
    unnamed = session.folder == Path() and not session.declared
    if unnamed or holds_project(session.folder):
        session.folder = session.folder / OWN_FOLDER
        notes.append(f"It has a folder of its own, {session.folder.resolve()}: this one stays as it is.")
    prepare(session.folder)
    port = values["port"]
    if port is None and _taken(load_settings(session.folder)):
        port = 0
        notes.append("The usual port is in use, so the demo has another one.")
    values["port"] = port
    values["more"] = {
        "workers": {"demo": "headway.kits.demo.traffic"},
        "nice": 0,  # the user is waiting for the loop
        "demo": True,
        "notes": notes,
        "commands": lambda url: [
            session.command("headway status"),
            session.command("headway report route"),
            f"curl -s {url}/v1/ledger",
        ],
    }


def _taken(settings: Settings) -> bool:
    """Whether another server listens on the port of the settings."""
    server = settings.server
    if not server.port:
        return False
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError:
            return True
    return False


UP = OptionHook(
    options=(
        click.Option(
            ["--demo"], is_flag=True,
            help="Run with synthetic traffic in a separate folder; everything is marked synthetic.",
        ),
    ),
    run=_run,
)  # fmt: skip
