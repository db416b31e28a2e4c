"""The ablation and calibration tables, from lines made by hand."""

from vsbq_bench.ablation import LABELS, STEPS, ablation
from vsbq_bench.calibration_table import calibration
from vsbq_bench.lines import Line
from vsbq_bench.tables import NOT_RUN, synthetic


def line(method, seed=0, error=0.5, sd=1.0, mmtv=0.1, problem="two_moons"):
    return Line(
        problem=problem,
        noise_sd=0.0,
        optimiser="cma",
        evaluations=6000,
        method=method,
        seed=seed,
        delta_lml=error,
        mmtv=mmtv,
        gskl=0.01,
        log_evidence=error,
        log_evidence_sd=sd,
        true_log_evidence=0.0,
    )


def test_no_lines_no_table():
    assert ablation([]) == calibration([]) == NOT_RUN
    assert ablation([line("vsbq"), line("vsbq_paper")]) == NOT_RUN  # the two ends alone are no ablation


def test_every_version_on_the_same_traces_in_the_order_of_the_page():
    lines = [line("vsbq_paper", mmtv=0.04), line("ablation_unrefined", mmtv=0.02), line("vsbq", mmtv=0.01)]
    others = [line("vsbq_paper", seed=7, mmtv=0.9), line("vsbq", problem="rosenbrock_gaussian")]
    rows = ablation(lines + others).splitlines()[4:]
    assert [row.split(" | ")[0] for row in rows] == ["| default", "| without refinement", "| as printed"]
    assert [row.split(" | ")[2] for row in rows] == ["0.010", "0.020", "0.040"]
    assert all(row.endswith("| 1 |") for row in rows)


def test_every_version_has_a_name_for_the_page():
    assert set(LABELS) == {"vsbq", "vsbq_paper", *STEPS}


def test_versions_are_in_no_other_table():
    lines = [line("vsbq"), *(line(step) for step in STEPS)]
    assert "ablation" not in synthetic(lines)
    assert synthetic(lines) == synthetic(lines[:1])


def test_calibration_counts_runs_within_one_and_two_sd():
    errors = [0.5, 1.5, 1.9, 2.5]
    lines = [line("vsbq", seed, error) for seed, error in enumerate(errors)]
    row = calibration([*lines, line("vsbq_paper", 0, 100.0)]).splitlines()[2]
    assert row == "| Two Moons | 0 | 4 | 25 % | 75 % | 1.7 | 1.0 |"
    assert calibration(lines).splitlines()[-1].startswith("| **all** |  | 4 | 25 % | 75 %")
