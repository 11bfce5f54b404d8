"""GET /v1/kits/tally/{task}: a kit's routes lie under its name and state a scope."""

import msgspec

from headway.serve import endpoint
from headway_tally.means import means


class TallyAnswer(msgspec.Struct):
    means: dict[str, float]


@endpoint("GET", "/v1/kits/tally/{task}", gives=TallyAnswer, scope="decide")
def tally(call):
    """The mean reward of each action so far."""
    return TallyAnswer(means(call.server.project, call.params["task"]))
