"""A sparse GP of values and gradients, without some of them, and with residual passes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.observations import Regression, fit_factors, fit_summed, with_residual_passes, without


@pytest.fixture(params=[False, True], ids=["values", "gradients"])
def case(request, rng):
    hyp, data = Hyperparameters.unpack(reference.random_theta(rng, 2)), reference.random_regression(rng, 40, 2)
    gradients = np.where(np.arange(40)[:, None] % 2, rng.normal(size=(40, 2)), np.nan) if request.param else None
    return hyp, 0.01 + reference.spread_points(data[0], 12), Regression(*data, gradients)


def test_what_is_held_out_is_not_there(case):
    """A place takes its gradient with it."""
    hyp, inducing, seen = case
    held = np.arange(40) < 11
    found = without(hyp, fit_summed(hyp, inducing, seen), seen.take(held))
    wanted, _ = fit_factors(hyp, inducing, seen.take(~held))
    assert_allclose(found.weights, wanted.weights, rtol=1e-6, atol=1e-8)
    assert_allclose(found.chol_v, wanted.chol_v, rtol=1e-7, atol=1e-9)
    every, _ = fit_factors(hyp, inducing, seen)
    assert np.abs(every.weights - wanted.weights).max() > 1e-3  # negative control


def test_residual_passes_are_those_that_the_evaluations_imply(case):
    """What passes give does not need the evaluations: two ways to the same weights."""
    hyp, inducing, seen = case
    factors, _ = fit_factors(hyp, inducing, seen)
    found = with_residual_passes(hyp, factors, seen, 3)
    assert_allclose(found.weights, sgpr.with_implied_passes(factors, 3).weights, rtol=1e-6, atol=1e-8)
    assert np.abs(found.weights - factors.weights).max() > 1e-3
