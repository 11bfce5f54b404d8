"""Shared by all benchmarks: arguments, host, versions, and the result on the last line.

The last line of a benchmark under --json is one object {"benchmark", "host", "versions", "figures", "ratios"}; a ratio
is ours over the peer's, larger is better, measured in the same run. The optional `"at_least"` lists the ratios that are
lower bounds, because the peer was stopped before it finished.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path

__all__ = ["arguments", "data_file", "finish", "say"]

ROOT = Path(__file__).resolve().parent.parent


def arguments(description: str, *, seeds: int = 0) -> argparse.ArgumentParser:
    """A parser with the flags that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="about a minute, with fewer repetitions")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object, last")
    parser.add_argument("--data", type=Path, help="folder of real data, or the file itself (default: HEADWAY_DATA)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    if seeds:
        parser.add_argument("--seeds", type=int, default=seeds, help=f"default {seeds}")
    return parser


def data_file(data: Path | None, name: str) -> Path | None:
    """A file of real data: `--data` (folder or file), $HEADWAY_DATA, or shared/data beside the repository."""
    if data is not None and data.is_file():
        return data
    folders = [data] if data is not None else []
    if data is None and os.environ.get("HEADWAY_DATA"):
        folders.append(Path(os.environ["HEADWAY_DATA"]))
    elif data is None:
        folders.append(ROOT.parent / "shared" / "data")
    for folder in folders:
        for path in (folder / name, folder / Path(name).name):
            if path.is_file():
                return path
    return None


def say(text: str) -> None:
    """Prints a line of progress."""
    print(text, flush=True)


def finish(
    name: str,
    figures: Mapping[str, float],
    ratios: Mapping[str, float],
    *,
    packages: tuple[str, ...] = (),
    device: str = "cpu",
    as_json: bool = True,
    at_least: Collection[str] = (),
) -> None:
    """Prints the result: one line per figure, or the JSON object. `at_least` names the ratios that are lower bounds."""
    if not as_json:
        width = max((len(name) for name in (*figures, *ratios)), default=0)
        for key, value in ratios.items():
            say(f"{key:{width}}  {'≥ ' if key in at_least else ''}{value:,.4g}×")
        for key, value in figures.items():
            say(f"{key:{width}}  {value:,.6g}")
        return
    versions = {"python": platform.python_version()}
    for package in ("headway", "numpy", *packages):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    host = {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.system(), "device": _device(device)}
    result: dict[str, object] = {"benchmark": name, "host": host, "versions": versions}
    result |= {"figures": dict(figures), "ratios": dict(ratios)}
    if at_least:
        result["at_least"] = sorted(at_least)
    sys.stdout.flush()
    print(json.dumps(result), flush=True)


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _device(device: str) -> str:
    if device == "cpu":
        return ""
    import torch

    return str(torch.cuda.get_device_name(0))
