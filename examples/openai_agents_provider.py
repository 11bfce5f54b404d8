"""OpenAI Agents SDK: a ModelProvider lets Headway choose the model of every turn, and measures the turn.

headway serve                                      (a task `route` with the actions "small" and "large")
pip install openai-agents
python -P examples/openai_agents_provider.py "Say good morning"

An agent's model is the name of a task. All turns of a run belong to one episode, which gets one outcome.
Without Headway, the first model answers, as it does for streams.
"""

import asyncio
import os
import sys
import uuid
from contextlib import suppress

from agents import Agent, Model, ModelProvider, OpenAIProvider, RunConfig, Runner, set_tracing_disabled

from headway import HeadwayError
from headway.client import AsyncClient


class HeadwayProvider(ModelProvider):
    def __init__(self, client, models, run, provider):
        self.client, self.models, self.run, self.provider = client, models, run, provider

    def get_model(self, model_name):
        return HeadwayModel(self, model_name)


class HeadwayModel(Model):
    def __init__(self, headway, task):
        self.headway, self.task = headway, task

    async def get_response(self, system_instructions, input, *settings, **more):
        headway, provider = self.headway, self.headway.provider
        try:
            pick = await headway.client.decide(self.task, question(input), headway.models, episode=headway.run)
        except HeadwayError as error:
            print(f"Headway does not decide: {error}", file=sys.stderr)
            model = provider.get_model(headway.models[0])
            return await model.get_response(system_instructions, input, *settings, **more)
        try:
            model = provider.get_model(pick.action)
            response = await model.get_response(system_instructions, input, *settings, **more)
        except Exception as error:
            with suppress(HeadwayError):
                await headway.client.signal(pick.id, failed=1.0, label=type(error).__name__)
            raise
        used = {"prompt_tokens": response.usage.input_tokens, "completion_tokens": response.usage.output_tokens}
        with suppress(HeadwayError):
            await headway.client.signal(pick.id, used)
        return response

    def stream_response(self, *asked, **more):
        return self.headway.provider.get_model(self.headway.models[0]).stream_response(*asked, **more)


def question(items):
    if isinstance(items, str):
        return items
    users = [item["content"] for item in items if item.get("role") == "user"]
    return users[-1] if users and isinstance(users[-1], str) else ""


async def main(asked):
    run = uuid.uuid4().hex
    async with AsyncClient(os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765"), retries=0) as client:
        provider = HeadwayProvider(client, ["small", "large"], run, OpenAIProvider(use_responses=False))
        answer = await Runner.run(Agent("helper", model="route"), asked, run_config=RunConfig(model_provider=provider))
        print(answer.final_output)
        with suppress(HeadwayError):
            await client.signal(client.episode("route", run), reward="morning" in answer.final_output)


if __name__ == "__main__":
    set_tracing_disabled(True)
    asyncio.run(main(sys.argv[1]))
