"""Results as tables in a notebook: HTML that takes its colours from the notebook's theme, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vsbq.markup import Markup, element, joined, shortened

__all__ = ["badge", "caption", "note", "notebook_table"]

#: The longest name of a row; longer ones lose their middle.
LONGEST = 60

#: Rows that are shown; of a longer table the first ones are.
MOST_ROWS = 100

#: Background and letters of a word, readable on any background of the page.
BADGES = {
    "trusted": ("#1c7a3d", "#ffffff"),
    "doubtful": ("#e69f00", "#000000"),
    "rejected": ("#b00020", "#ffffff"),
    "warning": ("#e69f00", "#000000"),
    "info": ("#5f6b76", "#ffffff"),
}


def badge(word: str) -> Markup:
    """A verdict or a level as a word on a background of its own."""
    back, front = BADGES.get(word, BADGES["info"])
    style = f"background-color: {back}; color: {front}; padding: 0 0.5em; border-radius: 0.3em; font-weight: bold"
    return element("span", word, style=style)


def caption(*parts: str) -> Markup:
    """A line above a table."""
    return element("div", *parts, style="margin: 0.3em 0")


def note(text: str) -> Markup:
    """A smaller line below a table."""
    return element("div", text, style="margin: 0.3em 0; font-size: 90%; opacity: 0.8")


def notebook_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, above: str = "", below: str = "", words: bool = False
) -> str:
    """A table whose first column names its rows, between a line above and a line below; `words` are set to the left.

    Every text is escaped, unless it is `Markup`. Colours are the notebook's own, so that both themes are readable.
    """
    every = list(rows)
    side = "left" if words else "right"
    top = element("tr", *(_head(title, "left" if i == 0 else side) for i, title in enumerate(head)))
    body = [
        element("tr", _head(_short(first), "left"), *(_cell(text, side) for text in rest)) for first, *rest in every
    ]
    more = len(every) - MOST_ROWS
    last = [note(f"and {more} more rows")] if more > 0 else []
    whole = element("table", element("thead", top), element("tbody", *body))
    return str(joined(element("div", *(part for part in (above, whole, *last, below) if part))))


def _short(text: str) -> str:
    return text if isinstance(text, Markup) else shortened(text, LONGEST)


def _head(title: str, side: str) -> Markup:
    return element("th", title, style=f"text-align: {side}")


def _cell(text: str, side: str) -> Markup:
    return element("td", text, style=f"text-align: {side}")
