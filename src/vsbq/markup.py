"""Pieces of HTML. Every plain string is escaped on its way in; only `Markup`, which these functions make, is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import category, lookup

__all__ = [
    "Markup",
    "bullets",
    "code",
    "element",
    "facts",
    "fold",
    "joined",
    "paragraph",
    "readable",
    "scroll",
    "shortened",
    "table",
]

#: Elements that have no content and no end tag.
VOID = frozenset({"img", "meta", "br", "hr"})

#: Characters that stay although they are of a control category.
KEPT = frozenset("\n\t")

#: What is read of a formula: commands, and braces, which are left out. Commands of TYPE only set the type.
FORMULA = re.compile(r"\\([A-Za-z]+) ?|[{}]")
TYPE = frozenset({"rm", "mathrm", "text", "textrm", "mathit", "it", "bf", "mathbf", "boldsymbol", "left", "right"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def _escaped(text: str) -> Markup:
    """Any string as Markup. Control characters and halves of surrogate pairs, which no page may hold, become �."""
    if isinstance(text, Markup):
        return text
    shown = (c if c in KEPT or category(c) not in {"Cc", "Cs"} else "\N{REPLACEMENT CHARACTER}" for c in text)
    return Markup(escape("".join(shown)))


def joined(*parts: str) -> Markup:
    """Parts one after the other."""
    return Markup("".join(map(_escaped, parts)))


def element(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """An element: `class_` stands for class, and an underscore for a hyphen; attributes that are None are left out."""
    pairs = [(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None]
    opening = " ".join([name, *(f'{key}="{_escaped(str(value))}"' for key, value in pairs)])
    if name in VOID:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{joined(*children)}</{name}>")


def paragraph(*children: str, class_: str | None = None) -> Markup:
    """A paragraph."""
    return element("p", *children, class_=class_)


def bullets(items: Iterable[str], class_: str | None = None) -> Markup:
    """A list without numbers."""
    return element("ul", *(element("li", item) for item in items), class_=class_)


def facts(rows: Iterable[tuple[str, str]]) -> Markup:
    """Names and values beside each other."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in rows))


def scroll(content: str, label: str) -> Markup:
    """A box in which wide content scrolls sideways, also by keyboard."""
    return element("div", content, class_="scroll", role="region", aria_label=label, tabindex="0")


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, label: str, class_: str = "numbers", wide: bool = True
) -> Markup:
    """A table whose first column holds the names of its rows; a wide one scrolls in a box of its own.

    A cell that is a complete `<td>` is taken as it is; others of a table that is not wide carry the title of their
    column, for screens on which each row becomes a paragraph.
    """
    top = element("tr", *(element("th", title, scope="col") for title in head))
    labels: list[str | None] = [None] * len(head) if wide else [title or None for title in head]
    body = [element("tr", element("th", first, scope="row"), *map(_cell, rest, labels[1:])) for first, *rest in rows]
    whole = element("table", element("thead", top), element("tbody", *body), class_=class_)
    return scroll(whole, label) if wide else whole


def _cell(content: str, label: str | None) -> Markup:
    complete = isinstance(content, Markup) and content.startswith("<td")
    return Markup(content) if complete else element("td", content, data_label=label)


def fold(summary: str, *children: str, class_: str | None = None) -> Markup:
    """Content that is folded away until asked for."""
    return element("details", element("summary", summary), *children, class_=class_)


def code(source: str, label: str) -> Markup:
    """A block of code that scrolls sideways."""
    return scroll(element("pre", element("code", source)), label)


def readable(name: str, most: int = 28) -> str:
    """A parameter's name for a person: short, and with Greek letters in place of simple LaTeX."""
    if name.count("$") < 2 or name.count("$") % 2:
        return shortened(name, most)
    parts = [FORMULA.sub(_symbol, part) if k % 2 else part for k, part in enumerate(name.split("$"))]
    return shortened("".join(parts), most)


def _symbol(found: re.Match[str]) -> str:
    """A Greek letter for its command; nothing for commands and braces that only set the type."""
    word = found.group(1) or ""
    case, letter = ("CAPITAL" if word[:1].isupper() else "SMALL"), word.removeprefix("var").upper()
    try:
        return lookup(f"GREEK {case} LETTER {letter.replace('LAMBDA', 'LAMDA')}")
    except KeyError:
        return "" if word in TYPE or not word else word


def shortened(text: str, most: int = 28) -> str:
    """A string on one line, without its middle if it is too long: names often differ at either end."""
    line = " ".join(text.split()) or "�"
    if len(line) <= most:
        return line
    end = (most - 1) // 3
    return f"{line[: most - 1 - end].rstrip()}…{line[-end:].lstrip()}"
