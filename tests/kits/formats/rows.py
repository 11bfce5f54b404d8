"""Sample rows of the formats that other tools write."""

from __future__ import annotations

from typing import Any

__all__ = ["CHAT", "REVIEW", "ROUND", "event", "routed", "routing", "step"]

ROUND = {
    "id": "tb_1", "v": 1, "ts": "2026-03-11T00:09:35.790Z", "agent": "peter",
    "state": {"composite_score": 1, "dimension_scores": {"passed": 3}, "recent_deltas": [0, 0.5], "agent": "peter"},
    "action": {"type": "fix", "description": "Add a check", "files_affected": ["a", "b"], "scope": "small",
               "branch": "b"},
    "reward": {"composite_delta": 0.5, "dimension_deltas": {"x": 1}, "improved": True},
    "metadata": {"source": "autoresearch"},
}  # fmt: skip
REVIEW = {
    "id": "tb_2", "v": 1, "ts": "2026-03-12T02:32:15Z", "agent": "sentinel",
    "state": {"pr_number": 30, "branch": "feat"},
    "action": {"type": "experiment", "description": "feat: hubs", "scope": "medium", "branch": "feat"},
    "reward": {"quality_score": 0.5, "has_blockers": False},
    "metadata": {"source": "pr-sentinel"},
}  # fmt: skip
CHAT = {
    "request": {"model": "small", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.2},
    "response": {
        "id": "chatcmpl-1", "created": 1700000000, "model": "small-1",
        "choices": [{"message": {"role": "assistant", "content": "Hello"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    },
}  # fmt: skip


def event(kind: str, second: int, **data: Any) -> dict[str, Any]:
    return {"type": kind, "source": "x", "data": data, "id": f"{kind}-{second}", "ts": f"2026-03-10T02:00:{second:02}Z"}


def step(task: str, model: str, reward: float, *, session: str = "s1", **more: Any) -> dict[str, Any]:
    return {
        "type": "TRAJECTORY_STEP", "timestamp": "2025-01-01T00:00:00+00:00", "session_id": session, "task_id": task,
        "agent": "coder", "action": {"model_chosen": model, "prompt_strategy_key": ""}, "reward": reward,
        "terminal": True, "state": {"task_complexity_score": 0.3, "primary_failure_count": 0}, **more,
    }  # fmt: skip


def routed(task: str, model: str, *, session: str = "s1", **more: Any) -> dict[str, Any]:
    return {
        "type": "MODEL_ROUTING_DECISION", "timestamp": "2025-01-01T00:00:00+00:00", "session_id": session,
        "task_id": task, "agent_role": "coder", "model_chosen": model, "primary_model": "p", "fallback_model": "f",
        "policy_source": "yaml", **more,
    }  # fmt: skip


def routing(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1", "session_id": "s", "task_id": "t", "agent_role": "coder",
        "timestamp": "2025-01-01T00:00:00+00:00", "task_complexity_score": 0.3, "primary_failure_count": 2,
        "action_fallback": 1, "primary_model": "p", "fallback_model": "f", "model_chosen": "f", "reward": 1.05,
        "terminal": True, "reward_version": "reward_v1", "data_source": "synthetic",
        "state": {"task_complexity_score": 0.3, "verification_passed": True}, **changes,
    }  # fmt: skip
