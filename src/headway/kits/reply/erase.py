"""Copies of what is deleted, in places that no table of the store holds together: `headway data delete` reaches them.

| copy | goes with |
|---|---|
| a comparison that waits for its vote, or its file after it | its age, its rater, the decision whose question it asks |
| edits and critiques of a rater, in the details of a reply | the rater |
| the tokens of a prompt that had liked replies as examples | the reply that was the example, the rater who edited it |

Not covered: a comparison with a vote is a decision of its own, with the text of its question; it goes by its age or id.
"""

from __future__ import annotations

import msgspec

from headway.kits.reply.duels import erase_duels
from headway.kits.reply.kept import COMMENTS, EXAMPLES, KIT_NAME, REPLY, comments_detail, comments_of
from headway.observe import Erasing
from headway.project import Project


def erase(project: Project, going: Erasing) -> int:
    """Delete the copies; how many there were."""
    changed = _comments(going)
    return erase_duels(project, going) + len(changed) + _prompts(going, set(changed))


def _comments(going: Erasing) -> list[str]:
    """The decisions that lose a comment of the rater, once for each."""
    rater, changed = going.wanted.rater, []
    if rater is None:
        return []
    for decision, data in going.details(KIT_NAME, COMMENTS):
        comments = comments_of(data)
        others = [one for one in comments if one.rater != rater]
        if len(others) < len(comments):
            going.put(decision, KIT_NAME, COMMENTS, comments_detail(others).data)
            changed += [decision] * (len(comments) - len(others))
    return changed


def _prompts(going: Erasing, changed: set[str]) -> int:
    """Replies whose prompt had an example that goes lose the tokens of the prompt; their turns remain."""
    count = 0
    for decision, data in going.details(KIT_NAME, EXAMPLES):
        examples = msgspec.json.decode(data, type=list[str])
        gone = going.of_ids(examples) | (changed & set(examples))
        reply = going.detail(decision, KIT_NAME, REPLY) if gone else None
        if reply is None:
            continue
        fields = {**msgspec.json.decode(reply), "prompt_tokens": [], "logprob_model": []}
        going.put(decision, KIT_NAME, REPLY, msgspec.json.encode(fields))
        going.put(decision, KIT_NAME, EXAMPLES, b"[]")
        count += 1
    return count
