"""Projects with growing networks, for the browser tests and the screenshots.

write_growth(folder)                  # real: a stored policy is published and evaluated, another one practises
write_small_growth(folder)            # records by hand, as the commands write them
"""

from __future__ import annotations

import json
from pathlib import Path

from headway.kits.grow.kept_evaluations import GrowEpisode, GrowEvaluation, GrowWay, SlotLane, keep_evaluation
from headway.observe.run_log import RunLog
from headway.project import Project

ROOT = Path(__file__).resolve().parents[2]
TASK = "grow"
TOML = f'[tasks.{TASK}]\nkind = "factored"\nworld = "morph"\n'


def write_growth(folder: Path, *, steps: int = 6400, hosts: int = 32) -> str:
    """Practise a little, publish the policy of benchmarks/_morph beside it, and evaluate that; its reference."""
    from safetensors import safe_open

    from headway.kits.practice.run import practise, publish_practised
    from headway.nouns.protocols import Learned
    from tests.cli.terminal import headway

    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    with safe_open(ROOT / "benchmarks" / "_morph" / "policy.safetensors", framework="numpy") as file:
        told = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — not a mapping
    with Project(folder) as project:
        practise(
            project, "morph", family="recurrent", task=TASK, seed=7, steps=steps, envs=16, episodes=2, confirm=2,
            settings={"mode": "simplified"},
        )  # fmt: skip
        metrics = json.loads(told["metrics"])
        learned = Learned(
            family="recurrent", tensors=tensors, knobs=json.loads(told["knobs"]), metrics=metrics,
            baselines={}, trained_on={"steps": int(metrics["steps"])}, extra=json.loads(told["extra"]),
        )  # fmt: skip
        ref = publish_practised(
            project, learned, task=TASK, kind="factored", encoder="", world="morph", seed=int(told["seed"]), fresh={}
        ).ref
    headway("-C", folder, "grow", "evaluate", ref, "--hosts", hosts, "--json").json  # noqa: B018 — fails if it failed
    return ref


def write_small_growth(folder: Path) -> None:
    """Three heads over 12 updates that end with WAIT alone, and an episode of six epochs in which a seed is kept."""
    folder.mkdir()
    (folder / "headway.toml").write_text(TOML, "utf-8")
    log = RunLog(folder / ".headway" / "work" / "morph-7-recurrent")
    log.begin({"task": TASK, "family": "recurrent", "world": "morph", "seed": 7})
    for update in range(12):
        heads = {
            name: {"entropy": 1 - update * slope, "use": 0.5, "gradient_norm": 0.2, "clip_fraction": 0.0625}
            for name, slope in (("op", 0.08), ("slot", 0.04), ("blueprint", 0.01))
        }
        idle = update == 11
        lead = {"WAIT": 0.99 if idle else 0.6, "GERMINATE": 0.01 if idle else 0.4}
        memory = {"hidden": {"0": 0.1, "3": 0.125 + update / 100, "12": 0.2}, "cell": {"0": 0.2, "3": 0.25, "12": 0.5}}
        log.add(
            {
                "steps": update * 64, "explained_variance": 0.5, "heads": heads, "lead": lead, "idle_alarm": idle,
                "memory": memory,
            }
        )  # fmt: skip
    log.end("recurrent@8743")
    keep_evaluation(folder / ".headway", small_evaluation())


def small_evaluation() -> GrowEvaluation:
    """Two ways, and two hosts of which the first grows one seed."""
    stages = ["DORMANT", "GERMINATED", "TRAINING", "BLENDING", "HOLDING", "FOSSILIZED"]
    grown = SlotLane(
        slot="r0c0",
        stages=stages,
        blueprints=["", *["LORA"] * 5],
        alphas=[0.0, 0.0, 0.0, 0.25, 0.5, 0.5],
        contributions=[0.0, 0.0, 0.0, 0.1, -0.05, 0.2],
    )
    empty = SlotLane(
        slot="r0c0", stages=["DORMANT"] * 6, blueprints=[""] * 6, alphas=[0.0] * 6, contributions=[0.0] * 6
    )
    accuracy = [0.1, 0.2, 0.3, 0.4, 0.5, 0.625]
    operations = ["GERMINATE r0c0 LORA LINEAR_ADD FAST HALF", "WAIT", "ADVANCE r0c0", "WAIT", "FOSSILIZE r0c0", "WAIT"]
    ways = [
        GrowWay(
            way="learned", policies=1, net=0.875, low=0.85, high=0.9, test_accuracy=0.925, rent=0.05, parameters=1259.0,
            behind=0.0, behind_low=0.0, behind_high=0.0,
        ),
        GrowWay(
            way="plateau", policies=1, net=0.825, low=0.8, high=0.85, test_accuracy=0.87, rent=0.045, parameters=510.0,
            behind=0.05, behind_low=0.03, behind_high=0.07,
        ),
    ]  # fmt: skip
    return GrowEvaluation(
        task=TASK, policies=["recurrent@8743"], at="2026-11-03T10:00:00Z", hosts=64, seed=3000, source="digits",
        ways=ways,
        episodes=[
            GrowEpisode(slots=[grown], accuracy=accuracy, operations=operations),
            GrowEpisode(slots=[empty], accuracy=accuracy, operations=["WAIT"] * 6),
        ],
    )  # fmt: skip
