"""The request or episode that a decision belongs to, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.nouns import InvalidInput, UnknownName, episode_id, parse_decision_id

if TYPE_CHECKING:
    from headway.nouns import Situation
    from headway.project.decide.inputs import Details
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings


def of_unit(project: Opened, settings: TaskSettings, situation: Situation, details: Details) -> Details:
    """The details with the id of the unit: the episode, or the first decision of the request.

    A later attempt must be of the same task and the same key as the first one, because it does not count.
    """
    task, unit = settings.name, details.get("unit")
    if settings.unit == "episode" and unit is None:
        if situation.episode is None:
            return details
        return {**details, "unit": episode_id(task, situation.episode)}
    if unit is None:
        return details
    if settings.unit != "request":
        raise InvalidInput(
            f"{task!r} has no attempts: its unit is the {settings.unit}.",
            code="bad_unit",
            hint='Set unit = "request" for the task in headway.toml, or omit `unit`.',
        )
    first = project.query.decision(parse_decision_id(unit))
    if first.task != task or first.key != details.get("key", ""):
        raise UnknownName(
            f"There is no request {unit!r} of {task!r}.",
            code="unknown_decision",
            hint="Pass the id of the first decision of the request, of the same task and key.",
        )
    position = details.get("position")
    if position is None:
        position = 1
    if not isinstance(position, int) or not 0 < position < 2**31:
        raise InvalidInput(f"The position is {position!r}, expected a whole number from 1.", code="bad_unit")
    return {**details, "unit": first.unit or first.id, "position": position}
