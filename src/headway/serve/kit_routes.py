"""Endpoints of kits.

A built-in kit's routes are part of the API. Those of another kit are under /v1/kits/NAME/, declare their own scope, and
have the kit's name in operation ids and schemas, so that they can neither hide our routes nor change the document.
A route that breaks these rules, or a module that cannot be imported, is logged and omitted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from headway.nouns import Catalogue, Command, Family, Kit, Worker, load
from headway.serve.endpoints import Endpoint, endpoints_of
from headway.serve.openapi import document
from headway.serve.routing import Routes

logger = logging.getLogger("headway.serve")


def kit_endpoints(catalogue: Catalogue) -> list[Endpoint]:
    """The endpoints of every kit in use."""
    endpoints: list[Endpoint] = []
    for kit in catalogue:
        if kit.built_in:
            endpoints += endpoints_of(load(module) for module in kit.routes)
            continue
        offered, problems = _installed_endpoints(kit)
        endpoints += offered
        for problem in problems:
            logger.warning("kit=%s left out: %s", kit.name, problem)
    return endpoints


def route_problems(kit: Kit) -> list[str]:
    """The reason why the server omits a route of an installed kit."""
    return [] if kit.built_in else _installed_endpoints(kit)[1]


def kit_problems(kit: Kit) -> list[str]:
    """Objects of a passport that cannot be loaded, and routes that the server omits."""
    problems = []
    for path in dict.fromkeys(_paths(kit)):
        try:
            load(path)
        except (Exception, SystemExit) as error:  # noqa: BLE001 — a kit may raise anything while it is imported
            problems.append(f"{path} cannot be loaded: {type(error).__name__}: {error}")
    return [*problems, *route_problems(kit)]


def _installed_endpoints(kit: Kit) -> tuple[list[Endpoint], list[str]]:
    """The endpoints of an installed kit, and the reasons for omitted ones."""
    endpoints: list[Endpoint] = []
    problems: list[str] = []
    for module in kit.routes:
        try:
            offered = endpoints_of((load(module),))
        except (Exception, SystemExit) as error:  # noqa: BLE001 — a kit may raise anything while it is imported
            problems.append(f"{module} cannot be imported: {type(error).__name__}: {error}")
            continue
        for endpoint in (replace(route, kit=kit.name, hot=False) for route in offered):
            reason = _refused(kit, endpoint, endpoints)
            if reason:
                problems.append(f"{endpoint.method} {endpoint.path}: {reason}")
            else:
                endpoints.append(endpoint)
    return endpoints, problems


def _refused(kit: Kit, endpoint: Endpoint, others: list[Endpoint]) -> str:
    prefix = f"/v1/kits/{kit.name}/"
    if not endpoint.path.startswith(prefix):
        return f"its path does not begin with {prefix}"
    if endpoint.scope == "open" or endpoint.public:
        return "it states no scope"
    if any(other.name == endpoint.name for other in others):
        return f"two routes are called {endpoint.run.__name__}"
    if any((endpoint.method, endpoint.path) == (other.method, other.path) for other in others):
        return "it is declared twice"
    try:
        Routes([*others, endpoint])
        document([*others, endpoint], "")
    except Exception as error:  # noqa: BLE001 — msgspec names what it cannot describe in several ways
        return f"its types cannot be described: {error}"
    return ""


def _paths(kit: Kit) -> Iterator[str]:
    """Every "module:object" string of a passport except for its routes."""
    for what in (
        "encoders", "worlds", "samples", "formats", "exports", "evidence", "options", "jobs", "tables", "verbs",
        "observers", "stores", "tellers",
    ):  # fmt: skip
        yield from getattr(kit, what).values()
    yield from (*kit.checks, *kit.erases, *kit.starts, *kit.outages)
    for family in kit.families.values():
        yield from _strings(family)
    for command in (*kit.commands.values(), *kit.demos.values()):
        yield from _strings(command)
    for worker in kit.workers.values():
        yield from _strings(worker)


def _strings(entry: Family | Command | Worker) -> Iterator[str]:
    match entry:
        case Family():
            yield from (path for path in (entry.policy, entry.learner, entry.knobs) if path)
        case Command():
            yield entry.target
        case Worker():
            yield entry.needed
