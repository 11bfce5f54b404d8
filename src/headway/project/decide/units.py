"""The request or episode that a decision belongs to, checked, and whose policy an episode is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.decide import explore
from headway.nouns import errors, ids

if TYPE_CHECKING:
    from headway.decide import Author
    from headway.nouns import Situation
    from headway.project.decide.inputs import Details
    from headway.project.decide.serving import Serving
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings


_REQUEST_S = 86_400.0
_EPISODE_STREAM = 0x5D1E70A933C68B47  # keeps the draw of the policy apart from that of the action


def author_of(
    project: Opened, serving: Serving, situation: Situation, seed: int, began: dict[tuple[str, str], Author]
) -> tuple[Author, bool]:
    """Whose the episode of a decision is while a candidate decides on a share of them, and whether it begins now.

    The first decision draws, with the share as probability. An episode keeps to the policy that it began with while
    that policy acts; then the current one takes over. One that began before there was a share is the current policy's.
    `began`: the episodes of the same batch, by task and name.
    """
    task, episode = situation.task, situation.episode
    drawn: Author = "canary" if explore.uniform(seed ^ _EPISODE_STREAM) < serving.share else "current"
    if episode is None:
        return drawn, False
    known = began.get((task, episode))
    if known is not None:
        return known, False
    first = project.query.first_step(task, episode)
    if first is not None:
        return "canary" if (first.assigned or first.policy) == serving.canary else "current", False
    began[task, episode] = drawn
    return drawn, True


def of_unit(
    project: Opened, settings: TaskSettings, situation: Situation, details: Details, at: float | None = None
) -> Details:
    """The details with the id of the unit: the episode, or the first decision of the request.

    A later attempt must be of the same task and the same key as the first one, because it does not count; and at the
    same question within a day, because the word about the last attempt replaces that about the first: whoever decides
    could otherwise hide a bad outcome behind an easier question.
    """
    task, unit = settings.name, details.get("unit")
    if settings.unit == "episode" and unit is None:
        if situation.episode is None:
            return details
        return {**details, "unit": ids.episode(task, situation.episode)}
    if unit is None:
        return details
    if settings.unit != "request":
        raise errors.InvalidInput(
            f"{task!r} has no attempts: its unit is the {settings.unit}.",
            code="bad_unit",
            hint='Set unit = "request" for the task in headway.toml, or omit `unit`.',
        )
    first = project.query.find(ids.parse_decision(unit))
    if first is None or first.task != task or first.key != details.get("key", ""):
        raise errors.UnknownName(
            f"There is no request {unit!r} of {task!r}.",
            code="unknown_decision",
            hint="Pass the id of the first decision of the request, of the same task and key.",
        )
    asked, now = first.situation.text, project.clock() if at is None else at
    if not situation.text.startswith(asked) or now - first.at > _REQUEST_S:
        late = situation.text.startswith(asked)
        raise errors.InvalidInput(
            f"The request {unit!r} {'is more than a day old' if late else 'has another text'}.",
            code="other_request",
            hint="An attempt repeats the text of the first decision, or continues it, within a day; omit `unit`.",
        )
    position = details.get("position")
    if position is None:
        position = 1
    if not isinstance(position, int) or not 0 < position < 2**31:
        raise errors.InvalidInput(f"The position is {position!r}, expected a whole number from 1.", code="bad_unit")
    whole = first.unit or first.id
    return {**details, "unit": whole, "position": position, "draw": first.draw_id or whole}
