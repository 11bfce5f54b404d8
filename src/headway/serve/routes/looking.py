"""Health, metrics, events, the API's own description, and the link that opens the page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headway.nouns import TaskStory
from headway.serve.auth import FRESH_LINK
from headway.serve.endpoints import Call, Reply, Stream, endpoint, strict
from headway.serve.errors import Refused
from headway.serve.page import HTML


@endpoint("GET", "/v1/tasks/{task}/story", gives=TaskStory, errors=(404,), scope="train")
def story(call: Call) -> TaskStory:
    """What happened to a task, oldest first: learned, proven, promoted, tried, taken back, changed, deleted."""
    from headway.project import task_story  # not needed to decide, so not loaded at the start

    return task_story(call.server.project, call.params["task"])


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok"]


@endpoint("GET", "/health", gives=Health, errors=(503,), hot=True)
async def health(call: Call) -> Health:
    """Whether the server answers, and can write: 503 with the reason while the store refuses writes."""
    writer = call.server.project.writer
    if writer.failure is not None:
        await call.server.in_thread(writer.probe)
    return Health("ok")


@endpoint("GET", "/metrics", gives=str, media="text/plain; version=0.0.4", scope="train")
async def metrics(call: Call) -> Reply:
    """Counters in Prometheus' text format."""
    return Reply(body=await call.server.metrics_text(), media="text/plain; version=0.0.4")


@endpoint("GET", "/v1/events", gives=str, media="text/event-stream", scope="train")
async def events(call: Call) -> Stream:
    """Server-sent events: hello, decisions, signals, ledger, progress, missed, stopping."""
    stream = call.server.hub.enter(keyed=bool(call.key))
    try:
        return Stream(chunks=stream.start(await call.server.in_thread(call.server.now)))
    except BaseException:
        await stream.aclose()
        raise


@endpoint("GET", "/openapi.json", gives=dict[str, Any])
async def openapi(call: Call) -> Reply:
    """This document."""
    return Reply(body=call.server.document)


class LinkAnswer(msgspec.Struct, frozen=True):
    path: str


@endpoint("POST", "/v1/links", takes=dict[str, None], gives=LinkAnswer, status=201, scope="admin", optional=True)
async def link(call: Call, body: dict[str, None]) -> LinkAnswer:
    """A path that opens the page once, within ten minutes."""
    return LinkAnswer(f"/open?code={call.server.credentials.link()}")


USED = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Headway: this link was used</title>
<h1>This link was used already, or is too old</h1>
<p>{FRESH_LINK.replace("headway open", "<code>headway open</code>")}</p>
</html>
""".encode()


class OpenQuery(strict):
    code: Annotated[str, Meta(min_length=1, max_length=200)]


@endpoint("GET", "/open", query=OpenQuery, status=303, public=True)
def open_page(call: Call) -> Reply:
    """Trades a one-time code for the page's cookie."""
    query: OpenQuery = call.query
    try:
        cookie, proof = call.server.credentials.open(query.code)
    except Refused as refused:
        if call.server.credentials.signed_in(call.header("cookie")):  # this browser used the link before
            return Reply(body=b"", status=303, headers={"location": "/"})
        if "text/html" not in call.header("accept"):
            raise
        return Reply(body=USED, status=refused.status, media=HTML, headers={"cache-control": "no-store"})
    return Reply(body=b"", status=303, headers={"location": f"/#unlock={proof}", "set-cookie": cookie})
