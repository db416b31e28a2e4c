"""Pages in a real browser: how to open them, and what may be wrong with them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no chromium and chromedriver on this machine"
)

WIDTHS = [390, 768, 1280]
SCHEMES = ["light", "dark"]

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

#: Elements that reach over the edge of the window, but for those within what may. A phone zooms out where a page is too
#: wide: innerWidth grows then, and clientWidth does not.
STICKING_OUT = """
const wide = document.documentElement.clientWidth
return [...document.body.querySelectorAll('*')]
  .filter(e => !e.closest(arguments[0]))
  .filter(e => e.getBoundingClientRect().right > wide + 0.5 || e.getBoundingClientRect().left < -0.5)
  .map(e => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 40))
"""
WIDTHS_OF_BOTH = "return [document.scrollingElement.scrollWidth, document.documentElement.clientWidth]"

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

#: Cards whose text is wider than they are.
SPILLING = """
return [...document.querySelectorAll('.card')]
  .filter(card => [card, ...card.children].some(e => e.scrollWidth > card.clientWidth + 0.5))
  .map(card => card.textContent.slice(0, 40))
"""

#: Elements without a text in their place, or with one that is too short.
UNDESCRIBED = """
const own = e => e.alt || e.getAttribute('aria-label') || e.title || (e.tagName == 'A' && e.textContent) || ''
const text = e => own(e).trim() || e.querySelector('img')?.alt || ''
return [...document.querySelectorAll(arguments[0])]
  .filter(e => text(e).length < arguments[1] || /[.](png|svg)$/.test(text(e)))
  .map(e => e.outerHTML.slice(0, 60))
"""


def opened(profile: Path) -> Iterator:
    """A browser without a window, closed in the end."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    for option in [*OPTIONS, *root, f"--user-data-dir={profile}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def show(browser, path: Path, width: int, scheme: str = "light", media: str = "screen") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get_log("browser")
    browser.get(path.as_uri())


def complaints(browser, beside: str = ".scroll, .skip, svg", own: str = "data:") -> list[str]:
    """Everything that is wrong with the page that is shown, but for its colours.

    `beside` selects what scrolls by itself or is hidden beside the window; addresses of its `own` begin like that.
    """
    found = [entry["message"] for entry in browser.get_log("browser")]
    wide, window = browser.execute_script(WIDTHS_OF_BOTH)
    found += [f"the page is {wide} pixels wide, the window {window}"] if wide > window else []
    found += sticking_out(browser, beside)
    found += [f"wider than its card: {text}" for text in browser.execute_script(SPILLING)]
    broken = "return [...document.images].filter(i => !(i.complete && i.naturalWidth > 0)).map(i => i.alt)"
    found += [f"a figure is missing: {alt}" for alt in browser.execute_script(broken)]
    heights = "return [...document.querySelectorAll('svg.marginal')].map(s => s.getBoundingClientRect().height)"
    found += [f"a curve is flat: {height}" for height in browser.execute_script(heights) if height < 40]
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)")
    return found + [f"loaded {name[:80]}" for name in loaded if not name.startswith(("data:", own))]


def sticking_out(browser, beside: str = ".scroll, .skip, svg") -> list[str]:
    """What reaches over the edge of the window."""
    return browser.execute_script(STICKING_OUT, beside)


def undescribed(browser, selector: str = "img, svg, a", shortest: int = 5) -> list[str]:
    """Pictures without a text in their place, and links without words."""
    return browser.execute_script(UNDESCRIBED, selector, shortest)


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
