"""The licences of what Headway installs: permissive in the core, copyleft only in extras that are named here."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
COPYLEFT = re.compile(r"GPL|General Public|Lesser|EUPL|EPL-|CDDL|OSL-|SSPL", re.IGNORECASE)
FILE_COPYLEFT = re.compile(r"MPL|Mozilla", re.IGNORECASE)
PERMISSIVE = re.compile(r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Unlicense|0BSD|Zlib|HPND", re.IGNORECASE)
EXTRAS = {"psycopg": "postgres", "psycopg-binary": "postgres", "pygame": "worlds"}  # LGPL: used unchanged, as installed
CERTIFICATES = {"certifi"}  # MPL 2.0: a list of certificates, used unchanged


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~\[;(]", requirement.strip())[0]).lower()


def closure(asked: list[str]) -> set[str]:
    """The installed packages that these requirements bring, without their own extras."""
    pending, names = [name_of(one) for one in asked], set[str]()
    while pending:
        name = pending.pop()
        if name in names or name == "headway":
            continue
        try:
            needed = requires(name) or []
        except PackageNotFoundError:  # for another system, or not installed here
            continue
        names.add(name)
        pending += [name_of(one) for one in needed if "extra ==" not in one]
    return names


def licence(name: str) -> str:
    metadata = distribution(name).metadata
    classifiers = [one for one in metadata.get_all("Classifier") or [] if one.startswith("License ::")]
    return (
        " | ".join(part for part in (metadata.get("License-Expression"), *classifiers) if part)
        or (metadata.get("License") or "").strip().partition("\n")[0]
    )


def test_the_core_is_permissive() -> None:
    licences = {name: licence(name) for name in closure(PROJECT["dependencies"])}
    assert {name for name, text in licences.items() if FILE_COPYLEFT.search(text)} == CERTIFICATES
    wrong = {
        name: text
        for name, text in licences.items()
        if name not in CERTIFICATES and (COPYLEFT.search(text) or not PERMISSIVE.search(text))
    }
    assert not wrong, "name what has another licence here, with the reason"


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - {"dev", "all"}))
def test_copyleft_is_only_in_named_extras(extra: str) -> None:
    copyleft = {name for name in closure(PROJECT["optional-dependencies"][extra]) if COPYLEFT.search(licence(name))}
    # a binary package is an extra of its own package, so the closure may leave it out
    assert {EXTRAS.get(name) for name in copyleft} <= {extra}, copyleft
