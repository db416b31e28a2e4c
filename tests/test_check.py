"""A posterior checked against the model itself: weights that help, weights that can't, noise, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import vsbq
from vsbq.errors import ArgumentError, EvaluationsError, VsbqError, VsbqWarning

LOG_Z = 3.0


def law(sd):
    return stats.multivariate_normal(np.zeros(2), np.diag(np.square(sd)))


def narrow(x):
    return law([1.0, 1.0]).logpdf(x) + LOG_Z


def wider(x):
    return law([1.3, 1.0]).logpdf(x) + LOG_Z + 0.5


def elsewhere(x):
    return law([0.3, 0.3]).logpdf(x - 2.5) + LOG_Z


@pytest.fixture(scope="module")
def post():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)) * rng.uniform(0, 2.5, (300, 1))
    return vsbq.fit(x, narrow(x), names=["a", "b"], rng=1, progress=False)


def test_a_right_posterior_is_confirmed_and_keeps_its_draws(post):
    found = post.check(narrow, 400, rng=2)
    assert found.helps
    assert found.k_hat < 0.5
    assert found.log_evidence == pytest.approx(LOG_Z, abs=4 * found.log_evidence_sd)
    assert found.log_evidence_sd < 0.05
    assert found.posterior.verdict == "trusted"
    assert "agrees with them" in found.diagnosis.finding("k-hat").message
    assert found.posterior.log_evidence == pytest.approx(found.log_evidence)
    np.testing.assert_array_equal(found.posterior.sample(5, rng=0), post.sample(5, rng=0))
    np.testing.assert_allclose(found.posterior.log_pdf([[0.0, 0.0]]), law([1, 1]).logpdf([0, 0]), atol=0.02)
    assert "k-hat" in str(found)


@pytest.mark.parametrize("given", ["a", np.zeros(3), None, 1j])
def test_a_function_that_gives_no_number_is_told(post, given):
    with pytest.raises(ArgumentError, match=r"log_density gave .* at one point\. Let it return one number"):
        post.check(lambda x: given, 10, rng=2)


def test_a_wrong_posterior_is_corrected(post):
    found = post.check(wider, 1000, rng=2)
    assert found.helps
    assert found.log_evidence == pytest.approx(LOG_Z + 0.5, abs=4 * found.log_evidence_sd)
    np.testing.assert_allclose(found.sd, [1.3, 1.0], atol=0.12)
    corrected = found.posterior
    assert corrected.log_evidence == pytest.approx(found.log_evidence)
    assert corrected.log_evidence_sd == pytest.approx(found.log_evidence_sd)
    sd = corrected.sample(5000, rng=0).std(axis=0)
    assert abs(sd[0] - 1.3) < 0.12 < abs(post.sample(5000, rng=0).std(axis=0)[0] - 1.3)
    assert np.sqrt(corrected.cov()[0, 0]) == pytest.approx(1.3, abs=0.12)


def test_the_density_of_a_corrected_posterior_is_normalised(post):
    corrected = post.check(wider, 1000, rng=2).posterior
    grid = np.stack(np.meshgrid(*[np.linspace(-8, 8, 201)] * 2), axis=-1).reshape(-1, 2)
    assert corrected.pdf(grid).sum() * 0.08**2 == pytest.approx(1.0, abs=0.01)


def test_where_weights_cannot_help_it_says_so(post):
    points = post.check_points(400, rng=2)
    with pytest.warns(VsbqWarning, match=r"cannot correct the posterior|too few to correct.*post\.update"):
        same = post.reweight(points, elsewhere(points))
    assert same.verdict != "trusted"
    np.testing.assert_array_equal(same.sample(5, rng=0), post.sample(5, rng=0))
    assert same.log_evidence == post.log_evidence
    assert same.diagnose().finding("too few").level == "trusted"  # what was known before is kept


def test_a_few_heavy_weights_among_even_ones_are_a_doubt_only(post):
    points = post.check_points(500, rng=2)
    values = narrow(points)
    values[:3] += [2.5, 3.5, 4.5]
    with pytest.warns(VsbqWarning, match="cannot correct"):
        same = post.reweight(points, values)
    assert same.diagnose().finding("k-hat").number > 0.7
    assert same.verdict in {"doubtful", "rejected"}


def test_points_out_values_in_is_the_same_as_a_call(post):
    points = post.check_points(500, rng=2)
    one, other = post.reweight(points, wider(points)), post.check(wider, 500, rng=2).posterior
    np.testing.assert_array_equal(one.sample(50, rng=0), other.sample(50, rng=0))


def test_a_function_of_one_point_serves(post):
    one = post.check(lambda x: float(wider(x)), 60, rng=2)
    np.testing.assert_allclose(one.log_density, post.check(wider, 60, rng=2).log_density)


def test_noise_is_allowed_for_or_too_large(post, rng):
    points = post.check_points(2000, rng=2)
    noisy = narrow(points) + 0.5 * rng.standard_normal(len(points))
    corrected = post.reweight(points, noisy, log_density_sd=0.5)
    assert corrected.log_evidence == pytest.approx(LOG_Z, abs=5 * corrected.log_evidence_sd)
    ignorant = post.reweight(points, noisy)
    assert ignorant.log_evidence > LOG_Z + 0.06  # an exponential of noise is larger by half its variance
    with pytest.warns(VsbqWarning, match="too noisy"):
        post.reweight(points, narrow(points) + 3 * rng.standard_normal(len(points)), log_density_sd=3.0)


def test_few_points_are_not_enough(post):
    points = post.check_points(20, rng=2)
    with pytest.warns(VsbqWarning, match="too few to correct"):
        assert post.reweight(points, narrow(points)).verdict == "doubtful"


def test_places_without_density_weigh_nothing(post):
    def half(x):
        return np.where(x[:, 0] > 0, narrow(x), -np.inf)

    found = post.check(half, 1000, rng=2)
    assert found.helps
    assert found.log_evidence == pytest.approx(LOG_Z - np.log(2), abs=0.15)
    assert found.posterior.sample(200, rng=0)[:, 0].min() > 0


def test_it_is_saved_and_loaded(post, tmp_path):
    corrected = post.check(wider, 500, rng=2).posterior
    again = vsbq.load(corrected.save(tmp_path / "corrected.npz"))
    np.testing.assert_array_equal(again.sample(50, rng=0), corrected.sample(50, rng=0))
    assert again.diagnosis == corrected.diagnosis
    assert again.log_evidence == corrected.log_evidence
    np.testing.assert_allclose(again.log_pdf([[0.3, 0.2]]), corrected.log_pdf([[0.3, 0.2]]))


def test_a_posterior_without_a_refinement_is_corrected_too(post):
    plain = replace(post, refined=None, surrogate=None, evaluations=None)
    found = plain.check(wider, 1000, rng=2)
    assert found.helps
    assert found.posterior.log_evidence == pytest.approx(LOG_Z + 0.5, abs=0.1)
    assert found.posterior.sample(5000, rng=0).std(axis=0)[0] == pytest.approx(1.3, abs=0.15)


@pytest.mark.parametrize(
    ("points", "values", "words"),
    [
        (np.zeros((3, 1)), np.zeros(3), "do not belong together"),
        (np.zeros((3, 2)), np.zeros(2), "do not belong together"),
        (np.zeros((3, 2)), [0.0, np.nan, 0.0], r"row 1"),
        (np.zeros((3, 2)), [0.0, -np.inf, -np.inf], "nothing can be weighed"),
    ],
)
def test_bad_rows_are_named(post, points, values, words):
    with pytest.raises(EvaluationsError, match=words):
        post.reweight(points, values)


def test_points_outside_the_bounds_are_refused():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.05, 0.95, (200, 1))
    post = vsbq.fit(x, stats.beta(3, 4).logpdf(x[:, 0]), bounds=[(0, 1)], rng=1, progress=False)
    with pytest.raises(EvaluationsError, match="outside the bounds"):
        post.reweight([[0.5], [1.5]], [0.0, 0.0])
    points = post.check_points(200, rng=0)
    assert ((points > 0) & (points < 1)).all()
    with pytest.raises(ValueError, match="at least 1"):
        post.check_points(0)


def test_a_changed_prior_is_checked_where_it_came_from(post):
    changed = post.with_prior(lambda x: -0.01 * (x**2).sum(axis=1), old_log_prior=lambda x: np.zeros(len(x)), rng=0)
    with pytest.raises(VsbqError, match="turned to another prior"):
        changed.check(narrow, 50)
