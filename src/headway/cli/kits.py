"""`headway kits`: the kits of this project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.cli.in_use import known
from headway.cli.output import Output
from headway.cli.show import Column, RecordTable, renders
from headway.cli.verbs import Session, verb
from headway.nouns import Kit, installed

_FIELDS = ("kinds", "families", "worlds", "encoders", "formats", "evidence", "commands")


@verb("kits", "headway kits", "headway kits --json")
def kits(session: Session) -> int:
    """List kits, what each of them adds, and what is wrong with a broken one.

    Built-in kits are always in use. An installed kit is imported only if `[kits] use` in headway.toml or HEADWAY_KITS
    names it. Exit status 1 if a kit cannot be used.
    """
    from headway.serve import kit_problems

    in_use = known(session.folder)
    problems = {kit.name: "; ".join(kit_problems(kit)) for kit in in_use if not kit.built_in}
    broken = [(kit.name, kit.reason) for kit in in_use.broken]
    broken += [(name, problem) for name, problem in problems.items() if problem]
    names = {kit.name for kit in in_use} | {kit.name for kit in in_use.broken}
    waiting = sorted(name for name in installed() if name not in names)
    session.show(KitList(kits=tuple(in_use), broken=tuple(broken), installed_not_in_use=tuple(waiting)))
    session.next("headway doctor" if broken else "headway status")
    return 1 if broken else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KitList:
    """The kits in use, those that cannot be used and why, and those that are installed and not in use."""

    kits: Sequence[Kit]
    broken: Sequence[tuple[str, str]]  # name, reason
    installed_not_in_use: Sequence[str]

    def document(self) -> dict[str, object]:
        return {
            "kits": [_document(kit) for kit in self.kits],
            "broken": [{"name": name, "reason": reason} for name, reason in self.broken],
            "installed_not_in_use": list(self.installed_not_in_use),
        }


def _document(kit: Kit) -> dict[str, object]:
    names = {field: list(getattr(kit, field)) for field in _FIELDS}
    return {"name": kit.name, "summary": kit.summary, "built_in": kit.built_in, "needs": list(kit.needs), **names}


_KITS = RecordTable[Kit](
    Column.text("kit", lambda kit: kit.name),
    Column.text("from", lambda kit: "built in" if kit.built_in else "installed"),
    Column.text("adds", lambda kit: kit.summary),
)


@renders(KitList)
def _list(out: Output, known_kits: KitList) -> None:
    _KITS.print(out, known_kits.kits)
    for name in known_kits.installed_not_in_use:
        out.line(f'{name}: installed, not in use. To use it: [kits] use = ["{name}"] in headway.toml.')
    for name, reason in known_kits.broken:
        out.line(f"{name}: {reason}", style="bold red")
