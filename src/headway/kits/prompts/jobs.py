"""Jobs of the prompt-mutation service: each runs one PPO update."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.kits.prompts.service import service
from headway.nouns import Clock, HeadwayError
from headway.observe import Jobs

if TYPE_CHECKING:
    from headway.project import Project


logger = logging.getLogger("headway.loop")
KIND = "update"
_LEASE_S = 120.0


def do_updates(project: Project, worker: str, clock: Clock, say: Callable[[str], None]) -> None:
    """Run every waiting update, one after another. A failed one records why and leaves the policy unchanged."""
    jobs = Jobs(project.database)
    while jobs.waiting((KIND,), now=clock()):
        job = jobs.claim(worker, now=clock(), lease_s=_LEASE_S, kinds=(KIND,))
        if job is None:
            return
        try:
            result = service(project).update(who=job.key or worker)
        except HeadwayError as error:
            logger.warning("update failed code=%s", error.code)
            body = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
            jobs.finish(job.seq, body, worker=worker, now=clock(), failed=True)
            continue
        except Exception as error:  # noqa: BLE001 — one request must not end the loop
            logger.warning("update failed error=%s", error)
            body = {"error": {"code": "failed", "message": f"{type(error).__name__}: {error}"[:500], "hint": ""}}
            jobs.finish(job.seq, body, worker=worker, now=clock(), failed=True)
            continue
        jobs.finish(job.seq, result, worker=worker, now=clock())
        if "policy" in result:
            say(f"mutate-embedded: {result['policy']} decides now, after update {result['update_count']}")
