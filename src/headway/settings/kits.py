"""[kits] and the tables of kits: which kits a project uses, and their settings.

    kits_in_use(Path("."))      # ("acme",): named by [kits] use or HEADWAY_KITS

Reading this runs no other code. A kit's table is read with the kit's own struct, as strictly as ours.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headway.nouns import REPAIR, Catalogue, errors, installed
from headway.settings.file import FILE, settings_text, toml
from headway.settings.schema import KitSettings
from headway.settings.strict import keys_of, read
from headway.settings.table import SettingsTable

logger = logging.getLogger("headway.settings")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_MANY = ".*"
_EXPECTED = "names of kits, of a-z, 0-9, '_' and '-'"


def kits_in_use(folder: Path, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The installed kits that a project may import: those of [kits] use, then those of HEADWAY_KITS."""
    text, file = settings_text(folder)
    name = str(file) if file else FILE
    return kits_named(toml(text, name), name, os.environ if environ is None else environ)


def kits_named(values: Mapping[str, Any], file: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The same, from tables that are read already."""
    root = SettingsTable(values, file, (), values)
    table = root.inner(("kits",), root.table("kits"), keys_of(KitSettings))
    use = read(KitSettings, table).use
    for place, name in enumerate(use):
        if _NAME.match(name) is None:
            raise table.error(("use", str(place)), _EXPECTED, name)
    listed = environ.get("HEADWAY_KITS", "")
    more = [name.strip() for name in listed.split(",") if name.strip()]
    for name in more:
        if _NAME.match(name) is None:
            raise errors.InvalidSettings(
                f"HEADWAY_KITS is {listed!r}, expected {_EXPECTED}, separated by commas; {name!r} is not one.",
                code="settings_bad_variable",
            )
    return tuple(dict.fromkeys((*use, *more)))


def table_names(catalogue: Catalogue) -> list[str]:
    """The names of the tables that kits declare: "improve" for "improve.*"."""
    return [name.removesuffix(_MANY) for name in catalogue.all("tables")]


def kit_tables(root: SettingsTable, catalogue: Catalogue) -> Mapping[str, Any]:
    """The tables of the file that kits declare, each as the struct of its kit.

    A kit that declares "improve.*" has one table per name, [improve.NAME]: they are a mapping, name → struct.
    """
    tables: dict[str, Any] = {}
    for declared, path in catalogue.all("tables").items():
        name = declared.removesuffix(_MANY)
        if name not in root:
            continue
        try:
            struct = catalogue.load(path)
            keys = keys_of(struct)
        except Exception:
            logger.warning("table=%s kit settings %s cannot be loaded", name, path, exc_info=True)
            continue
        if name == declared:
            tables[name] = read(struct, root.inner((name,), root.table(name), keys))
        else:
            tables[name] = MappingProxyType({one: read(struct, table) for one, table in root.named(name, keys)})
    return MappingProxyType(tables)


def kit_hint(catalogue: Catalogue) -> str:
    """A hint for an unknown name: a kit that is broken, or installed and not in use, may have it."""
    names = {kit.name for kit in catalogue.kits}
    broken = [f"The kit {kit.name!r} cannot be used: {kit.reason.rstrip('.')}." for kit in catalogue.broken]
    broken += [REPAIR] if broken else []
    known = names | {kit.name for kit in catalogue.broken}
    idle = [repr(name) for name in sorted(installed()) if name not in known]
    if idle:
        broken.append(f"Installed kits that are not in use: {', '.join(idle)}. Name them in use = [] of [kits].")
    return " ".join(broken)
