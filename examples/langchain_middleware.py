"""LangChain and LangGraph: a middleware lets Headway choose the model of every call, and measures the call.

headway serve                                      (a task `route` with the actions "small" and "large")
pip install langchain langchain-openai
python -P examples/langchain_middleware.py "Say good morning"

A message's `response_metadata` has the decision's id. Without Headway, the agent's own model answers.
"""

import os
import sys
from contextlib import suppress

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_openai import ChatOpenAI

from headway import HeadwayError
from headway.client import Client


class HeadwayMiddleware(AgentMiddleware):
    def __init__(self, client, task, models):
        super().__init__()
        self.client, self.task, self.models = client, task, models

    def wrap_model_call(self, request, handler):
        question = next((message.text for message in reversed(request.messages) if message.type == "human"), "")
        try:
            pick = self.client.decide(self.task, question, list(self.models))
        except HeadwayError as error:
            print(f"Headway does not decide: {error}", file=sys.stderr)
            return handler(request)
        try:
            response = handler(request.override(model=self.models[pick.action]))
        except Exception as error:
            with suppress(HeadwayError):
                self.client.signal(pick.id, failed=1.0, label=type(error).__name__)
            raise
        message = response.result[-1]
        message.response_metadata["headway"] = pick.id
        usage = message.usage_metadata or {}
        measured = {"prompt_tokens": usage.get("input_tokens"), "completion_tokens": usage.get("output_tokens")}
        with suppress(HeadwayError):
            self.client.signal(pick.id, measured)
        return response


if __name__ == "__main__":
    client = Client(os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765"), retries=0)
    models = {name: ChatOpenAI(model=name) for name in ("small", "large")}  # any chat models
    agent = create_agent(models["small"], middleware=[HeadwayMiddleware(client, "route", models)])
    answer = agent.invoke({"messages": [("user", sys.argv[1])]})["messages"][-1]
    print(answer.text)
    decision = answer.response_metadata.get("headway")
    if decision is not None:
        client.signal(decision, reward="morning" in answer.text)
