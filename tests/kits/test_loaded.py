"""A deciding server loads the passports and routes of kits, and only the policies that its tasks use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.nouns.kit import catalogue
from tests.kits.packages import install
from tests.serve.conftest import Running, served

__all__ = ["served"]

ROUTES = """
import sys
from headway.serve.endpoints import endpoint

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
    paths += [path for what in ("worlds", "samples", "formats") for path in known.all(what).values()]
    paths += [entry.target for what in ("commands", "demos") for entry in known.all(what).values()]
    unused = {path.partition(":")[0] for path in paths} - routes
    assert not unused & loaded, sorted(unused & loaded)
    heavy = {"torch", "gymnasium", "matplotlib", "httpx", "headway.cli"} & loaded
    assert not heavy


ALONE = """
import os, sys
from headway.nouns.kit import catalogue, load

wrong = []
for name in sys.argv[1:] or catalogue().all("commands"):
    child = os.fork()
    if not child:
        load(catalogue().all("commands")[name].target)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        wrong.append(name)
sys.exit(f"cannot be loaded first: {wrong}" if wrong else 0)
"""


@pytest.mark.parametrize("names", [("sim train",), pytest.param((), marks=pytest.mark.slow)], ids=["one", "all"])
def test_the_command_of_a_kit_can_be_the_first_thing_that_is_loaded(names: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", ALONE, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
