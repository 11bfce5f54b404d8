"""Chromium through Playwright, and a server over a project, for the browser tests and the screenshots.

Uses the `chromium` on PATH, not Playwright's own download.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

__all__ = ["PROGRAMS", "Served", "chromium", "launch", "serving"]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def chromium() -> str | None:
    """The path of the browser, if there is one."""
    return next((result for name in PROGRAMS if (result := shutil.which(name))), None)


def launch(playwright: Playwright, program: str) -> Browser:
    # Chromium's own sandbox refuses to start as root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=program, args=[*arguments, "--disable-gpu"])


class Served:
    """A server over a folder, as a child process on a free port."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headway.serve", str(folder), "--port", "0", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.stop())
        self.url: str = json.loads(line)["url"]

    @property
    def token(self) -> str:
        return (self.folder / ".headway" / "token").read_text("ascii").strip()

    def link(self) -> str:
        """A path that opens the page once, with all scopes."""
        answer = httpx.post(f"{self.url}/v1/links", headers={"authorization": f"Bearer {self.token}"})
        return self.url + str(answer.raise_for_status().json()["path"])

    def decide(self, task: str, text: str, candidates: list[str] | None = None) -> str:
        asked = {"task": task, "text": text, **({"candidates": candidates} if candidates else {})}
        answer = httpx.post(f"{self.url}/v1/decisions", json=asked)
        return str(answer.raise_for_status().json()["id"])

    def stop(self) -> str:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=20)
        return errors


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[Served]:
    served = Served(folder, *more)
    try:
        yield served
    finally:
        errors = served.stop()
        assert "Traceback" not in errors, errors
