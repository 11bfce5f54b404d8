"""What a kit says about a kind of task that it brings: its keys, and what is done in another way than for `choice`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Kind(NamedTuple):
    """A kind of task. A task carries it as `traits`.

    Paths are "module:object"; one that is left out means what `choice` means.
    """

    summary: str
    # settings
    keys: tuple[str, ...] = ()  # those that only some kinds have, such as `actions` and `floor`
    settings: str = ""  # msgspec Struct: its own keys, which a task carries as `own`
    reads: str = ""  # function (catalogue, table) → that struct, if a key depends on others
    defaults: Mapping[str, Any] = NOTHING  # of keys that the file omits, as it would write them
    families: tuple[str, ...] = ()  # families of other kits that decide it too
    ratings: tuple[str, ...] = ()  # signals of which any one settles a decision
    measures: tuple[str, ...] = ()  # signals that its kit writes itself: no decision waits for them
    signals: tuple[str, ...] = ()  # signals that its kit reads, whatever the reward is
    # deciding
    first: str = ""  # its first policy; empty: the rules if there are any, else uniform choice
    first_keys: tuple[str, ...] = ()  # the keys that define it
    pipeline: str = ""  # function (servings, task, config, ref, digest) → what acts
    offers: str = ""  # function (project, task's settings, ask) → (candidates, seed or None)
    consider: str = ""  # function (project, ask) → Considered
    decide: str = ""  # function (project, ask) → (the stored Decision, whether it is new); blocks
    answer: str = ""  # function (project, decision) → more fields of the answer over HTTP
    replay: str = ""  # function (project, decision) → (DrawnAction, [(probabilities now, as stored)], why)
    # judging
    judged: Literal["log", "votes", "world"] = "log"  # by what its policies are proven and guarded
    shared: bool = False  # whether a candidate may decide on a share before it is promoted
    knobs: str = ""  # function (task's settings) → what its families learn with
    # what a person is told
    template: Mapping[str, Any] | None = None  # what `headway init --kind` assumes of its options; None: not offered
    described: bool = False  # its actions are described, and not only named
    decides: str = ""  # the command by which decisions come in; {task} is the task
    rates: str = "headway data log {task}"  # the command that shows what waits for a signal
    votes: str = ""  # the command by which people vote
