"""Slack: a bot that answers with a local model, and takes reactions as ratings: :+1: is good, :-1: is bad.

headway up                                                  (a task with kind = "reply": docs/how-to/reply.md)
pip install slack_bolt
SLACK_BOT_TOKEN=xoxb-… SLACK_APP_TOKEN=xapp-… python -P examples/slack_bot.py

The app needs Socket Mode, the events app_mention, message.im, reaction_added and reaction_removed, and the scopes
app_mentions:read, chat:write, im:history and reactions:read. An answer's block carries the id of its decision, so a
reaction counts also after a restart. Of several reactions the majority counts.
"""

import os
import re
from typing import Any

import httpx
from slack_bolt import App, BoltContext
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient

MARKS = {"+1": 1, "thumbsup": 1, "-1": -1, "thumbsdown": -1}


def make(app: App, headway: httpx.Client, task: str = "reply") -> App:
    """Give the app its listeners."""

    def answer(event: dict[str, Any], say: Any) -> None:
        thread = event.get("thread_ts") or event["ts"]
        prompt = re.sub(r"<@[A-Z0-9]+>", "", event["text"]).strip()
        if not prompt:
            return
        body = {"task": task, "prompt": prompt, "episode": f"slack-{event['channel']}-{thread}"}
        made = headway.post("/generate", json=body)
        if made.is_error:
            say(text=f"I cannot answer: {made.json()['error']['message']}", thread_ts=thread)
            return
        reply = made.json()
        text = reply["text"][:2900] or "…"
        block = {"type": "section", "block_id": reply["id"], "text": {"type": "plain_text", "text": text}}
        say(text=text, blocks=[block], thread_ts=thread)

    app.event("app_mention")(answer)

    @app.event("message")
    def written(event: dict[str, Any], say: Any) -> None:
        if event.get("channel_type") == "im" and not event.get("bot_id") and not event.get("subtype"):
            answer(event, say)

    @app.event("reaction_added")
    def liked(event: dict[str, Any], client: WebClient, context: BoltContext) -> None:
        rate(event, client, context)

    @app.event("reaction_removed")
    def changed(event: dict[str, Any], client: WebClient, context: BoltContext) -> None:
        rate(event, client, context)

    def rate(event: dict[str, Any], client: WebClient, context: BoltContext) -> None:
        """Send the majority of the thumbs below an answer; none, or as many of either, withdraws it."""
        item = event["item"]
        if item["type"] != "message" or event["reaction"].partition("::")[0] not in MARKS:
            return
        message = client.reactions_get(channel=item["channel"], timestamp=item["ts"], full=True)["message"]
        if message.get("bot_id") != context.bot_id:
            return
        given = [(one["name"].partition("::")[0], one["count"]) for one in message.get("reactions", [])]
        total = sum(MARKS.get(name, 0) * count for name, count in given)
        thumb = None if total == 0 else 1 if total > 0 else -1
        for block in message.get("blocks", []):
            if block["block_id"].startswith("dec_"):
                headway.post(f"/v1/decisions/{block['block_id']}/signals", json={"thumb": thumb}).raise_for_status()

    return app


if __name__ == "__main__":
    headers = {"Authorization": f"Bearer {os.environ['HEADWAY_KEY']}"} if "HEADWAY_KEY" in os.environ else {}
    address = os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765")
    with httpx.Client(base_url=address, headers=headers, timeout=120) as client:
        SocketModeHandler(make(App(token=os.environ["SLACK_BOT_TOKEN"]), client), os.environ["SLACK_APP_TOKEN"]).start()
