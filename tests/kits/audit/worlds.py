"""Logs of known value in the shape of each program: `write_log("litellm", folder, uplift=0.0, rows=800, seed=1)`.

A router sees whether a request is hard. It prefers large for hard requests and small for easy ones, with known
probabilities. Always taking one action earns .6; the router earns .6 + uplift. In the experiments the treatment earns
.6 + uplift and the control .6. The tight null: the router earns exactly what always large does (.6), always small less.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = ("litellm", "langfuse", "growthbook", "tensorzero", "semantic-router", "otlp", "openai", "columns")
EXPERIMENTS = ("growthbook", "tensorzero")
LIKES = 0.8  # the router's probability of its preferred action
EARNED = 0.6
START = 1_780_000_000.0


def write_log(
    program: str,
    folder: Path,
    *,
    uplift: float,
    rows: int,
    seed: int,
    propensities: bool = True,
    tight: bool = False,
) -> tuple[list[Path], dict[str, Any]]:
    """The files, and the options that the audit of such a log needs."""
    rng = np.random.default_rng(seed)
    if program in EXPERIMENTS:
        treated = rng.random(rows) < 0.5
        solved = rng.random(rows) < EARNED + uplift * treated
        split = {"split": 0.5} if propensities else {}
        return _EXPERIMENTS[program](folder, treated, solved), split
    hard = rng.random(rows) < 0.5
    large = rng.random(rows) < np.where(hard, LIKES, 1.0 - LIKES)
    probability = np.where(large == hard, LIKES, 1.0 - LIKES)
    # Each preferred action earns more by d, the other less: the router gains (2·LIKES − 1)·d over any constant action.
    gain = uplift / (2.0 * LIKES - 1.0)
    chance = EARNED + np.where(large == hard, gain, -gain)
    if tight:
        chance = np.where(large, EARNED, np.where(hard, 0.3, 0.675))
    solved = rng.random(rows) < chance
    known = [float(value) if propensities else None for value in probability]
    return _ROUTERS[program](folder, large, solved, known), {}


def _jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def _model(large: bool) -> str:
    return "gpt-large" if large else "gpt-small"


def _iso(place: int) -> str:
    minutes, seconds = divmod(place, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2026-06-{1 + hours // 24:02d}T{hours % 24:02d}:{minutes:02d}:{seconds:02d}Z"


def _litellm(folder: Path, large: Any, solved: Any, known: list[float | None]) -> list[Path]:
    rows = [
        {
            "id": f"chatcmpl-{place}",
            "call_type": "acompletion",
            "status": "success",
            "response_cost": 0.004 if big else 0.0004,
            "startTime": START + place,
            "endTime": START + place + 1.5,
            "model_group": "chat",
            "model": _model(big),
            "model_id": "d-1" if big else "d-2",
            "metadata": {
                "user_api_key_alias": None,
                "spend_logs_metadata": {"propensity": p, "reward": float(won)} if p else {"reward": float(won)},
            },
            "request_tags": [],
        }
        for place, (big, won, p) in enumerate(zip(large.tolist(), solved.tolist(), known, strict=True))
    ]
    return [_jsonl(folder / "litellm.jsonl", rows)]


def _langfuse(folder: Path, large: Any, solved: Any, known: list[float | None]) -> list[Path]:
    observations = [
        {
            "id": f"obs-{place}",
            "trace_id": f"trace-{place}",
            "type": "GENERATION",
            "start_time": _iso(place).replace("T", " ").removesuffix("Z") + ".000000",
            "name": "answer",
            "provided_model_name": _model(big),
            "metadata": {"propensity": p} if p else {},
            "user_id": f"user-{place % 97}",
        }
        for place, (big, p) in enumerate(zip(large.tolist(), known, strict=True))
    ]
    scores = [
        {
            "id": f"score-{place}",
            "timestamp": _iso(place + 5),
            "trace_id": f"trace-{place}",
            "observation_id": None,
            "name": "solved",
            "value": float(won),
            "data_type": "NUMERIC",
            "source": "API",
        }
        for place, won in enumerate(solved.tolist())
    ]
    return [_jsonl(folder / "observations.jsonl", observations), _jsonl(folder / "scores.jsonl", scores)]


def _openai(folder: Path, large: Any, solved: Any, known: list[float | None]) -> list[Path]:
    rows = [
        {
            "id": f"chatcmpl-{place}",
            "object": "chat.completion",
            "created": int(START) + place,
            "model": _model(big),
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
            "metadata": {"reward": str(float(won)), **({"propensity": str(p)} if p else {})},
        }
        for place, (big, won, p) in enumerate(zip(large.tolist(), solved.tolist(), known, strict=True))
    ]
    return [_jsonl(folder / "completions.jsonl", rows)]


def _columns(folder: Path, large: Any, solved: Any, known: list[float | None]) -> list[Path]:
    """As Excel saves it where a comma is the decimal point."""
    lines = ["time;action;propensity;reward"]
    for place, (big, won, p) in enumerate(zip(large.tolist(), solved.tolist(), known, strict=True)):
        share = "" if p is None else f"{p:g}".replace(".", ",")
        lines.append(f"{_iso(place)};{_model(big)};{share};{int(won)}")
    path = folder / "table.csv"
    path.write_bytes(("\ufeff" + "\r\n".join(lines) + "\r\n").encode())
    return [path]


def _growthbook(folder: Path, treated: Any, solved: Any) -> list[Path]:
    exposures, metric = folder / "exposures.csv", folder / "metric.csv"
    with exposures.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "timestamp", "experiment_id", "variation_id"])
        for place, arm in enumerate(treated.tolist()):
            writer.writerows([[f"u{place}", _iso(place), "new-model", int(arm)]] * (2 if place % 10 == 0 else 1))
    with metric.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user_id", "timestamp", "value"])
        writer.writerows([f"u{place}", _iso(place + 5), int(won)] for place, won in enumerate(solved.tolist()))
    return [exposures, metric]


def _tensorzero(folder: Path, treated: Any, solved: Any) -> list[Path]:
    inferences = [
        {
            "id": f"inf-{place}-{turn}",
            "function_name": "draft",
            "variant_name": "concise" if arm else "control",
            "episode_id": f"ep-{place}",
            "timestamp": _iso(place),
            "processing_time_ms": 800,
            "tags": {},
        }
        for place, arm in enumerate(treated.tolist())
        for turn in range(1 + place % 2)
    ]
    feedback = [
        {"id": f"f-{place}", "target_id": f"ep-{place}", "metric_name": "solved", "value": bool(won), "tags": {}}
        for place, won in enumerate(solved.tolist())
    ]
    return [_jsonl(folder / "inferences.jsonl", inferences), _jsonl(folder / "feedback.jsonl", feedback)]


def _semantic_router(folder: Path, large: Any, solved: Any, known: list[float | None]) -> list[Path]:
    rows = [
        {
            "id": f"replay-{place}",
            "timestamp": _iso(place),
            "request_id": f"req-{place}",
            "decision": "route",
            "decision_tier": 1,
            "selected_model": _model(big),
            "selection_method": "custom",
            "lifecycle_state": "completed",
            "learning": {"adaptation": {"strategy": "routing_sampling", "sampling": {"used": True}}},
            "route_diagnostics": {"annotations": {"propensity": p}} if p else {},
            "outcomes": [
                {"timestamp": _iso(place + 5), "source": "user", "target": "model", "verdict": "x", "score": float(won)}
            ],
            "actual_cost": 0.004 if big else 0.0004,
        }
        for place, (big, won, p) in enumerate(zip(large.tolist(), solved.tolist(), known, strict=True))
    ]
    return [_jsonl(folder / "replay.jsonl", rows)]


def _attributes(**values: Any) -> list[dict[str, Any]]:
    def value(given: Any) -> dict[str, Any]:
        if isinstance(given, list):
            return {"arrayValue": {"values": [value(one) for one in given]}}
        return {"stringValue" if isinstance(given, str) else "doubleValue": given}

    return [{"key": name.replace("__", "."), "value": value(given)} for name, given in values.items()]


def _otlp(folder: Path, large: Any, solved: Any, known: list[float | None]) -> list[Path]:
    """Two files of a collector: spans that carry the draw, and results of an evaluation as log records."""
    spans, records = [], []
    for place, (big, won, p) in enumerate(zip(large.tolist(), solved.tolist(), known, strict=True)):
        where = {"traceId": f"{place + 1:032x}", "spanId": f"{place + 1:016x}"}
        at = int(START + place) * 10**9
        other = round(1.0 - (p or 0.0), 12)
        drawn = {
            "headway__candidates": [_model(big), _model(not big)],
            "headway__probabilities": [p, other],
        }
        named = _attributes(gen_ai__operation__name="chat", gen_ai__request__model=_model(big), **(drawn if p else {}))
        times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 10**9)}
        spans += [
            {**where, **times, "name": "chat", "attributes": named},
            {**where, **times, "spanId": f"{place + 1:015x}f", "name": "agent", "attributes": []},
        ]
        told = _attributes(gen_ai__evaluation__name="solved", gen_ai__evaluation__score__value=float(won))
        result = {"eventName": "gen_ai.evaluation.result", "timeUnixNano": str(at + 5 * 10**9), "attributes": told}
        records.append({**where, **result})
    lines = range(0, len(spans), 512)
    traces = [{"resourceSpans": [{"scopeSpans": [{"spans": spans[at : at + 512]}]}]} for at in lines]
    logs = [{"resourceLogs": [{"scopeLogs": [{"logRecords": records[at : at + 512]}]}]} for at in lines]
    logs = [one for one in logs if one["resourceLogs"][0]["scopeLogs"][0]["logRecords"]]
    return [_jsonl(folder / "traces.jsonl", traces), _jsonl(folder / "logs.jsonl", logs)]


_ROUTERS = {
    "semantic-router": _semantic_router,
    "otlp": _otlp,
    "litellm": _litellm,
    "langfuse": _langfuse,
    "openai": _openai,
    "columns": _columns,
}
_EXPERIMENTS = {"growthbook": _growthbook, "tensorzero": _tensorzero}
