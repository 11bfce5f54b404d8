"""grow — policies with a memory for factored actions, and networks that grow while they train.

Takes: a world of factored actions.   Gives: a recurrent policy, with the curve of its returns.
Never: loads torch in order to act.
May import: nouns.
"""

from headway.nouns.kit import Kit

KIT = Kit(name="grow", summary="Practise with a memory, for actions of several parts.")
