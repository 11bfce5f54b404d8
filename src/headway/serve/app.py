"""Assembles the application: the modules that declare endpoints, the table of routes, the guard around it.

To add endpoints, write a module with `@endpoint` functions and add it to MODULES, or to `routes` of a kit's passport.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headway.nouns import Catalogue, catalogue
from headway.project import Project
from headway.serve import openapi, page
from headway.serve.endpoints import Endpoint, endpoints_of
from headway.serve.guard import RequestGuard
from headway.serve.hosts import Hosts
from headway.serve.kit_routes import kit_endpoints
from headway.serve.routes import (
    decisions,
    evidence,
    experiments,
    installation,
    kits,
    looking,
    policies,
    recent,
    signals,
    tasks,
)
from headway.serve.routing import Routes
from headway.serve.state import Server
from headway.settings import ServerSettings

MODULES = (
    decisions,
    signals,
    tasks,
    policies,
    experiments,
    evidence,
    recent,
    looking,
    installation,
    kits,
)
VERSION = "1"  # of the HTTP interface: the v1 in its paths


def endpoints(known: Catalogue | None = None) -> list[Endpoint]:
    """Every endpoint of the server: the core's, and those of the kits in use."""
    return [*endpoints_of(MODULES), *kit_endpoints(known or catalogue())]


def document(known: Catalogue | None = None) -> bytes:
    """The OpenAPI document, as it is served."""
    return msgspec.json.format(msgspec.json.encode(openapi.document(endpoints(known), VERSION)), indent=1) + b"\n"


def application(
    project: Project, settings: ServerSettings, *, log_requests: bool = True, worker: int | None = None
) -> RequestGuard:
    """The RSGI application over an open project; `worker`: its number among several processes."""
    server = Server(project, settings, log_requests=log_requests, worker=worker)
    server.document = document(project.catalogue)
    server.observers = _observers(project, settings)  # before the first decision
    for _, start in project.catalogue.usable((kit, path) for kit in project.catalogue for path in kit.starts):
        start(project)
    routes = Routes([*endpoints(project.catalogue), *endpoints_of((page,))])  # the page's files are not part of the API
    return RequestGuard(server, routes, Hosts(settings))


def _observers(project: Project, settings: ServerSettings) -> dict[str, Any]:
    """What kits watch a server with, by name, as far as the settings ask for it."""

    def asked(name: str) -> bool:
        return bool(getattr(settings, name, False)) or name in project.settings.kit_tables

    known = project.catalogue
    paths = {name: (kit, path) for kit in known for name, path in kit.observers.items() if asked(name)}
    return {name: observe(project) for name, place in paths.items() for _, observe in known.usable((place,))}
