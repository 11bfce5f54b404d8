"""`headway kits`: what rides on the loop here."""

from __future__ import annotations

from headway.cli.in_use import known
from headway.cli.verb import Session, verb
from headway.nouns.kit import Kit, installed

__all__ = ["kits"]

_SHOWN = ("families", "worlds", "encoders", "formats", "commands")


@verb("kits", "headway kits", "headway kits --json")
def kits(session: Session) -> int:
    """What rides on the loop here: kits, what each brings, and what is wrong with one.

    Built-in kits are always in use. An installed one is imported only if `[kits] use` in headway.toml or HEADWAY_KITS
    names it. Exit status 1 if a kit cannot be used.
    """
    from headway.serve.kit_routes import kit_problems

    in_use = known(session.folder)
    problems = {kit.name: "; ".join(kit_problems(kit)) for kit in in_use if not kit.built_in}
    broken = [(kit.name, kit.reason) for kit in in_use.broken]
    broken += [(name, problem) for name, problem in problems.items() if problem]
    names = {kit.name for kit in in_use} | {kit.name for kit in in_use.broken}
    waiting = sorted(name for name in installed() if name not in names)
    session.out.document(
        {
            "kits": [_document(kit) for kit in in_use],
            "broken": [{"name": name, "reason": reason} for name, reason in broken],
            "installed_not_in_use": waiting,
        }
    )
    session.out.table(("kit", "from", "brings"), [(kit.name, _origin(kit), kit.summary) for kit in in_use])
    for name in waiting:
        session.out.line(f'{name}: installed, not in use. To use it: [kits] use = ["{name}"] in headway.toml.')
    for name, reason in broken:
        session.out.line(f"{name}: {reason}", style="bold red")
    session.next("headway doctor" if broken else "headway status")
    return 1 if broken else 0


def _origin(kit: Kit) -> str:
    return "built in" if kit.built_in else "installed"


def _document(kit: Kit) -> dict[str, object]:
    names = {what: list(getattr(kit, what)) for what in _SHOWN}
    return {"name": kit.name, "summary": kit.summary, "built_in": kit.built_in, "needs": list(kit.needs), **names}
