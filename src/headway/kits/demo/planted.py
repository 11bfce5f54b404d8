"""The project that `headway up --demo` runs in, and what is planted in it. Everything in it is synthetic.

Two tasks. `route`: small or large model; nobody knows at first, the loop learns, proves and promotes by itself; then a
candidate that learned from flipped rewards is planted, and the gate has to refuse it. `draft`: the house's model, by
rule, or a vendor's; the vendor's is better until, one day, it is not: by then a candidate acts as a canary on a share
of the traffic, and the loop has to end it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headway.nouns.errors import Conflict
from headway.nouns.protocols import Learned
from headway.project import add_bundle, add_candidate
from headway.settings import load

if TYPE_CHECKING:
    from headway.project import Project

__all__ = ["MARK", "SETTINGS", "own_store", "plant", "prepare"]

MARK = "# Made by `headway up --demo`."
SETTINGS = f"""\
{MARK} Everything in this project is synthetic: traffic from a sample world.

[store]
synthetic = true                                  # every decision here is marked as made up, whoever asks for it

[watch]
interval_s = 1

[tasks.route]                                     # which model answers?
actions = ["small", "large"]
reward = {{ solved = 1.0, cost_usd = -20.0 }}
retrain_after = 200
promote = "auto"                                  # a verdict that passes is acted on

[tasks.draft]                                     # whose model writes the first draft?
actions = ["house", "vendor"]
reward = {{ accepted = 1.0 }}
rules = [{{ when = "text_length >= 0", use = "house" }}]
explore = {{ kind = "epsilon", value = 0.3 }}
retrain_after = 250
canary = 0.3                                      # a promising candidate decides on 30% of the traffic …
promote = "ask"                                   # … and only you promote it
"""
PLANTED = "planted by the demo: it learned from flipped rewards, so that the gate has something to refuse"


def prepare(folder: Path) -> None:
    """A folder for the demo: an empty one, or one that a demo has used before. Never a project with real decisions."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "headway.toml"
    if settings.exists():
        text = settings.read_text("utf-8", "replace")
        if not text.startswith(MARK):
            raise _not_here(f"{settings} is not the demo's")
        own_store(folder)
        return
    if (folder / ".headway" / "headway.db").exists():
        raise _not_here(f"there is a project in {str(folder.resolve())!r} already")
    own_store(folder)
    settings.write_text(SETTINGS, "utf-8")


def own_store(folder: Path) -> None:
    """What is made up never goes into a store that others share, whatever HEADWAY_STORE_URL says."""
    if not load(folder).store.embedded:
        raise Conflict(
            "The demo does not mix with a shared store, and HEADWAY_STORE_URL names one.",
            code="not_a_demo",
            hint="Run it without the variable: env -u HEADWAY_STORE_URL headway …",
        )


def _not_here(why: str) -> Conflict:
    return Conflict(
        f"The demo does not mix with your project: {why}.",
        code="not_a_demo",
        hint="Give it a folder of its own: headway -C demo up --demo",
    )


def plant(project: Project, task: str = "route") -> str:
    """Add a candidate that learned the opposite of what is true; returns its reference."""
    from headway.kits.demo.routing import two_arms
    from headway.project import Project as Scratch

    with (
        tempfile.TemporaryDirectory(prefix="headway-demo-") as scratch,
        Scratch(Path(scratch), environ={}, seed=11, source="synthetic") as other,
    ):
        asks = list(two_arms().sample(400, 99))
        considered = [other.consider(task, ask.text, ["small", "large"], state=dict(ask.state)) for ask in asks]
        rows = []
        for pick, ask in zip(other.submit(considered).result(), asks, strict=True):
            rows += other.checked_signals(pick.id, {"reward": -ask.outcome(pick.action)})
        other.submit_signals(rows).result()
        header, tensors = other.registry.load(other.registry.find(other.learn(task)), task=task)
        tensors = {name: each.copy() for name, each in tensors.items()}
    learned = Learned(
        family=header.family,
        tensors=tensors,
        knobs=header.knobs,
        metrics=header.metrics,
        baselines=header.baselines,
        trained_on={**header.trained_on, "planted": PLANTED},
        extra=header.extra,
    )
    published = add_bundle(
        project,
        learned,
        task=task,
        kind=header.kind,
        encoder=header.encoder,
        seed=header.seed,
        parts=header.trained_on["parts"],
        split=header.split,
    )
    upto = project.query.last_settled(task)
    add_candidate(project, published, why=PLANTED, detail={"upto": upto}, who="demo")
    return published.ref
