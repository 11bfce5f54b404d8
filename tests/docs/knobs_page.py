"""docs/reference/knobs.md, made from the families' knobs.

python -m tests.docs.knobs_page        rewrites the page
"""

from __future__ import annotations

from pathlib import Path

from headway.nouns.kit import catalogue, load
from headway.nouns.knobs import Knob, knobs_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "knobs.md"
HEAD = """# Knobs

What `headway learn --set KNOB=VALUE` changes, family by family. This page is made from the families themselves.
"""


def page() -> str:
    known, parts = catalogue(), [HEAD]
    for name, family in known.all("families").items():
        kit = known.owner("families", name)
        kinds = [kind for kind in known.all("kinds") if name in known.families(kind)]
        parts.append(f"\n## {name}\n\n{_origin(kit.name)} For tasks of the kind {' or '.join(kinds)}.\n")
        parts.append("\n| knob | default | numbers | what it does |\n|---|---|---|---|\n")
        parts += [_row(knob) for knob in knobs_of(load(family.knobs))]
    return "".join(parts)


def _origin(kit: str) -> str:
    return "Part of the core." if kit == "core" else f"Brought by the kit `{kit}`."


def _row(knob: Knob) -> str:
    numbers = "" if knob.low is None else f"{knob.low:g} to {knob.high:g}"
    return f"| `{knob.name}` | `{knob.default!r}` | {numbers} | {knob.about} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
