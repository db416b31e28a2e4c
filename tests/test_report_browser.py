"""The report in a real browser: no errors, figures there, nothing sticks out, readable in light, dark and print."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

import vsbq
from browsing import (
    SCHEMES,
    WIDTHS,
    colour,
    complaints,
    faint_texts,
    luminance,
    needs_browser,
    over,
    show,
    sticking_out,
    undescribed,
)
from test_corner import by_hand
from test_report import NASTY, history
from vsbq.report import write_report

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed").Keys
pytestmark = needs_browser

PAGES = ["one", "compact", "nasty"]

#: Boxes of tables: whether the table goes on to the side, and how high the words are that say so.
HINTS = """
return [...document.querySelectorAll('.scroll:has(> table)')].map(
  box => [box.scrollWidth > box.clientWidth, parseFloat(getComputedStyle(box, '::after').height)])
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    nasty = replace(by_hand(6, names=NASTY[:6], bounds=[(0, 1), (0, None), *[None] * 4]), history=history())
    compact = replace(by_hand(3), evaluations=None)
    long = "a line of a log that does not know when to stop, " * 10 + "\n"
    return {
        "one": write_report(replace(by_hand(1), history=history("sequential")), folder / "one"),
        "compact": write_report(compact, folder / "compact", settings=vsbq.Settings.paper()),
        "nasty": write_report(nasty, folder / "nasty", title="W" * 90 + "<script>alert(1)</script>", log=long * 30),
    }


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_the_page_opens_and_fits(browser, pages, name, width, scheme):
    show(browser, pages[name], width, scheme)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert complaints(browser) == []
    assert faint_texts(browser) == []
    assert browser.execute_script("return document.images.length") == 2
    assert undescribed(browser) == []
    body = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (luminance(colour(body)) > 0.5) == (scheme == "light")


@pytest.mark.parametrize("name", PAGES)
def test_print_is_on_white_and_fits_the_paper(browser, pages, name):
    show(browser, pages[name], 680, "dark", "print")  # A4 without margins is 182 mm or 688 pixels wide
    assert complaints(browser) == []
    assert faint_texts(browser) == []
    wide = "return [...document.querySelectorAll('table, img, svg')].filter(e => e.getBoundingClientRect().right > 690)"
    assert browser.execute_script(wide + ".length") == 0
    body = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert luminance(over(colour(body), (1, 1, 1, 1))) == pytest.approx(1.0)
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert printed.startswith(b"%PDF")


def test_scripts_in_names_do_not_run(browser, pages):
    show(browser, pages["nasty"], 1280)
    assert browser.execute_script("return document.scripts.length") == 0
    assert "<script>" in browser.title
    assert "<script>alert(1)</script>" in browser.execute_script("return document.body.innerText")


def test_wide_tables_scroll_and_keys_reach_them(browser, pages):
    show(browser, pages["nasty"], 390)
    boxes = browser.execute_script(
        "return [...document.querySelectorAll('.scroll')].map(b => [b.scrollWidth > b.clientWidth, b.tabIndex, "
        "b.getAttribute('aria-label')])"
    )
    assert any(wider for wider, _, _ in boxes)
    assert all(index == 0 and label for _, index, label in boxes)


@pytest.mark.parametrize("width", [390, 1280])
def test_tables_say_whether_they_go_on_to_the_side(browser, pages, width):
    show(browser, pages["nasty"], width)
    hints = browser.execute_script(HINTS)
    assert any(goes_on for goes_on, _ in hints)
    assert all((height > 10) == goes_on for goes_on, height in hints)


@pytest.mark.parametrize("width", [390, 1280])
def test_a_figure_enlarges_and_closes_without_a_script(browser, pages, width):
    show(browser, pages["nasty"], width)
    seen = "const i = document.images[0]; return [i.getBoundingClientRect().width, i.naturalWidth]"
    before, natural = browser.execute_script(seen)
    assert before < natural
    browser.find_element("css selector", "#corner .enlarge").send_keys(Keys.ENTER)
    assert browser.execute_script(seen)[0] >= natural
    corner = "return getComputedStyle(document.getElementById('corner')).position"
    assert browser.execute_script(corner) == "fixed"
    assert sticking_out(browser) == []
    browser.find_element("css selector", "#corner .close").click()
    assert browser.execute_script(corner) == "static"
    assert browser.execute_script(seen)[0] == before


def test_the_first_screen_has_verdict_table_and_corner_plot(browser, pages):
    ends = "return ['.verdict', '#posterior table', '#corner img'].map(e => {"
    ends += "const box = document.querySelector(e).getBoundingClientRect(); return [box.top, box.bottom, box.left]})"
    show(browser, pages["compact"], 1280)
    verdict, table, image = browser.execute_script(ends)
    assert verdict[1] <= table[0]
    assert table[1] < 900
    assert image[0] < 450  # beside the table, not below it
    assert image[2] > table[2] + 400
    show(browser, pages["compact"], 390)
    verdict, table, image = browser.execute_script(ends)
    assert verdict[1] <= table[0]
    assert table[0] < 900
    assert table[1] <= image[0]


def test_a_page_of_its_own_has_no_network(browser, pages, tmp_path):
    source = pages["one"].read_text(encoding="utf-8")
    smuggled = tmp_path / "smuggled.html"
    smuggled.write_text(source.replace("<main", "<script>document.title = 'run'</script><main"), encoding="utf-8")
    show(browser, smuggled, 1280)
    assert browser.title != "run"
    assert any("Content Security Policy" in entry["message"] for entry in browser.get_log("browser"))


def test_the_checks_can_fail(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<body style='background:#fff'><p style='width:3000px;color:#bbb'>wide</p><img src='nowhere.png' alt='gone'>"
        "<svg height='3' class='marginal'></svg><a href='#'></a><script>throw Error('oh no')</script>"
    )
    show(browser, bad, 390)
    found = " ".join(complaints(browser))
    for words in ("oh no", "pixels wide", "P.", "gone", "flat", "nowhere.png"):
        assert words in found
    assert len(faint_texts(browser)) == 1
    assert len(undescribed(browser)) == 3  # "gone" is too short for a description
