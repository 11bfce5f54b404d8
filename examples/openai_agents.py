"""OpenAI Agents SDK: Headway chooses the agent's model in every turn and gets a signal about the run.

headway serve                                               (a task `route` over upstreams: docs/how-to/agents.md)
python -P examples/openai_agents.py "Say good morning"
"""

import asyncio
import os
import sys
import uuid

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI

from headway.client import AsyncClient


async def main(question: str, url: str) -> None:
    run = uuid.uuid4().hex  # the episode of this run
    model = OpenAIChatCompletionsModel("headway/route", AsyncOpenAI(base_url=f"{url}/e/{run}/v1", api_key="-"))
    answer = (await Runner.run(Agent(name="helper", model=model), question)).final_output
    async with AsyncClient(url) as headway:
        await headway.signal(headway.episode("route", run), reward="morning" in answer)
    print(answer)


set_tracing_disabled(True)  # no data goes anywhere but to your upstreams
asyncio.run(main(sys.argv[1], os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765")))
