"""headway.toml and HEADWAY_* → Settings."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from headway.nouns import Catalogue, catalogue as catalogue_of, errors
from headway.settings import environment
from headway.settings.file import FILE, settings_text, toml
from headway.settings.kits import kit_hint, kit_tables, kits_named, table_names
from headway.settings.schema import (
    EncoderEndpoint,
    KitSettings,
    Redaction,
    ServerSettings,
    Settings,
    StoreSettings,
    TaskSettings,
    Upstream,
    WatchSettings,
)
from headway.settings.strict import keys_of, read
from headway.settings.table import SettingsTable
from headway.settings.tasks import kind_of, task, task_keys

# The struct of every table; [tasks.NAME] and [upstreams.NAME] are tables of tables.
TABLES: Mapping[str, type[Struct]] = MappingProxyType(
    {
        "tasks": TaskSettings,
        "upstreams": Upstream,
        "server": ServerSettings,
        "store": StoreSettings,
        "watch": WatchSettings,
        "kits": KitSettings,
    }
)
# Every key of the file, by table. docs/reference/settings.md has a heading for each.
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType({name: keys_of(struct) for name, struct in TABLES.items()})
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)\Z")


def load(directory: Path, environ: Mapping[str, str] | None = None, catalogue: Catalogue | None = None) -> Settings:
    """The settings of a project: headway.toml in its directory, and HEADWAY_* variables.

    load(Path("demo"))                                     # the variables of this process
    load(Path("demo"), {"HEADWAY_POLICY": "off"})          # these, and no others
    load(Path("demo"), catalogue=catalogue(("acme",)))     # with the families of these kits

    Without a file, every task is made on first use. Without a catalogue, the kits that the file and HEADWAY_KITS name
    are looked up. Nothing is written.
    """
    environ = os.environ if environ is None else environ
    check_owner(directory, environ)
    text, file = settings_text(directory)
    return parse(text, directory=directory, environ=environ, file=file, catalogue=catalogue)


def parse(
    text: str,
    *,
    directory: Path,
    environ: Mapping[str, str],
    file: Path | None = None,
    catalogue: Catalogue | None = None,
) -> Settings:
    """The settings that a text declares; `load` reads the text from the project's directory."""
    name = str(file) if file else FILE
    values = toml(text, name)
    environment.check_names(environ)
    kits = kits_named(values, name, environ)
    catalogue = catalogue_of(kits) if catalogue is None else catalogue
    known = (*KEYS, *table_names(catalogue))
    root = SettingsTable(values, name, (), known, hint="" if values.keys() <= set(known) else kit_hint(catalogue))
    _check_kinds(root, catalogue)
    keys = task_keys(catalogue, root.table("tasks").values())
    hint = "A key is named by key_env and kept in that environment variable."
    servers = root.named("upstreams", KEYS["upstreams"], hint=hint)
    upstreams = {name: read(Upstream, table, name=name) for name, table in servers}
    tasks = {name: task(name, table, catalogue, upstreams.keys()) for name, table in root.named("tasks", keys)}
    store = _store(_section(root, "store"), environ.get("HEADWAY_STORE_URL", ""), catalogue)
    tables = kit_tables(root, catalogue)
    return Settings(
        directory=directory,
        file=file,
        tasks=MappingProxyType(tasks),
        upstreams=MappingProxyType(upstreams),
        server=_server(_section(root, "server"), store),
        store=store,
        watch=read(WatchSettings, _section(root, "watch"), {"window": _window}),
        kits=kits,
        kit_tables=tables,
        declared=bool(tasks),
        policy_override=environment.policy_override(environ),
        cache=environment.cache_folder(directory, environ),
        keys=_secrets(tasks, upstreams, tables, environ),
    )


def _check_kinds(root: SettingsTable, catalogue: Catalogue) -> None:
    """A kind that no kit decides is reported before the keys that only such tasks have."""
    for name, values in root.table("tasks").items():
        if isinstance(values, Mapping):
            kind_of(root.inner(("tasks", name), values, values), catalogue)


def _section(root: SettingsTable, name: str) -> SettingsTable:
    return root.inner((name,), root.table(name), KEYS[name])


def _server(table: SettingsTable, store: StoreSettings) -> ServerSettings:
    server = read(ServerSettings, table)
    if server.max_batch_bytes < server.max_body_bytes:
        expected = f"at least max_body_bytes ({server.max_body_bytes})"
        raise table.error("max_batch_bytes", expected, server.max_batch_bytes)
    if server.workers > 1 and store.embedded:
        hint = 'Set [store] url = "postgresql://…".'
        raise table.error("workers", "1 with the embedded store; several servers share a PostgreSQL store", hint=hint)
    return server


def _store(table: SettingsTable, override: str, catalogue: Catalogue) -> StoreSettings:
    def url(table: SettingsTable, _: Mapping[str, Any]) -> str:
        return _store_url(table, override, catalogue.all("stores"))

    return read(StoreSettings, table, {"url": url, "redact": _redact})


def _store_url(table: SettingsTable, override: str, schemes: Container[str]) -> str:
    url = override or (table.text("url") if "url" in table else "sqlite")
    if url == "sqlite":
        return url
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and bool(parts.path.strip("/") or parts.hostname)
    except ValueError:
        usable = False
    if not usable:  # it may contain a password: never repeated
        raise errors.InvalidSettings(
            f"{'HEADWAY_STORE_URL' if override else 'store.url'} cannot be used, "
            'expected "sqlite" or postgresql://user@host/database.',
            code="settings_bad_variable" if override else "settings_bad_value",
        )
    return url


def _redact(table: SettingsTable, _: Mapping[str, Any]) -> tuple[Redaction, ...]:
    known: tuple[Redaction, ...] = get_args(Redaction)
    chosen = table.texts("redact") if "redact" in table else ("secrets",)
    for name in chosen:
        if name not in known:
            raise table.error("redact", f"a list of {', '.join(known)}", name, errors.did_you_mean(name, known))
    return tuple(name for name in known if name in chosen)


def _window(table: SettingsTable, _: Mapping[str, Any]) -> tuple[int, int] | None:
    if "window" not in table:
        return None
    times = _WINDOW.match(table.text("window"))
    if times is None:
        raise table.error("window", 'two times of the day, such as "02:00-06:00"')
    return int(times[1]) * 60 + int(times[2]), int(times[3]) * 60 + int(times[4])


def _secrets(
    tasks: Mapping[str, TaskSettings],
    upstreams: Mapping[str, Upstream],
    tables: Mapping[str, Any],
    environ: Mapping[str, str],
) -> Mapping[str, str]:
    names = {getattr(table, "key_env", "") for table in tables.values()}
    names |= {upstream.key_env for upstream in upstreams.values()}
    names |= {task.encoder.key_env for task in tasks.values() if isinstance(task.encoder, EncoderEndpoint)}
    return MappingProxyType({name: environ[name] for name in sorted(names) if name and environ.get(name)})


_ALLOWED = "allow"


def check_owner(directory: Path, environ: Mapping[str, str]) -> None:
    """Raises `foreign_owner` unless headway.toml and .headway belong to this user, root, or whoever called sudo.

    Settings and store of somebody else could make this user run their code.
    """
    if environ.get("HEADWAY_FOREIGN_OWNER") == _ALLOWED:
        return
    user = os.geteuid()
    trusted = {user, 0}
    caller = environ.get("SUDO_UID", "")
    if user == 0 and caller.isdecimal():
        trusted.add(int(caller))
    for path in (directory / FILE, directory / ".headway"):
        for status in (os.lstat, os.stat):
            try:
                owner = status(path).st_uid
            except OSError:
                continue  # it does not exist
            if owner not in trusted:
                raise errors.InvalidSettings(
                    f"{path} belongs to another user (uid {owner}, you are {user}).",
                    code="foreign_owner",
                    hint="Its settings can name code to run. If you trust its owner, set HEADWAY_FOREIGN_OWNER=allow.",
                )
