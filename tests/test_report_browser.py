"""The report in a real browser: no errors, figures there, nothing sticks out, readable in light, dark and print."""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import vsbq
from test_corner import by_hand
from test_report import NASTY, history
from vsbq.report import write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no chromium and chromedriver on this machine"
)

OPTIONS = [
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
PAGES = ["one", "compact", "nasty"]

STICKING_OUT = """
return [...document.body.querySelectorAll('*')]
  .filter(e => !e.closest('.scroll') && !e.closest('.skip') && !e.closest('svg'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)
  .map(e => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 40))
"""

#: Colour of every piece of visible text, and the backgrounds under it from the innermost to the page's.
TEXTS = """
const found = new Map()
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement
  if (!walker.currentNode.data.trim() || e.closest('.skip') || e.closest('title') || !e.checkVisibility()) continue
  const grounds = []
  for (let up = e; up; up = up.parentElement) grounds.push(getComputedStyle(up).backgroundColor)
  const ink = getComputedStyle(e)[e.closest('svg') ? 'fill' : 'color']
  found.set([ink, ...grounds].join('|'), walker.currentNode.data.trim().slice(0, 30))
}
return [...found]
"""

#: Pictures without a text in their place, and links without words.
UNDESCRIBED = """
return [...document.querySelectorAll('img, svg, a')]
  .filter(e => (e.alt || e.getAttribute('aria-label') || (e.tagName == 'A' && e.textContent) || '').trim().length < 5)
  .map(e => e.outerHTML.slice(0, 60))
"""

#: Boxes of tables: whether the table goes on to the side, and how high the words are that say so.
HINTS = """
return [...document.querySelectorAll('.scroll:has(> table)')].map(
  box => [box.scrollWidth > box.clientWidth, parseFloat(getComputedStyle(box, '::after').height)])
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    for option in [*OPTIONS, *root, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


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


def show(browser, path: Path, width: int, scheme: str = "light", media: str = "screen") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get_log("browser")
    browser.get(path.as_uri())


def complaints(browser) -> list[str]:
    """Everything that is wrong with the page that is shown, but for its colours."""
    found = [entry["message"] for entry in browser.get_log("browser")]
    wide, window = browser.execute_script("return [document.scrollingElement.scrollWidth, innerWidth]")
    found += [f"the page is {wide} pixels wide, the window {window}"] if wide > window else []
    found += browser.execute_script(STICKING_OUT)
    broken = "return [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.alt)"
    found += [f"a figure is missing: {alt}" for alt in browser.execute_script(broken)]
    empty = "return [...document.querySelectorAll('svg')].filter(s => s.getBoundingClientRect().height < 40).length"
    found += [f"{count} curves are flat"] if (count := browser.execute_script(empty)) else []
    loaded = "return performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith('data:'))"
    return found + [f"loaded {name[:80]}" for name in browser.execute_script(loaded)]


Colour = tuple[float, float, float, float]


def colour(css: str) -> Colour:
    """Red, green, blue and opacity between 0 and 1, of what browsers compute."""
    numbers = [float(number) for number in re.findall(r"[-+.\de]+", css.split("(", 1)[1].replace("srgb", ""))]
    red, green, blue = (number if css.startswith("color") else number / 255 for number in numbers[:3])
    return red, green, blue, numbers[3] if len(numbers) > 3 else 1.0


def over(top: Colour, bottom: Colour) -> Colour:
    """A colour painted on another, opaque one."""
    mixed = [top[3] * a + (1 - top[3]) * b for a, b in zip(top[:3], bottom[:3], strict=True)]
    return mixed[0], mixed[1], mixed[2], 1.0


def luminance(of: Colour) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in of[:3]]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(ink: str, grounds: list[str]) -> float:
    """Contrast ratio of the Web Content Accessibility Guidelines."""
    ground: Colour = (1.0, 1.0, 1.0, 1.0)
    for layer in reversed(grounds):
        ground = over(colour(layer), ground)
    light, dark = sorted([luminance(over(colour(ink), ground)), luminance(ground)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def faint_texts(browser) -> list[str]:
    found = []
    for colours, text in browser.execute_script(TEXTS):
        ink, *grounds = colours.split("|")
        if contrast(ink, grounds) < 4.5:
            found.append(f"{text}: {contrast(ink, grounds):.2f}")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_the_page_opens_and_fits(browser, pages, name, width, scheme):
    show(browser, pages[name], width, scheme)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert complaints(browser) == []
    assert faint_texts(browser) == []
    assert browser.execute_script("return document.images.length") == 2
    assert browser.execute_script(UNDESCRIBED) == []
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
    assert browser.execute_script(STICKING_OUT) == []
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
    assert len(browser.execute_script(UNDESCRIBED)) == 3  # "gone" is too short for a description
