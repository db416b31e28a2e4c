"""The paper in docs/paper: its tables are those of the lines, its citations exist, and it is as long as it may be."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from test_bench_overview import LINE
from vsbq_bench.article import ARTICLE, ARTICLE_CASES, accuracy, commits, held_out, speed
from vsbq_bench.page import refresh
from vsbq_bench.stored import FIRST, stored_lines
from vsbq_bench.tables import NOT_RUN

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAPER = ROOT / "docs" / "paper" / "paper.md"
NEITHER_FEW_NOR_MANY = range(750, 1250)  # words, as the journal asks for

RUN = replace(LINE, commit="abc1234", seconds={"surrogate": 4.0, "total": 6.0})
CASE = replace(
    LINE,
    delta_lml=0.1,
    z=1.0,
    commit="abc1234",
    case={"half": "validation", "noise": 0, "evaluations_per_dimension": 300},
)


@pytest.fixture(scope="module")
def paper():
    if not PAPER.exists():
        pytest.skip("there is no paper beside these tests")
    return PAPER.read_text(encoding="utf-8")


def rows_of(table):
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()[2:]]


def test_the_tables_of_the_paper_are_those_of_the_lines(paper):
    lines = stored_lines(RESULTS)
    assert refresh(paper, lines) == paper, "make pages"
    names = re.findall(r"<!-- begin: table-(\S+) -->", paper)
    assert sorted(names) == sorted([*ARTICLE, *ARTICLE_CASES])
    known = {str(line.commit) for line in lines}
    tables = re.findall(r"^\| problem \| version .*?(?=^<!--)", paper, re.MULTILINE | re.DOTALL)
    named = {commit for table in tables for row in rows_of(table.strip()) for commit in row[-1].split(", ")}
    assert named
    assert named <= known


def test_another_line_would_change_the_paper(paper):
    lines = stored_lines(RESULTS)
    (first, *_) = [line for line in lines if (line.problem, line.method) == ("two_moons", "vsbq")]
    assert refresh(paper, [*lines, replace(first, seed=99, commit="fffffff")]) != paper


def test_the_accuracy_of_both_versions_names_its_commits():
    lines = [RUN, replace(RUN, seed=1, delta_lml=1.5, commit="aaa0000"), replace(RUN, method="vsbq_paper")]
    default, published = rows_of(accuracy([*lines, replace(RUN, method="laplace")]))
    assert default == ["Two Moons", "default", "1.0", "0.020 (0.010)", "0.0010 (0.00020)", "2", "aaa0000, abc1234"]
    assert published[1:3] == ["as published", "0.50"]
    assert commits([replace(RUN, commit=None)]) == "unknown"


def test_the_speed_is_of_runs_that_were_alone():
    shared = replace(RUN, seed=1, processes=2, seconds={"total": 60.0})
    (row,) = rows_of(speed([RUN, shared, replace(RUN, method="laplace")]))
    assert row == ["Two Moons", "6,000", "default", "6.0", "164 ± 6", "110 ± 5", "1", "abc1234"]
    (other,) = rows_of(speed([replace(RUN, problem="lumpy")]))
    assert other[4:6] == ["—", "—"]


def test_cases_that_nobody_looked_at_have_both_versions():
    bad = replace(CASE, seed=1, mmtv=0.5, z=3.0, case=CASE.case | {"noise": 1.0})
    seen = replace(CASE, seed=2, case=CASE.case | {"half": "development"})
    lines = [CASE, bad, seen]
    rows = rows_of(held_out([*lines, *(replace(line, method=FIRST, commit="000aaaa") for line in lines)]))
    assert [row[:2] for row in rows] == [
        [cases, version]
        for cases in ("noise-free, 300·D evaluations or more", "noisy", "all")
        for version in ("first", "present")
    ]
    assert rows[-1] == ["all", "present", "2", "50 %", "26", "50 %", "abc1234"]
    assert rows[0][-1] == "000aaaa"


def test_without_lines_nothing_is_claimed():
    assert {table([]) for table in (accuracy, speed, held_out)} == {NOT_RUN}


def test_every_citation_is_in_the_bibliography_and_every_entry_is_cited(paper):
    cited = set(re.findall(r"@(\w+)", paper))
    entries = re.findall(r"^@\w+\{(\w+),$", PAPER.with_name("paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(cited) == sorted(entries)


def test_the_paper_names_who_is_named_elsewhere_and_is_short(paper):
    yaml = pytest.importorskip("yaml")
    _, head, text = paper.split("---\n", 2)
    told, citation = yaml.safe_load(head), yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert told["title"] == citation["title"]
    assert [each["name"] for each in told["authors"]] == [each["name"] for each in citation["authors"]]
    assert (PAPER.parent / told["bibliography"]).is_file()
    titles = re.findall(r"^# (.+)$", text, re.MULTILINE)
    assert {"Summary", "Statement of need", "State of the field", "References"} <= set(titles)
    prose = re.sub(r"^(\||<!--).*$", "", text, flags=re.MULTILINE)
    assert len(prose.split()) in NEITHER_FEW_NOR_MANY
