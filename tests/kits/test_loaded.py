"""A deciding server loads the passports and routes of kits, and only the policies that its tasks use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headway.nouns.kit import catalogue
from tests.kits.packages import install
from tests.serve.conftest import Running, served

__all__ = ["served"]

ROUTES = """
import sys
from headway.serve.endpoint import endpoint

@endpoint("GET", "/v1/kits/spy/modules", gives=list[str], scope="decide")
def modules(call):
    "What this process has imported."
    return sorted(sys.modules)
"""


def test_a_deciding_server_loads_no_unused_policy_learner_or_world(
    tmp_path: Path, served: Callable[..., Running]
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    install(site, "spy", fields='routes=("spy_kit.routes",)', routes=ROUTES)
    running = served(env={**os.environ, "PYTHONPATH": str(site), "HEADWAY_KITS": "spy"})
    assert running.decide().status_code == 201
    loaded = set(running.client.get("/v1/kits/spy/modules").json())

    known = catalogue()
    routes = {module for kit in known for module in kit.routes}
    assert {f"headway.kits.{kit.name}" for kit in known if kit.name != "core"} | routes <= loaded
    paths = [path for family in known.all("families").values() for path in (family.policy, family.learner)]
    paths += [path for what in ("worlds", "samples", "formats", "exports") for path in known.all(what).values()]
    paths += [entry.target for what in ("commands", "demos") for entry in known.all(what).values()]
    unused = {path.partition(":")[0] for path in paths} - routes
    assert not unused & loaded, sorted(unused & loaded)
    heavy = {"torch", "gymnasium", "matplotlib", "headway.cli"} & loaded
    assert not heavy
