"""Tables and picture of the zoo's page: both versions on the same runs, counted by hand, apart from other tables."""

import re
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from vsbq.cli import main
from vsbq_bench.cases.before_now import both_versions, by_kind, is_unusable, summary
from vsbq_bench.cases.picture import calibration_picture
from vsbq_bench.cases.variants import ablation_of_cases, control
from vsbq_bench.lines import Line, append_line
from vsbq_bench.page import CASE_PICTURES, CASE_TABLES, figures_of, refresh
from vsbq_bench.stored import COMPARED, FIRST, of_cases, of_problems, stored_lines
from vsbq_bench.suites import CASE_SUITES
from vsbq_bench.tables import NOT_RUN

ROOT = Path(__file__).parents[3]
PAGE, RESULTS = ROOT / "docs" / "zoo.md", ROOT / "benchmarks" / "results"


def line(name, method="vsbq", seed=0, ratio=1.5, error=0.1, sd=0.1, gskl=0.005, **case):
    """A run whose MMTV is `ratio` times its floor of 0.01."""
    about = {"kind": "ridge", "half": "validation", "noise": 0.0, "hard": False, "evaluations_per_dimension": 300}
    return Line(
        problem=name,
        noise_sd=0.0,
        optimiser="cma",
        evaluations=900,
        method=method,
        seed=seed,
        mmtv=0.01 * ratio,
        floor_mmtv=0.01,
        gskl=gskl,
        delta_lml=abs(error),
        signed_error=error,
        log_evidence_sd=sd,
        z=error / sd,
        case=about | case,
    )


def failed(run):
    scores = dict.fromkeys(("mmtv", "floor_mmtv", "gskl", "delta_lml", "log_evidence_sd", "z"))
    return replace(run, error="FitError: no", **scores)


def cells(table, label):
    """The cells of the only row of that label."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines() if row.startswith("|")]
    (found,) = (row for row in rows if row[0] == label)
    return found[1:]


def versions():
    """Two cases of one kind and one of another, the first of them with two seeds."""
    before = [line("a", ratio=4.0, error=0.3), line("a", seed=1, ratio=8.0, gskl=0.2), line("b", ratio=2.0)]
    before.append(line("c", ratio=30.0, error=1.2, sd=0.1, kind="heavy_tails", noise="by_point"))
    now = [replace(run, mmtv=run.mmtv / 2, z=0.5, delta_lml=0.05, gskl=0.001) for run in before]
    return [replace(run, method=FIRST) for run in before], now


# What is counted


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"error": 0.999}, False),
        ({"error": -1.0}, True),
        ({"ratio": 19.9}, False),
        ({"ratio": 20.0}, True),
        ({"gskl": 0.124}, False),
        ({"gskl": 0.125}, True),
        ({"gskl": None}, True),
    ],
)
def test_unusable_is_what_reaches_a_threshold(changes, expected):
    assert is_unusable(line("a", **changes)) is expected
    assert is_unusable(failed(line("a", **changes)))


def test_only_runs_that_both_versions_have_count():
    before, now = versions()
    other = [line("d"), line("a", seed=7), line("a", method="ablation_alone"), line("b", half="development")]
    runs = both_versions([*before, *now[1:], *other], "validation")
    assert [(run.problem, run.seed) for run in runs.now] == [("a", 1), ("b", 0), ("c", 0)]
    assert [(run.problem, run.seed) for run in runs.before] == [("a", 1), ("b", 0), ("c", 0)]
    assert {run.method for run in runs.before} == {FIRST}


def test_the_row_of_a_kind():
    before, now = versions()
    table = by_kind([*before, *now], "validation")
    assert cells(table, "ridge") == ["2", "3", "0 → 0", "4.0 → 2.0", "0.0050 → 0.0010", "67 % → 100 %", "1 → 0"]
    assert cells(table, "heavy tails") == ["1", "1", "0 → 0", "30 → 15", "0.0050 → 0.0010", "0 % → 100 %", "1 → 0"]
    assert cells(table, "**all**")[:3] == ["3", "4", "0 → 0"]
    assert by_kind([*before, *now], "development") == NOT_RUN
    assert by_kind(now, "validation") == summary(before) == NOT_RUN


def test_a_run_that_fails_is_infinitely_bad_and_states_no_error():
    before, now = versions()
    table = by_kind([*before, *now[:2], failed(now[2]), failed(now[3])], "validation")
    assert cells(table, "heavy tails") == ["1", "1", "0 → 1", "30 → ∞", "0.0050 → ∞", "0 % → —", "1 → 1"]
    assert cells(table, "ridge")[2:] == ["0 → 1", "4.0 → 4.0", "0.0050 → 0.0010", "67 % → 100 %", "1 → 1"]


def test_the_summary_by_noise_evaluations_and_difficulty():
    now = [
        line("a", ratio=1.9),
        line("b", ratio=2.9, hard=True, error=0.6),
        line("c", ratio=9.0, evaluations_per_dimension=100, gskl=0.01),
        line("d", ratio=3.1, noise=1.0, error=2.0, gskl=0.011),
    ]
    table = summary([*now, *(replace(run, method=FIRST) for run in now)])
    runs = {label: cells(table, label)[0] for label in ("of these ordinary", "of these hard", "noisy", "**all**")}
    assert runs == {"of these ordinary": "1", "of these hard": "1", "noisy": "1", "**all**": "4"}
    plenty = [cell.split(" → ")[0] for cell in cells(table, "noise-free, 300·D evaluations or more")]
    assert plenty == ["2", "2.4", "50 %", "100 %", "100 %", "50 %", "50 %", "0.35", "0.10", "0"]
    fewer = [cell.split(" → ")[1] for cell in cells(table, "noise-free, fewer evaluations")[1:]]
    assert fewer == ["9.0", "0 %", "0 %", "100 %", "100 %", "0 %", "0.10", "0.10", "0"]
    assert cells(table, "noisy")[4] == "0 % → 0 %"
    assert cells(table, "noisy")[-1] == "1 → 1"


# Other versions


def test_the_ablation_compares_the_same_cases_and_the_first_seed():
    usual = [line("a", ratio=2.0), line("b", ratio=8.0), line("c", noise=1.0), line("a", seed=1, ratio=90.0)]
    without = [replace(run, method="ablation_alone", mmtv=2 * run.mmtv, z=9.0) for run in usual[:3]]
    table = ablation_of_cases([*usual, *without, line("d", ratio=99.0)])
    assert "2 noise-free and 1 noisy cases" in table
    assert cells(table, "default") == ["4.0", "100 %", "0", "1.5", "100 %", "0"]
    assert cells(table, "without sisters") == ["8.0", "0 %", "0", "3.0", "0 %", "0"]
    assert ablation_of_cases(usual) == ablation_of_cases(without) == NOT_RUN


def test_a_failure_of_one_version_leaves_the_mean_comparable():
    usual = [line("a", ratio=2.0), line("b", ratio=8.0)]
    without = [replace(run, method="ablation_alone") for run in usual]
    table = ablation_of_cases([*usual, without[0], failed(without[1])])
    assert cells(table, "default")[:3] == ["2.0", "100 %", "0"]
    assert cells(table, "without sisters")[:3] == ["2.0", "100 %", "1"]


def control_lines(worse, rng):
    """Ten cases of the development half, three seeds of the default, one of a control that is worse by a factor."""
    names = [f"case {i}" for i in range(10)]
    usual = [
        line(n, "vsbq", s, np.exp(0.1 * rng.standard_normal()), half="development") for n in names for s in range(3)
    ]
    made = [line(n, "control_few_inducing", 0, worse, half="development") for n in names]
    return [*usual, *made]


@pytest.mark.parametrize("worse", [3.0, 1.0])
def test_the_control_is_seen_if_it_is_worse(worse, rng):
    table = control(control_lines(worse, rng))
    assert "A fifth of the inducing points" in table
    assert "half as wide" not in table
    assert ("**worse**" in cells(table, "**all**")[1]) == (worse > 1)


def test_the_control_is_compared_with_the_default_of_its_own_commit(rng):
    """A default that has become far worse since then does not make the control look better."""
    lines = control_lines(3.0, rng)
    kept = [replace(run, method=COMPARED) for run in lines if run.method == "vsbq"]
    since = [replace(run, mmtv=100 * run.mmtv) if run.method == "vsbq" else run for run in lines]
    assert "**worse**" not in cells(control(since), "**all**")[1]
    assert control([*since, *kept]) == control(lines)


def test_compare_takes_the_lines_of_a_method(tmp_path, rng, capsys):
    for run in control_lines(3.0, rng):
        append_line(tmp_path / ("old" if run.method == "vsbq" else "new"), run)
    names = [str(tmp_path / "old"), str(tmp_path / "new")]
    assert main(["bench", "compare", *names, "--method", "control_few_inducing"]) == 0
    said = capsys.readouterr().out
    assert "10 cases in both" in said
    (row,) = (row for row in said.splitlines() if row.startswith("ridge"))
    assert "worse" in row
    assert main(["bench", "compare", *names]) == 0
    assert "0 cases in both" in capsys.readouterr().out
    assert main(["bench", "compare", *names, "--method", "magic"]) == 1
    assert "no method 'magic'; there are control_few_inducing" in capsys.readouterr().err


# The picture


def test_the_picture_has_a_panel_for_each_version():
    before, now = versions()
    figure = calibration_picture([*before, *now])
    assert [axes.get_title() for axes in figure.axes] == ["first version", "now"]
    for axes, runs in zip(figure.axes, (before, now), strict=True):
        groups = [np.asarray(points.get_offsets()) for points in axes.collections if points.get_label()[0] != "_"]
        assert [len(points) for points in groups] == [3, 0, 1]
        assert sorted(np.concatenate(groups)[:, 1]) == pytest.approx(sorted(run.delta_lml for run in runs))
    assert calibration_picture(now) is None
    assert calibration_picture([*before, *map(failed, now)]) is None


# The page


def store(folder, suite, lines):
    for run in lines:
        append_line(folder / f"{suite}.jsonl", run)


def test_stored_lines_know_the_first_version_and_keep_cases_apart(tmp_path):
    before, now = versions()
    plain = replace(line("two_moons", ratio=5.0), case={})
    store(tmp_path, "paper", [plain])
    store(tmp_path, "zoo-validation-first", [replace(run, method="vsbq") for run in before])
    store(tmp_path, "zoo-validation", now)
    lines = stored_lines(tmp_path)
    assert of_cases(lines) == [*now, *before]
    assert of_problems(lines) == [plain]
    assert of_cases(stored_lines(tmp_path, "zoo-validation")) == [*now, *before]
    assert stored_lines(tmp_path, "paper") == [plain]


def test_tables_of_problems_do_not_see_cases_nor_the_other_way_round():
    before, now = versions()
    plain = [replace(run, problem="timing", case={}) for run in now[:1]]
    text = "".join(
        f"<!-- begin: {name} -->\n<!-- end: {name} -->\n" for name in ("table-calibration", "table-zoo-summary")
    )
    both = refresh(text, [*plain, *before, *now])
    assert "| Bayesian timing | 0 | 1 |" in both
    assert both.count("| **all** |") == 2
    assert "| **all** |  | 1 |" in both
    assert "| **all** | 4 |" in both
    assert refresh(text, plain).count(NOT_RUN) == 1


def test_table_prints_cases_too(tmp_path, capsys):
    before, now = versions()
    store(tmp_path, "zoo-validation-first", [replace(run, method="vsbq") for run in before])
    store(tmp_path, "zoo-validation", now)
    assert main(["bench", "table", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "## zoo-summary" in said
    assert "## synthetic" not in said


def test_refreshing_the_page_draws_its_own_figure_only(tmp_path):
    before, now = versions()
    store(tmp_path, "zoo-validation-first", [replace(run, method="vsbq") for run in before])
    store(tmp_path, "zoo-validation", now)
    page = tmp_path / "page.md"
    page.write_text("<!-- begin: figure-zoo-calibration -->\n<!-- end: figure-zoo-calibration -->\n")
    assert main(["bench", "page", str(page), "--results", str(tmp_path)]) == 0
    assert "](results/zoo-calibration.png)" in page.read_text()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["zoo-calibration.png"]


def test_the_page_of_the_zoo_has_every_block_and_is_up_to_date():
    if not PAGE.exists():
        pytest.skip("there is no page beside these tests")
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"<!-- begin: (\S+) -->", text)
    assert sorted(names) == sorted([f"table-{key}" for key in CASE_TABLES] + [f"figure-{key}" for key in CASE_PICTURES])
    assert figures_of(text) == list(CASE_PICTURES)
    assert refresh(text, stored_lines(RESULTS)) == text, "vsbq bench page docs/zoo.md --results benchmarks/results"


@pytest.mark.parametrize("suite", ["zoo-development", "zoo-validation"])
def test_the_first_version_is_kept_whole(suite):
    lines = [run for run in stored_lines(RESULTS, suite) if run.method == FIRST]
    assert len(lines) == 68
    assert {run.commit for run in lines} == {"09afc28"}
    assert {run.case["half"] for run in lines} == set(CASE_SUITES[suite].halves)
    assert max(run.mmtv for run in lines) < inf
