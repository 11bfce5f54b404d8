"""Is the proof fooled by ordinary situations: late, missing, rescored, rare, poisoned outcomes, and changed settings?

    python benchmarks/situations.py --json                          200 replications each
    python benchmarks/situations.py --quick                         20 replications each
    python benchmarks/situations.py --only late_failures,trigger    some of them
    python benchmarks/situations.py --only second                   a part of the page: first, second or unlisted
    python benchmarks/situations.py --resume FILE                   keeps every replication in FILE and continues it
    python benchmarks/situations.py --resume FILE --kept --write    plays nothing, and puts the tables of the parts in
                                                                    FILE, all seeds, into docs/explanation/proof.md

Every replication is a project of its own, used through `headway.Project` with a clock that the benchmark moves: a
candidate is learned, and its proof is looked at while decisions come in. A promotion is false if the candidate, as the
whole pipeline that would be served, is truly not better; worlds say what every action is worth. The last column has
the same world with a better candidate and the recommended cure: a gate that never passes would be right as well.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import IO

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _contract import arguments, finish, say
from _situations.catalogue import PARTS, SITUATIONS, Situation
from _situations.summary import Shares, figures, shares, table
from _situations.trial import Ending

from headway.nouns.errors import HeadwayError

__all__ = ["measure", "parser", "run"]

Key = tuple[str, int, int]  # situation, 0 for the trial or the number of the control, replication
FULL, QUICK = 200, 20
PAGE = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "proof.md"
BEGIN, END = "<!-- situations, {}: begin -->", "<!-- situations, {}: end -->"  # of a part


def play(key: Key, seed: int) -> Ending:
    """One replication. Seeds of different base seeds never meet."""
    name, control, replication = key
    situation = next(situation for situation in SITUATIONS if situation.name == name)
    trial = situation.controls[control - 1].trial if control else situation.trial
    try:
        return trial(seed * 100_000 + replication)
    except HeadwayError as error:  # a setting or a step that is refused
        return Ending(state="error", reason=error.code, said=error.message)


def keys(situations: Sequence[Situation], replications: int, controls: int | None = None) -> Iterator[Key]:
    """What to play. Controls are played a quarter as often, unless their number is given."""
    for situation in situations:
        for control in range(len(situation.controls) + 1):
            fewer = max(min(5, replications), replications // 4) if controls is None else controls
            count = fewer if control else replications
            yield from ((situation.name, control, replication) for replication in range(count))


def measure(
    situations: Sequence[Situation],
    *,
    replications: int,
    seed: int,
    jobs: int = 2,
    resume: Path | None = None,
    controls: int | None = None,
) -> dict[str, list[Shares]]:
    """The shares of every situation: of its trial, then of its controls."""
    wanted = list(keys(situations, replications, controls))
    endings = _kept(resume, seed)
    missing = [key for key in wanted if key not in endings]
    missing.sort(key=lambda key: key[2])  # all situations advance alike
    started = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        playing = {pool.submit(play, key, seed): key for key in missing}
        for done, future in enumerate(as_completed(playing), start=1):
            key = playing[future]
            endings[key] = ending = future.result()
            if resume is not None:
                with _opened(resume, "at") as file:
                    file.write(json.dumps({"key": key, "seed": seed, "ending": asdict(ending)}) + "\n")
            if done % 50 == 0 or done == len(missing):
                passed = time.monotonic() - started
                print(f"{done:,} of {len(missing):,} in {passed:,.0f} s", file=sys.stderr, flush=True)
    return _results(situations, [(key, endings[key]) for key in wanted])


def _results(situations: Sequence[Situation], endings: Iterable[tuple[Key, Ending]]) -> dict[str, list[Shares]]:
    played: dict[tuple[str, int], list[Ending]] = {}
    for key, ending in endings:
        played.setdefault(key[:2], []).append(ending)
    return {
        situation.name: [
            shares(played[situation.name, control])
            for control in range(len(situation.controls) + 1)
            if (situation.name, control) in played
        ]
        for situation in situations
        if (situation.name, 0) in played
    }


def _kept(resume: Path | None, seed: int) -> dict[Key, Ending]:
    """Replications that an earlier run of the same seed has kept."""
    return {key: ending for (of, key), ending in _all_kept(resume).items() if of == seed}


def _all_kept(resume: Path | None) -> dict[tuple[int, Key], Ending]:
    """Every replication of a file, by seed and key."""
    if resume is None or not resume.exists():
        return {}
    with _opened(resume, "rt") as file:
        rows = [json.loads(line) for line in file]
    return {(row["seed"], tuple(row["key"])): Ending(**row["ending"]) for row in rows}


def _opened(resume: Path, mode: str) -> IO[str]:
    """The file of kept replications, compressed if its name ends in .gz."""
    return gzip.open(resume, mode, encoding="utf-8") if resume.suffix == ".gz" else resume.open(mode, encoding="utf-8")  # type: ignore[return-value]


def parser(description: str) -> argparse.ArgumentParser:
    """The flags of a benchmark, and those of the situations."""
    options = arguments(description)
    options.add_argument("--only", default="", metavar="NAMES", help="some situations, separated by commas")
    options.add_argument("--replications", type=int, help=f"of every situation (default {FULL}; fewer with --quick)")
    options.add_argument("--controls", type=int, metavar="N", help="of every control (default: a quarter)")
    options.add_argument("--seed", type=int, default=1, help="base seed of the situations (default 1)")
    options.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options.add_argument("--resume", type=Path, metavar="FILE", help="keep replications in FILE and continue it")
    options.add_argument("--kept", action="store_true", help="play nothing: the replications that FILE of --resume has")
    options.add_argument("--write", action="store_true", help="put the tables into docs/explanation/proof.md")
    return options


def chosen(names: str) -> list[Situation]:
    """The situations of these names, or of these parts; all without any; an unknown name is an error."""
    asked = [name for name in names.split(",") if name]
    wanted = [one for name in asked for one in ([each.name for each in PARTS[name]] if name in PARTS else [name])]
    known = {situation.name for situation in SITUATIONS}
    if unknown := set(wanted) - known:
        raise SystemExit(f"No such situation: {', '.join(sorted(unknown))}. Known: {', '.join(sorted(known))}")
    return [situation for situation in SITUATIONS if not wanted or situation.name in wanted]


def run(options: argparse.Namespace, quick: int = QUICK) -> dict[str, float]:
    """Play what the options ask for, print the table, and give its numbers."""
    seeds = [options.seed]
    if options.kept:
        kept = _all_kept(options.resume)
        seeds = sorted({seed for seed, _ in kept})
        results = _results(chosen(options.only), [(key, ending) for (_, key), ending in kept.items()])
    else:
        results = measure(
            chosen(options.only),
            replications=int(options.replications or (quick if options.quick else FULL)),
            seed=options.seed,
            jobs=options.jobs,
            resume=options.resume,
            controls=options.controls,
        )
    say(table(results))
    if options.write:
        for name, part in PARTS.items():
            own = {situation.name: results[situation.name] for situation in part if situation.name in results}
            if own:
                write(name, table(own), seeds, PAGE)
    return figures(results)


def write(part: str, rows: str, seeds: Sequence[int], page: Path) -> None:
    """Replace the table between the two marks of a part of the page."""
    start, stop = BEGIN.format(part), END.format(part)
    head, begin, rest = page.read_text("utf-8").partition(start)
    _, end, tail = rest.partition(stop)
    if not begin or not end:
        raise SystemExit(f"{page} lacks its marks {start} and {stop}")
    command = f"python benchmarks/situations.py --only {part} --seed {seeds[0]} --resume FILE"
    more = "".join(f" and {seed}" for seed in seeds[1:])
    page.write_text(f"{head}{start}\n\n{rows}\n\nMeasured with `{command}`{more}.\n\n{stop}{tail}", "utf-8")


def main() -> None:
    options = parser((__doc__ or "").partition("\n")[0]).parse_args()
    finish("situations", run(options), {}, as_json=options.json)


if __name__ == "__main__":
    main()
