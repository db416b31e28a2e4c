"""The site in a real browser: no errors, nothing sticks out, readable in light and dark, pictures described."""

from __future__ import annotations

import pytest

from browsing import SCHEMES, WIDTHS, complaints, faint_texts, needs_browser, show, undescribed

pytestmark = [needs_browser, pytest.mark.slow]

PAGES = ["quickstart", "did_it_work", "results", "tutorials/psychometric"]
PICTURES = {"did_it_work": 3, "results": 8, "tutorials/psychometric": 2}

#: What scrolls by itself, and what the theme keeps beside the window until it is asked for.
BESIDE = ".table-wrapper, .highlight, .cell_output table, .sidebar-drawer, .toc-drawer, svg, .skip-to-content"
MADE_BY_SPHINX = {"genindex", "py-modindex", "search"}

#: Cells of tables in which a sentence has room for a word a line.
NARROW_CELLS = """
return [...document.querySelectorAll('td')]
  .filter(cell => cell.textContent.trim().length > 40 && cell.getBoundingClientRect().width < 120)
  .map(cell => cell.textContent.trim().slice(0, 40))
"""


def wrong(browser) -> list[str]:
    """Everything that is wrong with the page that is shown."""
    found = complaints(browser, BESIDE, "file:") + faint_texts(browser)
    found += undescribed(browser, "article img", 20) + undescribed(browser, "a", 1)
    return found + [f"narrow: {text}" for text in browser.execute_script(NARROW_CELLS)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_the_site_opens_and_fits(browser, site, name, width, scheme):
    show(browser, site / f"{name}.html", width, scheme)
    assert wrong(browser) == []
    pictures = browser.execute_script("return document.querySelectorAll('article img').length")
    assert pictures == PICTURES.get(name, 0)


def test_every_page_of_the_site_fits_a_phone(browser, site):
    found = {}
    for page in sorted(site.rglob("*.html")):
        if "_static" not in page.parts and page.stem not in MADE_BY_SPHINX:
            show(browser, page, WIDTHS[0])
            found[str(page.relative_to(site))] = wrong(browser)
    assert len(found) > 35
    assert {name: what for name, what in found.items() if what} == {}


def test_the_checks_can_fail(browser, tmp_path):
    bad = tmp_path / "bad.html"
    table = f"<table style='width:90px'><tr><td>{'word ' * 60}</td></tr></table>"
    image = "<img src='' alt='../_images/0123456789abcdef.png'>"
    phone = "<meta name='viewport' content='width=device-width'>"
    bad.write_text(
        f"{phone}<article>{table}{image}<a href='#'></a><p style='width:900px;color:#999'>wide</p></article>"
    )
    show(browser, bad, 390)
    found = " ".join(wrong(browser))
    for words in ("narrow: word", "0123456789abcdef.png", "<a href", "pixels wide", "P.: wide", "wide: 2.8"):
        assert words in found
