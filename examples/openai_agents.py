"""An agent of the OpenAI Agents SDK: Headway chooses its model, turn by turn, and hears how the run went.

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
    run = uuid.uuid4().hex  # the episode that every turn of this run belongs to
    model = OpenAIChatCompletionsModel("headway/route", AsyncOpenAI(base_url=f"{url}/e/{run}/v1", api_key="-"))
    answer = (await Runner.run(Agent(name="helper", model=model), question)).final_output
    async with AsyncClient(url) as headway:
        await headway.signal(headway.episode("route", run), reward="morning" in answer)
    print(answer)


set_tracing_disabled(True)  # nothing leaves this machine but what your upstreams get
asyncio.run(main(sys.argv[1], os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765")))
