"""/v1/settings, /v1/keys and /v1/doctor: how this project is set up; the weight of a signal can be changed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headway.nouns import Finding, errors, rfc3339
from headway.observe import Keys, Redactor
from headway.project import WrittenWeight, write_weight
from headway.serve.endpoints import Call, endpoint, strict
from headway.serve.wire import SignalName
from headway.settings import settings_lines

_PATIENCE_S = 60.0
_REDACT = Redactor()  # whatever the project redacts in texts
_checkups: dict[tuple[Any, ...], asyncio.Task[Any]] = {}  # that run now: each is a process


class SettingsLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of headway.toml; `table` is the one that it belongs to. Secrets are redacted."""

    line: int
    table: str
    text: str


class SettingsFileAnswer(msgspec.Struct, frozen=True, kw_only=True):
    file: str | None  # null: there is none, and every setting has its default
    lines: list[SettingsLine]


@endpoint("GET", "/v1/settings", gives=SettingsFileAnswer, scope="admin")
def settings_file(call: Call) -> SettingsFileAnswer:
    """The lines of headway.toml."""
    project = call.server.project
    file, lines = settings_lines(project.folder)
    return SettingsFileAnswer(
        file=None if file is None else str(file),
        lines=[SettingsLine(line=number, table=table, text=_REDACT(text)) for number, table, text in lines],
    )


class WeightRequest(strict):
    signal: SignalName
    weight: Annotated[float, Meta(ge=-1e9, le=1e9)]


@endpoint("POST", "/v1/tasks/{task}/weight", takes=WeightRequest, gives=WrittenWeight, errors=(404, 409), scope="admin")
def change_weight(call: Call, body: WeightRequest) -> WrittenWeight:
    """Write the weight of a signal into the task's reward in headway.toml; nothing else in the file changes."""
    return write_weight(call.server.project, call.params["task"], body.signal, body.weight)


class KeyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    name: str
    scopes: list[str]
    created: str
    expires: str | None
    revoked: str | None
    valid: bool


class KeysAnswer(msgspec.Struct, frozen=True):
    keys: list[KeyAnswer]


@endpoint("GET", "/v1/keys", gives=KeysAnswer, scope="admin")
def keys(call: Call) -> KeysAnswer:
    """The keys of this project, without their secrets."""
    project = call.server.project
    now = project.clock()
    return KeysAnswer(
        [
            KeyAnswer(
                name=key.name,
                scopes=list(key.scopes),
                created=rfc3339(key.created),
                expires=None if key.expires is None else rfc3339(key.expires),
                revoked=None if key.revoked is None else rfc3339(key.revoked),
                valid=key.valid(now),
            )
            for key in Keys(project.database).list()
        ]
    )


class CheckupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    ok: bool
    checks: list[Finding]


class CheckupQuery(strict):
    thorough: Annotated[bool, Meta(description="Read all decisions, too.")] = False


@endpoint("GET", "/v1/doctor", query=CheckupQuery, gives=CheckupAnswer, scope="admin")
async def checkup(call: Call) -> CheckupAnswer:
    """What `headway doctor --quick` finds, or `headway doctor` if it is to be thorough: in a process of its own."""
    query: CheckupQuery = call.query
    asked = (str(call.server.project.folder), query.thorough)
    place = (asyncio.get_running_loop(), *asked)
    running = _checkups.get(place)  # calls that come while it runs share its answer
    if running is None:
        running = _checkups[place] = asyncio.ensure_future(call.in_far_thread(_checked, *asked))
        running.add_done_callback(lambda done: _finished(place, done))
    answer: CheckupAnswer = await asyncio.shield(running)  # whoever leaves ends it for nobody
    return answer


def _finished(place: tuple[Any, ...], done: asyncio.Task[Any]) -> None:
    del _checkups[place]
    if not done.cancelled():
        done.exception()  # nobody may be left to ask


def _checked(folder: str, thorough: bool) -> CheckupAnswer:
    command = [sys.executable, "-P", "-m", "headway", "--project", folder, "doctor", "--json"]
    command += [] if thorough else ["--quick"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
        document: dict[str, Any] = msgspec.json.decode(done.stdout)
        return msgspec.convert(document, CheckupAnswer)
    except (subprocess.TimeoutExpired, msgspec.MsgspecError) as error:
        raise errors.Unavailable(
            "The checks did not finish.", code="doctor_failed", hint="Run them in the terminal: headway doctor"
        ) from error
