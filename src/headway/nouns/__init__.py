"""nouns — the records, evidence and errors that all rooms share.

Takes: nothing.   Gives: frozen dataclasses, protocols and one error tree.
Never: computes, reads a file, opens a socket, imports a third-party package.
May import: nothing.
"""

from typing import TYPE_CHECKING

from headway.nouns.doors import door as door  # rooms import it from here

if TYPE_CHECKING:
    from headway.nouns import errors as errors, ids as ids
    from headway.nouns.alarm import Alarm as Alarm, Outage as Outage, sentence as sentence
    from headway.nouns.checkpoint import Header as Header, PolicyRef as PolicyRef, TensorSpec as TensorSpec
    from headway.nouns.conclusions import conclusion as conclusion, gap as gap
    from headway.nouns.core_kit import CHOICE as CHOICE
    from headway.nouns.evidence import (
        CLIPPING as CLIPPING,
        CLIPPING_AGAINST as CLIPPING_AGAINST,
        SAME_CHOICES as SAME_CHOICES,
        Claims as Claims,
        Diagnostic as Diagnostic,
        Estimate as Estimate,
        Evidence as Evidence,
        Guard as Guard,
        Plan as Plan,
        Prospect as Prospect,
        RaterShare as RaterShare,
        Refusal as Refusal,
        Reliance as Reliance,
        Verdict as Verdict,
        VerdictWord as VerdictWord,
        Waiting as Waiting,
    )
    from headway.nouns.experiment import (
        ENDINGS as ENDINGS,
        ExperimentEnding as ExperimentEnding,
        ExperimentState as ExperimentState,
        RampState as RampState,
        VerdictCost as VerdictCost,
    )
    from headway.nouns.explanation import (
        DrawnAction as DrawnAction,
        DrawnHead as DrawnHead,
        ExplainedAttempt as ExplainedAttempt,
        ExplainedCandidate as ExplainedCandidate,
        Explanation as Explanation,
        Replay as Replay,
        ReplyText as ReplyText,
        most_apart as most_apart,
    )
    from headway.nouns.forecast import VerdictForecast as VerdictForecast
    from headway.nouns.kind import Kind as Kind
    from headway.nouns.kit import (
        REPAIR as REPAIR,
        Catalogue as Catalogue,
        Command as Command,
        Family as Family,
        Kit as Kit,
        Worker as Worker,
        catalogue as catalogue,
        hook as hook,
        installed as installed,
        load as load,
    )
    from headway.nouns.knobs import changed as changed, knob as knob, knobs_of as knobs_of
    from headway.nouns.protocols import (
        Cache as Cache,
        Clock as Clock,
        Crew as Crew,
        Encoder as Encoder,
        Experience as Experience,
        Floats as Floats,
        Learned as Learned,
        Opinion as Opinion,
        Opinions as Opinions,
        Policy as Policy,
        Progress as Progress,
        SampleRequest as SampleRequest,
        Teller as Teller,
    )
    from headway.nouns.records import (
        ELSEWHERE as ELSEWHERE,
        OWNER as OWNER,
        SOURCES as SOURCES,
        Candidate as Candidate,
        Decision as Decision,
        Detail as Detail,
        Ending as Ending,
        Outcome as Outcome,
        Reader as Reader,
        Settled as Settled,
        Signal as Signal,
        Situation as Situation,
        Source as Source,
        State as State,
        Status as Status,
        Value as Value,
        is_own as is_own,
    )
    from headway.nouns.redacted import MARK as MARK, mark as mark, without as without
    from headway.nouns.status import (
        Finding as Finding,
        NextStep as NextStep,
        ProjectStatus as ProjectStatus,
        StepVerb as StepVerb,
        StoreStatus as StoreStatus,
        StoryEvent as StoryEvent,
        StoryKind as StoryKind,
        TaskStatus as TaskStatus,
        TaskStory as TaskStory,
        TaskVerdict as TaskVerdict,
    )
    from headway.nouns.times import (
        day as day,
        lasting as lasting,
        moment as moment,
        parse_rfc3339 as parse_rfc3339,
        rfc3339 as rfc3339,
    )
    from headway.nouns.wire import (
        Internal as Internal,
        Time as Time,
        converter as converter,
        document as document,
        is_record as is_record,
        served as served,
        wire_fields as wire_fields,
    )
    from headway.nouns.words import masked as masked, plural as plural, spoken as spoken
    from headway.nouns.worth import Measure as Measure, TaskWorth as TaskWorth, money as money, worth_text as worth_text
else:
    __all__, __getattr__ = door(__name__)
