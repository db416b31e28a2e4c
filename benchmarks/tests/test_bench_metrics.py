from dataclasses import replace
from math import erf, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vsbq_bench.metrics import DRAWS, Scores, delta_lml, floor, gskl, median_interval, mmtv, scores
from vsbq_bench.problems import SYNTHETIC, rosenbrock_gaussian, two_moons

N = 20_000


def standardised(n, dimension, seed=0):
    """Draws whose sample mean is exactly 0 and whose sample covariance is exactly I."""
    draws = np.random.default_rng(seed).standard_normal((n, dimension))
    draws -= draws.mean(axis=0)
    return np.linalg.solve(np.linalg.cholesky(np.cov(draws, rowvar=False).reshape(dimension, dimension)), draws.T).T


def gaussian_kl(mean_p, cov_p, mean_q, cov_q):
    """The textbook formula, as a slow twin."""
    gap, inverse = mean_q - mean_p, np.linalg.inv(cov_q)
    log_ratio = np.log(np.linalg.det(cov_q) / np.linalg.det(cov_p))
    return 0.5 * (np.trace(inverse @ cov_p) + gap @ inverse @ gap - len(gap) + log_ratio)


def test_delta_lml_is_a_distance():
    assert delta_lml(-3.0, -5.5) == delta_lml(-5.5, -3.0) == 2.5
    assert np.isnan(delta_lml(float("nan"), 1.0))


# A shift δ in each of D coordinates of unit variance gives KL = D δ² / 2 either way, so GsKL = δ² / 2 for any D;
# a shift in a single coordinate gives δ² / (2 D).
@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize(("shift", "expected"), [(sqrt(2), 1.0), (0.5, 0.125), (0.0, 0.0)])
def test_gskl_of_shifted_gaussians(dimension, shift, expected):
    a, b = standardised(500, dimension), standardised(700, dimension, seed=1)
    assert_allclose(gskl(a, b + shift), expected, atol=1e-10)
    assert_allclose(gskl(a, b + shift * np.eye(dimension)[0]), expected / dimension, atol=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_gskl_equals_the_textbook_formula(dimension):
    rng = np.random.default_rng(dimension)
    a = rng.standard_normal((300, dimension)) @ rng.standard_normal((dimension, dimension))
    b = 1 + rng.standard_normal((400, dimension)) @ rng.standard_normal((dimension, dimension))
    p, q = ((x.mean(axis=0), np.atleast_2d(np.cov(x, rowvar=False))) for x in (a, b))
    expected = (gaussian_kl(*p, *q) + gaussian_kl(*q, *p)) / (2 * dimension)
    assert_allclose(gskl(a, b), expected, rtol=1e-7)
    assert_allclose(gskl(b, a), expected, rtol=1e-7)


def test_gskl_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((300, 3)), 0.3 + 1.2 * rng.standard_normal((300, 3))
    turn = rng.standard_normal((3, 3))
    assert_allclose(gskl(a @ turn + 7, b @ turn + 7), gskl(a, b), rtol=1e-8)


@pytest.mark.parametrize("collapsed", [np.zeros((100, 2)), np.column_stack([np.arange(100.0), np.zeros(100)])])
def test_gskl_of_collapsed_draws_is_infinite(collapsed):
    spread = np.random.default_rng(0).standard_normal((100, 2))
    assert gskl(spread, collapsed) == gskl(collapsed, spread) == np.inf


@pytest.mark.parametrize("scale", [1e6, 1e60])
def test_mmtv_is_never_above_one(scale):
    spread = np.random.default_rng(0).standard_normal((1000, 2))
    assert 0.9 < mmtv(spread, scale * spread) <= 1.0


def test_gskl_of_draws_beyond_all_numbers_is_infinite():
    spread = np.random.default_rng(0).standard_normal((100, 2))
    far = spread * [1.0, 1e300]
    assert gskl(spread, far) == gskl(far, spread) == np.inf
    assert np.isfinite(gskl(spread, spread * [1.0, 1e3]))


# The Monte Carlo error of the overlap of two sets of n draws is at most sqrt(2 · 1/4 / n) = 0.005; smoothing adds h²
# to both variances (h about 0.15), at most 0.006 here, and the noise of |p - q| at most the floor, about 0.02.
@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("shift", [0.1, 0.5, 1.0, 2.0])
def test_mmtv_of_shifted_gaussians(dimension, shift):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((N, dimension)), shift + rng.standard_normal((N, dimension))
    expected = erf(shift / 2 / sqrt(2))  # 2 Φ(shift / 2) - 1
    assert abs(mmtv(a, b) - expected) < 0.02
    assert not abs(mmtv(a, b + 0.3) - expected) < 0.02  # negative control


def test_mmtv_of_the_same_distribution_is_small_and_shrinks():
    rng = np.random.default_rng(0)
    few, many = ([mmtv(*rng.standard_normal((2, n, 1))) for _ in range(5)] for n in (1000, N))
    assert np.median(many) < 0.02 < np.median(few) < 0.08


def test_mmtv_is_a_mean_over_dimensions():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5000, 3))
    b[:, 1] += 1
    assert_allclose(mmtv(a, b), np.mean([mmtv(a[:, [i]], b[:, [i]]) for i in range(3)]))
    assert_allclose(mmtv(b, a), mmtv(a, b))


def test_mmtv_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5000, 2))
    unit = np.array([1e-6, 1e4])
    assert_allclose(mmtv(a * unit + 3, b * unit + 3), mmtv(a, b), atol=1e-4)


def test_mmtv_knows_the_extremes():
    draws = np.random.default_rng(0).standard_normal((2000, 2))
    assert mmtv(draws, draws) == 0
    assert_allclose(mmtv(draws, draws + 100), 1, atol=1e-3)
    assert_allclose(mmtv(draws, np.zeros((2000, 2))), 1, atol=0.01)  # collapsed
    assert_allclose(mmtv(draws, draws * 1e6), 1, atol=0.01)  # scales far apart


def test_mmtv_sees_the_weights_of_narrow_far_modes():
    rng = np.random.default_rng(0)

    def two_peaks(share):
        return (100.0 * (rng.random((N, 1)) < share) + 0.1 * rng.standard_normal((N, 1))) / 100

    # smoothing across the gap, as by a rule for a single Gaussian, would hide the peaks' own width
    assert abs(mmtv(two_peaks(0.3), two_peaks(0.5)) - 0.2) < 0.02
    narrow = two_peaks(0.3)
    wide = np.round(narrow) + 2 * (narrow - np.round(narrow))
    assert abs(mmtv(narrow, wide) - 0.322) < 0.02  # N(0, 1) against N(0, 4)


def test_mmtv_is_not_misled_by_ties():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5000, 1))
    assert_allclose(mmtv(a, np.repeat(b, 4, axis=0)), mmtv(a, b), atol=1e-6)


def test_mmtv_of_few_draws_falls_back_quietly():
    rng = np.random.default_rng(0)
    assert 0 < mmtv(rng.standard_normal((5, 1)), rng.standard_normal((7, 1))) < 1


@pytest.mark.parametrize("metric", [mmtv, gskl])
def test_metrics_refuse_what_they_cannot_compare(metric):
    good = np.random.default_rng(0).standard_normal((10, 2))
    with pytest.raises(ValueError, match="finite"):
        metric(good, np.where(good > 0, np.nan, good))
    with pytest.raises(ValueError, match="at least two"):
        metric(good, good[:1])


@pytest.mark.parametrize("name", SYNTHETIC)
def test_true_draws_score_at_the_floor(name):
    problem, rng = SYNTHETIC[name](), np.random.default_rng(0)
    lowest = floor(problem, N, rng)
    ours = scores(problem, problem.draw(N, rng), problem.log_evidence, rng)
    assert ours.delta_lml == lowest.delta_lml == 0
    assert lowest.mmtv < 0.02
    assert lowest.gskl < 0.001
    assert ours.mmtv < 2 * lowest.mmtv
    assert ours.gskl < 6 * lowest.gskl


def test_wrong_draws_score_above_the_floor():
    problem, rng = rosenbrock_gaussian(), np.random.default_rng(0)
    ours = scores(problem, 1.1 * problem.draw(N, rng), problem.log_evidence + 0.25, rng, truth_draws=5000)
    assert_allclose(ours.delta_lml, 0.25)
    assert ours.mmtv > 0.03
    assert ours.gskl > 0.005


def test_floor_falls_with_the_number_of_draws():
    rng = np.random.default_rng(0)
    small, large = floor(two_moons(), 1000, rng), floor(two_moons(), DRAWS, rng)
    assert isinstance(small, Scores)
    assert small.mmtv > 2 * large.mmtv
    assert small.gskl > 2 * large.gskl


def test_median_interval_covers_at_its_level():
    rng = np.random.default_rng(0)
    intervals = [median_interval(rng.standard_normal(31), rng, resamples=500) for _ in range(300)]
    covered = np.mean([interval.low <= 0 <= interval.high for interval in intervals])
    assert abs(covered - 0.95) < 0.05
    narrow = [median_interval(rng.standard_normal(31), rng, level=0.5, resamples=500) for _ in range(300)]
    assert np.mean([interval.low <= 0 <= interval.high for interval in narrow]) < 0.7


def test_median_interval_holds_the_median_and_infinities():
    rng = np.random.default_rng(0)
    values = np.array([1.0, 2.0, 3.0, 4.0, np.inf, np.inf, np.inf])
    interval = median_interval(values, rng)
    assert interval.median == 4.0
    assert interval.low < 4.0 < interval.high == np.inf
    constant = median_interval(np.full(10, 2.5), rng)
    assert constant == (2.5, 2.5, 2.5)


def test_floor_never_compares_a_draw_with_itself(monkeypatch):
    pool = np.random.default_rng(0).standard_normal((40, 6))
    stored = replace(rosenbrock_gaussian(), draw=lambda n, rng: rng.choice(pool, n, replace=False))
    pairs = []
    monkeypatch.setattr("vsbq_bench.metrics.mmtv", lambda a, b: pairs.append((a, b)) or 0.0)
    floor(stored, 20, np.random.default_rng(1), repeats=3)
    assert [len(np.unique(np.concatenate(pair), axis=0)) for pair in pairs] == [40] * 3
