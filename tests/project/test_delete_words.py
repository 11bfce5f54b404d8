"""Nothing of a deleted row remains in what was derived from it: evidence, ledger, results of jobs, headers, files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np
import pytest

from headway.nouns.errors import Conflict, Damaged
from headway.nouns.evidence import Diagnostic, Estimate, Evidence, Guard, RaterShare
from headway.nouns.records import Candidate
from headway.observe.erase import DeletionFilter
from headway.observe.erased_words import words_of_text
from headway.project import Project
from headway.project.alarm import raise_alarm
from headway.project.data.words import FIXED
from headway.project.prove.subject import stored_evidence
from headway.project.publish import new_entry
from headway.promote import bundle
from headway.promote.gate import verdict
from headway.prove.raters import with_regions
from tests.project.deletions import Opened, everything

TOML = """
[tasks.route]
reward = { reward = 1.0 }
range = [-5, 5]
[store]
durability = "process"
"""
ARMS = ["plantedarm-one", "plantedarm-two"]


def planted(project: Project, n: int = 160) -> list[str]:
    """Decisions whose every text holds the word "planted"; the first action is better."""
    rng = np.random.default_rng(3)
    ids = []
    for place in range(n):
        pick = project.decide(
            "route",
            f"plantedtext {place} Plantedtrigger",
            [Candidate(name, {"plantedfeature": f"plantedvalue-{place % 3}"}) for name in ARMS],
            state={"plantedkey": f"plantedcategory-{place % 2}", "plantednumber": float(rng.normal())},
            episode=f"plantedepisode {place}" if place % 50 == 0 else None,
            role=f"plantedrole-{place % 2}",
        )
        good = 1.0 if pick.action == ARMS[0] else 0.0
        rater = f"plantedrater-{place % 3}"
        project.signal(pick.id, {"reward": good, "plantedsignal": 1.0}, rater=rater, label=f"plantedlabel-{place % 2}")
        ids.append(pick.id)
    return ids


def derived(project: Project) -> tuple[str, str]:
    """A policy and evidence, and rows of the ledger, that repeat the rows; the names of both."""
    policy = project.learn("route", family="bandit")
    estimate = Estimate(value=0.1, low=0.0, high=0.2, n=300, ess=100.0)
    evidence = Evidence(
        task="route", kind="log", candidate=policy, candidate_hash=project.registry.find(policy), against="uniform@0",
        against_hash="", n=300, difference=estimate, statistic=9.0, threshold=4.0, rule="betting", alpha=0.04,
        values={"candidate": estimate, "always plantedarm-one": estimate}, trusted=("plantedrater-1",),
        diagnostics=[Diagnostic(name="ess", value=1.0, limit=2.0, ok=False, blocks=True,
                                message="'plantedarm-two' is rare", cure="Try plantedarm-two.")],
        guards=[Guard(name="plantedsignal in plantedkey = plantedcategory-0", difference=estimate, tolerance=0.1,
                      ok=True, message="for the role plantedrole-0")],
        raters=[
            *(RaterShare(name=f"plantedrater-{n}", rows=100, share=0.3, uplift=None) for n in range(3)),
            RaterShare(name="plantedrater-0, plantedrater-1", members=["plantedrater-0", "plantedrater-1"], rows=200,
                       share=0.6, uplift=None),
        ],
        notes=["a change of plantedarm-one"], command="headway prove route --trust-key plantedrater-1",
    )  # fmt: skip
    where = (
        'text contains "plantedtrigger" and plantedkey = plantedcategory-1 (6% of decisions): '
        "it would choose plantedarm-one instead of plantedarm-two"
    )
    late = "the choices without the key 'plantedrater-2': too late"
    evidence = with_regions(evidence, {"plantedrater-0": where}, [late])
    body = msgspec.to_builtins(evidence)
    project.ledger.keep_evidence(evidence.id, "route", evidence.candidate_hash, body, project.clock())
    raise_alarm(
        project, "route",
        {"stream": "action plantedarm-one, role plantedrole-1", "action": "plantedarm-one", "segment": "plantedrole-1",
         "since": project.clock(), "from_decision": 1, "before": 0.1, "after": 0.9, "rows": [1, 2], "explore": 0.0},
        who="test",
    )  # fmt: skip
    why = f"automatic: {' '.join(verdict(evidence).reasons)}"
    entry = new_entry(project, "route", "plan", policy, evidence.candidate_hash, why=why, detail={
        "note": "because of plantedarm-one", "trusted_keys": ["plantedrater-0"], "horizon": 5, "uplift": 0.1,
        "power": 0.8, "alpha": 0.04,
    })  # fmt: skip
    project.ledger.append(entry)
    project.rollback("route", to=policy, why="plantedarm-two was bad for plantedrole-0", who="plantedrater-2")
    return policy, evidence.id


def places(project: Project, word: str) -> Iterator[str]:
    """Where a word is: lines of tables, and files."""
    yield from (line for line in everything(project).splitlines() if word in line.lower())
    for path in (path for path in project.home.rglob("*") if path.is_file()):
        if word.encode() in path.read_bytes().lower():
            yield str(path.relative_to(project.home))


def test_no_word_of_deleted_rows_remains_in_what_was_derived_from_them(opened: Opened) -> None:
    project = opened(TOML)
    planted(project)
    policy, known = derived(project)
    for word in ("plantedarm", "plantedcategory", "plantedrole", "plantedrater", "plantedtrigger", "plantedkey"):
        assert list(places(project, word)), f"{word} is nowhere: the test shows nothing about it"
    done = project.erase(DeletionFilter(before=project.clock() + 10))
    assert done.decisions == 160
    assert not list(places(project, "planted"))
    evidence = stored_evidence(project, known)
    assert 'text contains "[deleted' in next(rater.region for rater in evidence.raters if rater.region)
    names = {rater.name for rater in evidence.raters if not rater.members}
    assert len(names) == 3, "different raters stay different"
    (group,) = (rater for rater in evidence.raters if rater.members)
    assert group.name == ", ".join(group.members)
    assert set(group.members) < names
    assert set(evidence.trusted) < {rater.name for rater in evidence.raters}
    pick = project.decide("route", "another text", ["small", "large"])
    assert pick.policy == policy, "the policy still decides"
    again = opened()
    assert again.registry.read(again.registry.find(policy))


def test_configurations_and_key_names_that_no_row_has_any_more_are_deleted(opened: Opened) -> None:
    project = opened(
        '[tasks.route]\nactions = ["plantedarm-one", "plantedarm-two"]\nreward = { reward = 1.0 }\n[tasks.other]\n'
    )
    pick = project.decide("route", "a text", key="plantedkey-0")
    project.signal(pick.id, reward=1.0, rater="plantedkey-0")
    kept = project.decide("other", "a text", ["a", "b"], key="plantedkey-1")
    body = {"encoder": "", "note": "plantedarm-one"}
    project.ledger.keep_config("c0nf16", body)
    assert len(list(places(project, "plantedarm"))) >= 2
    project.erase(DeletionFilter(decision=pick.id))
    assert not list(places(project, "plantedarm"))
    assert not list(places(project, "plantedkey-0"))
    assert list(places(project, "plantedkey-1")), "the other decision was made with it"
    assert project.query.config(project.query.decision(kept.id).config_hash)
    again = project.decide("route", "a text", key="plantedkey-0")
    assert project.query.config(project.query.decision(again.id).config_hash)


def test_words_of_other_rows_stay(opened: Opened) -> None:
    project = opened(TOML)
    ids = planted(project)
    policy, known = derived(project)
    header = project.registry.header(project.registry.find(policy))
    project.erase(DeletionFilter(decision=ids[0]))
    assert project.registry.header(project.registry.find(policy)) == header
    assert "plantedrater-0" in str(project.ledger.evidence(known))
    project.erase(DeletionFilter(rater="plantedrater-0"))
    body = str(project.ledger.evidence(known))
    assert ("plantedrater-0" in body, "plantedrater-1" in body, "plantedarm-one" in body) == (False, True, True)
    assert not list(places(project, "plantedrater-0"))


def test_a_proof_that_began_before_a_deletion_stores_no_evidence(opened: Opened) -> None:
    project = opened(TOML)
    ids = planted(project, 20)
    erased = project.ledger.erased()
    project.ledger.keep_evidence("ev_1", "route", "aaaa", {}, 1.0, erased)
    project.erase(DeletionFilter(decision=ids[0]))
    with pytest.raises(Conflict, match="Rows were deleted while the proof"):
        project.ledger.keep_evidence("ev_2", "route", "aaaa", {"notes": ["plantedtext"]}, 1.0, erased)
    assert project.ledger.evidence("ev_2") is None
    project.ledger.keep_evidence("ev_3", "route", "aaaa", {}, 1.0, project.ledger.erased())


def test_every_field_of_evidence_is_known_to_hold_words_or_not() -> None:
    """A new field that holds text is read by a deletion unless it is named as ours."""
    texts = {
        name for record in _records(Evidence) for name, hint in get_type_hints(record).items() if "str" in str(hint)
    }
    words = {
        "message", "cure", "name", "region", "values", "diagnostics", "guards", "raters", "trusted", "notes",
        "unchecked", "command", "members",
    }  # fmt: skip
    assert texts - FIXED - words == set(), "does it repeat words of rows? Name it here, or in `words.FIXED`"
    assert not FIXED & words


def _records(record: type) -> Iterator[type]:
    yield record
    for hint in get_type_hints(record).values():
        for inner in (hint, *get_args(hint)):
            if isinstance(inner, type) and is_dataclass(inner):
                yield from _records(inner)


def test_a_rewritten_header_needs_the_ledger(opened: Opened) -> None:
    project = opened(TOML)
    planted(project)
    policy, _ = derived(project)
    project.erase(DeletionFilter(before=project.clock() + 10))
    digest = project.registry.find(policy)
    assert project.registry.read(digest)
    with pytest.raises(Damaged, match="hashes to"):
        bundle.read(project.registry.root, digest)
    header = project.registry.root / digest / "header.json"
    header.write_bytes(header.read_bytes().replace(b"[deleted 1]", b"[deleted 9]"))
    with pytest.raises(Damaged, match="hashes to"):
        project.registry.read(digest)


def test_a_killed_deletion_leaves_a_header_that_is_finished_or_dropped_later(opened: Opened) -> None:
    project = opened(TOML)
    planted(project)
    policy, _ = derived(project)
    digest = project.registry.find(policy)
    project.registry.finish, finish = lambda: None, project.registry.finish  # type: ignore[method-assign]
    project.erase(DeletionFilter(before=project.clock() + 10))
    assert project.registry.read(digest), "the old header is still valid"
    finish()
    assert not list(places(project, "plantedarm"))
    project.registry.prepare(digest, project.registry.header(digest).__class__(**{
        **_fields(project.registry.header(digest)), "seed": 99,
    }))  # fmt: skip
    finish()
    assert project.registry.header(digest).seed != 99, "nothing in the ledger vouches for it"
    assert [path.name for path in sorted((project.registry.root / digest).iterdir())] == [
        "header.json", "weights.safetensors",
    ]  # fmt: skip


def _fields(record: Any) -> dict[str, Any]:
    return {entry.name: getattr(record, entry.name) for entry in fields(record)}


@pytest.mark.parametrize(
    "word", ['plantedo\'neil "x"', "planted.*(a|b)", "planted line\nplanted two", "plantedß\u2028é", "100% planted_!"]
)
def test_words_with_signs_of_any_kind_are_removed(opened: Opened, word: str) -> None:
    project = opened(TOML)
    pick = project.decide("route", "a text", [word, "other"], state={word: word}, role=word)
    project.signal(pick.id, reward=1.0, rater=word)
    why = f"the key {word!r} prefers {word}, where {word} = {word}"
    project.ledger.append(
        new_entry(project, "route", "plan", "uniform@0", "", why=why, detail={"note": [{word: repr(word)}]})
    )
    before = [entry.why for entry in project.ledger.entries("route")]
    project.erase(DeletionFilter(before=project.clock() + 10))
    assert before == [why]
    assert "planted" not in everything(project)


def test_words_of_a_text_are_those_that_regions_name() -> None:
    assert words_of_text('Is "Zebra-7" (here)?') == {"is", "zebra-7", "here"}
