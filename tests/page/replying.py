"""A project with two reply tasks, for the browser tests and the screenshots: kept replies, three raters, and votes.

The replies are made up, and nobody loads the candidate unless a worker is asked to.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from headway.kits.models.language import Turn
from headway.kits.reply.kept import KeptReply, to_details
from headway.kits.reply.ratings import rate
from headway.nouns.protocols import Learned
from headway.project import Project

__all__ = ["SETTINGS", "write_replies"]

SETTINGS = """\
[tasks.reply]
kind = "reply"
base = "{base}"
system = "You are a helpful assistant. Be brief."
max_tokens = 40

[tasks.code]
kind = "reply"
base = "{base}"
max_tokens = 40
"""
TALKS = [
    ("What is the capital of France?", "The capital of France is Paris."),
    ("Why is the sky blue?", "Sunlight is scattered by the air, and blue light more than red."),
    ("Name three fruits.", "Apples, pears and plums."),
    ("<img src=x onerror=alert(1)>", "<b>This is not bold.</b> <script>document.title = 'broken'</script>"),
]
VOTES = [1, 1, 0, 1, 1, 1, 0.5, 1, 1]


def write_replies(folder: Path, *, base: str = "smollm2", now: float) -> None:
    """Fill an empty folder with two days up to `now`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headway.toml").write_text(SETTINGS.format(base=base), "utf-8")
    random = Random(7)
    at = now - 2 * 86_400.0

    def clock() -> float:
        return at

    with Project(folder, environ={}, clock=clock, seed=7) as project:
        for place in range(24):
            at += 6_000.0
            task = "code" if place % 3 == 2 else "reply"
            prompt, text = TALKS[place % len(TALKS)] if task == "reply" else ("Sort a list.", "sorted(rows)")
            decision = _kept(project, task, prompt, text, episode=f"talk-{place // 6}-{task}", random=random)
            if place >= 20:
                continue  # nobody has rated these
            good = 2 + place // 8
            rate(project, decision, str(good))
            for rater, stars in (("ann", min(5, good + 1)), ("eve", 6 - good)):
                rate(project, decision, str(stars), rater=rater)
        learned = Learned(
            family="language", tensors={"a": np.ones(2, np.float32)}, knobs={}, metrics={}, baselines={}, trained_on={}
        )
        candidate = project.publish(learned, task="reply", kind="reply", encoder="", seed=0, why="test").ref
        for place, value in enumerate(VOTES):
            at += 60.0
            pair = project.decide("reply", f"Question {place}", [candidate, "base@0"])
            project.signal(pair.id, preferred=value if pair.action == candidate else 1 - value)


def _kept(project: Project, task: str, prompt: str, text: str, *, episode: str, random: Random) -> str:
    kept = KeptReply(
        text=text,
        turns=(Turn("user", prompt),),
        tokens=tuple(range(len(text) // 4 + 1)),
        latency_s=round(0.4 + 0.3 * random.random(), 3),
        model="smollm2",
    )
    considered = project.consider(task, prompt, None, episode=episode)
    (stored,) = project.submit([considered._replace(details=to_details(kept))]).result()
    return stored.id
