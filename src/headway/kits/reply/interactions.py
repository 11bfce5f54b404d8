"""Replies as interactions, one JSON object per line: {"timestamp", "prompt", "response", "reward"}.

The reward is null for a reply that nobody has rated. Decisions without a reply are skipped and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import IO, Any

from headway.kits.reply.kept import KIT_NAME, from_details
from headway.observe import Database, Query


def writer(file: IO[str], database: Database, left_out: Counter[str]) -> Callable[[Sequence[dict[str, Any]]], None]:
    """A function that writes pages of exported records as interactions."""

    query = Query(database)

    def write(page: Sequence[dict[str, Any]]) -> None:
        for record in page:
            reply = from_details(query.details(record["id"], KIT_NAME), record["id"])
            if reply is None:
                left_out["no reply"] += 1
                continue
            asked = next((turn.content for turn in reversed(reply.turns) if turn.role == "user"), record["text"])
            row = {"timestamp": record["at"], "prompt": asked, "response": reply.text, "reward": record["reward"]}
            file.write(f"{json.dumps(row, ensure_ascii=False)}\n")

    return write
