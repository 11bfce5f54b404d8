"""Networks that grow while they train: the speed of the world `morph`, and a policy beside the baselines.

    python benchmarks/morph.py --json
    python benchmarks/morph.py --quick --json          # 16 hosts instead of 64
    python benchmarks/morph.py --device cuda --json     # 16,384 hosts, and the evaluation on the GPU

Nothing is trained here: the policy that is evaluated was trained before and is stored (`_morph/policy.safetensors`, the
first of the best, on hosts for tuning, of five trainings that imitated and then practised on a GPU); `_morph/runs.json`
has what all trainings reached. A new one: `headway grow train`, as docs/how-to/morph.md says.

- `steps_per_cpu_s` (or `steps_per_s` on a GPU): whole steps with random valid actions over all blueprints.
- `net_*`: accuracy on test images less rent, on hosts that nobody practised on.
- `net_accuracy_vs_heuristic`: of the policy over the plateau heuristic; `net_accuracy_vs_schedule`: over the fixed one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from _contract import arguments, finish, say

from headway.kits.grow.commands.evaluate import load_policy
from headway.kits.grow.commands.grow import measured
from headway.kits.grow.morph.evaluate import policy_chooser
from headway.kits.grow.morph.ways import compared

POLICY = Path(__file__).resolve().parent / "_morph" / "policy.safetensors"
SEED = 3000  # of the held-out hosts


def key(way: str) -> str:
    return way.replace(" ", "_").replace("-", "_")


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    on_gpu = options.device == "cuda"
    steps = 20 if on_gpu or options.quick else 100
    speed = measured(hosts=16_384 if on_gpu else 32, steps=steps, device=options.device)
    say(f"{speed.per_s:,.0f} steps/s, {speed.per_cpu_s:,.0f} per CPU second with {speed.hosts:,} hosts")
    hosts = 16 if options.quick else 64
    policy = load_policy(POLICY)
    say(f"Evaluating the stored policy {POLICY.name} on {hosts} hosts; nothing is trained.")
    done = compared({"learned": [partial(policy_chooser, policy)]}, seed=SEED, hosts=hosts, device=options.device)
    nets = {row.way: row.net for row in done.ways}
    for way, (mean, low, high) in done.differences.items():
        say(f"{way:15} net {nets[way]:.3f}; the policy is better by {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
    figures = {
        ("steps_per_s" if on_gpu else "steps_per_cpu_s"): speed.per_s if on_gpu else speed.per_cpu_s,
        "hosts": float(hosts),
        **{f"net_{key(way)}": net for way, net in nets.items()},
        **{f"better_than_{key(way)}_low": low for way, (_, low, _) in done.differences.items()},
    }
    ratios = {
        "net_accuracy_vs_heuristic": nets["learned"] / nets["plateau"],
        "net_accuracy_vs_schedule": nets["learned"] / nets["fixed schedule"],
    }
    finish("morph", figures, ratios, packages=("torch",), device=options.device, as_json=options.json)


if __name__ == "__main__":
    main()
