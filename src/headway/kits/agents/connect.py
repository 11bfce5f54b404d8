"""The configuration that connects an agent to a project: MCP servers, hooks, a base URL.

Files are changed only below our own names (`headway` among the MCP servers, our command among the hooks); everything
else in them is kept. A file that cannot be read as what it should be is left alone.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.files import open_regular
from headway.nouns import errors

_LARGEST = 16 << 20
_EVENTS = ("PostToolUse", "PostToolUseFailure")
_URL = "/v1/hooks/"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigFile:
    """A configuration file, as it should read, and what is ours in it."""

    path: Path
    text: str  # the whole file
    ours: str  # only our part, to print


def claude(folder: Path, server: list[str], hook: dict[str, Any]) -> list[ConfigFile]:
    """`.mcp.json` and the hooks of `.claude/settings.json`."""
    return [_servers(folder / ".mcp.json", server), _hooks(folder / ".claude" / "settings.json", hook, _EVENTS)]


def http_hook(url: str, task: str, *, key: str = "") -> dict[str, Any]:
    """A hook that posts the event; `key` names the environment variable with an API key."""
    authorized = {"headers": {"Authorization": f"Bearer ${key}"}, "allowedEnvVars": [key]} if key else {}
    return {"type": "http", "url": f"{url}{_URL}{task}", **authorized, "timeout": 10}


def cursor(folder: Path, server: list[str]) -> list[ConfigFile]:
    """`.cursor/mcp.json`."""
    return [_servers(folder / ".cursor" / "mcp.json", server)]


def codex(home: Path, server: list[str], hook: dict[str, Any]) -> list[ConfigFile]:
    """`config.toml` of Codex, where our table is appended, or replaced if it is there; the hook in `hooks.json`."""
    path = home / "config.toml"
    command, *arguments = server
    ours = f"[mcp_servers.headway]\ncommand = {_quoted(command)}\nargs = {_quoted(arguments)}\n"
    before = _content(path)
    rest = re.sub(r"(?m)^\[mcp_servers\.headway\]\r?\n(?:(?:command|args) = .*\r?\n?)*", "", before).rstrip()
    text = f"{rest}\n\n{ours}" if rest else ours
    try:
        found, others = _apart(text)
        if found != {"command": command, "args": arguments} or others != _apart(before)[1]:
            raise _odd(path, "mcp_servers.headway holds more than command and args")
    except (ValueError, RecursionError, AttributeError) as error:
        raise _odd(path, f"it is not TOML, or names headway twice: {error}") from None
    return [ConfigFile(path=path, text=text, ours=ours), _hooks(home / "hooks.json", hook, _EVENTS[:1])]


def _apart(text: str) -> tuple[Any, dict[str, Any]]:
    """Our server in a configuration of Codex, and everything else."""
    document = tomllib.loads(text)
    servers = document.get("mcp_servers", {})
    ours = servers.pop("headway", None)
    if not servers:
        document.pop("mcp_servers", None)
    return ours, document


def _servers(path: Path, server: list[str]) -> ConfigFile:
    command, *arguments = server
    ours = {"headway": {"command": command, "args": arguments}}
    document = _read(path)
    servers = document.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise _odd(path, "mcpServers is not an object")
    servers.update(ours)
    return ConfigFile(path=path, text=_text(document), ours=_text({"mcpServers": ours}))


def _hooks(path: Path, hook: dict[str, Any], events: tuple[str, ...]) -> ConfigFile:
    entry = {"matcher": "Bash", "hooks": [hook]}
    document = _read(path)
    hooks = document.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise _odd(path, "hooks is not an object")
    for event in events:
        rows = hooks.setdefault(event, [])
        if not isinstance(rows, list):
            raise _odd(path, f"hooks.{event} is not a list")
        rows[:] = [row for row in rows if not _ours(row)] + [entry]
    return ConfigFile(path=path, text=_text(document), ours=_text({"hooks": {event: [entry] for event in events}}))


def _ours(row: Any) -> bool:
    """Whether a row was written here before, for whichever task."""
    hooks = row.get("hooks") if isinstance(row, dict) and isinstance(row.get("hooks"), list) else None
    calls = [(str(one.get("command", "")), str(one.get("url", ""))) for one in hooks or () if isinstance(one, dict)]
    command, url = calls[0] if len(calls) == 1 else ("", "")
    return (" hook --task " in command and "headway" in command) or _URL in url


def _read(path: Path) -> dict[str, Any]:
    text = _content(path)
    if not text:
        return {}
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_float=_exact, parse_constant=_exact)
        _text(document).encode()
    except (ValueError, RecursionError) as error:
        raise _odd(path, f"it is not JSON that can be written again as it is: {error}") from None
    if not isinstance(document, dict):
        raise _odd(path, "it is not a JSON object")
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("it has a key twice")
    return document


def _exact(text: str) -> float:
    number = float(text)
    if repr(number) != text:
        raise ValueError(f"the number {text[:40]} would change")
    return number


def _content(path: Path) -> str:
    """The text of a file; empty if there is none. A link may lead to a file with secrets, and a pipe never ends."""
    try:
        if path.parent.is_symlink():
            raise OSError(errno.ELOOP, f"{path.parent} is a link")
        with os.fdopen(open_regular(path), encoding="utf-8", newline="") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise OSError(errno.EFBIG, f"it has more than {_LARGEST >> 20} MiB")
        return text
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _odd(path, error.strerror or str(error)) from None
    except ValueError:
        raise _odd(path, "it is not a text in UTF-8") from None


def _quoted(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _odd(path: Path, why: str) -> errors.InvalidInput:
    return errors.InvalidInput(
        f"{str(path)!r} is left alone: {why}.",
        code="bad_configuration",
        hint="Repair the file, or run without --write and copy what is printed.",
    )


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def write(file: ConfigFile) -> bool:
    """Write the file whole; whether it changed."""
    if _content(file.path) == file.text:
        return False
    file.path.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder = os.open(file.path.parent, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _odd(file.path, f"{file.path.parent} is a link, or cannot be opened: {error.strerror}") from None
    scratch = f".{file.path.name}-{secrets.token_hex(8)}"
    try:
        mode = file.path.stat().st_mode & 0o777 if file.path.exists() else 0o644
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            out.write(file.text)
            os.fchmod(handle, mode)
        os.replace(scratch, file.path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(scratch, dir_fd=folder)
        raise
    finally:
        os.close(folder)
    return True
