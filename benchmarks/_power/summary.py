"""From the numbers of single runs to figures, ratios and the tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import mean, median

from _power.ab_tests import fixed_size, sequential_sizes
from _power.cases import CASES, Promotion

__all__ = ["at_most", "figures", "ratios", "reached", "table"]

Runs = Sequence[Mapping[str, float]]
Results = Mapping[str, Runs]
_PER = 100_000


def reached(runs: Runs, name: str, share: float) -> float | None:
    """The number that this share of all runs does not exceed; None if fewer runs have one."""
    known = sorted(run[name] for run in runs if name in run)
    place = max(1, -(-len(runs) * share // 1))  # rounded up
    return known[int(place) - 1] if len(known) >= place else None


def figures(results: Results) -> dict[str, float]:
    """Flat numbers for the benchmark's JSON."""
    flat: dict[str, float] = {}
    for name, runs in results.items():
        flat[f"{name}_runs"] = float(len(runs))
        flat |= {f"{name}_{key}": value for key, value in _figures(name, runs).items()}
        if "check_us" in runs[0]:
            flat[f"{name}_check_us"] = median(run["check_us"] for run in runs)
            flat[f"{name}_client_us"] = median(run["client_us"] for run in runs)
            flat[f"{name}_failed_cycles"] = sum(run["failures"] for run in runs)
    return {key: value for key, value in flat.items() if value is not None}


def _figures(name: str, runs: Runs) -> dict[str, float | None]:
    kind = name.partition("_")[0]
    started = [run for run in runs if "unstarted" not in run]
    shared: dict[str, float | None] = {"started": len(started) / len(runs)}
    if kind == "promote":
        return _promotion(CASES[name].play, runs)
    if kind in ("null", "gate"):
        return {
            "false_promotions": _share(runs, "promotions"),
            "false_promotions_at_most": at_most(_times(runs, "promotions"), len(runs)),
            "tests": mean(run["tests"] for run in runs),
            "with_verdict": sum("verdict" in run for run in runs) / len(runs),
            "verdict_median": reached(runs, "verdict", 0.5),
        }
    if not started:
        return shared
    if kind == "drift":
        shared |= {
            "alarm_median": reached(started, "alarm", 0.5),
            "alarm_80": reached(started, "alarm", 0.8),
            "rollbacks": _share(started, "rollbacks"),
            "early_alarms": _share(started, "early_alarms"),
        }
        return shared | _earned(started)
    if kind == "harm":
        return shared | {
            "rollback_median": reached(started, "rollback", 0.5),
            "rollback_80": reached(started, "rollback", 0.8),
            "early_rollbacks": _share(started, "early_rollbacks"),
        }
    counted = [what for what in ("alarms", "rollbacks") if any(what in run for run in started)]
    rates: dict[str, float | None] = {}
    for what in counted:
        rates[f"{what}_per_100k"] = _rate(started, what)
        rates[f"{what}_at_most"] = at_most(_times(started, what), len(started))
    return shared | rates


def _promotion(case: object, runs: Runs) -> dict[str, float | None]:
    assert isinstance(case, Promotion)
    tests = sequential_sizes(case.small, case.large, 4 * case.within)
    return {
        "in_time": sum(run.get("promoted", float("inf")) <= case.within for run in runs) / len(runs),
        "wrong": sum(run.get("right") == 0.0 for run in runs) / len(runs),
        "median": reached(runs, "promoted", 0.5),
        "80": reached(runs, "promoted", 0.8),
        "sequential_median": tests[len(tests) // 2],
        "sequential_80": tests[len(tests) * 4 // 5],
        "fixed": fixed_size(case.small, case.large),
        "tests": mean(run["tests"] for run in runs),
        "experiments": mean(run["experiments"] for run in runs),
        **_earned(runs),
    }


def _earned(runs: Runs) -> dict[str, float | None]:
    names = sorted({name for run in runs for name in run if name.startswith("earned")})
    return {name: mean(run[name] for run in runs if name in run) for name in names}


def _times(runs: Runs, name: str) -> int:
    """In how many runs there was at least one."""
    return sum(run.get(name, 0.0) > 0 for run in runs)


def _share(runs: Runs, name: str) -> float:
    return _times(runs, name) / len(runs)


def at_most(times: int, runs: int) -> float:
    """The upper end of the exact two-sided 95% interval (Clopper and Pearson) for a share."""
    if times >= runs:
        return 1.0
    low, high = times / runs, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        seen = sum(comb(runs, k) * middle**k * (1.0 - middle) ** (runs - k) for k in range(times + 1))
        low, high = (middle, high) if seen > 0.025 else (low, middle)
    return high


def _rate(runs: Runs, name: str) -> float:
    """Runs with at least one, scaled to 100,000 decisions."""
    return _share(runs, name) * _PER / mean(run["decisions"] for run in runs)


def ratios(results: Results) -> dict[str, float]:
    """Decisions of the sequential test over the loop's, where 80% of the runs of both decided; rewards over peers'."""
    flat = {key: value for name, runs in results.items() for key, value in _ratios(name, runs).items()}
    return {key: value for key, value in flat.items() if value is not None}


def _ratios(name: str, runs: Runs) -> dict[str, float | None]:
    shown = _figures(name, runs)
    ours, theirs = shown.get("80"), shown.get("sequential_80")
    found: dict[str, float | None] = {}
    if ours and theirs:
        found[f"{name}_vs_sequential"] = theirs / ours
    earned = shown.get("earned")
    if earned:
        for key, value in shown.items():
            if key.startswith("earned_") and key != "earned_in_experiment" and value:
                found[f"{name}_reward_vs_{key.removeprefix('earned_')}"] = earned / value
    return found


# -- for people


def table(results: Results) -> str:
    """Markdown tables: promotion, equal arms, changes and rollback."""
    parts = []
    promotions = [name for name in results if name.startswith("promote")]
    if promotions:
        parts.append(_table(_PROMOTION, [_promotion_row(name, results[name]) for name in promotions]))
        rewards = [name for name in promotions if isinstance(CASES[name].play, Promotion) and CASES[name].play.routers]
        if rewards:
            parts.append(_table(_REWARD, [_reward_row(name, results[name]) for name in rewards]))
    others = [name for name in results if not name.startswith("promote")]
    if others:
        parts.append(_table(("case", "runs", "result"), [_other_row(name, results[name]) for name in others]))
    return "\n\n".join(parts)


_PROMOTION = ("decisions to promotion", "runs", "median", "80% of runs", "50/50, sequential: 80%", "50/50, fixed size",
              "ratio to sequential", "promoted by", "wrong")  # fmt: skip
_REWARD = ("mean reward while learning", "Headway", "during its experiment", "A/B test", "Vowpal Wabbit",
           "Vowpal Wabbit, SquareCB", "LiteLLM's router", "best arm")  # fmt: skip


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)).replace(" --- ", "---")


def _promotion_row(name: str, runs: Runs) -> list[str]:
    shown, case = _figures(name, runs), CASES[name].play
    assert isinstance(case, Promotion)
    ours, theirs = shown["80"], shown["sequential_80"]
    return [
        CASES[name].about,
        f"{len(runs)}",
        _count(shown["median"]),
        _count(ours),
        _count(theirs),
        _count(shown["fixed"]),
        f"{ours / theirs:.2f}" if ours and theirs else "–",
        f"{shown['in_time']:.2f} by {case.within:,}",
        f"{shown['wrong']:.2f}",
    ]


def _reward_row(name: str, runs: Runs) -> list[str]:
    shown, case = _figures(name, runs), CASES[name].play
    assert isinstance(case, Promotion)
    keys = ("earned", "earned_in_experiment", "earned_ab", "earned_vw", "earned_vw_squarecb", "earned_litellm")
    about = f"{CASES[name].about}, {case.within:,} decisions"
    return [about, *(_mean(shown.get(key)) for key in keys), f"{case.large:.3f}"]


def _other_row(name: str, runs: Runs) -> list[str]:
    shown = _figures(name, runs)
    what = "; ".join(_SAID[key].format(value) for key, value in shown.items() if key in _SAID and value is not None)
    return [CASES[name].about, f"{len(runs)}", what or "nothing found"]


_SAID = {
    "false_promotions": "{:.3f} promoted something",
    "false_promotions_at_most": "at most {:.3f} (exact 95% interval)",
    "with_verdict": "{:.2f} reached a verdict",
    "verdict_median": "the median one after {:,.0f} decisions",
    "alarm_median": "alarm after {:,.0f} decisions at the median",
    "alarm_80": "in 80% of the runs within {:,.0f}",
    "rollbacks": "{:.2f} rolled back",
    "early_alarms": "{:.2f} raised an alarm before the change",
    "earned": "mean reward afterwards {:.3f}",
    "earned_vw": "Vowpal Wabbit's {:.3f}",
    "earned_vw_squarecb": "with SquareCB {:.3f}",
    "earned_litellm": "LiteLLM's router's {:.3f}",
    "rollback_median": "rolled back after {:,.0f} decisions at the median",
    "rollback_80": "in 80% of the runs within {:,.0f}",
    "early_rollbacks": "{:.2f} rolled back before the harm",
    "alarms_per_100k": "{:.3f} runs with an alarm per 100,000 decisions",
    "alarms_at_most": "at most {:.3f} (exact 95% interval)",
    "rollbacks_per_100k": "{:.3f} with a rollback",
    "rollbacks_at_most": "at most {:.3f} (exact 95% interval)",
}


def _count(value: float | None) -> str:
    return "not reached" if value is None else f"{value:,.0f}"


def _mean(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
