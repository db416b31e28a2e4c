"""The default beside the oracle, counted by hand."""

from dataclasses import replace
from math import inf

import pytest

from test_bench_tables import line
from vsbq_bench.lines import Line
from vsbq_bench.oracle_table import gap, noisy_cases, paired, problems_by_noise
from vsbq_bench.tables import NOT_RUN


def run(seed=0, method="vsbq", score=0.03, error=0.1, **changes):
    changes = {"noise_sd": 3.0, "signed_error": error, "z": 1.0, "floor_mmtv": 0.01} | changes
    return line("timing", method, seed, score, **changes)


def failed(one: Line) -> Line:
    return replace(one, error="FitError: no", mmtv=None, gskl=None, delta_lml=None, signed_error=None, z=None)


def case(name, score, method="vsbq", seed=0, half="validation", noise=1.0, **changes):
    about = {"half": half, "noise": noise, "kind": "ridge"}
    return replace(run(seed, method, score, **changes), problem=name, case=about)


def rows_of(table):
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()]


def test_only_runs_that_both_have_are_compared():
    lines = [run(0), run(1), run(1, "oracle"), run(2, "oracle"), run(1, "vsbq_paper"), run(1, "oracle", noise_sd=5.0)]
    (pair,) = paired(lines)
    assert (pair.default.method, pair.oracle.method) == ("vsbq", "oracle")
    assert {pair.default.seed, pair.oracle.seed} == {1}


def test_a_row_for_each_problem_and_level_of_noise():
    default = [run(seed, score=score, error=error) for seed, (score, error) in enumerate([(0.03, 0.3), (0.06, 0.5)])]
    oracle = [replace(one, method="oracle", mmtv=0.02, gskl=0.001, delta_lml=0.05) for one in default]
    more = [replace(one, optimiser="bads") for one in (default[0], oracle[0])]
    head, _, *rows = rows_of(problems_by_noise([*default, *oracle, *more, run(noise_sd=5.0)]))
    first = dict(zip(head, rows[0], strict=True))
    assert first == {
        "problem": "Bayesian timing",
        "σ": "3",
        "ΔLML": "0.045",
        "ΔLML, oracle": "0.050",
        "mean error": "+0.40 ± 0.10",
        "mean error, oracle": "+0.40 ± 0.10",
        "MMTV": "0.045",
        "MMTV, oracle": "0.020",
        "gap": "2.2",
        "GsKL": "0.045",
        "GsKL, oracle": "0.0010",
        "runs": "2",
    }
    assert [row[0] for row in rows] == ["Bayesian timing", "Bayesian timing, BADS"]
    assert rows[1][4] == "+0.30"


def test_the_share_of_noisy_cases_near_the_oracle():
    lines = [case("a", 0.030), case("a", 0.020, "oracle")]  # 1.5 times: within
    lines += [case("b", 0.032), case("b", 0.020, "oracle")]  # 1.6 times: not within
    lines += [case("c", score, seed=seed) for seed, score in enumerate([0.1, 0.01, 0.011])]
    lines += [case("c", 0.01, "oracle", seed) for seed in range(3)]  # in the median
    lines += [case("d", 9.0, noise=0.0), case("d", 0.01, "oracle", noise=0.0)]  # not noisy
    lines += [case("e", 0.02, half="development", noise="by_point"), case("e", 0.01, "oracle", half="development")]
    head, _, *rows = rows_of(noisy_cases(lines))
    assert [row[0] for row in rows] == ["the development half", "the validation half"]
    found = dict(zip(head, rows[1], strict=True))
    assert (found["cases"], found["runs"]) == ("3", "5")
    assert (found["MMTV / floor"], found["MMTV / floor, oracle"]) == ("3.0", "1.0")
    assert (found["gap"], found["within 1.5 × the oracle"]) == ("1.5", "67 %")
    assert (found["within 2 sd"], found["mean error"]) == ("100 %", "+0.10 ± 0.00")
    assert rows[0][1:3] == ["1", "1"]
    assert rows[0][6] == "0 %"


@pytest.mark.parametrize(
    ("default", "oracle", "wanted"),
    [(run(), run(score=0.02), 1.5), (failed(run()), run(), inf), (run(), failed(run()), 0.0)],
)
def test_a_default_that_fails_is_far_from_the_oracle(default, oracle, wanted):
    found = gap(paired([default, replace(oracle, method="oracle")]))
    assert found == pytest.approx(wanted)


def test_where_both_fail_nothing_is_near():
    both = [failed(run()), failed(run(method="oracle"))]
    assert gap(paired(both)) == inf
    assert "∞" in problems_by_noise(both)


def test_without_lines_of_the_oracle_there_is_a_word():
    assert problems_by_noise([run()]) == noisy_cases([case("a", 0.1)]) == NOT_RUN
    assert problems_by_noise([run(method="oracle")]) == NOT_RUN
