"""Makes docs/images/demo.png: the plot that `headway demo route` saves, from a fresh demo with its default seed.

python scripts/picture.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "demo.png"


def main() -> None:
    program = Path(sys.executable).with_name("headway")
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([program, "demo", "route", "--out", "demo"], cwd=scratch, check=True)
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(scratch) / "demo" / "route.png", TARGET)
    print(f"{TARGET.relative_to(ROOT)} written")


if __name__ == "__main__":
    main()
