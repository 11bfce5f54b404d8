"""server.json: the entry for the registry of MCP servers is valid, and the command that it describes is ours."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conftest import ROOT

SCHEMA = json.loads(Path(__file__).with_name("mcp_server.schema.json").read_text("utf-8"))
ENTRY: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))


def test_the_entry_is_valid() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(ENTRY, SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("name",), "headway"),
        (("description",), "x" * 101),
        (("version",), "latest"),
        (("packages", 0, "version"), ">=0.2"),
        (("packages", 0, "transport"), {"type": "pipe"}),
        (("packages", 0, "packageArguments", 0, "name"), None),
        (("packages", 0, "packageArguments", 1, "value"), None),
        (("more",), 1),
    ],
)
def test_a_wrong_entry_is_refused(path: tuple[str | int, ...], value: Any) -> None:
    entry = copy.deepcopy(ENTRY)
    *above, last = path
    place: Any = entry
    for step in above:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(entry, SCHEMA)


def test_the_entry_agrees_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (package,) = ENTRY["packages"]
    assert ENTRY["version"] == package["version"] == project["version"]
    assert package["identifier"] == project["name"]
    (source,) = package["runtimeArguments"]
    assert source["value"] == f"{project['name']}[mcp]=={project['version']}"
    assert "mcp" in project["optional-dependencies"]
    # the registry finds the owner of a package by this line of its readme
    assert re.findall(r"mcp-name: (\S+)", (ROOT / "README.md").read_text("utf-8")) == [ENTRY["name"]]


def test_the_command_of_the_entry_answers(tmp_path: Path) -> None:
    (package,) = ENTRY["packages"]
    words: list[str] = []
    for argument in package["packageArguments"]:
        words += [argument["name"], str(tmp_path)] if argument["type"] == "named" else [argument["value"]]
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    done = subprocess.run(
        [sys.executable, "-m", "headway", *words],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "headway"
