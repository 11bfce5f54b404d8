"""testing — the contracts of every family and world, for the tests of kits.

    from headway.nouns.kit import catalogue
    from headway.testing import learner_contract, world_contract

    def test_the_family_satisfies_the_contract():
        learner_contract(catalogue(("acme",)), "acme", least=0.9)

    def test_the_world_satisfies_the_contract():
        world_contract(world)                              # world(count=…) makes copies of it

A contract raises an AssertionError with the expectation. The built-in kits are tested by the same contracts. What a kit
adds (`contracts` in its passport) is here too: `from headway.testing import heads_contract`.

Takes: what a kit brings.   Gives: nothing, or AssertionError.
Never: is imported by anything but tests.
May import: project, learn, prove, decide, observe, encode, nouns.
"""

from typing import Any

from headway.nouns import catalogue, load
from headway.testing.evidence import evidence_contract
from headway.testing.policies import learner_contract, policy_contract, rebuilt
from headway.testing.small_worlds import ARMS, CANDIDATES, WORLDS, MemoryLog, identity, row, world_contract

__all__ = [
    "ARMS",
    "CANDIDATES",
    "WORLDS",
    "MemoryLog",
    "evidence_contract",
    "identity",
    "learner_contract",
    "policy_contract",
    "rebuilt",
    "row",
    "world_contract",
]


def __getattr__(name: str) -> Any:
    contracts = catalogue().all("contracts")
    if name not in contracts:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(contracts[name])
