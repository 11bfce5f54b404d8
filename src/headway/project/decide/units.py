"""The request or episode that a decision belongs to, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.nouns import InvalidInput, UnknownName, episode_id, parse_decision_id

if TYPE_CHECKING:
    from headway.nouns import Situation
    from headway.project.decide.inputs import Details
    from headway.project.project.folder import Opened
    from headway.settings import TaskSettings


_REQUEST_S = 86_400.0


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
        return {**details, "unit": episode_id(task, situation.episode)}
    if unit is None:
        return details
    if settings.unit != "request":
        raise InvalidInput(
            f"{task!r} has no attempts: its unit is the {settings.unit}.",
            code="bad_unit",
            hint='Set unit = "request" for the task in headway.toml, or omit `unit`.',
        )
    first = project.query.find(parse_decision_id(unit))
    if first is None or first.task != task or first.key != details.get("key", ""):
        raise UnknownName(
            f"There is no request {unit!r} of {task!r}.",
            code="unknown_decision",
            hint="Pass the id of the first decision of the request, of the same task and key.",
        )
    asked, now = first.situation.text, project.clock() if at is None else at
    if not situation.text.startswith(asked) or now - first.at > _REQUEST_S:
        late = situation.text.startswith(asked)
        raise InvalidInput(
            f"The request {unit!r} {'is more than a day old' if late else 'has another text'}.",
            code="other_request",
            hint="An attempt repeats the text of the first decision, or continues it, within a day; omit `unit`.",
        )
    position = details.get("position")
    if position is None:
        position = 1
    if not isinstance(position, int) or not 0 < position < 2**31:
        raise InvalidInput(f"The position is {position!r}, expected a whole number from 1.", code="bad_unit")
    return {**details, "unit": first.unit or first.id, "position": position}
