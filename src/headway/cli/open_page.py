"""`headway open`: a fresh link to the page of the running server."""

from __future__ import annotations

import http.client
from dataclasses import dataclass

from headway.cli.output import Output
from headway.cli.show import renders
from headway.cli.verbs import Session, verb
from headway.nouns import errors


@verb("open", "headway open", "headway -C demo open --json")
def open_page(session: Session) -> None:
    """Print a fresh link to the page of the running server.

    A link works once, within ten minutes; the browser then stays signed in for twelve hours.
    """
    from headway.loop import page_link, running_url

    home = session.folder / ".headway"
    url = running_url(home)
    if url is None:
        raise _not_running(session, "No server is running for this project.")
    try:
        link = page_link(home, url)
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        raise _not_running(session, f"The server at {url} gave no link: {error}.") from error
    session.show(PageLink(url=url, link=link))


def _not_running(session: Session, message: str) -> errors.Unavailable:
    return errors.Unavailable(
        message, code="no_server", hint=f"Start it, then try again: {session.command('headway up')}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A link that opens the page once."""

    url: str
    link: str


@renders(PageLink)
def _link(out: Output, page: PageLink) -> None:
    out.line(page.link)
    out.aside("It works once, within ten minutes.")
