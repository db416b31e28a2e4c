"""Density, draws and entropy of mixtures."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from vsbq.numerics.mixture import (
    Mixture,
    coefficients,
    entropy_and_gradient,
    features,
    inverse_trils,
    log_pdf,
    log_sum_exp_in_place,
    sample,
    standard_draws,
)

SHAPES = [(1, 1), (3, 1), (1, 3), (4, 2), (3, 5)]


@pytest.fixture(params=SHAPES, ids=lambda shape: f"k{shape[0]}d{shape[1]}")
def mixture(request, rng):
    return Mixture(*reference.random_mixture(rng, *request.param))


# Density


def test_log_pdf_is_that_of_scipy(mixture, rng):
    x = 2 * rng.normal(size=(20, mixture.means.shape[1]))
    assert_allclose(log_pdf(mixture, x), reference.mixture_log_pdf(*mixture, x), rtol=1e-10)


def test_log_pdf_far_away_is_finite_and_exact(mixture):
    x = np.full((1, mixture.means.shape[1]), 1e4)
    wanted = reference.mixture_log_pdf(*mixture, x)
    assert np.isfinite(wanted).all()
    assert_allclose(log_pdf(mixture, x), wanted, rtol=1e-10)


def test_log_pdf_integrates_to_one_on_a_line(rng):
    mixture = Mixture(*reference.random_mixture(rng, 4, 1))
    x = np.linspace(-15.0, 15.0, 20_001)
    assert np.trapezoid(np.exp(log_pdf(mixture, x[:, None])), x) == pytest.approx(1.0, abs=1e-10)


def test_log_pdf_integrates_to_one_on_a_plane(rng):
    mixture = Mixture(*reference.random_mixture(rng, 3, 2))
    x = np.linspace(-12.0, 12.0, 401)
    grid = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    assert np.exp(log_pdf(mixture, grid)).sum() * (x[1] - x[0]) ** 2 == pytest.approx(1.0, abs=1e-8)


def test_log_pdf_integrates_to_one_in_five_dimensions(rng):
    mixture = Mixture(*reference.random_mixture(rng, 3, 5))
    wide = Mixture(mixture.log_weights, mixture.means, 1.3 * mixture.trils)
    x = sample(wide, 20_000, rng)
    ratio = np.exp(log_pdf(mixture, x) - log_pdf(wide, x))
    assert reference.agree(ratio, 1.0)
    assert not reference.agree(ratio, 1.1)


def test_linear_forms_are_the_components(mixture, rng):
    x = rng.normal(size=(9, mixture.means.shape[1]))
    centre = rng.normal(size=x.shape[1])
    form, precision, linear = coefficients(mixture, centre)
    logs = form @ features(np.ascontiguousarray((x - centre).T))
    for k, row in enumerate(logs):
        alone = reference.mixture_log_pdf(*(part[k : k + 1] for part in mixture), x)
        assert_allclose(row, alone, rtol=1e-9, atol=1e-9)
        cov = mixture.trils[k] @ mixture.trils[k].T
        assert_allclose(precision[k], np.linalg.inv(cov), rtol=1e-8, atol=1e-10)
        assert_allclose(linear[k], np.linalg.solve(cov, mixture.means[k] - centre), rtol=1e-8, atol=1e-10)


def test_log_sum_exp_leaves_the_shares(rng):
    logs = 300 * rng.normal(size=(4, 7))
    kept = logs.copy()
    total = log_sum_exp_in_place(logs)
    assert_allclose(total, np.logaddexp.reduce(kept, axis=0), rtol=1e-12)
    assert_allclose(logs, np.exp(kept - total), atol=1e-12)


def test_inverse_of_triangular_factors(mixture):
    product = inverse_trils(mixture.trils) @ mixture.trils
    assert_allclose(product, np.broadcast_to(np.eye(product.shape[1]), product.shape), atol=1e-12)
    assert (np.triu(inverse_trils(mixture.trils), 1) == 0).all()


# Draws


def test_draws_have_the_moments_of_the_mixture(mixture, rng):
    x = sample(mixture, 20_000, rng)
    mean, cov = reference.mixture_moments(mixture.weights, mixture.means, mixture.trils)
    for i in range(len(mean)):
        assert reference.agree(x[:, i], mean[i])
        assert not reference.agree(x[:, i], mean[i] + 0.2)
        for j in range(i + 1):
            assert reference.agree((x[:, i] - mean[i]) * (x[:, j] - mean[j]), cov[i, j])


def test_draws_follow_the_density(rng):
    """E[q] under q, by draws and on a grid."""
    mixture = Mixture(*reference.random_mixture(rng, 4, 1))
    x = np.linspace(-15.0, 15.0, 20_001)
    square = np.trapezoid(np.exp(2 * log_pdf(mixture, x[:, None])), x)
    density = np.exp(log_pdf(mixture, sample(mixture, 20_000, rng)))
    assert reference.agree(density, square)
    assert not reference.agree(density, 1.1 * square)


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_shares_are_as_close_to_the_weights_as_can_be(n, rng):
    log_weights, _, _ = reference.random_mixture(rng, 5, 2)
    means = 1e3 * np.arange(5.0)[:, None] * np.ones(2)
    x = sample(Mixture(log_weights, means, np.tile(np.eye(2), (5, 1, 1))), n, rng)
    assert x.shape == (n, 2)
    count = np.bincount(np.round(x[:, 0] / 1e3).astype(int), minlength=5)
    assert (np.abs(count - n * np.exp(log_weights)) < 1.0 + 1e-9).all()


def test_draws_come_in_random_order(rng):
    mixture = Mixture(np.log([0.5, 0.5]), np.array([[0.0], [100.0]]), np.ones((2, 1, 1)))
    side = (sample(mixture, 2000, rng)[:, 0] > 50).astype(float)
    assert reference.agree(side[:1000], 0.5)


def test_draws_depend_on_the_generator_alone(mixture):
    one, again, other = (sample(mixture, 50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert_array_equal(one, again)
    assert not np.allclose(one, other)


@pytest.mark.parametrize(("k", "s", "d"), [(1, 8, 1), (3, 64, 2), (2, 100, 5), (4, 33, 3), (2, 256, 10)])
def test_standard_draws_have_exact_moments(k, s, d, rng):
    draws = standard_draws(k, s, d, rng)
    assert draws.shape == (k, 2 * (s // 2), d)
    assert_allclose(draws.mean(axis=1), 0.0, atol=1e-14)
    moment = np.einsum("ksi,ksj->kij", draws, draws) / draws.shape[1]
    assert_allclose(moment, np.broadcast_to(np.eye(d), moment.shape), atol=1e-12)


def test_standard_draws_look_normal(rng):
    draws = standard_draws(4, 512, 3, rng).reshape(-1, 3)
    assert_allclose((draws**4).mean(axis=0), 3.0, atol=0.3)
    assert_allclose((np.abs(draws) < 1).mean(axis=0), 0.6827, atol=0.02)


def test_standard_draws_differ_between_components_and_repeat_with_the_seed():
    one, again, other = (standard_draws(2, 32, 2, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert_array_equal(one, again)
    assert not np.allclose(one, other)
    assert not np.allclose(one[0], one[1])


def test_few_draws_in_many_dimensions_are_at_least_centred(rng):
    draws = standard_draws(2, 8, 10, rng)
    assert np.isfinite(draws).all()
    assert_allclose(draws.mean(axis=1), 0.0, atol=1e-14)


# Entropy


def test_entropy_is_that_of_the_plain_estimate(mixture, rng):
    k, d = mixture.means.shape
    draws = rng.normal(size=(k, 16, d))
    wanted = reference.entropy(mixture.weights, mixture.means, mixture.trils, draws)
    assert entropy_and_gradient(mixture, draws)[0] == pytest.approx(wanted, rel=1e-10)


def test_gradient_of_the_entropy(mixture, rng):
    k, d = mixture.means.shape
    draws = rng.normal(size=(k, 16, d))
    slopes = reference.gradient(
        lambda w, m, t: reference.entropy(w, m, t, draws), mixture.weights, mixture.means, mixture.trils
    )
    got = entropy_and_gradient(mixture, draws)[1]
    wanted = [slopes[0], slopes[1], np.tril(slopes[2])]
    scale = np.linalg.norm(np.concatenate([part.ravel() for part in wanted]))
    for name, part, slope in zip(got._fields, got, wanted, strict=True):
        assert np.linalg.norm(part - slope) < 1e-6 * scale, name


@pytest.mark.parametrize("d", [1, 3, 6])
def test_entropy_of_one_gaussian_is_exact(d, rng):
    _, means, trils = reference.random_mixture(rng, 1, d)
    value, gradient = entropy_and_gradient(Mixture(np.zeros(1), means, trils), standard_draws(1, 64, d, rng))
    assert value == pytest.approx(0.5 * d * np.log(2 * np.pi * np.e) + np.log(np.diag(trils[0])).sum(), rel=1e-12)
    assert_allclose(gradient.means, 0.0, atol=1e-10)
    assert_allclose(gradient.trils[0], np.diag(1 / np.diag(trils[0])), atol=1e-9)


def test_entropy_of_components_far_apart_is_exact(rng):
    log_weights, _, trils = reference.random_mixture(rng, 3, 2)
    mixture = Mixture(log_weights, 1e3 * np.arange(3.0)[:, None] * np.ones(2), trils)
    value, _ = entropy_and_gradient(mixture, standard_draws(3, 64, 2, rng))
    parts = np.log(2 * np.pi * np.e) + np.log(np.einsum("kii->ki", trils)).sum(axis=1)
    assert value == pytest.approx(np.exp(log_weights) @ (parts - log_weights), rel=1e-9)


def test_entropy_agrees_with_monte_carlo(rng):
    mixture = Mixture(*reference.random_mixture(rng, 3, 2))
    value, _ = entropy_and_gradient(mixture, standard_draws(3, 4096, 2, rng))
    surprise = -log_pdf(mixture, sample(mixture, 20_000, rng))
    assert reference.agree(surprise, value)
    assert not reference.agree(surprise, value + 0.1)


def test_entropy_does_not_depend_on_the_origin(mixture, rng):
    k, d = mixture.means.shape
    draws = rng.normal(size=(k, 16, d))
    value, gradient = entropy_and_gradient(mixture, draws)
    moved, slope = entropy_and_gradient(mixture._replace(means=mixture.means + 1e3), draws)
    assert moved == pytest.approx(value, rel=1e-9)
    assert_allclose(slope.trils, gradient.trils, atol=1e-7)
