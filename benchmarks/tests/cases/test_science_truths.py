import numpy as np
import pytest
from numpy.testing import assert_allclose

from vsbq_bench.cases.science import MODELS
from vsbq_bench.cases.science.checks import WAYS, Checks, checks_of
from vsbq_bench.cases.science.model import truth_name
from vsbq_bench.cases.subjects import SCIENCE
from vsbq_bench.truth import load_truth

STORED = [name for name in MODELS if name != "centred_schools"]
GOOD = Checks(
    log_evidence=1.0,
    log_evidence_sd=0.002,
    share=0.6,
    shape=0.3,
    second_way="weights",
    second_log_evidence=1.003,
    second_log_evidence_sd=0.002,
    second_share=0.5,
    second_shape=0.2,
    tempered_log_evidence=1.1,
    worst_z=2.0,
    distinct=1.0,
    seed=1,
)


@pytest.mark.parametrize("name", STORED)
def test_a_stored_truth_was_reached_in_two_ways(name):
    truth = load_truth(truth_name(name))
    checks = checks_of(truth)
    assert checks.objections() == []
    assert checks.second_way in WAYS
    assert truth.log_evidence_sd <= min(checks.log_evidence_sd, checks.second_log_evidence_sd) < 0.01
    assert truth.effective_share == checks.share
    assert truth.worst_z == checks.worst_z
    assert truth.draws.shape == (20_000, len(MODELS[name]().names))


@pytest.mark.parametrize("name", SCIENCE)
def test_a_problem_and_its_truth_belong_together(name, rng):
    problem = SCIENCE[name].make()
    assert problem.name == name
    draws = problem.draw(20_000, rng)
    assert draws.shape == (20_000, problem.dimension)
    assert np.isfinite(problem.log_density(draws)).mean() >= 0.99
    if problem.bounds is not None:
        assert ((draws >= problem.bounds[:, 0]) & (draws <= problem.bounds[:, 1])).all()
    # Whoever starts in the box starts near the posterior: not a marginal of it is elsewhere.
    middle = np.median(draws, axis=0)
    low, high = problem.plausible_bounds.T
    assert ((middle > low - (high - low)) & (middle < high + (high - low))).all()


@pytest.mark.parametrize("name", SCIENCE)
def test_coding_leaves_the_draws_fine_enough(name):
    """Cells are narrow next to the bulk of every marginal, also where its tails are long."""
    truth = load_truth(truth_name("eight_schools" if name == "centred_schools" else name))
    cell = np.ptp(truth.draws, axis=0) / 2**16
    quarter, three_quarters = np.quantile(truth.draws, [0.25, 0.75], axis=0)
    assert (cell < 0.01 * (three_quarters - quarter)).all()


@pytest.mark.parametrize("name", ["change_point", "eight_schools", "centred_schools"])
def test_evidences_known_by_integrals_are_the_stored_ones(name):
    assert_allclose(SCIENCE[name].make().log_evidence, MODELS[name]().log_evidence(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("name", "first", "second"), [("two_exponentials", 1, 3), ("gaussian_mixture", 0, 1)])
def test_both_orders_of_exchangeable_parts_are_equally_frequent(name, first, second):
    draws = load_truth(truth_name(name)).draws
    assert abs((draws[:, first] > draws[:, second]).mean() - 0.5) < 0.02


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"log_evidence_sd": 0.02, "second_log_evidence_sd": 0.005}, "known to 0.0200"),
        ({"second_log_evidence_sd": 0.02}, "second log evidence is known"),
        ({"second_log_evidence": 1.02}, "differ by 7.1"),
        ({"shape": 0.55}, "Pareto shape is 0.55"),
        ({"shape": float("nan")}, "Pareto shape is nan"),
        ({"share": 0.1}, "share is 0.10"),
        ({"second_shape": 0.7}, "second Pareto shape"),
        ({"worst_z": 5.0}, "differ by 5.0"),
        ({"distinct": 0.9}, "distinct"),
    ],
)
def test_every_check_can_fail(change, words):
    assert GOOD.objections() == []
    found = GOOD._replace(**change).objections()
    assert any(words in line for line in found), found
