"""Several machines, one PostgreSQL store: one of them learns for all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headway.loop.watch import Watch
from headway.nouns.errors import Conflict
from headway.observe.jobs import Jobs, worker_there
from headway.project import Project
from tests.loop.conftest import ASK, ROOMY, rewarded
from tests.loop.running import alive, can_bind, until, up

pytestmark = pytest.mark.engines("postgresql", why="an SQLite file is one machine's")


@pytest.mark.kits("postgres")
def test_one_watch_learns_for_all_machines_and_another_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for side in (here, there):
        side.mkdir()
        (side / "headway.toml").write_text(ASK, "utf-8")
    with Project(there, environ=environ, seed=1, source="synthetic") as project:
        assert not worker_there(project.database)
        with Watch(here, environ=environ, machine=lambda _: ROOMY) as watch:
            assert worker_there(project.database), "the server of another machine finds the worker"
            with pytest.raises(Conflict) as error, Watch(there, environ=environ, machine=lambda _: ROOMY):
                pass
            assert error.value.code == "already_running"
            rewarded(
                project,
                "route",
                [(f"question {number}", {"small": 0.2, "large": 0.8}.__getitem__) for number in range(60)],
            )
            (check,) = watch.check()
            assert check.done is not None
            assert check.done.learned
            job = Jobs(project.database).add("learn", {"task": "route", "family": None, "seed": 5}, now=1.0)
            watch._between()
            assert Jobs(project.database).get(job.job).state == "done"
        assert [entry.kind for entry in project.ledger.entries("route")][:1] == ["candidate"]
        assert not worker_there(project.database)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes through /proc")
@pytest.mark.kits("postgres")
def test_up_starts_several_workers_and_stops_all_of_them(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWAY_STORE_URL", environ["HEADWAY_STORE_URL"])
    with up(tmp_path, "--port", "0", "--no-watch", "--workers", "2") as running:
        printed = running.ready().printed()
        (server,) = running.children()
        workers = [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]
        assert len(workers) == 2
        assert running.server["pid"] == server
        link = re.search(r"http://\S+(/open\?code=\S+)", printed)
        assert link is not None
        assert [running.ask("GET", link[1])[0] for _ in range(2)] == [303, 401]
        assert running.decide()
        port = running.port
        running.process.kill()
        until(lambda: not any(map(alive, (server, *workers))), "all have ended with `up`")
        assert can_bind(port)
