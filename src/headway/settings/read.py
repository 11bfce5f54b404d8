"""headway.toml and HEADWAY_* → Settings."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

from msgspec import Struct

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import InvalidInput, InvalidSettings, did_you_mean
from headway.settings.schema import (
    EncoderEndpoint,
    Redaction,
    ServerSettings,
    Settings,
    StoreSettings,
    TaskSettings,
    Upstream,
    WatchSettings,
    is_task_name,
)
from headway.settings.strict import fields_of, keys_of, read
from headway.settings.table import SettingsTable
from headway.settings.tasks import task

__all__ = ["FILE", "KEYS", "VARIABLES", "cache_folder", "config", "config_hash", "load", "parse", "project_directory"]

FILE = "headway.toml"
# The struct of every table; [tasks.NAME] and [upstreams.NAME] are tables of tables.
TABLES: Mapping[str, type[Struct]] = MappingProxyType(
    {
        "tasks": TaskSettings,
        "upstreams": Upstream,
        "server": ServerSettings,
        "store": StoreSettings,
        "watch": WatchSettings,
    }
)
# Every key of the file, by table. docs/reference/settings.md has a heading for each.
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType({name: keys_of(struct) for name, struct in TABLES.items()})
VARIABLES = ("HEADWAY_POLICY", "HEADWAY_DIR", "HEADWAY_CACHE", "HEADWAY_STORE_URL")
_PLACE = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)\Z")
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)\Z")


def project_directory(given: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """Where the project lies: the directory given, else HEADWAY_DIR, else the working directory."""
    environ = os.environ if environ is None else environ
    return Path(given if given is not None else environ.get("HEADWAY_DIR") or ".")


def load(directory: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a project: headway.toml in its directory, and HEADWAY_* variables.

    load(Path("demo"))                                     # the variables of this process
    load(Path("demo"), {"HEADWAY_POLICY": "off"})          # these, and no others

    Without a file, every task is made on first use. Nothing is written, and no user code is run.
    """
    environ = os.environ if environ is None else environ
    file = directory / FILE
    try:
        content = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return parse("", directory=directory, environ=environ)
    except OSError as error:
        raise InvalidSettings(
            f"{file} cannot be read: {error.strerror}.",
            code="settings_unreadable",
            hint="Check what it is and who may read it.",
        ) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidSettings(
            f"{file} is not UTF-8 text: byte {content[error.start]:#04x} in line {line}.",
            code="settings_bad_toml",
            hint="Save it as UTF-8.",
        ) from None
    return parse(text, directory=directory, environ=environ, file=file)


def parse(text: str, *, directory: Path, environ: Mapping[str, str], file: Path | None = None) -> Settings:
    """The settings that a text declares; `load` reads the text from the project's directory."""
    name = str(file) if file else FILE
    root = SettingsTable(_toml(text, name), name, (), tuple(KEYS))
    tasks = {each: task(each, table) for each, table in _named(root, "tasks")}
    hint = "A key is named by key_env and kept in that environment variable."
    upstreams = {each: read(Upstream, table, name=each) for each, table in _named(root, "upstreams", hint)}
    override, url = _variables(environ)
    store = _store(_section(root, "store"), url)
    return Settings(
        directory=directory,
        file=file,
        tasks=MappingProxyType(tasks),
        upstreams=MappingProxyType(upstreams),
        server=_server(_section(root, "server"), store),
        store=store,
        watch=read(WatchSettings, _section(root, "watch"), {"window": _window}),
        declared=bool(tasks),
        policy_override=override,
        cache=cache_folder(directory, environ),
        keys=_secrets(tasks, upstreams, environ),
    )


def _toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _PLACE.search(message)
        lines = text.split("\n")
        line, column = len(lines), len(lines[-1]) + 1
        if place is not None:
            message = message[: place.start()]
            if place[1]:
                line, column = int(place[1]), int(place[2])
    except RecursionError:
        message, line, column = "Nested too deeply", 1, 1
    raise InvalidSettings(
        f"{name}:{line}:{column}: {message} (line {line}, column {column}).",
        code="settings_bad_toml",
        hint="Texts stand in quotes, lists in [ ], inline tables in { }.",
    )


def _named(root: SettingsTable, section: str, hint: str = "") -> Iterator[tuple[str, SettingsTable]]:
    """The tables [section.NAME], with their names."""
    for name in root.table(section):
        if not is_task_name(name):
            expected = "a name of at most 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit"
            raise root.error((section, name), expected, None)
        yield name, root.below(section, name, KEYS[section], hint=hint)


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


def _store(table: SettingsTable, override: str) -> StoreSettings:
    def url(table: SettingsTable, _: Mapping[str, Any]) -> str:
        return _store_url(table, override)

    return read(StoreSettings, table, {"url": url, "redact": _redact})


def _store_url(table: SettingsTable, override: str) -> str:
    url = override or (table.text("url") if "url" in table else "sqlite")
    if url == "sqlite":
        return url
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("postgresql", "postgres") and bool(parts.path.strip("/") or parts.hostname)
    except ValueError:
        usable = False
    if not usable:  # it may hold a password: never repeated
        raise InvalidSettings(
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
            raise table.error("redact", f"a list of {', '.join(known)}", name, did_you_mean(name, known))
    return tuple(name for name in known if name in chosen)


def _window(table: SettingsTable, _: Mapping[str, Any]) -> tuple[int, int] | None:
    if "window" not in table:
        return None
    times = _WINDOW.match(table.text("window"))
    if times is None:
        raise table.error("window", 'two times of the day, such as "02:00-06:00"')
    return int(times[1]) * 60 + int(times[2]), int(times[3]) * 60 + int(times[4])


def _variables(environ: Mapping[str, str]) -> tuple[str | None, str]:
    for name in environ:
        if name.startswith("HEADWAY_") and name not in VARIABLES:
            # A mistyped kill switch must not be silent; other variables with this prefix are somebody else's.
            near = difflib.get_close_matches(name[8:], [each[8:] for each in VARIABLES], n=1, cutoff=0.8)
            if near:
                raise InvalidSettings(
                    f"There is no environment variable {name}.",
                    code="settings_bad_variable",
                    hint=did_you_mean(f"HEADWAY_{near[0]}", VARIABLES),
                )
    policy = environ.get("HEADWAY_POLICY", "").strip()
    if policy and policy not in ("off", "current"):
        try:
            PolicyRef.parse(policy)
        except InvalidInput:
            raise InvalidSettings(
                f"HEADWAY_POLICY is {policy!r}, expected off, current or a policy reference such as bandit@4f2a.",
                code="settings_bad_variable",
                hint=did_you_mean(policy, ("off", "current")) if "@" not in policy else "",
            ) from None
    return policy or None, environ.get("HEADWAY_STORE_URL", "")


def cache_folder(directory: Path = Path(), environ: Mapping[str, str] | None = None) -> Path:
    """Where models and caches of this user are kept: HEADWAY_CACHE, else the user's cache directory."""
    environ = os.environ if environ is None else environ
    if environ.get("HEADWAY_CACHE"):
        return Path(environ["HEADWAY_CACHE"]).expanduser().absolute()
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "headway"
    if environ.get("HOME"):
        home = Path(environ["HOME"])
        return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "headway"
    return directory / ".headway" / "cache"  # nobody's home: a container, a service


def _secrets(
    tasks: Mapping[str, TaskSettings], upstreams: Mapping[str, Upstream], environ: Mapping[str, str]
) -> Mapping[str, str]:
    names = {each.key_env for each in upstreams.values()}
    names |= {each.encoder.key_env for each in tasks.values() if isinstance(each.encoder, EncoderEndpoint)}
    return MappingProxyType({name: environ[name] for name in sorted(names) if name and environ.get(name)})


def config(task: TaskSettings) -> str:
    """What affects acting, as canonical JSON: the body behind `config_hash`."""
    return json.dumps(
        {key.name: _plain(getattr(task, key.name)) for key in fields_of(TaskSettings) if key.setting.acts},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
    )


def config_hash(task: TaskSettings) -> str:
    """The same for the same way of acting, in every process: 16 hex digits. Rewards and gates do not enter."""
    return hashlib.sha256(config(task).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
