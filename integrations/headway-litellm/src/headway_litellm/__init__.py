"""LiteLLM asks Headway which model, and tells it how that went.

    headway = HeadwayRouting("http://127.0.0.1:8765", task="route")
    router = litellm.Router(model_list=…, plugins=[headway], num_retries=2)
    litellm.callbacks = [headway]
    answer = await router.acompletion(model="chat", messages=…)
    await headway.signal(answer, solved=1.0)

The models of the group are the candidates. Headway draws one with a known probability; if it fails, LiteLLM's retries
go to those that were not tried. When the request ends, its decision gets `cost_usd`, `latency_s`, tokens, `attempts`,
`failed`, and `served`, whose label is the model that really answered. All of them describe the whole request.

If Headway does not answer in time, LiteLLM goes on as it would without: nothing is raised, one warning is logged, and
Headway is asked again after `pause_s`. Signals wait for it, at most 10,000.

Not covered: `router.completion`, which LiteLLM refuses if a router has plugins; groups with one model; one dictionary
as the `metadata` of several requests at once, because LiteLLM writes into it.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.router import RoutingContext

__all__ = ["HeadwayRouting"]

logger = logging.getLogger("headway.litellm")
_MARK = "headway"
_MOST = 10_000  # requests that are remembered, and signals that wait
Outcome = Callable[[Mapping[str, Any], Any], Mapping[str, float]]


class HeadwayRouting(CustomLogger):
    """A routing plugin and a logger in one; give it to `Router(plugins=…)` and to `litellm.callbacks`.

    `outcome(kwargs, response)` returns further signals of an answer, such as {"solved": 1.0}.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        *,
        task: str = "route",
        key: str = "",
        timeout_s: float = 2.0,
        pause_s: float = 5.0,
        outcome: Outcome | None = None,
    ) -> None:
        super().__init__()
        self._client = httpx.AsyncClient(base_url=url, headers={"x-api-key": key} if key else {}, timeout=timeout_s)
        self._task, self._pause_s, self._outcome = task, pause_s, outcome
        self._down, self._down_until = False, 0.0
        self._answered: OrderedDict[str, str] = OrderedDict()  # completion → decision
        self._tried: OrderedDict[str, list[str]] = OrderedDict()  # decision → models that were sent to
        self._failed: OrderedDict[str, float] = OrderedDict()  # decision → cost of its failed attempts
        self._done: OrderedDict[str, bool] = OrderedDict()  # decisions whose request has an answer
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST)

    # -- the plugin

    async def run(self, context: RoutingContext) -> RoutingContext:
        """Narrow the candidates to the drawn model; after a failure, to those that were not tried yet."""
        models = list(dict.fromkeys(context.candidate_models))
        _leave(context, models)
        text, mark = _text(context.structured_messages), _mark(context.metadata)
        if mark is not None and mark["decision"] not in self._done and mark["asked"] == hash(text):
            tried = self._tried.setdefault(mark["decision"], [mark["action"]])
            if set(mark["models"]) == set(models):  # a retry; a fallback to another group is left to LiteLLM
                models = [model for model in models if model not in tried][:1] or [models[len(tried) % len(models)]]
                _leave(context, models)
            tried.append(models[0])
            context.signals[_MARK] = mark
            return context
        if len(models) < 2:
            return context
        decided = await self._post("/v1/decisions", {"task": self._task, "text": text, "candidates": models})
        if decided is None:
            return context
        _leave(context, [decided["action"]])
        context.signals[_MARK] = {
            "decision": decided["id"], "action": decided["action"], "propensity": decided["propensity"],
            "policy": decided["policy"], "models": models, "at": time.time(), "asked": hash(text),
        }  # fmt: skip
        self._remember(self._tried, decided["id"], [decided["action"]])
        return context

    # -- the logger

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, *_args: Any, **_named: Any) -> None:
        """The request has an answer: all of its attempts count."""
        mark = _mark(_metadata(kwargs))
        if mark is None:
            return
        payload = kwargs.get("standard_logging_object") or {}
        self._remember(self._answered, str(getattr(response_obj, "id", "")), mark["decision"])
        signals: dict[str, float | None] = {
            "cost_usd": float(payload.get("response_cost") or 0.0) + self._failed.get(mark["decision"], 0.0),
            "prompt_tokens": payload.get("prompt_tokens") or 0,
            "completion_tokens": payload.get("completion_tokens") or 0,
            **(self._outcome(kwargs, response_obj) if self._outcome else {}),
        }
        self._remember(self._done, mark["decision"], True)
        if self._failed.pop(mark["decision"], None) is not None:
            signals["failed"] = None  # withdrawn: a retry has answered
        await self._tell(mark, signals, served=_metadata(kwargs).get("deployment") or "")

    async def async_log_failure_event(self, kwargs: Any, *_args: Any, **_named: Any) -> None:
        """An attempt has failed; unless another one answers, so has the request."""
        mark = _mark(_metadata(kwargs))
        if mark is not None and mark["decision"] not in self._done:
            cost = float((kwargs.get("standard_logging_object") or {}).get("response_cost") or 0.0)
            self._remember(self._failed, mark["decision"], self._failed.get(mark["decision"], 0.0) + cost)
            await self._tell(mark, {"failed": 1.0})

    def decision(self, response: Any) -> str | None:
        """The decision of an answer; None if Headway was not asked."""
        return self._answered.get(str(response.id))

    async def signal(self, response: Any, **signals: float) -> None:
        """Say how good an answer was: `await headway.signal(answer, solved=1.0)`."""
        decision = self.decision(response)
        if decision is not None:
            await self._send([{"subject": decision, "signals": signals}])

    # -- Headway

    async def _tell(self, mark: Mapping[str, Any], signals: dict[str, float | None], served: str = "") -> None:
        tried = self._tried.get(mark["decision"], [])
        signals |= {"latency_s": time.time() - mark["at"], "attempts": float(max(len(tried), 1))}
        rows = [{"subject": mark["decision"], "signals": signals}]
        if served:
            rows.append({"subject": mark["decision"], "signals": {"served": 1.0}, "label": served})
        await self._send(rows)

    async def _send(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._waiting.extend(rows)
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), 500))]
            if await self._post("/v1/signals", {"signals": batch}) is None:
                self._waiting.extendleft(reversed(batch))
                return

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer; None if there is none now. A refusal is logged each time, an outage once."""
        if time.monotonic() < self._down_until:
            return None
        try:
            answer = await self._client.post(path, json=body)
            if answer.is_client_error and answer.status_code != 429:
                logger.error("%s refused: %s", path, answer.text[:500])
                return None if path == "/v1/decisions" else {}
            answer.raise_for_status()
            self._down = False
            return dict(answer.json())
        except (httpx.HTTPError, ValueError) as error:
            self._down_until = time.monotonic() + self._pause_s
            if not self._down:
                self._down = True
                logger.warning("Headway does not answer at %s (%r): LiteLLM chooses.", self._client.base_url, error)
            return None

    def _remember(self, into: OrderedDict[str, Any], name: str, value: Any) -> None:
        into[name] = value
        if len(into) > _MOST:
            into.popitem(last=False)


def _leave(context: RoutingContext, models: list[str]) -> None:
    """Narrow or widen the candidates; LiteLLM keeps the last narrowing of a request where no plugin narrows again."""
    context.candidate_models = models
    narrowed = context.metadata.get("_routing_plugin_candidate_models")
    if isinstance(narrowed, list):
        narrowed[:] = models


def _metadata(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request's metadata, which holds the signals of plugins; its name differs between LiteLLM's endpoints."""
    given = kwargs.get("litellm_params") or {}
    return next((given[name] for name in ("metadata", "litellm_metadata") if _mark(given.get(name) or {})), {})


def _mark(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the plugin noted about this request."""
    mark = (metadata.get("routing_plugin_signals") or {}).get(_MARK)
    return mark if isinstance(mark, dict) else None


def _text(messages: Sequence[Mapping[str, Any]]) -> str:
    """The latest user message."""
    content = next((one.get("content") for one in reversed(messages) if one.get("role") == "user"), "")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return str(content or "")[:100_000]
