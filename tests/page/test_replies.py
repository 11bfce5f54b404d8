"""Chat, blind comparison and the panel of reply tasks in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import headway
from headway.loop.lock import held
from headway.loop.supervisor import LOCK
from tests.page.browser import Served, serving
from tests.page.conftest import AXE, Open, need
from tests.page.replying import SETTINGS, TALKS, write_replies
from tests.page.test_views import ready, violations


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Kept replies, and no worker."""
    folder = tmp_path_factory.mktemp("replies") / "desk"
    write_replies(folder, now=time.time())
    with serving(folder) as server:
        yield server


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A worker with a tiny random model, and a candidate with a random adapter."""
    pytest.importorskip("torch")
    from tests.kits.reply.test_duels import publish_adapter
    from tests.kits.reply.test_worker import working
    from tests.kits.reply.tiny import make

    model = make(tmp_path_factory.mktemp("model"), "llama", window=1024, endless=True)
    folder = tmp_path_factory.mktemp("talking") / "desk"
    folder.mkdir()
    (folder / "headway.toml").write_text(SETTINGS.format(base=model).replace("= 40", "= 90"), "utf-8")
    with headway.open(folder) as project:
        publish_adapter(project, "reply", tmp_path_factory.mktemp("adapters"))
    with working(folder), serving(folder) as server:
        yield server


@pytest.fixture
def _the_worker_stays(talking: Served) -> None:
    """Starts worker and server before the check for leaked processes takes its first snapshot."""


def rows(server: Served, task: str = "reply") -> list[dict[str, Any]]:
    """The latest replies, oldest first."""
    answer = httpx.get(f"{server.url}/v1/tasks/{task}/replies").raise_for_status().json()
    return list(reversed(answer["replies"]))


def until_stored(page: Any, server: Served, decision: str, wanted: dict[str, Any]) -> None:
    """Ratings are sent in the background."""
    page.wait_for_function(
        """async ([id, wanted]) => {
            const { replies } = await (await fetch("/v1/tasks/reply/replies")).json();
            const mine = replies.find((row) => row.id === id)?.mine ?? {};
            return Object.entries(wanted).every(([name, value]) => mine[name] === value);
        }""",
        arg=[decision, wanted],
    )


def send(page: Any, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_label("Message").press("Enter")


def until_rateable(page: Any, count: int) -> Any:
    """The newest reply, complete, with the focus on it."""
    article = page.get_by_role("article").nth(count - 1)
    article.get_by_role("group", name="Rate this reply").wait_for()
    page.wait_for_function(
        "place => document.activeElement === document.querySelectorAll('article')[place]", arg=count - 1
    )
    return article


def test_kept_replies_are_text_and_are_rated_with_single_keys(written: Served, tab: Open) -> None:
    page = tab(written, "#/chat")
    ready(page)
    page.get_by_role("button", name="Name three fruits.").first.click()
    latest = until_rateable(page, 4)
    reply = rows(written)[-1]
    assert reply["text"] in latest.inner_text()
    page.keyboard.press("5")
    until_stored(page, written, reply["id"], {"stars": 5, "thumb": None})
    assert latest.get_by_role("button", name="5 stars").get_attribute("aria-pressed") == "true"
    latest.focus()
    page.keyboard.press("-")
    until_stored(page, written, reply["id"], {"stars": None, "thumb": -1})
    latest.focus()
    page.keyboard.press("w")
    until_stored(page, written, reply["id"], {"stars": None, "thumb": None})
    strange = page.get_by_role("article").filter(has_text=TALKS[3][0])
    assert TALKS[3][1] in strange.inner_text(), "tags of a model are text"
    assert strange.locator("b, img, script").count() == 0
    assert "broken" not in page.title()


@pytest.mark.slow
def test_unrated_replies_are_rated_one_after_another(written: Served, tab: Open) -> None:
    page = tab(written, "#/chat/code")
    ready(page)
    left = [row for row in rows(written, "code") if not row["rated"]]
    assert left
    page.get_by_role("button", name=f"{len(left)} unrated").click()
    for _ in left:
        page.keyboard.press("+")
    page.get_by_role("button", name="0 unrated").wait_for()
    assert all(row["rated"] for row in rows(written, "code"))


@pytest.mark.slow
@pytest.mark.usefixtures("_the_worker_stays")
def test_a_conversation_is_streamed_rated_edited_and_kept_as_an_episode(talking: Served, tab: Open) -> None:
    page = tab(talking, "#/chat")
    ready(page)
    send(page, "Hello")
    page.wait_for_function("() => document.querySelector('article [aria-busy=true]')?.textContent.length > 3")
    page.keyboard.press("Escape")
    page.keyboard.press("3")  # said while it is written, and stored with the reply
    article = until_rateable(page, 1)
    (reply,) = rows(talking)
    until_stored(page, talking, reply["id"], {"stars": 3})
    page.keyboard.press("Escape")
    assert page.get_by_role("article").locator(".text").text_content() == reply["text"]
    page.keyboard.press("4")
    until_stored(page, talking, reply["id"], {"stars": 4})
    page.wait_for_function("() => document.activeElement.id === 'message'", timeout=5000)

    page.keyboard.type("And now?")  # one key rated; the next ones are the next message
    page.keyboard.press("Enter")
    second = until_rateable(page, 2)
    _, answer = rows(talking)
    page.keyboard.press("e")
    field = second.get_by_label("What should it have said?")
    assert _letters(field.input_value()) == _letters(answer["text"])
    field.fill("Now it is fine.")
    field.press("Control+Enter")
    until_stored(page, talking, answer["id"], {"edit": "Now it is fine."})
    second.get_by_role("button", name="Critique").click()
    second.get_by_label("What is wrong with it?").fill("<b>Nonsense</b>")
    second.get_by_role("button", name="Save the critique").click()
    until_stored(page, talking, answer["id"], {"edit": "Now it is fine.", "critique": "<b>Nonsense</b>"})
    second.get_by_role("button", name="Good").click()
    until_stored(page, talking, answer["id"], {"thumb": 1, "critique": "<b>Nonsense</b>"})
    second.get_by_role("button", name="Withdraw").click()
    until_stored(page, talking, answer["id"], {"thumb": None, "edit": "", "critique": ""})
    article.get_by_role("button", name="2 stars").click()
    until_stored(page, talking, reply["id"], {"stars": 2})

    one, two = rows(talking)
    assert one["episode"] == two["episode"]
    with headway.open(talking.folder) as project:
        from headway.kits.reply.kept import kept_reply

        turns = kept_reply(project, two["id"]).turns
    assert [turn.role for turn in turns] == ["system", "user", "assistant", "user"]
    assert turns[2].content == one["text"]
    page.get_by_label("Role").select_option("code")
    page.wait_for_function("() => location.hash === '#/chat/code'")
    send(page, "Sort")
    until_rateable(page, 1)
    assert [row["prompt"] for row in rows(talking, "code")] == ["Sort"]


@pytest.mark.slow
@pytest.mark.usefixtures("_the_worker_stays")
def test_a_rating_never_blocks_the_conversation(talking: Served, tab: Open) -> None:
    page = tab(talking, "#/chat")
    ready(page)
    send(page, "One")
    until_rateable(page, 1)
    held: list[Any] = []
    page.route("**/rating", lambda route: held.append(route))  # the server does not answer to ratings
    page.keyboard.press("3")
    assert page.get_by_role("button", name="3 stars").get_attribute("aria-pressed") == "true"
    send(page, "Two")
    until_rateable(page, 2)
    with page.expect_request("**/rating"):
        page.keyboard.press("1")
    page.wait_for_function("() => true")  # what was asked is also held
    assert len(held) == 2
    one, two = rows(talking)[-2:]
    assert not one["rated"]
    for route in held:
        route.continue_()
    until_stored(page, talking, one["id"], {"stars": 3})
    until_stored(page, talking, two["id"], {"stars": 1})


@pytest.mark.slow
@pytest.mark.usefixtures("_the_worker_stays")
def test_a_stopped_reply_is_not_kept_and_the_message_comes_back(talking: Served, tab: Open) -> None:
    page = tab(talking, "#/chat")
    ready(page)
    before = len(rows(talking))
    page.route("**/generate", lambda _: None)  # never answered
    send(page, "Never mind")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_function("() => document.getElementById('message').value === 'Never mind'")
    assert page.get_by_role("article").count() == 0
    assert len(rows(talking)) == before


@pytest.mark.slow
@pytest.mark.usefixtures("_the_worker_stays")
def test_a_blind_vote_discloses_who_wrote_what_only_afterwards(talking: Served, tab: Open) -> None:
    page = tab(talking, "#/compare/reply")
    answers: list[str] = []
    page.on("response", lambda answer: answers.append(answer.text()) if _json(answer) else None)
    ready(page)
    page.keyboard.press("n")
    page.get_by_role("article", name="Left reply").wait_for()
    page.wait_for_function(
        "() => performance.getEntriesByType('resource').filter((each) => each.name.endsWith('/duels')).length >= 2"
    )  # the next pair is there too
    told = "\n".join([*answers, page.content()])
    assert '"left":"language@' not in told
    assert '"left":"base@' not in told
    assert "written by" not in told
    with headway.open(talking.folder) as project:
        assert not [one for one in project.query.decisions("reply") if len(one.candidates) == 2]
    question = page.locator(".question").inner_text()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Your vote is stored.").wait_for()
    with headway.open(talking.folder) as project:
        (pair,) = [one for one in project.query.decisions("reply") if len(one.candidates) == 2]
    assert pair.situation.text == question
    assert f"written by {pair.action}" in page.get_by_role("article", name="Left reply").inner_text()
    page.keyboard.press("n")
    page.wait_for_function("before => document.querySelector('.question').innerText !== before", arg=question)
    page.keyboard.press("ArrowDown")
    page.get_by_text("Your vote is stored.").wait_for()
    page.get_by_role("button", name="Next pair").click()
    page.get_by_role("button", name="Right is better").click()
    page.get_by_text("Your vote is stored.").wait_for()
    tally = httpx.get(f"{talking.url}/v1/tasks/reply/votes").json()
    assert (tally["wins"] + tally["losses"], tally["ties"]) == (2, 1)
    facts = page.locator("dl.facts").inner_text()
    assert f"{tally['e_value']:.3g} of 20" in facts
    chart = page.get_by_role("img", name="The e-value after 3 votes")
    assert "passes at 20" in chart.get_attribute("aria-label")


def _letters(text: str) -> str:
    """Without the control characters that a random model writes and a text field changes."""
    return "".join(filter(str.isalnum, text))


def _json(answer: Any) -> bool:
    return "application/json" in answer.headers.get("content-type", "")


@pytest.mark.slow
def test_what_is_missing_is_named_with_its_command(written: Served, tab: Open) -> None:
    page = tab(written, "#/chat")
    ready(page)
    send(page, "Hello")
    page.get_by_role("alert").get_by_text("worker_missing").wait_for()
    page.get_by_text("headway worker", exact=True).wait_for()
    assert page.get_by_label("Message").input_value() == "Hello", "the message is not lost"
    page.goto(f"{written.url}/#/compare/reply")
    page.get_by_role("button", name="Show a pair").click()
    page.get_by_role("alert").get_by_text("worker_missing").wait_for()
    page.get_by_label("Role").select_option("code")
    page.get_by_text("There is nothing to compare yet.").wait_for()
    page.get_by_text("headway learn code").wait_for()


@pytest.mark.slow
def test_the_panel_is_that_of_the_server_and_live(written: Served, tab: Open) -> None:
    page = tab(written, "#/tasks/reply")
    ready(page)
    table = page.get_by_role("table").filter(has_text="Answered by")
    table.wait_for()
    (role,) = [one for one in httpx.get(f"{written.url}/v1/roles").json()["roles"] if one["task"] == "reply"]
    cells = table.get_by_role("row").filter(has_text="reply").first.inner_text().split()
    assert cells[:4] == ["reply", "base@0", str(role["replies"]), str(role["rated"])]
    raters = page.get_by_role("table").filter(has_text="Reversed")
    assert "100%" in raters.get_by_role("row", name="eve 14").inner_text()
    assert "100%" not in raters.get_by_role("row", name="ann 14").inner_text()
    page.get_by_role("img", name="Length, tokens of the replies of reply").wait_for()
    page.get_by_role("img", name="The e-value after 9 votes").wait_for()
    unrated = next(row for row in rows(written) if not row["rated"])
    httpx.put(f"{written.url}/v1/decisions/{unrated['id']}/rating", json={"mark": "5"}).raise_for_status()
    page.wait_for_function(
        """wanted => [...document.querySelectorAll("tr")].some(
            (row) => row.innerText.split(/\\s+/).slice(0, 4).join() === wanted
        )""",
        arg=",".join(["reply", "base@0", str(role["replies"]), str(role["rated"] + 1)]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("place", ["#/chat/reply", "#/compare/reply", "#/tasks/reply"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_pages_of_replies_have_no_serious_violation(
    written: Served, tab: Open, place: str, scheme: str, width: int
) -> None:
    page = tab(written, place, scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    ready(page)
    if "chat" in place:
        page.get_by_role("button", name="Name three fruits.").first.click()
        until_rateable(page, 4)
        page.keyboard.press("e")
        page.get_by_label("What should it have said?").wait_for()
    elif "compare" in place:
        page.get_by_role("button", name="Show a pair").click()
        page.get_by_role("alert").wait_for()
    else:
        page.get_by_role("table").filter(has_text="Reversed").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    need(AXE.exists(), "axe-core is not installed (python scripts/build_page.py --tools)")
    assert violations(page) == []


@pytest.mark.slow
def test_a_question_waits_for_the_worker_that_up_starts_and_the_page_says_so(written: Served, tab: Open) -> None:
    with held(written.folder / ".headway" / LOCK, "headway up") as note:
        note({"workers": ["worker"]})
        page = tab(written, "#/chat")
        send(page, "Hello?")
        page.get_by_text("The model is being loaded, or is busy.").wait_for()
        note({"workers": []})
        page.get_by_text("Start `headway up` again").wait_for()
    assert page.get_by_label("Message").input_value() == "Hello?", "nothing is lost"
