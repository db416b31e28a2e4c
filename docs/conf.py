"""The documentation site: `make docs`, or `sphinx-build -W docs build/docs`. Nothing is fetched from the network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from vsbq import __version__  # noqa: E402

project = "vsbq"
author = "The vsbq authors"
copyright = "The vsbq authors, BSD-3-Clause licence"
version = release = __version__
language = "en_GB"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinxext.opengraph"]
root_doc = "index"
exclude_patterns = ["_build", "paper"]  # the paper is for a journal: its citations are those of pandoc
nitpicky = False

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

# Tutorials are notebooks with their outputs: docs/tutorials/execute.py executes them, the site only shows them.
nb_execution_mode = "off"
nb_merge_streams = True

copybutton_exclude = ".linenos, .gp, .go"

# Previews of links; the address of the site is known on Read the Docs only.
ogp_site_url = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
ogp_image = "_images/two_moons.png"
ogp_image_alt = "Posterior of the Two Moons problem with the optimiser's evaluations under it"
ogp_social_cards = {"enable": False}
ogp_enable_meta_description = True

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"vsbq {release}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]  # llms.txt
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}

#: Pages of the repository's root that have a place in the site.
ROOT_PAGES = {f"project/{name.lower()}": ROOT / f"{name}.md" for name in ("VISION", "CONTRIBUTING", "CHANGELOG")}
LINK = re.compile(r"(?<!!)\[([^]\n]+)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def lead_outwards(app: Any, docname: str, source: list[str]) -> None:
    """Let links of the repository work on the site: to a page here, to a file, or (to a folder) not at all.

    The pages of the repository's root are taken from there.
    """
    page = ROOT_PAGES.get(docname, ROOT / "docs" / f"{docname}.md")  # or a notebook of the same folder
    if docname in ROOT_PAGES:
        first, *rest = page.read_text(encoding="utf-8").split("\n# ")
        source[0] = "\n## ".join([first, *rest])  # one title only
        app.env.note_dependency(str(page))

    def turned(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        place = (page.parent / target).resolve()
        if place in ROOT_PAGES.values():
            inside = next(name for name, there in ROOT_PAGES.items() if there == place)
            return f"[{text}](/{inside}.md{anchor or ''})"
        if place.is_relative_to(ROOT / "docs"):
            return f"[{text}](/{place.relative_to(ROOT / 'docs').as_posix()}{anchor or ''})"
        if place.is_dir():
            return f"`{text.strip('`')}`"
        return f"[{text}](/../{place.relative_to(ROOT).as_posix()})" if place.is_file() else link.group(0)

    source[0] = LINK.sub(turned, source[0])


def fields(line: str) -> list[str]:
    """A line of a docstring's arguments as fields, one for each name if it describes several, as "rng, seed"."""
    found = re.match(r" {4}(\w+(?:, \w+)*): (.*)", line)
    return [line] if found is None else [f":param {name}: {found[2]}" for name in found[1].split(", ")]


def arrange(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Arguments of a docstring as a list of fields, other indented lines as code."""
    out: list[str] = []
    inside = None  # what the indented lines at hand are
    for line in lines:
        if line.strip() and not line.startswith(" "):
            inside = {"Args:": "arguments", "Example:": "example"}.get(line)
        elif line.startswith("    ") and inside is None:
            inside = "code"
            out += ["::", ""]
        if line == "Args:":
            continue
        if line == "Example:":
            line = "**Example.**"
        elif inside == "example":
            line = line.removeprefix("    ")
        out += fields(line) if inside == "arguments" else [line]
    lines[:] = out


def shorten(_app: Any, _what: str, _name: str, _object: Any, _options: Any, signature: Any, returns: Any) -> Any:
    """Signatures without the private name of a module."""
    return None if signature is None else (signature.replace("door.", ""), returns)


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.connect("source-read", lead_outwards)
    app.connect("autodoc-process-docstring", arrange)
    app.connect("autodoc-process-signature", shorten)
