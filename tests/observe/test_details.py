"""Details of kits are stored, deleted, copied, exported and imported with their decision."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from headway.kits.data.copy_store import copy
from headway.kits.data.exporter import ExportFilter, export
from headway.nouns import ids
from headway.nouns.errors import Conflict, InvalidInput, UnknownName
from headway.nouns.records import Detail
from headway.observe import details
from headway.observe.engines import open_database
from headway.observe.erase import DeletionFilter, erase, plan_deletion
from headway.observe.query import Query
from headway.project import Project
from tests.observe.conftest import CONFIGS, lay, make

ANSWER = bytes(range(256)) * 5
SECRET = b"a secret that only a detail holds"


def count(database):
    return database.query("SELECT COUNT(*) FROM details")[0][0]


def test_details_come_back_by_kit_and_name(ground):
    (made,) = ground.add(make())
    ground.store.keep_details(made.id, "proxy", "answer", ANSWER)
    ground.store.keep_details(made.id, "proxy", "empty", b"")
    ground.store.keep_details(made.id, "other", "answer", b"theirs")
    assert ground.query.details(made.id, "proxy") == {"answer": ANSWER, "empty": b""}
    assert ground.query.details(made.id, "other") == {"answer": b"theirs"}
    assert ground.query.details(made.id, "nobody") == {}


def test_storing_a_detail_again_replaces_its_bytes(ground):
    (made,) = ground.add(make())
    ground.store.keep_details(made.id, "proxy", "answer", b"first")
    ground.store.keep_details(made.id, "proxy", "answer", b"second")
    assert ground.query.details(made.id, "proxy") == {"answer": b"second"}


def test_details_given_with_a_decision_are_stored_with_it_and_a_repeated_request_keeps_the_first(ground):
    made = make()
    ground.store.add([made], CONFIGS, details={made.id: [Detail("proxy", "answer", b"first")]})
    ground.store.submit_decisions([made], CONFIGS, details={made.id: [Detail("proxy", "answer", b"again")]}).result()
    assert ground.query.details(made.id, "proxy") == {"answer": b"first"}


def test_a_decision_that_is_refused_leaves_no_details(ground):
    made = make()
    ground.add(made)
    other = replace(made, situation=replace(made.situation, text="something else"))
    with pytest.raises(Conflict):
        ground.store.add([other], CONFIGS, details={made.id: [Detail("proxy", "answer", b"x")]})
    assert count(ground.database) == 0


def test_details_of_an_unknown_decision_are_refused(ground):
    with pytest.raises(UnknownName) as error:
        ground.store.keep_details(ids.decision(1.0), "proxy", "answer", b"x")
    assert error.value.code == "unknown_decision"


def test_a_detail_over_one_mebibyte_is_refused_with_its_size(ground):
    (made,) = ground.add(make())
    ground.store.keep_details(made.id, "proxy", "answer", bytes(details.LARGEST))
    with pytest.raises(InvalidInput) as error:
        ground.store.keep_details(made.id, "proxy", "answer", bytes(details.LARGEST + 1))
    assert error.value.code == "detail_too_large"
    assert "1,048,577 bytes; the limit is 1,048,576" in error.value.message


def test_the_total_size_of_the_details_of_a_decision_is_limited(ground, monkeypatch):
    monkeypatch.setattr(details, "MOST", 100)
    (made,) = ground.add(make())
    ground.store.keep_details(made.id, "proxy", "one", bytes(60))
    with pytest.raises(InvalidInput) as error:
        ground.store.keep_details(made.id, "other", "two", bytes(60))
    assert error.value.code == "detail_too_large"
    assert list(ground.query.details(made.id, "proxy")) == ["one"]
    assert ground.query.details(made.id, "other") == {}, "nothing of what was refused is stored"


@pytest.mark.parametrize(("kit", "name"), [("", "x"), ("proxy", ""), ("proxy", "a\0b"), ("k" * 201, "x")])
def test_a_name_that_cannot_be_stored_is_refused(ground, kit, name):
    (made,) = ground.add(make())
    with pytest.raises(InvalidInput) as error:
        ground.store.keep_details(made.id, kit, name, b"x")
    assert error.value.code == "bad_detail"


@pytest.mark.parametrize("by", ["decision", "before", "episode"])
def test_deleting_a_decision_deletes_its_details_and_no_others(ground, by):
    gone, stays = ground.add(make(episode="e", at=1.0), make(at=2e9))
    for made in (gone, stays):
        ground.store.keep_details(made.id, "proxy", "answer", SECRET)
    wanted = DeletionFilter(**{by: {"decision": gone.id, "before": 1e9, "episode": "e"}[by]})
    matched = plan_deletion(ground.database, wanted)
    with ground.database.transaction() as connection:
        assert erase(connection, wanted, matched)["details"] == 1
    assert ground.query.details(gone.id, "proxy") == {}
    assert ground.query.details(stays.id, "proxy") == {"answer": SECRET}


@pytest.mark.engines("sqlite")
def test_a_deleted_detail_is_gone_from_the_disk(ground):
    (made,) = ground.add(make())
    ground.store.keep_details(made.id, "proxy", "answer", SECRET * 1000)
    wanted = DeletionFilter(decision=made.id)
    matched = plan_deletion(ground.database, wanted)
    with ground.database.transaction() as connection:
        erase(connection, wanted, matched)
    ground.database.purge()
    assert not any(SECRET in file.read_bytes() for file in ground.folder.iterdir() if file.is_file())


def test_retention_deletes_old_details(tmp_path, environ):
    (tmp_path / "headway.toml").write_text("[store]\nkeep_days = 1\n")
    now = [1_000_000.0]
    with Project(tmp_path, environ=environ, clock=lambda: now[0], seed=1) as project:
        old = project.decide("route", "hello", ["a", "b"])
        project.store.keep_details(old.id, "proxy", "answer", SECRET)
        now[0] += 2 * 86_400
        new = project.decide("route", "hello", ["a", "b"])
        project.store.keep_details(new.id, "proxy", "answer", SECRET)
        done = project.retain()
        assert done is not None
        assert (done.decisions, done.details) == (1, 1)
        assert project.query.details(old.id, "proxy") == {}
        assert project.query.details(new.id, "proxy") == {"answer": SECRET}


@pytest.mark.kits("postgres")
def test_details_are_copied_to_postgresql_and_back(tmp_path, postgres):
    here = lay(tmp_path / "headway.db")
    there, back = open_database(postgres.store()), open_database(tmp_path / "back.db")
    made = here.add(*[make() for _ in range(5)])
    for number, store in enumerate(made):
        here.store.keep_details(store.id, "proxy", "answer", ANSWER[number:])
        here.store.keep_details(store.id, "demo", "naïve ✓", bytes([number]))
    assert copy(here.database, there, size=3).rows["details"] == 10
    copy(there, back, size=4)
    for number, store in enumerate(made):
        assert Query(there).details(store.id, "proxy") == {"answer": ANSWER[number:]}
        assert Query(back).details(store.id, "demo") == {"naïve ✓": bytes([number])}
    here.store.keep_details(made[0].id, "proxy", "answer", b"changed")
    assert copy(here.database, there).written == 1
    for database in (there, back, here.database):
        database.close()
    here.writer.close()


@pytest.mark.engines("sqlite")
def test_the_pages_of_a_copy_are_limited_by_bytes(ground, tmp_path, monkeypatch):
    monkeypatch.setattr("headway.kits.data.copy_store._PAGE_BYTES", 3000)
    target = open_database(tmp_path / "target.db")
    for decision in ground.add(*[make() for _ in range(6)]):
        ground.store.keep_details(decision.id, "proxy", "answer", ANSWER)
    pages = []
    copy(ground.database, target, progress=lambda what, done, _: pages.append(done) if what == "copy" else None)
    assert count(target) == 6
    assert sum(later - earlier == 2 for earlier, later in pairwise(pages)) >= 3
    target.close()


def exported(folder, name):
    """An export of two decisions, the first with details; (path, manifest, first, second)."""
    with Project(folder, environ={}, seed=1) as project:
        first, second = (project.decide("route", text, ["a", "b"]).id for text in ("one", "two"))
        project.store.keep_details(first, "proxy", "answer", ANSWER)
        project.store.keep_details(first, "proxy", "empty", b"")
        project.store.keep_details(first, "demo", "note", b"text")
        path = folder / name
        kind = path.suffix[1:]
        manifest = export(project.database, project.query, path, ExportFilter(), now=1.0, format=kind)
    return path, manifest, first, second


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet", "out.csv"])
def test_an_export_contains_details_and_an_import_restores_them(tmp_path, environ, name):
    path, manifest, first, second = exported(tmp_path / "here", name)
    assert manifest["details"] == 3
    with Project(tmp_path / "there", environ=environ, seed=1) as project:
        assert project.import_file(path).stored == 2
        for _ in range(2):
            assert project.query.details(first, "proxy") == {"answer": ANSWER, "empty": b""}
            assert project.query.details(first, "demo") == {"note": b"text"}
            assert project.query.details(second, "proxy") == {}
            assert project.import_file(path).already == 2, "the same file again changes nothing"


def test_the_format_of_another_program_contains_no_details(tmp_path):
    with Project(tmp_path, environ={}, seed=1) as project:
        made = project.decide("route", "one", ["a", "b"])
        project.store.keep_details(made.id, "proxy", "answer", ANSWER)
        lines = []
        manifest = export(
            project.database,
            project.query,
            tmp_path / "out.txt",
            ExportFilter(),
            now=1.0,
            format="theirs",
            writer=lambda _file, _database, _left_out: lines.extend,
        )
    assert [line["details"] for line in lines] == [{}]
    assert manifest["details"] == 0


def test_later_details_are_added_and_changed_details_are_a_conflict(tmp_path, environ):
    path, _, first, _ = exported(tmp_path / "here", "out.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    whole = rows[0]["details"]
    with Project(tmp_path / "there", environ=environ, seed=1) as project:
        for given, fate in (({}, "stored"), (whole, "late"), ({"proxy": {"answer": "AAAA"}}, "conflicts")):
            path.write_text(json.dumps(rows[0] | {"details": given}) + "\n")
            assert getattr(project.import_file(path), fate) == 1
        assert project.query.details(first, "proxy") == {"answer": ANSWER, "empty": b""}


@pytest.mark.parametrize("given", [5, {"proxy": 5}, {"proxy": {"answer": "not base64!"}}, {"": {"answer": "AAAA"}}])
def test_unreadable_details_are_reported_with_their_line(tmp_path, given):
    path, _, _, _ = exported(tmp_path / "here", "out.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"details": given}) + "\n" for row in rows[:1]))
    with Project(tmp_path / "there", environ={}, seed=1) as project:
        done = project.import_file(path, on_error="skip")
        assert [(problem.line, problem.field) for problem in done.problems] == [(1, "details")]
