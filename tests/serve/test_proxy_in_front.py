"""A proxy in front of loopback makes strangers look local: real nginx, real Caddy, and requests as they send them."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.serve.local import LocalCallers
from headway.settings import ServerSettings
from tests.serve.conftest import ASK, Running

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "serve.md").read_text("utf-8")
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CADDY = shutil.which("caddy")
needs_nginx = pytest.mark.skipif(NGINX is None and "CI" not in os.environ, reason="nginx is not installed")
needs_caddy = pytest.mark.skipif(CADDY is None, reason="Caddy is not installed")
PROXY_TOML = next(block for block in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "require_key" in block)
FORWARDING = [
    *("Via", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Anything"),
    *("X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "CDN-Loop"),
]


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def proxy(command: list[str], ready: str, folder: Path) -> Iterator[None]:
    """Runs a proxy until the block ends; it is ready once it has logged so."""
    homes = {name: str(folder) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **homes}
    )
    assert process.stderr is not None
    try:
        assert any(ready in line for line in process.stderr), f"{command[0]} did not start"
        yield
    finally:
        process.terminate()
        process.stderr.close()
        process.wait(20)


@contextmanager
def nginx(servers: str, folder: Path) -> Iterator[None]:
    parts = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "\n".join(f"{part}_temp_path {folder}/{part};" for part in parts)
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nworker_processes 1;\nerror_log stderr notice;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{paths}\n{servers}\n}}\n"
    )
    command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    with proxy(command, "start worker process", folder):
        yield


def nothing_without_a_key(stranger: httpx.Client) -> None:
    assert stranger.post("/v1/decisions", json=ASK).status_code == 401
    for path in ("/v1/decisions", "/v1/tasks", "/metrics", "/health", "/nope"):
        assert stranger.get(path).status_code == 401, path


def everything_with_one(caller: httpx.Client, running: Running) -> None:
    assert caller.post("/v1/decisions", json=ASK, headers=running.token).status_code == 201
    with caller.stream("GET", "/v1/events", headers=running.token) as events:
        assert next(events.iter_lines()) == "event: hello"  # not held back


@needs_nginx
def test_a_plain_nginx_makes_nobody_local(served: Callable[..., Running], tmp_path: Path) -> None:
    running, port = served(), free_port()
    plain = f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{running.port}; }} }}"
    with nginx(plain, tmp_path), httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as stranger:
        nothing_without_a_key(stranger)
        assert running.stored() == 0
        assert stranger.post("/v1/decisions", json=ASK, headers=running.token).status_code == 201
    assert running.decide().status_code == 201  # a program on this machine


@pytest.mark.slow
@needs_nginx
def test_the_documented_nginx_passes_keys_and_nothing_else(served: Callable[..., Running], tmp_path: Path) -> None:
    running, port = served(PROXY_TOML), free_port()
    pem, key = tmp_path / "pem", tmp_path / "key"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=decide.example.com"]
    subprocess.run([*request, "-keyout", key, "-out", pem], check=True, capture_output=True)
    text = block("nginx").replace("listen 443", f"listen 127.0.0.1:{port}").replace(":8765", f":{running.port}")
    text = re.sub(r"/etc/ssl/\S+\.pem", str(pem), text)
    text = re.sub(r"/etc/ssl/\S+\.key", str(key), text)
    trust = ssl.create_default_context(cafile=str(pem))
    trust.check_hostname = False
    with nginx(text, tmp_path), httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, timeout=30) as caller:
        caller.headers["host"] = "decide.example.com"
        nothing_without_a_key(caller)
        everything_with_one(caller, running)


@pytest.mark.slow
@needs_caddy
def test_the_documented_caddy_passes_keys_and_nothing_else(served: Callable[..., Running], tmp_path: Path) -> None:
    running, port = served(PROXY_TOML), free_port()
    text = block("caddy").replace(":8765", f":{running.port}")
    text = text.replace("decide.example.com {", f"http://decide.example.com:{port} {{\nbind 127.0.0.1", 1)
    (tmp_path / "Caddyfile").write_text("{\nadmin off\nauto_https off\n}\n" + text)
    command = [str(CADDY), "run", "--config", "Caddyfile", "--adapter", "caddyfile"]
    with (
        proxy(command, "serving initial configuration", tmp_path),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as caller,
    ):
        caller.headers["host"] = f"decide.example.com:{port}"
        nothing_without_a_key(caller)
        everything_with_one(caller, running)


def test_a_request_in_http_1_0_is_not_local(server: Running) -> None:
    with server.raw() as connection:
        connection.sendall(b"GET /v1/tasks HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 401 " in connection.recv(1000)
    assert server.client.get("/v1/tasks").status_code == 200


def test_a_proxy_seen_once_ends_access_without_a_key(served: Callable[..., Running], tmp_path: Path) -> None:
    running = served()
    assert running.decide().status_code == 201
    assert running.client.get("/health", headers={"via": "1.1 edge"}).status_code == 401
    nothing_without_a_key(running.client)
    assert running.client.get("/v1/tasks", headers=running.token).status_code == 200
    assert "header=via shows a proxy" in running.stop()
    seen = tmp_path / ".headway" / "run" / "proxy.json"
    assert json.loads(seen.read_text())["header"] == "via"
    assert not LocalCallers(ServerSettings(), tmp_path / ".headway").include({}, "1.1")  # nor after a restart
    seen.unlink()
    assert LocalCallers(ServerSettings(), tmp_path / ".headway").include({}, "1.1")


@pytest.mark.parametrize("header", FORWARDING)
@pytest.mark.parametrize("require_key", ["auto", "remote"])
def test_a_forwarded_request_does_not_count_as_local(tmp_path: Path, header: str, require_key: Any) -> None:
    callers = LocalCallers(ServerSettings(require_key=require_key), tmp_path)
    assert callers.include({"host": "127.0.0.1"}, "1.1")
    assert not callers.include({"host": "127.0.0.1", header.lower(): "203.0.113.9"}, "1.1")
    assert callers.include({"host": "127.0.0.1"}, "1.1") is (require_key == "remote")


def test_workers_share_what_they_have_seen(tmp_path: Path) -> None:
    one, other = (LocalCallers(ServerSettings(), tmp_path) for _ in range(2))
    one.include({"via": "1.1 edge"}, "1.1")
    assert other.include({}, "1.1")
    other.refresh()
    assert not other.include({}, "1.1")


def test_other_names_or_a_setting_require_keys_from_the_start(tmp_path: Path) -> None:
    names = ("decide.example",)
    assert not LocalCallers(ServerSettings(hosts=names), tmp_path).include({}, "1.1")
    assert LocalCallers(ServerSettings(hosts=names, require_key="remote"), tmp_path).include({}, "1.1")
    assert not LocalCallers(ServerSettings(require_key="always"), tmp_path).include({}, "1.1")
