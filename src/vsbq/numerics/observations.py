"""A sparse Gaussian process of what is known of the log density: values, and gradients where there are any."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.numerics import gradients as sloped
from vsbq.numerics import linalg, sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel


class Regression(NamedTuple):
    """What a sparse GP is fitted to: points, values, the variances of their noise, and gradients (NaN where a point has
    none)."""

    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    noise_variance: Float[ndarray, " n"]
    gradients: Float[ndarray, "n d"] | None = None

    def take(self, rows: Int[ndarray, " k"] | Bool[ndarray, " n"]) -> Regression:
        """Some of the rows."""
        return Regression(*(None if column is None else column[rows] for column in self))  # type: ignore[arg-type]

    @property
    def slopes(self) -> sloped.Slopes | None:
        """Its gradients; None if there are none."""
        if self.gradients is None:
            return None
        return sloped.Slopes.known(self.points, self.gradients, self.noise_variance)


def statistics(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    chol_kernel: Float[ndarray, "m m"],
    seen: Regression,
    *,
    whiten: Float[ndarray, "m m"] | None = None,
) -> sgpr.Statistics:
    """The sums over values and gradients."""
    sums, slopes = sgpr.statistics(hyp, inducing, chol_kernel, *seen[:3], whiten=whiten), seen.slopes
    if slopes is None:
        return sums
    more = sloped.statistics(hyp, inducing, chol_kernel, slopes)
    return _summed(sums, more, 1.0)


def _summed(one: sgpr.Statistics, other: sgpr.Statistics, sign: float) -> sgpr.Statistics:
    return sgpr.Statistics(
        one.gram + sign * other.gram,
        one.projection + sign * other.projection,
        one.residual_square + sign * other.residual_square,
        one.log_noise + sign * other.log_noise,
        one.trace + sign * other.trace,
    )


def fit_factors(hyp: Hyperparameters, inducing: Float[ndarray, "m d"], seen: Regression) -> tuple[sgpr.Factors, float]:
    """The sparse posterior at fixed hyperparameters, and its GP-ELBO."""
    slopes = seen.slopes
    if slopes is None:
        return sgpr.fit_factors(hyp, inducing, *seen[:3])
    factors, sums, _ = fit_summed(hyp, inducing, seen)
    bound = sgpr.bound_value(sums, factors.chol_v, len(seen.points) + slopes.gradients.size)
    return factors, bound + slopes.jacobian(hyp)


class Summed(NamedTuple):
    """A sparse GP with the sums over evaluations that it is made of, from which some can be taken away again."""

    factors: sgpr.Factors
    sums: sgpr.Statistics
    whiten: Float[ndarray, "m m"]  # L⁻¹


def fit_summed(hyp: Hyperparameters, inducing: Float[ndarray, "m d"], seen: Regression) -> Summed:
    """The sparse posterior, ready for evaluations to be held out."""
    chol, jitter = sgpr.factorise_inducing(hyp, inducing)
    whiten = linalg.inverse_lower(chol)
    sums = statistics(hyp, inducing, chol, seen, whiten=whiten)
    return Summed(sgpr.posterior_factors(inducing, chol, jitter, sums), sums, whiten)


def without(hyp: Hyperparameters, whole: Summed, held: Regression) -> sgpr.Factors:
    """The sparse posterior without these evaluations and their gradients: their part of the sums is taken off.

    It costs O(m² h + m³) instead of a new pass over all others. V keeps its size, and so does its rounding error.
    """
    factors, sums, whiten = whole
    part = statistics(hyp, factors.inducing, factors.chol_kernel, held, whiten=whiten)
    rest = _summed(sums, part, -1.0)
    return sgpr.posterior_factors(factors.inducing, factors.chol_kernel, factors.jitter, rest)


def with_residual_passes(hyp: Hyperparameters, factors: sgpr.Factors, seen: Regression, passes: int) -> sgpr.Factors:
    """The same with a mean to which what it leaves of values and gradients is added, smoothed likewise.

    Of a true f the posterior mean S f misses (I − S) f; p passes miss (I − S)^(p + 1) f. The covariance stays.
    """
    if seen.gradients is None:
        return sgpr.with_residual_passes(hyp, factors, *seen[:3], passes)
    slopes = sloped.Slopes.known(seen.points, seen.gradients, seen.noise_variance)
    between = kernel(factors.inducing, seen.points, hyp)
    for _ in range(passes):
        left = (seen.values - sgpr.predict_mean(hyp, factors, seen.points)) / seen.noise_variance
        projection = linalg.product_vector(between, left) + sloped.residual_projection(hyp, factors, slopes)
        c = linalg.solve_lower(factors.chol_v, linalg.solve_lower(factors.chol_kernel, projection))
        more = linalg.solve_lower(factors.chol_v, c, transpose=True)
        added = linalg.solve_lower(factors.chol_kernel, more, transpose=True)
        factors = factors._replace(weights=factors.weights + np.asarray(added))
    return factors
