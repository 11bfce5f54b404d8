"""Langfuse: Headway chooses which label of a prompt is used; scores go both ways.

headway serve                                      (a task `greeting` whose actions are labels of the prompt `greeting`)
pip install langfuse openai
python -P examples/langfuse_prompts.py ask "It is 8 o'clock"    one request: decided, answered, traced, scored
python -P examples/langfuse_prompts.py scores                   the scores that were given in Langfuse, to Headway

A trace of Langfuse is an episode of Headway, with the same id. So a score that is given days later, or by another
program, finds its decision; one that was sent before changes nothing.
"""

import os
import sys

from langfuse import Langfuse
from openai import OpenAI

from headway import HeadwayError
from headway.client import Client

TASK = "greeting"
LABELS = ["short", "warm"]


def ask(client, langfuse, question):
    trace = langfuse.create_trace_id()
    try:
        pick = client.decide(TASK, question, LABELS, episode=trace)
        label, drawn = pick.action, {"decision": pick.id, "propensity": pick.propensity}
    except HeadwayError as error:
        print(f"Headway does not decide: {error}", file=sys.stderr)
        label, drawn = LABELS[0], {}
    prompt = langfuse.get_prompt(TASK, label=label)
    said = [{"role": "user", "content": prompt.compile(question=question)}]
    with langfuse.start_as_current_observation(
        name=TASK, as_type="generation", model="small", input=said, prompt=prompt, metadata=drawn,
        trace_context={"trace_id": trace},
    ) as generation:  # fmt: skip
        reply = OpenAI().chat.completions.create(model="small", messages=said)
        text = reply.choices[0].message.content
        generation.update(output=text, usage_details={"input": reply.usage.prompt_tokens})
    if drawn:
        langfuse.create_score(name="propensity", value=drawn["propensity"], trace_id=trace, comment=label)
    langfuse.flush()
    print(text)


def scores(client, langfuse):
    """Every numeric or boolean score that did not come from here."""
    cursor, sent = None, 0
    while True:
        page = langfuse.api.scores.get_many(
            limit=100, cursor=cursor, fields="subject", source="ANNOTATION,EVAL", data_type="NUMERIC,BOOLEAN"
        )
        for score in page.data:
            if score.subject is None or score.subject.kind not in ("trace", "observation"):
                continue
            trace = score.subject.id if score.subject.kind == "trace" else score.subject.trace_id
            try:
                sent += client.signal(client.episode(TASK, trace), {score.name: float(score.value)}, key=score.id)
            except HeadwayError as error:  # a trace that Headway did not decide about
                print(f"{trace}: {error}", file=sys.stderr)
        cursor = page.meta.cursor
        if cursor is None:
            return print(f"{sent} new signals")


if __name__ == "__main__":
    with Client(os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765"), retries=0) as headway:
        ask(headway, Langfuse(), sys.argv[2]) if sys.argv[1] == "ask" else scores(headway, Langfuse())
