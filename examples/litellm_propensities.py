"""LiteLLM: choose the deployment with known probabilities, and log them for `headway audit`.

python examples/litellm_propensities.py                              (mock answers, no key needed)
headway audit calls.jsonl rewards.jsonl

In your own router: `router.set_custom_routing_strategy(KnownPropensities(router, prefers))` and
`litellm.callbacks = [CallLog("calls.jsonl")]`. On the proxy, the spend logs have the same metadata.
"""

import json
import random
from pathlib import Path

import litellm
from litellm.integrations.custom_logger import CustomLogger
from litellm.types.router import CustomRoutingStrategyBase

MODELS = ("openai/small", "openai/large")


class KnownPropensities(CustomRoutingStrategyBase):
    """Takes the deployment that `prefers(messages)` names, and with probability `explore` any of the group."""

    def __init__(self, router, prefers, explore=0.2, seed=None):
        self.router, self.prefers, self.explore, self.draw = router, prefers, explore, random.Random(seed)

    def get_available_deployment(
        self, model, messages=None, input=None, specific_deployment=False, request_kwargs=None
    ):
        deployments = {row["litellm_params"]["model"]: row for row in self.router.get_model_list(model_name=model)}
        probabilities = dict.fromkeys(deployments, self.explore / len(deployments))
        probabilities[self.prefers(messages)] += 1.0 - self.explore
        (name,) = self.draw.choices(list(probabilities), weights=probabilities.values())
        logged = {"action": name, "propensity": probabilities[name], "probabilities": probabilities}
        metadata = (request_kwargs if request_kwargs is not None else {}).setdefault("metadata", {})
        metadata["spend_logs_metadata"] = {**(metadata.get("spend_logs_metadata") or {}), **logged}
        return deployments[name]

    async def async_get_available_deployment(self, *arguments, **named):
        return self.get_available_deployment(*arguments, **named)


class CallLog(CustomLogger):
    """Writes one line per call; failures too, because an action that fails must not look better."""

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)

    def log_success_event(self, kwargs, response_obj, start_time, end_time):
        payload = kwargs["standard_logging_object"]
        keep = ("id", "status", "model_group", "model", "model_id", "startTime", "endTime", "response_cost", "metadata")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: payload.get(name) for name in keep}, default=str) + "\n")

    log_failure_event = log_success_event

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.log_success_event(kwargs, response_obj, start_time, end_time)

    async_log_failure_event = async_log_success_event


def main(calls=400):
    litellm.callbacks = [CallLog("calls.jsonl")]
    deployment = {"api_key": "none", "mock_response": "Good morning"}
    models = [{"model_name": "chat", "litellm_params": {"model": name, **deployment}} for name in MODELS]
    router = litellm.Router(models)
    strategy = KnownPropensities(router, lambda messages: MODELS["prove" in messages[0]["content"]], seed=1)
    router.set_custom_routing_strategy(strategy)
    with Path("rewards.jsonl").open("w", encoding="utf-8") as rewards:
        for number in range(calls):
            text = ("Say good morning", "Please prove it")[number % 2]
            answer = router.completion(model="chat", messages=[{"role": "user", "content": text}])
            rewards.write(json.dumps({"id": answer.id, "reward": random.Random(number).random()}) + "\n")


if __name__ == "__main__":
    main()
