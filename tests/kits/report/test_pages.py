from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from headway.kits.report import pages as report
from headway.kits.report.pages import curve_svg
from headway.nouns.evidence import Verdict
from headway.promote.gate import verdict
from headway.prove.about import About
from headway.prove.evidence import from_log
from tests.prove.logs import small_log

ABOUT = About(
    task="route",
    candidate="bandit@4f2a",
    against="rules@0",
    candidate_hash="4f2a" * 16,
    against_hash="beef" * 16,
    reward_version="0123456789abcdef",
    command="headway prove route --policy bandit@4f2a",
)


def verdicts() -> dict[str, Verdict]:
    return {
        "pass": verdict(from_log([small_log(4_000, 1)], ABOUT)),
        "wait": verdict(from_log([small_log(300, 2)], replace(ABOUT, margin=0.25))),
        "refused": verdict(from_log([small_log(1_000, 3, logged=(0.998, 0.001, 0.001))], ABOUT)),
        "worse": verdict(from_log([small_log(4_000, 4, target=(0.8, 0.1, 0.1), baseline=(0.1, 0.1, 0.8))], ABOUT)),
    }


PAGES = verdicts()


class Balanced(HTMLParser):
    """Fails on a tag that is not closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [str(value) for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", PAGES)
def test_every_page_names_what_recomputes_it(name: str) -> None:
    page = PAGES[name]
    evidence = page.evidence
    assert evidence is not None
    for text in (report.text(page), report.markdown(page), report.html(page)):
        for needed in (
            evidence.data_hash,
            evidence.candidate_hash,
            evidence.against_hash,
            evidence.reward_version,
            "headway prove route --policy bandit@4f2a",
        ):
            assert needed in text


@pytest.mark.parametrize("name", PAGES)
def test_html_is_one_complete_file(name: str) -> None:
    text = report.html(PAGES[name])
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert parser.sources == []
    assert "<script" not in text


def test_text_from_data_is_escaped() -> None:
    about = replace(ABOUT, task="<script>alert(1)</script>", candidate="a|b`<img src=x>")
    log = small_log(1_000, 5, segments={"<b>": ["<i>x</i>"] * 1_000})
    page = verdict(from_log([log], about))
    text = report.html(page)
    for raw in ("<script", "<img", "<i>x", "<b>"):
        assert raw not in text.replace("<b>Next:</b>", "")
    assert "<img" not in report.markdown(page)


def test_refused_pages_show_no_number_that_would_be_a_guess() -> None:
    page = PAGES["refused"]
    assert page.evidence is not None
    text = report.text(page)
    assert text.startswith("CANNOT TELL")
    assert "any number would be a guess" in text
    assert f"{page.evidence.difference.value:+.3f}" not in text
    assert "<svg" not in report.html(page)


def test_the_page_words_match_the_verdict() -> None:
    assert report.text(PAGES["pass"]).splitlines()[2].startswith("bandit@4f2a is better than rules@0: about +0.")
    assert "is worse than rules@0" in report.text(PAGES["worse"])
    assert "Too early to tell whether" in report.text(PAGES["wait"])
    assert max(len(line) for line in report.text(PAGES["pass"]).splitlines()) <= 110


def test_the_plot_is_well_formed_and_stays_inside_its_frame() -> None:
    evidence = PAGES["pass"].evidence
    assert evidence is not None
    picture = ElementTree.fromstring(curve_svg(evidence.curve, margin=0.01))
    line = next(element for element in picture if element.tag == "polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert all(0 <= x <= 820 and 0 <= y <= 320 for x, y in points)
    assert curve_svg([]) == ""
    assert curve_svg([(10, 0.0, -1.0, 1.0)]) == ""
