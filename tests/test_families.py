"""Both families: from free parameters to a mixture, and gradients back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics.families import Family, FullCovariance, SharedDiagonal, log_softmax
from vsbq.numerics.mixture import Mixture, MixtureGradient

FAMILIES = {FullCovariance: reference.full_covariance, SharedDiagonal: reference.shared_diagonal}
SHAPES = [(1, 1), (3, 2), (2, 4)]


@pytest.fixture(params=FAMILIES, ids=lambda family: family.__name__)
def family(request):
    return request.param


@pytest.fixture(params=SHAPES, ids=lambda shape: f"k{shape[0]}d{shape[1]}")
def mixture(request, rng):
    return Mixture(*reference.random_mixture(rng, *request.param))


def free_of(instance, rng):
    start = instance.start()
    return start + 0.3 * rng.normal(size=len(start))


def test_families_keep_the_interface(family, mixture):
    assert isinstance(family(mixture), Family)


def test_mixture_is_that_of_the_formula(family, mixture, rng):
    instance = family(mixture)
    free = free_of(instance, rng)
    got = instance.mixture(free)
    weights, means, trils = FAMILIES[family](free, *mixture)
    assert_allclose(got.weights, weights, rtol=1e-12)
    assert_allclose(got.means, means, rtol=1e-12, atol=1e-12)
    assert_allclose(got.trils, trils, rtol=1e-12, atol=1e-12)
    assert got.weights.sum() == pytest.approx(1.0)
    assert (np.einsum("kii->ki", got.trils) > 0).all()
    assert (np.triu(got.trils, 1) == 0).all()


def test_gradients_are_pulled_back(family, mixture, rng):
    """The gradient of a function that is linear in (w, μ, L)."""
    instance = family(mixture)
    free = free_of(instance, rng)
    slopes = [rng.normal(size=part.shape) for part in mixture]
    slopes[2] = np.tril(slopes[2])
    (wanted,) = reference.gradient(
        lambda f: sum((a * b).sum() for a, b in zip(FAMILIES[family](f, *mixture), slopes, strict=True)), free
    )
    assert reference.relative_error(instance.pull_back(free, MixtureGradient(*slopes)), wanted) < 1e-10


def test_full_covariance_starts_at_the_reference(mixture):
    family = FullCovariance(mixture)
    for got, wanted in zip(family.mixture(family.start()), mixture, strict=True):
        assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_shared_diagonal_starts_at_a_reference_of_its_own_kind(mixture, rng):
    k, d = mixture.means.shape
    scales = np.exp(rng.normal(size=(k, 1)) + rng.normal(size=d))
    inside = mixture._replace(trils=scales[:, :, None] * np.eye(d))
    family = SharedDiagonal(inside)
    for got, wanted in zip(family.mixture(family.start()), inside, strict=True):
        assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_shared_diagonal_shares_its_shape(mixture, rng):
    family = SharedDiagonal(mixture)
    scales = np.einsum("kii->ki", family.mixture(free_of(family, rng)).trils)
    assert np.linalg.matrix_rank(np.log(scales) - np.log(scales[0]), tol=1e-9) <= 1
    assert_allclose(scales / scales[:, :1], np.broadcast_to(scales[0] / scales[0, 0], scales.shape), rtol=1e-12)


def test_a_constant_in_the_logits_is_no_matter(family, mixture, rng):
    instance = family(mixture)
    k = len(mixture.means)
    free = free_of(instance, rng)
    shifted = free.copy()
    shifted[:k] += 5.0
    for one, other in zip(instance.mixture(free), instance.mixture(shifted), strict=True):
        assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    gradient = MixtureGradient(*(rng.normal(size=part.shape) for part in mixture))
    assert instance.pull_back(free, gradient)[:k].sum() == pytest.approx(0.0, abs=1e-12)


def test_units_are_no_matter(mixture, rng):
    """The optimiser sees the same problem whatever the units: that is why the families are relative."""
    family, other = FullCovariance(mixture), FullCovariance(mixture._replace(trils=1e3 * mixture.trils))
    free = free_of(family, rng)
    one, scaled = family.mixture(free), other.mixture(free)
    assert_allclose(scaled.trils, 1e3 * one.trils, rtol=1e-12)
    assert_allclose(scaled.means - mixture.means, 1e3 * (one.means - mixture.means), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 1e5, -1e5])
def test_log_softmax_does_not_overflow(shift, rng):
    logits = rng.normal(size=6)
    assert_allclose(np.exp(log_softmax(logits + shift)), reference.softmax(logits), rtol=1e-9)


def test_log_softmax_of_a_hopeless_component():
    assert_allclose(log_softmax(np.array([0.0, -5000.0])), [0.0, -5000.0])
