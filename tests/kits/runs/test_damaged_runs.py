"""Files of training runs that are damaged or made to harm: no internal error, nothing blocks, nothing is followed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.serve.conftest import Running, served

__all__ = ["served"]

ABOUTS = {
    "list": "[1]",
    "text": '"text"',
    "torn": '{"seed": 1',
    "deep": "[" * 100_000,
    "numbers": '{"seed": 1' + "0" * 400 + ', "started": 1e300, "pid": 99999999999999999999999}',
    "words": '{"started": "yesterday", "pid": "me", "seed": "s", "task": [1], "command": {"a": 1}}',
    "nan": '{"started": NaN, "ended": Infinity}',
}
LINES = [
    b'{"steps": 1, "loss": 1e308}',
    b'{"steps": 2, "loss": 1e308}',
    b'{"steps": 1' + b"0" * 400 + b', "loss": 2}',
    b"[" * 100_000,
    b'{"a": {"b": {"c": {"d": {"e": 1}}}}, "\xc3\xa9": 1}',
    b'{"\xff": 1}',
    b"null",
    json.dumps({f"n{number}": number for number in range(5000)}).encode(),
    b'{"steps": 3, "loss": 1.5}',
]


def made(folder: Path, name: str, *, about: str = "{}", lines: bytes = b'{"steps": 1}\n') -> Path:
    run = folder / ".headway" / "work" / name
    run.mkdir(parents=True)
    (run / "about.json").write_text(about)
    (run / "metrics.jsonl").write_bytes(lines)
    return run


def test_damaged_and_hostile_files_of_runs_are_no_internal_error(
    tmp_path: Path, served: Callable[..., Running]
) -> None:
    for name, about in ABOUTS.items():
        made(tmp_path, name, about=about)
    made(tmp_path, "lines", lines=b"\n".join(LINES) + b"\n" + b"x" * 3_000_000 + b'\n{"steps": 4, "loss": 2}\n')
    for name in ("metrics.jsonl", "about.json"):
        run = made(tmp_path, f"pipe-{name[:5]}")
        (run / name).unlink()
        os.mkfifo(run / name)
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"steps": 1, "pin": 1234}\n')
    linked = made(tmp_path, "linked")
    (linked / "metrics.jsonl").unlink()
    (linked / "metrics.jsonl").symlink_to(secret)
    server = served()

    listed = server.client.get("/v1/runs")
    assert listed.status_code == 200
    names = {run["run"] for run in listed.json()["runs"]}
    assert names == {*ABOUTS, "lines", "pipe-about"}, "a pipe and a link are no metrics"
    for name in names:
        assert server.client.get(f"/v1/runs/{name}/metrics").status_code == 200, name
    curves = server.client.get("/v1/runs/lines/metrics").json()
    assert curves["series"]["loss"][-2:] == [1.5, 2.0]
    assert len(curves["series"]) <= 200
    for name in ("linked", "pipe-metri", "..", "..%2f..%2f", "%2e%2e", "lines%00", "lines/../linked"):
        answer = server.client.get(f"/v1/runs/{name}/metrics")
        assert answer.status_code in {404, 422}, name
        assert "1234" not in answer.text
