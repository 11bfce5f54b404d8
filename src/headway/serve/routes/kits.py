"""/v1/kits: the kits in use."""

from __future__ import annotations

import msgspec

from headway.serve.endpoints import Call, endpoint
from headway.serve.kit_routes import route_problems


class KitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One kit, and the names that it adds. `problem`: why it, or a route of it, cannot be used."""

    name: str
    summary: str
    built_in: bool
    problem: str = ""
    kinds: list[str] = []
    families: list[str] = []
    worlds: list[str] = []
    encoders: list[str] = []
    formats: list[str] = []
    evidence: list[str] = []
    commands: list[str] = []


_NAMES = ("kinds", "families", "worlds", "encoders", "formats", "evidence", "commands")


class KitsAnswer(msgspec.Struct, frozen=True):
    kits: list[KitAnswer]


@endpoint("GET", "/v1/kits", gives=KitsAnswer, scope="decide")
def kits(call: Call) -> KitsAnswer:
    """The kits in use, and those that cannot be used with the reason."""
    catalogue = call.server.project.catalogue
    rows = [
        KitAnswer(
            name=kit.name,
            summary=kit.summary,
            built_in=kit.built_in,
            problem="; ".join(route_problems(kit)),
            **{name: list(getattr(kit, name)) for name in _NAMES},
        )
        for kit in catalogue
    ]
    rows += [KitAnswer(name=kit.name, summary="", built_in=False, problem=kit.reason) for kit in catalogue.broken]
    return KitsAnswer(rows)
