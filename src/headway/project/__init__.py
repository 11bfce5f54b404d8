"""project — the facade: one method per verb; it wires the rooms, mints ids and reads the clock.

The command line, the server and kits import from here, and from no module inside.

Takes: the arguments of callers.   Gives: records, verdicts, reports.
Never: does maths, uses SQL, HTTP or a terminal.
May import: settings, promote, learn, prove, decide, reward, observe, encode, client, nouns.
"""

from typing import TYPE_CHECKING

from headway.nouns import door

if TYPE_CHECKING:
    from headway.project.data.erase import DeletionReport as DeletionReport
    from headway.project.decide.consider import Ask as Ask, Considered as Considered
    from headway.project.decide.elsewhere import recorded as recorded
    from headway.project.decide.inputs import Details as Details, Offer as Offer
    from headway.project.decide.serving import Serving as Serving, Servings as Servings
    from headway.project.inspect import task_evidence as task_evidence, task_status as task_status
    from headway.project.inspect.names import learned_text as learned_text, policy_names as policy_names, said as said
    from headway.project.inspect.outages import outages as outages
    from headway.project.inspect.story import task_story as task_story
    from headway.project.inspect.worth import task_worth as task_worth
    from headway.project.project import Opened as Opened, Project as Project
    from headway.project.prove.budget import budget_place as budget_place
    from headway.project.prove.episodes import unit_sentences as unit_sentences
    from headway.project.prove.examine import Examined as Examined
    from headway.project.prove.finality import changing_outcomes as changing_outcomes
    from headway.project.prove.fitting import unfit_sentences as unfit_sentences
    from headway.project.prove.kinds.kind import ProofKind as ProofKind, ProofQuestion as ProofQuestion
    from headway.project.prove.unread import Unread as Unread
    from headway.project.publish import Published as Published, name_policy as name_policy
    from headway.project.weight import WrittenWeight as WrittenWeight, write_weight as write_weight
else:
    __all__, __getattr__ = door(__name__)
