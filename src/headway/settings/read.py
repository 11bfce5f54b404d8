"""headway.toml and HEADWAY_* → Settings."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

from headway.nouns.checkpoint import PolicyRef
from headway.nouns.errors import InvalidInput, InvalidSettings, did_you_mean
from headway.settings.fields import Table
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
from headway.settings.tasks import TASK_KEYS, task

__all__ = ["FILE", "KEYS", "VARIABLES", "cache_folder", "config", "config_hash", "load", "parse", "project_directory"]

FILE = "headway.toml"
# Every key of the file, by table. docs/reference/settings.md has a heading for each.
KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tasks": TASK_KEYS,
        "upstreams": ("url", "model", "key_env", "price_in", "price_out", "timeout_s", "max_tokens"),
        "server": (
            "host", "port", "workers", "hosts", "max_body_bytes", "max_batch_bytes", "read_timeout_s", "stop_timeout_s",
            "rate_per_s", "otel",
        ),
        "store": ("url", "durability", "queue", "synthetic", "redact", "keep_days"),
        "watch": ("interval_s", "window", "idle_s", "free_disk_mb", "free_memory_mb", "max_load"),
    }
)  # fmt: skip
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
    root = Table(_toml(text, name), name, (), tuple(KEYS))
    tasks: dict[str, TaskSettings] = {}
    for each in root.table("tasks"):
        _name_of(root, "tasks", each)
        tasks[each] = task(each, root.below("tasks", each, TASK_KEYS))
    upstreams: dict[str, Upstream] = {}
    for each in root.table("upstreams"):
        _name_of(root, "upstreams", each)
        hint = "A key is named by key_env and kept in that environment variable."
        upstreams[each] = _upstream(each, root.below("upstreams", each, KEYS["upstreams"], hint=hint))
    override, url = _variables(environ)
    store = _store(_section(root, "store"), url)
    return Settings(
        directory=directory,
        file=file,
        tasks=MappingProxyType(tasks),
        upstreams=MappingProxyType(upstreams),
        server=_server(_section(root, "server"), store),
        store=store,
        watch=_watch(_section(root, "watch")),
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


def _name_of(root: Table, section: str, name: str) -> None:
    if not is_task_name(name):
        expected = "a name of at most 64 of a-z, 0-9, '_', '.' and '-', starting with a letter or digit"
        raise root.error((section, name), expected, None)


def _section(root: Table, name: str) -> Table:
    return root.inner((name,), root.table(name), KEYS[name])


def _upstream(name: str, table: Table) -> Upstream:
    url = table.url("url")
    if "model" not in table:
        raise table.missing("model", "the model's name at that server")
    return Upstream(
        name=name,
        url=url,
        model=table.text("model", ""),
        key_env=table.variable("key_env"),
        price_in=table.number("price_in", 0.0, low=0),
        price_out=table.number("price_out", 0.0, low=0),
        timeout_s=table.number("timeout_s", 60.0, low=0, high=3600, above=True),
        max_tokens=table.whole("max_tokens", 0, low=0, high=10_000_000),
    )


def _server(table: Table, store: StoreSettings) -> ServerSettings:
    made = ServerSettings(
        host=table.text("host", "127.0.0.1"),
        port=table.whole("port", 8765, low=0, high=65_535),
        workers=table.whole("workers", 1, low=1, high=64),
        hosts=table.words_list("hosts"),
        max_body_bytes=table.whole("max_body_bytes", 1_000_000, low=1_000, high=1_000_000_000),
        max_batch_bytes=table.whole("max_batch_bytes", 16_000_000, low=1_000, high=1_000_000_000),
        read_timeout_s=table.number("read_timeout_s", 10.0, low=0, high=3600, above=True),
        stop_timeout_s=table.number("stop_timeout_s", 5.0, low=0, high=3600, above=True),
        rate_per_s=table.number("rate_per_s", 0.0, low=0),
        otel=table.flag("otel", False),
    )
    if made.max_batch_bytes < made.max_body_bytes:
        raise table.error("max_batch_bytes", f"at least max_body_bytes ({made.max_body_bytes})", made.max_batch_bytes)
    if made.workers > 1 and store.embedded:
        hint = 'Set [store] url = "postgresql://…".'
        raise table.error("workers", "1 with the embedded store; several servers share a PostgreSQL store", hint=hint)
    return made


def _store(table: Table, override: str) -> StoreSettings:
    url = override or table.text("url", "sqlite")
    if url != "sqlite":
        place = "HEADWAY_STORE_URL" if override else "store.url"
        try:
            parts = urlsplit(url)
            good = parts.scheme in ("postgresql", "postgres") and bool(parts.path.strip("/") or parts.hostname)
        except ValueError:
            good = False
        if not good:  # it may hold a password: never repeated
            raise InvalidSettings(
                f'{place} cannot be used, expected "sqlite" or postgresql://user@host/database.',
                code="settings_bad_value" if not override else "settings_bad_variable",
            )
    return StoreSettings(
        url=url,
        durability=table.one_of("durability", ("power", "process"), "power"),
        queue=table.whole("queue", 10_000, low=1, high=10_000_000),
        synthetic=table.flag("synthetic", False),
        redact=_redact(table),
        keep_days=table.number("keep_days", 0.0, low=0),
    )


def _redact(table: Table) -> tuple[Redaction, ...]:
    known: tuple[Redaction, ...] = get_args(Redaction)
    found = table.words_list("redact", ("secrets",))
    for each in found:
        if each not in known:
            raise table.error("redact", f"a list of {', '.join(known)}", each, did_you_mean(each, known))
    return tuple(each for each in known if each in found)


def _watch(table: Table) -> WatchSettings:
    window = table.text("window", "")
    found = _WINDOW.match(window)
    if window and found is None:
        raise table.error("window", 'two times of the day, such as "02:00-06:00"', window)
    return WatchSettings(
        interval_s=table.number("interval_s", 30.0, low=0, high=86_400, above=True),
        window=None if found is None else (int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])),
        idle_s=table.number("idle_s", 0.0, low=0),
        free_disk_mb=table.whole("free_disk_mb", 256, low=0, high=1_000_000_000),
        free_memory_mb=table.whole("free_memory_mb", 256, low=0, high=1_000_000_000),
        max_load=table.number("max_load", 0.0, low=0),
    )


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


_ACTING = (
    "name", "kind", "actions", "family", "rules", "fallback", "state", "roles", "encoder", "explore", "floor",
    "confidence_floor", "sticky", "episode_timeout_s", "online", "costs", "cost_weight", "seed", "world", "model",
)  # fmt: skip


def config(task: TaskSettings) -> str:
    """What affects acting, as canonical JSON: the body behind `config_hash`."""
    return json.dumps(
        {key: _plain(getattr(task, key)) for key in _ACTING},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
    )


def config_hash(task: TaskSettings) -> str:
    """The same for the same way of acting, in every process: 16 hex digits. Rewards and gates do not enter."""
    return hashlib.sha256(config(task).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
