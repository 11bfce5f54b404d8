"""Packages of others that a test needs beside ours."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

import pytest


def installed(*packages: str) -> None:
    """Print each version; a package that is absent skips the test by its name, and fails it where CI is set."""
    for package in packages:
        try:
            print(package, version(package))
        except PackageNotFoundError:
            if os.environ.get("CI"):
                pytest.fail(f"{package} is not installed: requirements/examples.txt has it")
            pytest.skip(f"{package} is not installed")
