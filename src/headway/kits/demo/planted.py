"""The project of `headway up --demo`, and the harmful candidate planted in it. Everything in it is synthetic.

Two tasks. `route` chooses a small or a large model; the loop learns, proves and promotes by itself; then a candidate
that learned from flipped rewards is planted, and the gate must refuse it; it decides as a canary all the same, and the
loop must end that. `draft` chooses the in-house model (the rule)
or a vendor's, which is better. The rule hardly ever tries it, so the loop opens an experiment, and promotes the vendor
on its result. Then the vendor's model degrades: the loop must raise an alarm, explore, and return to the rule.
"""

from __future__ import annotations

import tempfile
from importlib.resources import files
from pathlib import Path

from headway.files import read_regular
from headway.nouns import Learned, errors
from headway.project import Project
from headway.settings import load

MARK = "# Made by `headway up --demo`."  # how planted.toml begins
PLANTED = "planted by the demo: it learned from flipped rewards, so that the gate has something to refuse"


def prepare(folder: Path) -> None:
    """Prepare a folder for the demo: an empty one, or an earlier demo's. Never a project with real decisions."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "headway.toml"
    if settings.exists():
        text = read_regular(settings).decode("utf-8", "replace")
        if not text.startswith(MARK):
            raise _not_here(f"{settings} was not written by the demo")
        own_store(folder)
        return
    if (folder / ".headway" / "headway.db").exists():
        raise _not_here(f"{str(folder.resolve())!r} already contains a project")
    own_store(folder)
    settings.write_text(files(__package__).joinpath("planted.toml").read_text("utf-8"), "utf-8")


def holds_project(folder: Path) -> bool:
    """Whether a folder holds a project that is not the demo's."""
    settings = folder / "headway.toml"
    if settings.exists():
        return not read_regular(settings).decode("utf-8", "replace").startswith(MARK)
    return (folder / ".headway" / "headway.db").exists()


def own_store(folder: Path) -> None:
    """Refuse a shared store: synthetic data never goes there, even if HEADWAY_STORE_URL is set."""
    if not load(folder).store.embedded:
        raise errors.Conflict(
            "The demo cannot use a shared store, but HEADWAY_STORE_URL names one.",
            code="not_a_demo",
            hint="Unset the variable: env -u HEADWAY_STORE_URL headway …",
        )


def _not_here(why: str) -> errors.Conflict:
    return errors.Conflict(
        f"The demo cannot use this folder: {why}.",
        code="not_a_demo",
        hint="Use a separate folder: headway -C demo up --demo",
    )


def plant(project: Project, task: str = "route") -> str:
    """Add a candidate that learned from flipped rewards; returns its reference."""
    from headway.kits.demo.routing import two_arms
    from headway.project import Project as Scratch

    with (
        tempfile.TemporaryDirectory(prefix="headway-demo-") as scratch,
        Scratch(Path(scratch), environ={}, seed=11, source="synthetic") as other,
    ):
        prompts = list(two_arms().sample(400, 99))
        considered = [
            other.consider(task, prompt.text, ["small", "large"], state=dict(prompt.state)) for prompt in prompts
        ]
        rows = []
        for pick, prompt in zip(other.submit(considered).result(), prompts, strict=True):
            rows += other.checked_signals(pick.id, {"reward": -prompt.outcome(pick.action)})
        other.submit_signals(rows).result()
        header, tensors = other.registry.load(other.registry.find(other.learn(task)), task=task)
        tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    learned = Learned(
        family=header.family,
        tensors=tensors,
        knobs=header.knobs,
        metrics=header.metrics,
        baselines=header.baselines,
        trained_on={**header.trained_on, "planted": PLANTED},
        extra=header.extra,
    )
    return project.publish(
        learned,
        why=PLANTED,
        detail={"upto": project.query.last_settled(task)},
        who="demo",
        task=task,
        kind=header.kind,
        encoder=header.encoder,
        seed=header.seed,
        parts=header.trained_on["parts"],
        split=header.split,
    ).ref
