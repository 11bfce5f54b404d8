"""Pydantic AI: a WrapperModel lets Headway choose the model of every call, and measures the call.

headway serve                                      (a task `route` with the actions "small" and "large")
pip install "pydantic-ai-slim[openai]"
python -P examples/pydantic_ai_wrapper.py "Say good morning"

A response's `metadata` has the decision's id. Without Headway, the first model answers, as it does for streams.
"""

import asyncio
import os
import sys
from contextlib import suppress

from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel

from headway import HeadwayError
from headway.client import AsyncClient


class HeadwayModel(WrapperModel):
    def __init__(self, client, task, models):
        super().__init__(next(iter(models.values())))
        self.client, self.task, self.models = client, task, models

    async def request(self, messages, model_settings, model_request_parameters):
        try:
            pick = await self.client.decide(self.task, question(messages), list(self.models))
        except HeadwayError as error:
            print(f"Headway does not decide: {error}", file=sys.stderr)
            return await self.wrapped.request(messages, model_settings, model_request_parameters)
        try:
            model = self.models[pick.action]
            response = await model.request(messages, model_settings, model_request_parameters)
        except Exception as error:
            with suppress(HeadwayError):
                await self.client.signal(pick.id, failed=1.0, label=type(error).__name__)
            raise
        response.metadata = {**(response.metadata or {}), "headway": pick.id}
        usage = response.usage
        with suppress(HeadwayError):
            await self.client.signal(pick.id, prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens)
        return response


def question(messages):
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    texts = [part.content for part in parts if isinstance(part, UserPromptPart)]
    return texts[-1] if texts and isinstance(texts[-1], str) else ""


async def main(asked):
    async with AsyncClient(os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765"), retries=0) as client:
        models = {name: OpenAIChatModel(name) for name in ("small", "large")}  # any models
        result = await Agent(HeadwayModel(client, "route", models)).run(asked)
        print(result.output)
        decision = (result.response.metadata or {}).get("headway")
        if decision is not None:
            await client.signal(decision, reward="morning" in result.output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
