"""schemathesis over the whole OpenAPI document: no server error, no hang, no undocumented status, answers as declared.

Work that needs a worker answers 503 `worker_missing` by design, and so do missing upstreams: for these the
status is checked against the document, and that it is never a 500 is checked for all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.conftest import Running

CHECKS = (
    "status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,"
    "negative_data_rejection,unsupported_method,allow_header_conformance"
)
PROGRAM = Path(sys.executable).with_name("schemathesis")
TOML = '[tasks.route]\nactions = ["small", "large"]\n'


def fuzz(running: Running, *more: str, timeout_s: float) -> None:
    done = subprocess.run(
        [
            *(PROGRAM, "--config-file", Path(__file__).with_name("schemathesis.toml")),
            *("run", f"{running.url}/openapi.json", "--header", f"Authorization: {running.token['authorization']}"),
            *("--checks", CHECKS, "--continue-on-failure", "--warnings", "off"),
            *("--suppress-health-check", "all", "--request-timeout", "20", "--seed", "7", "--no-color", *more),
        ],
        cwd=running.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    running.client.get("/health")
    broken = [
        path
        for path in (running.folder / ".headway" / "run").glob("requests.log*")
        for line in path.read_text().splitlines()
        if json.loads(line)["status"] in (500, 499)
    ]
    assert not broken
    assert "Traceback" not in running.stop()


def test_no_valid_or_invalid_request_breaks_the_server(served: Callable[..., Running]) -> None:
    fuzz(served(), "--phases", "fuzzing", "--max-examples", "1", timeout_s=110)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_boundary_of_every_field_is_answered_as_declared(served: Callable[..., Running]) -> None:
    fuzz(served(), "--phases", "coverage", timeout_s=380)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_minutes_of_requests_do_not_break_the_server(served: Callable[..., Running]) -> None:
    fuzz(served(TOML), "--phases", "coverage,fuzzing", "--max-time", "600", timeout_s=880)
