"""Run packs: a comparison as a folder that others can check and recompute.

    pack/manifest.json     who compared what, when, with which versions, seeds, data and bundles, on which machine
    pack/results.json      the numbers
    pack/about.json        inputs of the offline numbers, other than the rows
    pack/rows.safetensors  the logged rows, as the estimators read them
    pack/live.jsonl        one line per live run, if there were any
    pack/played.jsonl      one line per way and subject, where ways of choosing were played in a world
    pack/SHA256SUMS        the hash of each file, in the format of `sha256sum -c`

`verify` refuses a pack if any byte differs, then recomputes every number that follows from the rows and lines: the
statistic, bounds, estimates, guards, raters and checks of the rows, and the verdict. Checks that read the project's
store are carried as its statements (`stated`) and named in the result.

A pack of schema 1 was made by an earlier rule: its bytes are checked, its numbers are not recomputed.
Not covered: whether the rows are true. A pack proves that its numbers follow from its rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from headway.files import read_regular, whole_folder
from headway.kits.heldout import bootstrap
from headway.kits.offline.stated import Stated
from headway.nouns import Evidence, Verdict, errors
from headway.promote import gate

SCHEMA = "headway.run-pack/3"
EARLIER = ("headway.run-pack/1", "headway.run-pack/2")
SUMS = "SHA256SUMS"
_FILES = ("manifest.json", "results.json", "about.json", "rows.safetensors", "live.jsonl", "played.jsonl")
_PACKAGES = ("headway", "numpy", "safetensors", "msgspec", "onnxruntime", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """The inputs of the offline evidence of a pack."""

    about: Mapping[str, Any]
    guards: list[dict[str, Any]]
    words: dict[str, Any]
    rules: dict[str, Any]
    training: dict[str, Any] | None = None  # moments of the training rows, for drift
    stated: Stated = field(default_factory=Stated)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPack:
    """The result of `verify`."""

    folder: str
    files: dict[str, str]
    manifest: Mapping[str, Any]
    results: Mapping[str, Any]
    recomputed: bool = True  # False: made by an earlier rule, so the numbers are those that its author states

    @property
    def stated(self) -> tuple[str, ...]:
        """What the project states and `verify` cannot recompute."""
        return tuple(self.results.get("offline", {}).get("stated", ())) if self.recomputed else ("every number",)


def manifest(folder: Path, *, command: str, at: float, seed: int, **more: Any) -> dict[str, Any]:
    """Where, when and with what a comparison was made."""
    return {
        "schema": SCHEMA,
        "command": command,
        "at": at,
        "seed": seed,
        "git": _git(folder),
        "versions": _versions(),
        "host": {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()},
        **more,
    }


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the pack atomically: files first, their hashes last, and only then the name."""
    if folder.exists() and any(path.name != "live.part" for path in folder.iterdir()):
        raise errors.InvalidInput(
            f"{str(folder)!r} is not empty.", code="pack_exists", hint="Name a new folder, or remove this one."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder) as scratch:
        for name, body in files.items():
            (scratch / name).write_bytes(body)
        sums = "".join(f"{hashlib.sha256(body).hexdigest()}  {name}\n" for name, body in sorted(files.items()))
        (scratch / SUMS).write_text(sums, "ascii")
        scratch.chmod(0o755)
        if folder.exists():
            (folder / "live.part").unlink(missing_ok=True)
            folder.rmdir()


def verify(folder: Path) -> VerifiedPack:
    """Check every byte, then recompute every number that follows from the rows; a difference raises Damaged."""
    if not (folder / SUMS).is_file():
        raise errors.UnknownName(
            f"There is no run pack in {str(folder)!r}.",
            code="no_pack",
            hint="`headway compare TASK --run-pack DIR` makes one.",
        )
    named = _sums(folder)
    there = {path.name for path in folder.iterdir()} - {SUMS}
    if there != named.keys():
        odd = sorted(there ^ named.keys())
        raise _damaged(f"{odd[0]!r} is {'not listed' if odd[0] in there else 'missing'}")
    bodies: dict[str, bytes] = {}
    for name, expected in named.items():
        bodies[name] = read_regular(folder / name)
        if hashlib.sha256(bodies[name]).hexdigest() != expected:
            raise _damaged(f"{name} does not match its hash")
    try:
        about, results = json.loads(bodies["manifest.json"]), json.loads(bodies["results.json"])
    except (KeyError, ValueError) as error:
        raise _damaged("manifest.json or results.json cannot be read") from error
    if about.get("schema") in EARLIER:
        return VerifiedPack(folder=str(folder), files=named, manifest=about, results=results, recomputed=False)
    if about.get("schema") != SCHEMA:
        raise _damaged(f"its schema is {about.get('schema')!r}, expected {SCHEMA!r}")
    try:
        again = recompute(bodies, seed=int(about["seed"]))
    except (msgspec.MsgspecError, errors.InvalidInput) as error:
        raise _damaged(f"its numbers cannot be recomputed ({error})") from error
    for part in sorted(results.keys() | again.keys()):
        if results.get(part) != again.get(part):
            raise _damaged(f"recomputed, {part!r} differs{_where(results.get(part), again.get(part))}")
    return VerifiedPack(folder=str(folder), files=named, manifest=about, results=results)


def recompute(bodies: Mapping[str, bytes], *, seed: int) -> dict[str, Any]:
    """The results of a pack, from its rows and lines alone."""
    results: dict[str, Any] = {}
    if "rows.safetensors" in bodies:
        results["offline"] = plain(_offline(bodies))
    if "live.jsonl" in bodies:
        from headway.kits.offline.live_answers import summary

        results["live"] = plain(summary([json.loads(line) for line in bodies["live.jsonl"].splitlines()], seed=seed))
    if "played.jsonl" in bodies:
        rows = [json.loads(line) for line in bodies["played.jsonl"].splitlines()]
        results["played"] = plain(played_summary(rows, seed=seed))
    return results


def _offline(bodies: Mapping[str, bytes]) -> dict[str, Any]:
    made = msgspec.json.decode(bodies["about.json"], type=Offline)
    evidence = from_rows(made, bodies["rows.safetensors"])
    verdict = gate.verdict(made.stated.added(evidence), msgspec.convert(made.rules, gate.GateRules))
    return offline_result(verdict, made.stated.names(evidence))


def from_rows(made: Offline, rows: bytes) -> Evidence:
    """The evidence that follows from the rows, without what the project states."""
    from safetensors.numpy import load

    from headway.kits.offline.packed import unpacked
    from headway.prove import About, GuardRule, Window, from_log

    window = made.training
    return from_log(
        unpacked(load(rows), made.words),
        msgspec.convert(made.about, About),
        guards=[GuardRule(**guard) for guard in made.guards],
        training=None
        if window is None
        else Window(n=window["n"], mean=np.array(window["mean"]), std=np.array(window["std"])),
    )


def offline_result(verdict: Verdict, stated: Sequence[str]) -> dict[str, Any]:
    return {
        "state": verdict.state,
        "reasons": list(verdict.reasons),
        "evidence": verdict.evidence,
        "stated": list(stated),
    }


def plain(value: Any) -> Any:
    """The value after a JSON round trip, so that stored and recomputed values compare equal."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _where(left: Any, right: Any, path: str = "") -> str:
    """The first place at which two results differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if left.get(key) != right.get(key):
                return _where(left.get(key), right.get(key), f"{path}.{key}")
    return f" at {path.lstrip('.')}: {left!r} there, {right!r} here" if path else ""


def _sums(folder: Path) -> dict[str, str]:
    sums: dict[str, str] = {}
    try:
        for line in read_regular(folder / SUMS).decode("ascii").splitlines():
            digest, gap, name = line.partition("  ")
            if len(digest) != 64 or not gap or name not in _FILES or name in sums:
                raise ValueError(line)
            sums[name] = digest
    except (ValueError, UnicodeDecodeError) as error:
        raise _damaged(f"{SUMS} cannot be read") from error
    return sums


def _damaged(what: str) -> errors.Damaged:
    return errors.Damaged(
        f"The run pack is damaged: {what}.", code="pack_damaged", hint="Get the pack again from its author."
    )


def _git(folder: Path) -> str:
    """The commit of the working folder, and whether it has changes; empty outside a repository."""
    try:
        said = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


BEST, OURS = "oracle", "learned"  # what shares are of, and what is compared with the others
_RESAMPLES = 2_000
Floats = NDArray[np.float64]


def played_summary(rows: Iterable[Mapping[str, Any]], *, seed: int) -> dict[str, Any]:
    """part → way → mean value, its interval, its share of the best way's, solved, cost, and what `learned` has more."""
    parts: dict[str, dict[str, dict[str, list[float]]]] = {}
    for row in rows:
        ways = parts.setdefault(str(row["part"]), {})
        values = ways.setdefault(str(row["way"]), {}).setdefault(str(row["subject"]), [])
        values[:] = [float(row["value"]), float(row["solved"]), float(row["cost"])]
    return {part: _part(ways, seed) for part, ways in sorted(parts.items())}


def _part(ways: Mapping[str, Mapping[str, list[float]]], seed: int) -> dict[str, Any]:
    subjects = sorted(set.intersection(*(set(way) for way in ways.values())))
    tables = {name: np.array([way[subject] for subject in subjects]) for name, way in ways.items()}
    result: dict[str, Any] = {"subjects": len(subjects), "ways": {}}
    for name, table in tables.items():
        low, high = bootstrap(table[:, 0], seed=seed)
        entry = {
            "value": float(table[:, 0].mean()), "low": low, "high": high,
            "solved": float(table[:, 1].mean()), "cost": float(table[:, 2].mean()),
        }  # fmt: skip
        if BEST in tables:
            entry["share"], entry["share_low"], entry["share_high"] = _share(table[:, 0], tables[BEST][:, 0], seed)
        if OURS in tables and name != OURS:
            more = tables[OURS][:, 0] - table[:, 0]
            least, most = bootstrap(more, seed=seed)
            entry["learned_more"], entry["learned_more_low"], entry["learned_more_high"] = (
                float(more.mean()),
                least,
                most,
            )
        result["ways"][name] = entry
    return result


def _share(values: Floats, best: Floats, seed: int) -> tuple[float, float, float]:
    """The share of the best way's mean, with its 95% interval over resampled subjects."""
    rng = np.random.default_rng([seed, 0x5A])
    weights = rng.multinomial(len(values), np.full(len(values), 1.0 / len(values)), size=_RESAMPLES).astype(np.float64)
    shares = (weights @ values) / (weights @ best)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float(values.mean() / best.mean()), float(low), float(high)
