"""The kind `tally`: a choice that depends on one state variable, which headway.toml names."""

from msgspec import Struct

from headway.nouns import Kind


class TallySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that only such a task has."""

    by: str = "colour"  # the state variable whose values are told apart


def knobs(task):
    """What `headway learn` passes to the family."""
    return {"by": task.own.by}


TALLY = Kind(
    summary="Choose by the value of one state variable.",
    keys=("actions", "explore", "floor"),
    settings="headway_tally.kind:TallySettings",
    knobs="headway_tally.kind:knobs",
    defaults={"explore": {"kind": "epsilon", "value": 0.2}, "reward": {"liked": 1.0}},
    template={"task": "paint", "actions": "blue,green"},
)
