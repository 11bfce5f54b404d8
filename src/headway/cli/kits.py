"""`headway kits`: what rides on the loop here."""

from __future__ import annotations

from headway.cli.verb import Session, verb
from headway.nouns.kit import Kit, catalogue, installed

__all__ = ["kits"]

_SHOWN = ("families", "worlds", "encoders", "formats", "commands")


@verb("kits", "headway kits", "headway kits --json")
def kits(session: Session) -> int:
    """What rides on the loop here: kits, what each brings, and what is wrong with one.

    Built-in kits are always in use. An installed one is imported only if `[kits] use` in headway.toml or HEADWAY_KITS
    names it. Exit status 1 if a kit cannot be used.
    """
    known = catalogue()
    used = {kit.name for kit in known} | {kit.name for kit in known.broken}
    waiting = sorted(name for name in installed() if name not in used)
    session.out.document(
        {
            "kits": [_document(kit) for kit in known],
            "broken": [{"name": kit.name, "reason": kit.reason} for kit in known.broken],
            "installed_not_in_use": waiting,
        }
    )
    session.out.table(("kit", "from", "brings"), [(kit.name, _origin(kit), kit.summary) for kit in known])
    for name in waiting:
        session.out.line(f'{name}: installed, not in use. To use it: [kits] use = ["{name}"] in headway.toml.')
    for broken in known.broken:
        session.out.line(f"{broken.name}: {broken.reason}", style="bold red")
    session.next("headway doctor" if known.broken else "headway status")
    return 1 if known.broken else 0


def _origin(kit: Kit) -> str:
    return "built in" if kit.built_in else "installed"


def _document(kit: Kit) -> dict[str, object]:
    names = {what: list(getattr(kit, what)) for what in _SHOWN}
    return {"name": kit.name, "summary": kit.summary, "built_in": kit.built_in, "needs": list(kit.needs), **names}
