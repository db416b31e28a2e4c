"""The variance by one triangular product is that by two; where rounding leaves no root, two are taken."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics import sgpr, variance
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.sgpr import CHUNK


@pytest.fixture(params=[1, 2, 4], ids=lambda d: f"d{d}")
def case(request, rng):
    theta, d = reference.random_theta(rng, request.param), request.param
    data = reference.random_regression(rng, 40, d)
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, 0.01 + reference.spread_points(data[0], 4 + d), *data)
    return hyp, factors, rng.uniform(-2.5, 2.5, (CHUNK + 20, d))


@pytest.mark.parametrize("noise", [False, True])
def test_one_product_gives_what_two_give(case, noise):
    hyp, factors, x = case
    wanted = sgpr.predict_variances(hyp, factors, x, noise=noise)
    roots = variance.variance_roots(factors)
    assert roots is not None
    found = variance.variances(hyp, factors, roots, x, noise=noise)
    assert_allclose(found.total, wanted.total, rtol=1e-9, atol=1e-11 * hyp.output_variance)
    assert_allclose(found.by_noise, wanted.by_noise, rtol=1e-9, atol=1e-11 * hyp.output_variance)
    assert found.by_noise.any() == noise


def test_without_roots_two_products_are_taken(case):
    hyp, factors, x = case
    found = variance.variances(hyp, factors, None, x, noise=True)
    wanted = sgpr.predict_variances(hyp, factors, x)
    assert np.array_equal(found.total, wanted.total)
    assert np.array_equal(found.by_noise, wanted.by_noise)


def test_where_rounding_leaves_no_root_there_is_none(case):
    """V has no eigenvalue below one, except by rounding errors."""
    _, factors, _ = case
    assert variance.variance_roots(factors._replace(chol_v=0.99 * np.eye(len(factors.weights), order="F"))) is None
