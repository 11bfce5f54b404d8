"""Endpoints that kits bring.

A built-in kit's routes are part of the API. Another kit's lie under /v1/kits/NAME/, state a scope of their own, and
carry the kit's name in operation ids, so that they can neither hide a route of ours nor harm the document. A module
that breaks these rules, or that cannot be imported, is left out and logged; the server starts without it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from headway.nouns.kit import Catalogue, Kit, load
from headway.serve import openapi
from headway.serve.endpoint import Endpoint, endpoints_of

__all__ = ["kit_endpoints"]

logger = logging.getLogger("headway.serve")


def kit_endpoints(catalogue: Catalogue) -> list[Endpoint]:
    """The endpoints of every kit in use."""
    endpoints: list[Endpoint] = []
    for kit in catalogue:
        for module in kit.routes:
            if kit.built_in:
                endpoints += endpoints_of((load(module),))
            else:
                endpoints += _guest_endpoints(kit, module)
    return endpoints


def _guest_endpoints(kit: Kit, module: str) -> list[Endpoint]:
    """The endpoints of an installed kit, or none of that module where one breaks the rules."""
    try:
        offered = endpoints_of((load(module),))
    except Exception as error:  # noqa: BLE001 — a guest may raise anything while it is imported
        logger.warning("kit=%s routes=%s left out: %s: %s", kit.name, module, type(error).__name__, error)
        return []
    endpoints: list[Endpoint] = []
    for endpoint in offered:
        reason = _refused(kit, endpoint, endpoints)
        if reason:
            logger.warning("kit=%s route=%s left out: %s", kit.name, endpoint.path, reason)
            continue
        endpoints.append(replace(endpoint, kit=kit.name))
    return endpoints


def _refused(kit: Kit, endpoint: Endpoint, others: list[Endpoint]) -> str:
    """Why an installed kit's endpoint is left out; "" where it is not."""
    prefix = f"/v1/kits/{kit.name}/"
    if not endpoint.path.startswith(prefix):
        return f"its path does not begin with {prefix}"
    if endpoint.scope == "open" or endpoint.public:
        return "it states no scope"
    if any((endpoint.method, endpoint.path) == (other.method, other.path) for other in others):
        return "it is declared twice"
    try:
        openapi.document([endpoint], "")
    except Exception as error:  # noqa: BLE001 — msgspec names what it cannot describe in several ways
        return f"its types cannot be described: {error}"
    return ""
