"""reward — turns the signals of a decision into one number, or gives the reason why there is none yet.

Takes: named numbers, and how long ago the decision was made.   Gives: an Outcome, and the version of the definition.
Never: changes a stored signal, reads a clock, reads configuration.
May import: files, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.reward.agree import (
        agreed as agreed,
        agreeing as agreeing,
        by_signal as by_signal,
        reward_without as reward_without,
    )
    from headway.reward.compose import (
        PRESET_RANGE as PRESET_RANGE,
        PRESETS as PRESETS,
        Combine as Combine,
        Rewards as Rewards,
        Worth as Worth,
        default_required as default_required,
    )
    from headway.reward.costs import (
        Costs as Costs,
        amount_text as amount_text,
        is_cost as is_cost,
        unit_of as unit_of,
        weight_text as weight_text,
    )
    from headway.reward.function import is_name as is_name, not_executed as not_executed
    from headway.reward.raters import Agreed as Agreed
    from headway.reward.signals import (
        MEASURED as MEASURED,
        RESERVED as RESERVED,
        SAFETY_FLAG as SAFETY_FLAG,
        VOTE as VOTE,
        Term as Term,
        check as check,
        term as term,
    )
else:
    __all__, __getattr__ = door(__name__)
