"""Sends requests through LiteLLM's own router with the plug-in.

python litellm_traffic.py HEADWAY_URL COUNT SMALL_URL LARGE_URL      one JSON object per request, then the warnings

After them come 30 requests, with negative numbers, for which Headway is down. Every third request has no retries:
LiteLLM's fallback then sends it to the model `spare`, at the small provider.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from importlib.metadata import version
from typing import Any

import litellm
from headway_litellm import HeadwayRouting

PRICES = {"small": 1e-6, "large": 1e-5, "spare": 3e-6}  # US dollars per token


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


async def main(url: str, count: int, small: str, large: str) -> None:
    warnings = Warnings()
    logging.getLogger("headway.litellm").addHandler(warnings)
    litellm.suppress_debug_info = True
    models: list[dict[str, Any]] = [
        {
            "model_name": group,
            "litellm_params": {
                "model": f"openai/{name}",
                "api_base": address,
                "api_key": "none",
                "max_retries": 0,
                "input_cost_per_token": PRICES[name],
                "output_cost_per_token": PRICES[name],
            },
        }
        for group, name, address in (("chat", "small", small), ("chat", "large", large), ("spare", "spare", small))
    ]
    await ask(models, url, range(count))
    up = list(warnings.texts)
    await ask(models, "http://127.0.0.1:1", range(-30, 0))
    down = warnings.texts[len(up) :]
    print(json.dumps({"up": up, "down": down, "litellm": version("litellm")}))


async def ask(models: list[dict[str, Any]], url: str, numbers: range) -> None:
    """Requests about easy and hard questions, answered and rated."""
    headway = HeadwayRouting(url, task="route", pause_s=0.01)
    router = litellm.Router(
        models,
        plugins=[headway],
        num_retries=2,
        retry_after=0,
        disable_cooldowns=True,
        fallbacks=[{"chat": ["spare"]}],
    )
    litellm.callbacks = [headway]
    for number in numbers:
        kind = ("easy", "hard")[number % 2]
        messages = [{"role": "user", "content": f"{kind} question {number}"}]
        options: dict[str, Any] = {} if number % 3 else {"num_retries": 0}
        answer = await router.acompletion(model="chat", messages=messages, **options)
        for _ in range(200 if number >= 0 else 0):  # LiteLLM calls its loggers after it has answered
            if headway.decision(answer) is not None:
                break
            await asyncio.sleep(0.02)
        served = answer.choices[0].message.content
        await headway.signal(answer, solved=float((served == "large") == (kind == "hard")))
        print(json.dumps({"number": number, "decision": headway.decision(answer), "served": served}))
    await asyncio.sleep(1.0)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
