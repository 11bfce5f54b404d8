"""The logs of LiteLLM, Langfuse, GrowthBook, TensorZero and OpenAI, and any table, from their public documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.kits.audit.shape import LogShape, OutcomeShape

__all__ = ["SHAPES", "shape_named"]

_DRAW = "Exploration is needed first: a chooser that always takes the same action in a situation cannot be audited."


def _litellm(row: Mapping[str, Any]) -> bool:
    payload = "model_group" in row and ("startTime" in row or "response_cost" in row)
    return payload or ("request_id" in row and "spend" in row)


LITELLM = LogShape(
    name="litellm",
    program="LiteLLM",
    looks=_litellm,
    action=("metadata.spend_logs_metadata.action", "metadata.requester_metadata.action", "model"),
    propensity=(
        "propensity", "metadata.spend_logs_metadata.propensity", "metadata.requester_metadata.propensity",
        "metadata.propensity",
    ),
    probabilities=("metadata.spend_logs_metadata.probabilities", "metadata.requester_metadata.probabilities"),
    reward=(
        "reward", "metadata.spend_logs_metadata.reward", "metadata.requester_metadata.reward", "metadata.reward",
    ),
    at=("startTime",),
    id=("id", "request_id"),
    keys=("id", "request_id", "litellm_call_id", "trace_id"),
    group=("end_user",),
    outcome=OutcomeShape(
        looks=lambda row: "model" not in row and "reward" in row,
        key=("id", "request_id", "litellm_call_id", "trace_id"),
        value=("reward",),
        at=("timestamp",),
    ),
    add_propensity=(
        "LiteLLM logs the deployment that it chose, not the probability. Choose with examples/litellm_propensities.py, "
        "which adds metadata.spend_logs_metadata.propensity to every log line. If routing_strategy is simple-shuffle, "
        "declare its weights: --propensity MODEL=0.8 --propensity OTHER=0.2."
    ),
    add_reward=(
        "LiteLLM logs cost, time and status, not how good an answer was. Give metadata.spend_logs_metadata.reward, or "
        "a second file with id and reward. To audit what it logs: --reward response_cost --lower-is-better."
    ),
)  # fmt: skip


def _score(row: Mapping[str, Any]) -> bool:
    return "value" in row and "name" in row and any(key in row for key in ("trace_id", "traceId", "session_id"))


def _langfuse(row: Mapping[str, Any]) -> bool:
    trace = "metadata" in row and any(name in row for name in ("userId", "user_id", "sessionId", "session_id"))
    return _score(row) or "provided_model_name" in row or "providedModelName" in row or (trace and "timestamp" in row)


LANGFUSE = LogShape(
    name="langfuse",
    program="Langfuse",
    looks=_langfuse,
    action=("metadata.action", "metadata.variant", "provided_model_name", "providedModelName", "metadata.model"),
    propensity=("metadata.propensity", "propensity"),
    probabilities=("metadata.probabilities",),
    reward=("reward", "metadata.reward"),
    at=("start_time", "startTime", "timestamp"),
    id=("id",),
    unit=("trace_id", "traceId", "id"),
    unit_name="trace",
    keys=("id", "trace_id", "traceId"),
    group=("user_id", "userId"),
    scores=("scores",),
    outcome=OutcomeShape(
        looks=_score,
        key=("observation_id", "observationId", "trace_id", "traceId", "session_id"),
        value=("value",),
        name=("name",),
        at=("timestamp",),
    ),
    add_propensity=(
        "Langfuse keeps the metadata that you send. Draw the model at random with known probabilities and pass "
        'metadata={"action": model, "propensity": probability} to the trace or the generation. ' + _DRAW
    ),
    add_reward="Score the traces (create_score), and give the exported scores as a second file.",
)


def _growthbook(row: Mapping[str, Any]) -> bool:
    return "variation_id" in row or "variationId" in row


_USER = ("user_id", "anonymous_id", "device_id", "hashValue", "hash_value", "id")
GROWTHBOOK = LogShape(
    name="growthbook",
    program="GrowthBook",
    looks=_growthbook,
    action=("variation_id", "variationId"),
    propensity=("propensity",),
    weights=("weights", "experiment.weights"),
    reward=("reward", "value", "metric_value"),
    at=("timestamp", "received_at"),
    unit=_USER,
    unit_name="user",
    keys=_USER,
    one_of=("experiment_id", "experimentId"),
    outcome=OutcomeShape(
        looks=lambda row: not _growthbook(row),
        key=_USER,
        value=("value", "reward", "metric_value"),
        name=("metric", "metric_name", "event_name"),
        at=("timestamp",),
        several="sum",
    ),
    experiment=True,
    arm_word="variation",
    add_propensity=(
        "GrowthBook's exposures do not repeat the split of the experiment. Declare it: --propensity 0.5 for an even "
        "split of two, or --propensity 0=0.9 --propensity 1=0.1; or add a column weights with the list of weights. "
        "Coverage does not matter: who is not in the experiment is not in the exposures."
    ),
    add_reward="Join the metric to the exposures as a column value, or give user_id and value as a second file.",
)

TENSORZERO = LogShape(
    name="tensorzero",
    program="TensorZero",
    looks=lambda row: "variant_name" in row or "target_id" in row,
    action=("variant_name",),
    propensity=("tags.propensity", "propensity"),
    reward=("reward",),
    at=("timestamp",),
    id=("id",),
    unit=("episode_id", "id"),
    unit_name="episode",
    keys=("id", "inference_id", "episode_id"),
    one_of=("function_name",),
    outcome=OutcomeShape(
        looks=lambda row: "target_id" in row,
        key=("target_id",),
        value=("value",),
        name=("metric_name",),
        at=("timestamp",),
    ),
    experiment=True,
    arm_word="variant",
    add_propensity=(
        "TensorZero draws the variant of an episode with the weights in tensorzero.toml and does not store them. "
        "Declare them: --propensity VARIANT=0.7 --propensity OTHER=0.3, or --propensity 0.5 for an even split of two. "
        "For weights that change (adaptive experiments), send them as the tag propensity."
    ),
    add_reward="Give the feedback (BooleanMetricFeedback, FloatMetricFeedback) as a second file.",
)


def _openai(row: Mapping[str, Any]) -> bool:
    answer = isinstance(row.get("response"), Mapping) and ("request" in row or "custom_id" in row)
    return row.get("object") == "chat.completion" or answer or ("choices" in row and "model" in row)


OPENAI = LogShape(
    name="openai",
    program="OpenAI",
    looks=_openai,
    action=(
        "metadata.action", "request.metadata.action", "request.model", "request.body.model", "model",
        "response.model", "response.body.model",
    ),
    propensity=("propensity", "metadata.propensity", "request.metadata.propensity", "response.metadata.propensity"),
    probabilities=("probabilities", "metadata.probabilities"),
    reward=("reward", "metadata.reward", "request.metadata.reward", "response.metadata.reward", "rating"),
    at=("created", "timestamp", "response.created", "response.body.created"),
    id=("id", "custom_id", "response.id", "response.body.id"),
    keys=("id", "custom_id", "response.id", "response.body.id"),
    group=("user", "request.user"),
    outcome=OutcomeShape(
        looks=lambda row: not _openai(row) and "reward" in row,
        key=("id", "custom_id", "completion_id"),
        value=("reward",),
        at=("timestamp",),
    ),
    add_propensity=(
        "A completion does not say how its model was chosen. Draw the model at random with known probabilities, and "
        'send metadata={"propensity": "0.8"} with store=true, or write propensity into your own log line. ' + _DRAW
    ),
    add_reward="Write reward into the line or its metadata, or give a second file with id and reward.",
)  # fmt: skip

COLUMNS = LogShape(
    name="columns",
    program="a table",
    looks=lambda _row: True,
    action=("action", "arm", "variant", "model"),
    propensity=("propensity",),
    probabilities=("probabilities",),
    reward=("reward",),
    at=("at", "timestamp", "time"),
    id=("id",),
    keys=("id",),
    group=("user", "user_id"),
    add_propensity=(
        "Draw the action at random with known probabilities and write the probability of the drawn action into a "
        "column propensity, or name yours: --propensity COLUMN. For a constant split, declare it: --propensity 0.5. "
        + _DRAW
    ),
    add_reward="Write the outcome into a column reward, or name yours: --reward COLUMN.",
)

SHAPES = (TENSORZERO, GROWTHBOOK, LANGFUSE, LITELLM, OPENAI, COLUMNS)


def shape_named(name: str) -> LogShape:
    return next(shape for shape in SHAPES if shape.name == name)
