"""The kernel, the mean and the thin layer over LAPACK under them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters, kernel, left_vectors, mean, mean_gradient, right_vectors


@pytest.mark.parametrize("d", [1, 2, 5])
def test_pack_and_unpack(d, rng):
    theta = reference.random_theta(rng, d)
    hyp = Hyperparameters.unpack(theta)
    assert_array_equal(hyp.pack(), theta)
    assert len(hyp.log_scales) == len(hyp.mean_location) == len(hyp.mean_log_widths) == d
    assert hyp.output_variance == pytest.approx(np.exp(2 * theta[d]))


@pytest.mark.parametrize("d", [1, 3])
def test_kernel_is_that_of_the_paper(d, rng):
    theta = reference.random_theta(rng, d)
    a, b = rng.normal(size=(7, d)), rng.normal(size=(4, d))
    assert_allclose(kernel(a, b, Hyperparameters.unpack(theta)), reference.kernel(theta, a, b), rtol=1e-12)


def test_kernel_never_exceeds_the_output_variance(rng):
    hyp = Hyperparameters.unpack(reference.random_theta(rng, 3))
    far = 1e4 + rng.normal(size=(50, 3))  # rounding of |z|² must not show on the diagonal
    k = kernel(far, far, hyp)
    assert k.max() <= hyp.output_variance
    assert_allclose(np.diag(k), hyp.output_variance, rtol=1e-6)


def test_kernel_does_not_know_the_location_of_the_mean(rng):
    hyp = Hyperparameters.unpack(reference.random_theta(rng, 2))
    points = rng.normal(size=(6, 2))
    moved = hyp._replace(mean_location=hyp.mean_location + 3.0)
    assert_allclose(kernel(points, points, moved), kernel(points, points, hyp), rtol=1e-12)


def test_augmented_vectors_divide_by_the_noise(rng):
    theta = reference.random_theta(rng, 2)
    hyp = Hyperparameters.unpack(theta)
    a, b, sd = rng.normal(size=(5, 2)), rng.normal(size=(6, 2)), np.exp(rng.normal(size=6))
    got = np.exp(left_vectors(a, hyp) @ right_vectors(b, hyp, np.log(sd)).T)
    assert_allclose(got, reference.kernel(theta, a, b) / sd, rtol=1e-12)


@pytest.mark.parametrize("d", [1, 4])
def test_mean_and_its_gradient(d, rng):
    theta = reference.random_theta(rng, d)
    hyp = Hyperparameters.unpack(theta)
    points, upstream = rng.normal(size=(9, d)), rng.normal(size=9)
    assert_allclose(mean(points, hyp), reference.prior_mean(theta, points), rtol=1e-12)
    (wanted,) = reference.gradient(lambda t: upstream @ reference.prior_mean(t, points), theta)
    got = np.concatenate([np.atleast_1d(part) for part in mean_gradient(points, hyp, upstream)])
    assert reference.relative_error(got, wanted[d + 1 :]) < 1e-10


# The layer over LAPACK and BLAS

ORDERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "view": lambda a: np.repeat(np.repeat(a, 2, axis=0), 2, axis=1)[::2, ::2],
}


@pytest.mark.parametrize("left", ORDERS)
@pytest.mark.parametrize("right", ORDERS)
def test_products_in_every_memory_order(left, right, rng):
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(3, 5))
    assert_allclose(linalg.product(ORDERS[left](a), ORDERS[right](b)), a @ b, rtol=1e-12)
    assert_allclose(linalg.product_vector(ORDERS[left](a), b[:, 0]), a @ b[:, 0], rtol=1e-12)


@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 4)])
@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solves(shape, transpose, rng):
    root = rng.normal(size=(6, 6))
    factor = linalg.cholesky(root @ root.T + np.eye(6))
    b = rng.normal(size=shape)
    before = b.copy()
    solved = linalg.solve_lower(factor, b, transpose=transpose)
    assert_allclose((factor.T if transpose else factor) @ solved, b, atol=1e-12)
    assert_array_equal(b, before)


def test_inverse_and_determinant(rng):
    root = rng.normal(size=(5, 5))
    a = root @ root.T + np.eye(5)
    factor = linalg.cholesky(a)
    assert_allclose(linalg.inverse_from_cholesky(factor), np.linalg.inv(a), rtol=1e-9)
    assert linalg.log_determinant(factor) == pytest.approx(np.linalg.slogdet(a)[1], rel=1e-12)


def test_a_regular_matrix_gets_the_first_jitter(rng):
    root = rng.normal(size=(5, 5))
    a = root @ root.T + np.eye(5)
    factor, jitter = linalg.jittered_cholesky(a, 2.0)
    assert jitter == linalg.FIRST_JITTER
    assert_allclose(factor @ factor.T, a + jitter * 2.0 * np.eye(5), rtol=1e-12)


@pytest.mark.parametrize(("shortfall", "needed"), [(3e-10, 1e-9), (3e-8, 1e-7), (3e-5, 1e-4)])
def test_jitter_is_raised_as_far_as_needed_and_reported(shortfall, needed, rng):
    q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    spectrum = np.array([1.0, 0.8, 0.5, 0.3, 0.1, -shortfall])
    a = q @ np.diag(spectrum) @ q.T
    factor, jitter = linalg.jittered_cholesky(a, 1.0)
    assert jitter == pytest.approx(needed)
    assert_allclose(factor @ factor.T, a + jitter * np.eye(6), atol=1e-12)


def test_jitter_is_relative_to_the_scale(rng):
    singular = np.ones((4, 4)) - 1e-6 * np.eye(4)
    small, big = (linalg.jittered_cholesky(scale * singular, scale)[1] for scale in (1.0, 1e8))
    assert small == big > linalg.FIRST_JITTER


@pytest.mark.parametrize("a", [-np.eye(3), np.full((3, 3), np.nan), np.diag([1.0, np.nan, 1.0])])
def test_a_hopeless_matrix_is_refused(a):
    with pytest.raises(linalg.NotPositiveDefinite):
        linalg.jittered_cholesky(a, 1.0)
