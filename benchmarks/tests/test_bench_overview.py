"""The small tables of the README."""

from dataclasses import replace

from vsbq_bench.lines import Line
from vsbq_bench.overview import HEADLINE, headline, zoo

LINE = Line(
    problem="two_moons",
    noise_sd=0.0,
    optimiser="cma",
    evaluations=6000,
    method="vsbq",
    seed=0,
    delta_lml=0.5,
    mmtv=0.02,
    gskl=0.001,
    log_evidence=1.0,
    floor_mmtv=0.01,
    floor_gskl=0.0002,
)


def test_the_headline_has_both_entries_of_a_problem():
    table = headline([LINE, replace(LINE, method="vsbq_paper", delta_lml=0.25), replace(LINE, seed=1, delta_lml=1.5)])
    header, _, row = table.splitlines()
    assert header.startswith("| problem | ΔLML | MMTV (floor)")
    scores = "| Two Moons | 1.0 | 0.020 (0.010) | 0.0010 (0.00020) | 0.25 | 0.020 (0.010) | 0.0010 (0.00020) |"
    assert row == f"{scores} 2; as published 1 |"
    as_many = headline([LINE, replace(LINE, method="vsbq_paper", delta_lml=0.25)])
    assert as_many.splitlines()[-1].endswith("| 1 |")


def test_the_headline_names_the_noise_and_leaves_out_what_was_not_run():
    lines = [replace(LINE, problem="timing", noise_sd=3.0), replace(LINE, problem="lumpy", method="laplace")]
    rows = headline(lines).splitlines()[2:]
    assert len(rows) == 1
    assert rows[0].startswith("| Bayesian timing, noise of sd 3 |")
    assert "| — | — | — |" in rows[0]


def test_the_headline_has_six_rows_at_most():
    lines = [replace(LINE, problem=problem, noise_sd=noise) for problem, noise in HEADLINE]
    more = [replace(LINE, problem="timing", noise_sd=7.0), replace(LINE, problem="single")]
    assert len(headline(lines + more).splitlines()[2:]) == len(HEADLINE) == 6


def test_the_zoo_has_a_row_for_each_level_of_noise_and_counts_failures():
    lines = [
        replace(LINE, problem="single"),
        replace(LINE, problem="single", noise_sd=2.0),
        replace(LINE, problem="single", noise_sd=2.0, seed=1, error="broken", mmtv=None, gskl=None, delta_lml=None),
    ]
    rows = zoo(lines).splitlines()[2:]
    assert [row.split(" | ")[1] for row in rows] == ["0", "2"]
    assert rows[1].endswith("| 2, 1 failed |")


def test_nothing_run_is_said():
    assert "run" in headline([])
    assert "run" in zoo([])
