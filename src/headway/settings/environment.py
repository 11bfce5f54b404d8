"""HEADWAY_* variables: what each means, and an error for one that is nearly spelt right."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from headway.nouns import PolicyRef, errors

VARIABLES = (
    "HEADWAY_POLICY",
    "HEADWAY_DIR",
    "HEADWAY_CACHE",
    "HEADWAY_STORE_URL",
    "HEADWAY_KITS",
    "HEADWAY_FOREIGN_OWNER",
)


def project_directory(given: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The project's directory: the given one, else HEADWAY_DIR, else the working directory."""
    environ = os.environ if environ is None else environ
    return Path(given if given is not None else environ.get("HEADWAY_DIR") or ".")


def cache_folder(directory: Path = Path(), environ: Mapping[str, str] | None = None) -> Path:
    """The directory of models and caches: HEADWAY_CACHE, else the user's cache directory."""
    environ = os.environ if environ is None else environ
    if environ.get("HEADWAY_CACHE"):
        return Path(environ["HEADWAY_CACHE"]).expanduser().absolute()
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "headway"
    if environ.get("HOME"):
        home = Path(environ["HOME"])
        return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "headway"
    return directory / ".headway" / "cache"  # no home directory: a container, a service


def check_names(environ: Mapping[str, str]) -> None:
    """Reject a mistyped kill switch; other variables with this prefix belong to other programs."""
    for name in environ:
        if name.startswith("HEADWAY_") and name not in VARIABLES:
            near = difflib.get_close_matches(name[8:], [known[8:] for known in VARIABLES], n=1, cutoff=0.8)
            if near:
                raise errors.InvalidSettings(
                    f"There is no environment variable {name}.",
                    code="settings_bad_variable",
                    hint=errors.did_you_mean(f"HEADWAY_{near[0]}", VARIABLES),
                )


def policy_override(environ: Mapping[str, str]) -> str | None:
    """HEADWAY_POLICY: "off", "current" or a policy reference; None where it is not set."""
    policy = environ.get("HEADWAY_POLICY", "").strip()
    if policy and policy not in ("off", "current"):
        try:
            PolicyRef.parse(policy)
        except errors.InvalidInput:
            raise errors.InvalidSettings(
                f"HEADWAY_POLICY is {policy!r}, expected off, current or a policy reference such as bandit@4f2a.",
                code="settings_bad_variable",
                hint=errors.did_you_mean(policy, ("off", "current")) if "@" not in policy else "",
            ) from None
    return policy or None
