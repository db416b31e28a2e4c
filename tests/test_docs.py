"""The code in the documentation runs: the blocks of a page, one after the other, in one namespace."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "docs/guide.md"]


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Line number and source of every ```python block."""
    found = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, block.start(1)), block.group(1)) for block in found]


def run(page: Path) -> int:
    """Execute the blocks of a page; errors point to the page's own lines. Returns the number of blocks."""
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    namespace = {"__name__": "__main__"}
    for line, source in blocks:
        exec(compile("\n" * line + source, str(page), "exec"), namespace)
    return len(blocks)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and the loggers as they were."""
    monkeypatch.chdir(tmp_path)
    root, ours = logging.getLogger(), logging.getLogger("vsbq")
    handlers, level = list(root.handlers), ours.level
    yield tmp_path
    root.handlers[:] = handlers
    ours.setLevel(level)


@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_a_page_runs(name, elsewhere):
    page = ROOT / name
    if not page.exists():
        pytest.skip(f"there is no {name} beside these tests")
    assert run(page) > 0


def test_a_mistake_on_a_page_is_found(elsewhere):
    page = elsewhere / "page.md"
    page.write_text("Text\n\n```python\nx = 1\n```\n\n```sh\nnot python\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run(page)
    assert caught.traceback[-1].lineno + 1 == 12


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
