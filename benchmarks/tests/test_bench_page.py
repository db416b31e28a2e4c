"""The results page: blocks are made anew, prose is left alone, and mistakes in the markers are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from test_bench_tables import synthetic_lines
from vsbq.errors import VsbqError
from vsbq_bench.page import PICTURES, refresh, write_figures
from vsbq_bench.tables import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "results.md"


def block(name: str, inside: str = "what was here") -> str:
    return f"<!-- begin: {name} -->\n{inside}\n<!-- end: {name} -->\n"


def test_blocks_change_and_prose_stays():
    blocks = block("table-synthetic"), block("figure-timing")
    text = f"# Title\n\nBefore, | with a bar |.\n\n{blocks[0]}\nBetween.\n\n{blocks[1]}After.\n"
    new = refresh(text, synthetic_lines())
    assert "what was here" not in new
    assert "| VSBQ |" in new
    assert re.search(r"!\[ΔLML[^]]+\]\(results/timing\.png\)", new)
    inside = r"(?s)(<!-- begin: (\S+) -->).*?(<!-- end: \2 -->)"
    assert re.sub(inside, "", new) == re.sub(inside, "", text)
    assert refresh(new, synthetic_lines()) == new
    assert refresh(new, synthetic_lines()[::-1]) == new


def test_without_lines_there_is_a_word_and_no_link():
    new = refresh(block("table-synthetic") + block("figure-timing"), [])
    assert new.count("*No runs yet.*") == 2
    assert "](" not in new


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (block("table-nonsense"), r"Line 1 .*no block 'table-nonsense'.*table-synthetic"),
        (block("nonsense"), "no block 'nonsense'"),
        ("text\n<!-- begin: table-beyond -->\n", "'table-beyond' of the page is not closed"),
        ("<!-- end: table-beyond -->\n", "Line 1 .*not begun"),
        ("<!-- begin: table-beyond -->\n" + block("table-timing"), "Line 2 .*inside the block 'table-beyond'"),
        ("<!-- begin: table-beyond -->\n<!-- end: table-timing -->\n", "Line 2 .*inside the block 'table-beyond'"),
    ],
)
def test_mistakes_in_markers(text, complaint):
    with pytest.raises(VsbqError, match=complaint):
        refresh(text, [])


def test_figures_are_written_small_and_the_same_twice(tmp_path):
    lines = synthetic_lines()
    written = write_figures(lines, tmp_path / "one", live=False)
    assert {path.stem for path in written} == {name for name, picture in PICTURES.items() if not picture.live}
    again = write_figures(lines, tmp_path / "two", live=False)
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in again]
    assert all(path.stat().st_size < 200_000 for path in written)
    assert write_figures([], tmp_path / "none", live=False) == []


def test_the_page_has_every_block():
    if not PAGE.exists():
        pytest.skip("there is no page beside these tests")
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"<!-- begin: (\S+) -->", text)
    tables = [*TABLES, "ablation", "calibration", "oracle"]
    others = ["table-zoo"]  # an overview, which the README had before
    assert sorted(names) == sorted([f"table-{key}" for key in tables] + [f"figure-{key}" for key in PICTURES] + others)
    assert "not closed" not in refresh(text, [])
