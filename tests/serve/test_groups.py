"""Decisions that arrive together are stored together, and each client gets only its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headway
from headway.nouns import ids
from headway.nouns.errors import Busy, Conflict, UnknownName
from headway.nouns.records import Decision
from headway.project import Ask, Project
from headway.serve.grouping import Answer, Grouping


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    (tmp_path / "headway.toml").write_text('[tasks.route]\nactions = ["small", "large"]\n')
    with headway.open(tmp_path, environ={}) as opened:
        yield opened


def ask(text: str = "x", **details: str) -> Ask:
    return Ask("route", text, ["small", "large"], details)  # type: ignore[arg-type]  # of names that it knows


def into(answers: list[tuple[str, bool]]) -> Answer:
    def answer(decision: Decision, new: bool) -> None:
        answers.append((decision.situation.text, new))

    return answer


def run(project: Project, work: Callable[[Grouping], list[asyncio.Future[None]]], limit: int = 100) -> list[object]:
    async def main() -> list[object]:
        return await asyncio.gather(*work(Grouping(project, limit)), return_exceptions=True)

    return asyncio.run(main())


def test_every_request_is_answered_once_when_it_is_durable(project: Project) -> None:
    answers: list[tuple[str, bool]] = []

    def work(grouping: Grouping) -> list[asyncio.Future[None]]:
        return [grouping.add(ask(f"{n}"), into(answers)) for n in range(70)]

    assert run(project, work) == [None] * 70
    assert sorted(answers) == sorted((f"{n}", True) for n in range(70))
    assert project.query.counts("route").decisions == 70


def test_a_request_that_cannot_be_answered_does_not_delay_the_others(project: Project) -> None:
    answers: list[tuple[str, bool]] = []

    def broken(_: Decision, __: bool) -> None:
        raise RuntimeError("the wire is cut")

    def work(grouping: Grouping) -> list[asyncio.Future[None]]:
        return [
            grouping.add(ask("a"), into(answers)),
            grouping.add(ask("b"), broken),
            grouping.add(ask("c"), into(answers)),
        ]

    first, second, third = run(project, work)
    assert (first, third, answers) == (None, None, [("a", True), ("c", True)])
    assert isinstance(second, RuntimeError)


def test_an_invalid_or_conflicting_request_fails_alone(project: Project) -> None:
    taken = ids.decision(1_700_000_000.0)
    project.decide("route", "first", ["small", "large"], id=taken)
    answers: list[tuple[str, bool]] = []

    def work(grouping: Grouping) -> list[asyncio.Future[None]]:
        return [
            grouping.add(ask("a"), into(answers)),
            grouping.add(Ask("route", "b", ["medium"], {}), into(answers)),
            grouping.add(ask("another request", id=taken), into(answers)),
            grouping.add(ask("first", id=taken), into(answers)),
        ]

    one, wrong, conflict, again = run(project, work)
    assert (one, again) == (None, None)
    assert isinstance(wrong, UnknownName)
    assert isinstance(conflict, Conflict)
    assert sorted(answers) == [("a", True), ("first", False)]


def test_a_disconnected_client_is_not_answered_and_a_full_queue_refuses(project: Project) -> None:
    answers: list[tuple[str, bool]] = []

    def work(grouping: Grouping) -> list[asyncio.Future[None]]:
        gone, stays = grouping.add(ask("gone"), into(answers)), grouping.add(ask("stays"), into(answers))
        gone.cancel()
        with pytest.raises(Busy) as error:
            _ = grouping.add(ask("too many"), into(answers))
        assert error.value.code == "queue_full"
        return [stays]

    assert run(project, work, limit=2) == [None]
    assert answers == [("stays", True)]
    assert project.query.counts("route").decisions == 2, "it was decided and logged anyway"
