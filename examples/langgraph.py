"""LangGraph: one node answers with the model that Headway chooses, the next node checks the answer and signals.

headway serve                                               (a task `route` over upstreams: docs/how-to/agents.md)
python -P examples/langgraph.py "Say good morning"          (-P: this file has the name of the package)
"""

import os
import sys

from langgraph.graph import START, StateGraph
from openai import OpenAI

from headway.client import Client

url = os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765")


def answer(state: dict) -> dict:
    ask = [{"role": "user", "content": state["question"]}]
    reply = OpenAI(base_url=f"{url}/v1", api_key="-").chat.completions.create(model="headway/route", messages=ask)
    return {**state, "answer": reply.choices[0].message.content, "decision": reply.id}  # its id is the decision's id


def check(state: dict) -> dict:
    Client(url).signal(state["decision"], reward="morning" in state["answer"])
    return state


graph = StateGraph(dict).add_node(answer).add_node(check).add_edge(START, "answer").add_edge("answer", "check")
print(graph.compile().invoke({"question": sys.argv[1]})["answer"])
