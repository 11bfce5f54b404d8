"""Sends requests through LiteLLM's own router with the plug-in; run by the Python that has litellm.

python litellm_traffic.py HEADWAY_URL COUNT SMALL_URL LARGE_URL      one JSON object per request, then the warnings
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

PRICES = {"small": 1e-6, "large": 1e-5}  # US dollars per token


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


async def main(url: str, count: int, small: str, large: str) -> None:
    warnings = Warnings()
    logging.getLogger("headway.litellm").addHandler(warnings)
    headway = HeadwayRouting(url, task="route", pause_s=0.01)
    models: list[dict[str, Any]] = [
        {
            "model_name": "chat",
            "litellm_params": {
                "model": f"openai/{name}",
                "api_base": address,
                "api_key": "none",
                "max_retries": 0,
                "input_cost_per_token": PRICES[name],
                "output_cost_per_token": PRICES[name],
            },
        }
        for name, address in (("small", small), ("large", large))
    ]
    router = litellm.Router(models, plugins=[headway], num_retries=2, retry_after=0, disable_cooldowns=True)
    litellm.callbacks = [headway]
    litellm.suppress_debug_info = True
    for number in range(count):
        kind = ("easy", "hard")[number % 2]
        row: dict[str, Any] = {"number": number}
        try:
            messages = [{"role": "user", "content": f"{kind} question {number}"}]
            answer = await router.acompletion(model="chat", messages=messages)
            for _ in range(200):  # LiteLLM calls its loggers after it has answered
                if headway.decision(answer) is not None or "127.0.0.1:1/" in f"{url}/":
                    break
                await asyncio.sleep(0.02)
            served = answer.choices[0].message.content
            row |= {"decision": headway.decision(answer), "served": served}
            await headway.signal(answer, solved=float((served == "large") == (kind == "hard")))
        except litellm.exceptions.InternalServerError as error:
            row["error"] = type(error).__name__
        print(json.dumps(row))
    await asyncio.sleep(1.0)
    print(json.dumps({"warnings": warnings.texts, "litellm": version("litellm")}))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]))
