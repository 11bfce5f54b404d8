"""`headway serve` and `headway keys`, as typed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.cli.terminal import headway


def test_a_key_is_shown_once(empty: Path) -> None:
    added = headway("-C", empty, "keys", "add", "agent", "--scope", "decide", "--expires", "90d", "--json").json
    assert re.fullmatch(r"hw_[0-9a-f]{64}", added["key"])
    listed = headway("-C", empty, "keys", "list")
    assert listed.code == 0
    assert added["key"] not in listed.out
    (row,) = headway("-C", empty, "keys", "list", "--json").json["keys"]
    assert (row["name"], row["scopes"], row["valid"]) == ("agent", ["decide"], True)
    rotated = headway("-C", empty, "keys", "rotate", "agent", "--json").json
    assert rotated["key"] != added["key"]
    assert headway("-C", empty, "keys", "revoke", "agent").code == 0
    assert headway("-C", empty, "keys", "list", "--json").json["keys"][0]["valid"] is False
    assert headway("-C", empty, "keys", "rotate", "agent", "--json").error["code"] == "key_revoked"


def test_a_key_with_an_invalid_expiry_is_refused(empty: Path) -> None:
    for text in ("0d", "-1d", "soon", "5", "d", "99999w"):
        done = headway("-C", empty, "keys", "add", "agent", "--scope", "decide", f"--expires={text}", "--json")
        assert done.error["code"] == "bad_time"


def test_serve_prints_its_address_answers_and_stops(empty: Path) -> None:
    process = subprocess.Popen(
        [Path(sys.executable).with_name("headway"), "-C", empty, "serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += process.stdout.readline()
    report = json.loads(text)
    assert report["next"].startswith(f"curl -s {report['url']}/v1/decisions ")
    assert httpx.get(report["url"] + "/health").json() == {"status": "ok"}
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stdout.read() == ""
    process.stdout.close()


def test_serving_on_a_port_in_use_is_an_error(empty: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = headway("-C", empty, "serve", "--port", taken.getsockname()[1], "--json")
    assert done.error["code"] == "port_in_use"
