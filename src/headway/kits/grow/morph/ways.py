"""Compares ways of growing on the same held-out hosts: means, 95% intervals, and differences paired by host.

    compared({"learned": [chooser, …]}, seed=2000, hosts=64)

All ways play the same hosts with the same minibatches. A way may have several policies (seeds of training); its mean is
over policies and hosts, and the bootstrap draws both anew, so an interval also covers another training.

A comparison as Markdown, as one HTML file, and as pictures.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.kits.grow.kept_evaluations import GrowWay
from headway.kits.grow.morph.baselines import BASELINES, Chooser
from headway.kits.grow.morph.blueprints import NAMES, OPS
from headway.kits.grow.morph.evaluate import EpisodeTable, played
from headway.nouns import Progress, plural

AGAINST = ("plateau", "fixed schedule", "best schedule", "static-all", "random-valid", "wait-only")
_DRAWS = 4000
_POINTS = ("net", "test_accuracy", "rent", "costs", "parameters", "fossilised", "waits", "stopped")
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2933}
table{border-collapse:collapse;margin:1rem 0}
th,td{padding:.25rem .7rem;border-bottom:1px solid #d8dde2;text-align:right}
th:first-child,td:first-child{text-align:left}img{max-width:100%}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayResult:
    """One way of growing: means over policies and hosts, and the 95% interval of `net`."""

    way: str
    policies: int
    net: float
    low: float
    high: float
    test_accuracy: float
    rent: float
    parameters: float
    fossilised: float
    waits: float
    stopped: float
    ops: tuple[float, ...]  # per episode
    blueprints: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WayComparison:
    """Ways on the same hosts; `differences`: of the first way from every other, (mean, low, high)."""

    seed: int
    hosts: int
    source: str
    ways: tuple[WayResult, ...]
    differences: Mapping[str, tuple[float, float, float]]

    @property
    def ratio(self) -> float:
        """Net accuracy of the first way over that of the plateau heuristic."""
        nets = {row.way: row.net for row in self.ways}
        return nets[self.ways[0].way] / nets["plateau"]

    def shown(self) -> list[GrowWay]:
        """The ways as the page shows them."""
        told = []
        for row in self.ways:
            behind, low, high = self.differences.get(row.way, (0.0, 0.0, 0.0))
            told.append(
                GrowWay(
                    way=row.way, policies=row.policies, net=row.net, low=row.low, high=row.high,
                    test_accuracy=row.test_accuracy, rent=row.rent, parameters=row.parameters,
                    behind=behind, behind_low=low, behind_high=high,
                )
            )  # fmt: skip
        return told


def compared(
    ways: Mapping[str, Sequence[Callable[[], Chooser]]],
    *,
    seed: int,
    hosts: int,
    baselines: Iterable[str] = AGAINST,
    device: str = "cpu",
    source: str = "digits",
    progress: Progress | None = None,
    **settings: Any,
) -> WayComparison:
    """Play every way and baseline. A chooser with a memory serves one play, so `ways` has functions that make one."""
    plans: dict[str, Sequence[Callable[[], Chooser]]] = {
        **ways,
        **{name: [partial(BASELINES[name], seed)] for name in baselines},
    }
    tables: dict[str, list[EpisodeTable]] = {}
    total, done = sum(len(makers) for makers in plans.values()), 0
    for way, makers in plans.items():
        for make in makers:
            table = played(make(), seed=seed, count=hosts, device=device, source=source, **settings)
            tables.setdefault(way, []).append(table)
            done += 1
            if progress is not None:
                progress("plays", done, total)
    return summarised(tables, seed=seed, source=source)


def summarised(tables: Mapping[str, Sequence[EpisodeTable]], *, seed: int, source: str = "digits") -> WayComparison:
    """Means, intervals and paired differences of what was played."""
    rows, nets = [], {}
    for way, plays in tables.items():
        nets[way] = np.stack([play.net for play in plays])  # [policy, host]
        low, high = _interval(nets[way], seed)
        means = {name: float(np.mean([play.columns[name].mean() for play in plays])) for name in _POINTS}
        hosts = nets[way].shape[1]
        rows.append(
            WayResult(
                way=way,
                policies=len(plays),
                low=low,
                high=high,
                ops=tuple(np.mean([play.ops for play in plays], axis=0) / hosts),
                blueprints=tuple(np.mean([play.blueprints for play in plays], axis=0) / hosts),
                **{name: value for name, value in means.items() if name != "costs"},
            )
        )
    first = rows[0].way
    differences = {}
    for way, values in nets.items():
        if way != first:
            apart = nets[first] - values.mean(axis=0)  # paired by host
            differences[way] = (float(apart.mean()), *_interval(apart, seed))
    return WayComparison(seed=seed, hosts=hosts, source=source, ways=tuple(rows), differences=differences)


def _interval(values: NDArray[np.float64], seed: int) -> tuple[float, float]:
    """95% interval of the mean of [policy, host] by a bootstrap of policies and hosts."""
    rng = np.random.default_rng([seed, 0x601])
    policies, hosts = values.shape
    means = np.empty(_DRAWS)
    for draw in range(_DRAWS):
        rows, columns = rng.integers(policies, size=policies), rng.integers(hosts, size=hosts)
        means[draw] = values[rows][:, columns].mean()
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def tables(comparison: WayComparison) -> list[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """(title, header, rows) of every table of the report."""
    ways = [
        (
            row.way, f"{row.net:.3f}", f"{row.low:.3f} … {row.high:.3f}", f"{row.test_accuracy:.3f}", f"{row.rent:.3f}",
            f"{row.parameters:,.0f}", f"{row.fossilised:.2f}", f"{row.stopped:.3f}",
        )
        for row in comparison.ways
    ]  # fmt: skip
    first = comparison.ways[0]
    apart = [
        (way, f"{mean:+.3f}", f"{low:+.3f} … {high:+.3f}", "yes" if low > 0 else "no")
        for way, (mean, low, high) in comparison.differences.items()
    ]
    ops = [(row.way, *(f"{count:.1f}" for count in row.ops)) for row in comparison.ways]
    used = [(name, f"{count:.2f}") for name, count in zip(NAMES, first.blueprints, strict=True) if count > 0]
    header = ("way", "net", "95% interval", "test accuracy", "rent", "parameters", "fossils", "stopped")
    return [
        ("Accuracy net of rent", header, ways),
        (f"{first.way} less the others, paired by host", ("way", "difference", "95% interval", "above 0"), apart),
        ("Operations per episode", ("way", *OPS), ops),
        (f"Blueprints that {first.way} germinates, per episode", ("blueprint", "times"), used),
    ]


def markdown(comparison: WayComparison, pictures: tuple[str, ...] = ()) -> str:
    """The report as Markdown."""
    lines = ["# Growing networks: held-out hosts", "", _intro(comparison), ""]
    for title, header, rows in tables(comparison):
        lines += [f"## {title}", "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines.append("")
    lines += [f"![{Path(name).stem}]({name})" for name in pictures]
    return "\n".join(lines) + "\n"


def page(comparison: WayComparison, pictures: tuple[Path, ...] = ()) -> str:
    """The report as one HTML file; pictures are part of it."""
    parts = [f"<h1>Growing networks: held-out hosts</h1><p>{html.escape(_intro(comparison))}</p>"]
    for path in pictures:
        data = base64.b64encode(path.read_bytes()).decode()
        parts.append(f'<img alt="{html.escape(path.stem)}" src="data:image/png;base64,{data}">')
    for title, header, rows in tables(comparison):
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        parts.append(f"<h2>{html.escape(title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Growing networks</title>'
        f"<style>{_STYLE}</style>{''.join(parts)}</html>\n"
    )


def _intro(comparison: WayComparison) -> str:
    first = comparison.ways[0]
    return (
        f"{comparison.hosts} hosts of {comparison.source} that nobody practised on (seed {comparison.seed}), "
        f"{plural(first.policies, 'trained policy', 'trained policies')}, always the likeliest action. "
        "Net is test accuracy less rent, the cost of actions and penalties."
    )


def write_report(folder: Path, comparison: WayComparison, pictures: tuple[Path, ...] = ()) -> tuple[Path, Path]:
    """report.md and report.html in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text, web = folder / "report.md", folder / "report.html"
    text.write_text(markdown(comparison, tuple(path.name for path in pictures)), "utf-8")
    web.write_text(page(comparison, pictures), "utf-8")
    return text, web
