"""Discord: a bot that answers with a local model, and takes reactions as ratings: 👍 is good, 👎 is bad.

headway up                                                  (a task with kind = "reply": docs/how-to/reply.md)
pip install discord.py
DISCORD_TOKEN=… python -P examples/discord_bot.py

It answers direct messages, and messages that mention it (switch on the message content intent). The last line of an
answer names its decision, so a reaction counts also after a restart. Of several reactions the majority counts.
"""

import os
import re

import discord
import httpx

MARKS = {"👍": 1, "👎": -1}
DECISION = re.compile(r"dec_[0-9A-Za-z]+\Z")


class ReplyBot(discord.Client):
    def __init__(self, url: str, task: str = "reply", key: str = "") -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(intents=intents, allowed_mentions=discord.AllowedMentions.none())
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.headway = httpx.AsyncClient(base_url=url, headers=headers, timeout=120)
        self.task = task

    async def on_message(self, message: discord.Message) -> None:
        asked = message.guild is None or self.user in message.mentions
        if message.author.bot or not asked or not message.content.strip():
            return
        async with message.channel.typing():
            body = {"task": self.task, "prompt": message.clean_content, "episode": f"discord-{message.channel.id}"}
            answer = await self.headway.post("/generate", json=body)
        if answer.is_error:
            await message.reply(f"I cannot answer: {answer.json()['error']['message']}")
            return
        reply = answer.json()
        await message.reply(f"{reply['text'][:1900] or '…'}\n-# {reply['id']}")

    async def on_raw_reaction_add(self, event: discord.RawReactionActionEvent) -> None:
        await self.rate(event)

    async def on_raw_reaction_remove(self, event: discord.RawReactionActionEvent) -> None:
        await self.rate(event)

    async def rate(self, event: discord.RawReactionActionEvent) -> None:
        """Send the majority of the thumbs below an answer; none, or as many of either, withdraws it."""
        if str(event.emoji) not in MARKS:
            return
        message = await self.get_partial_messageable(event.channel_id).fetch_message(event.message_id)
        named = DECISION.search(message.content)
        if message.author != self.user or named is None:
            return
        total = sum(MARKS.get(str(reaction.emoji), 0) * reaction.count for reaction in message.reactions)
        thumb = None if total == 0 else 1 if total > 0 else -1
        sent = await self.headway.post(f"/v1/decisions/{named[0]}/signals", json={"thumb": thumb})
        sent.raise_for_status()

    async def close(self) -> None:
        await self.headway.aclose()
        await super().close()


if __name__ == "__main__":
    address = os.environ.get("HEADWAY_URL", "http://127.0.0.1:8765")
    ReplyBot(address, key=os.environ.get("HEADWAY_KEY", "")).run(os.environ["DISCORD_TOKEN"])
