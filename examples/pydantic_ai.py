"""Pydantic AI: Headway chooses the agent's model and gets a signal about the answer.

headway serve                                               (a task `route` over upstreams: docs/how-to/agents.md)
python -P examples/pydantic_ai.py "Say good morning"        (-P: this file has the name of the package)
"""

import os
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from headway.client import Client

url = os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765")
model = OpenAIChatModel("headway/route", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="-"))
result = Agent(model).run_sync(sys.argv[1])

decision = result.response.provider_response_id  # the id of the completion is the id of the decision
assert decision is not None
with Client(url) as headway:
    headway.signal(decision, reward="morning" in result.output)
    print(result.output, "by", headway.explain(decision)["action"])
