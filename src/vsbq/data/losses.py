"""Values that are no log density: what tells a mean square, its root, R² or a density from the logarithm of one."""

from __future__ import annotations

import re

import numpy as np

from vsbq._typing import Float, ndarray

__all__ = ["LOSS_WORDS", "could_be_loss", "is_called_loss", "looks_unlogged", "loss_word", "steepness"]

#: Rows that it takes to tell, and the share of them, the farthest ones, from which the steepness is taken.
LEAST_ROWS = 20
FAR = 0.8

#: Values this close to zero, relative to the highest, are those of a density far from its mode; and the share of them.
NEXT_TO_ZERO = 1e-6
LEAST_ZERO = 0.1

#: The best of a loss per data point, with the sign changed, is between these; closer to zero it is a density's own.
LOWEST_LOSS, HIGHEST_LOSS = -10.0, -0.01

#: Names of losses that are no log density, and what to do about each.
LOSS_WORDS = {
    "mse": "a mean square: the log likelihood of n normal residuals of standard deviation s is -n * MSE / (2 * s**2)",
    "rmse": "a root mean square: the log likelihood is -n * RMSE**2 / (2 * s**2)",
    "r2": "R²: the log likelihood is n * R2 * variance / (2 * s**2), up to a constant",
    "sse": "a sum of squares: the log likelihood is -SSE / (2 * s**2)",
    "chi2": "chi-squared: the log likelihood is -chi2 / 2",
    "mae": "a mean absolute error, which is no log likelihood of usual noise",
    "nll": "a negative log likelihood: it is minus a log density only with minus the log prior in it",
    "deviance": "a deviance: the log likelihood is -deviance / 2",
    "loss": "a loss: it must be a negative log likelihood plus a negative log prior, with all factors",
}
_SPELLED = {
    "mse": ("mse", "meansquarederror", "meansquareerror"),
    "rmse": ("rmse", "rms", "rootmeansquare"),
    "r2": ("r2", "rsquared", "rsquare"),
    "sse": ("sse", "ssr", "rss", "sumofsquares", "sumsq"),
    "chi2": ("chi2", "chisq", "chisquare", "chisquared"),
    "mae": ("mae", "meanabsoluteerror", "l1loss"),
    "nll": (
        *("nll", "nllh", "neglik", "neglogl", "negloglik", "negloglike", "negloglikelihood", "negativeloglikelihood"),
        *("minusloglik", "minuslogl", "minusloglike", "minusloglikelihood", "neglnlike", "nloglik"),
    ),
    "deviance": ("deviance",),
    "loss": ("loss", "cost", "error", "objective", "fitness", "fval", "fvals", "fun"),
}


def loss_word(name: str) -> str | None:
    """Which loss the name of a column speaks of; None if it speaks of none."""
    words = re.findall(r"[a-z]+2?", name.lower().replace("χ", "chi").replace("²", "2"))
    joined = {*words, "".join(words)}
    return next((kind for kind, spelled in _SPELLED.items() if joined & set(spelled)), None)


def is_called_loss(name: str) -> bool:
    """Whether the whole name of a column is that of a loss, as in "mse", unlike "error_rate"."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower().replace("χ", "chi").replace("²", "2"))
    return any(plain in spelled for spelled in _SPELLED.values())


def looks_unlogged(values: Float[ndarray, " n"]) -> bool:
    """Whether values look like a density itself: none is negative, and many are next to zero."""
    best = float(values.max(initial=0.0))
    if len(values) < LEAST_ROWS or best <= 0 or values.min() < 0:
        return False
    return bool(np.mean(values < NEXT_TO_ZERO * best) >= LEAST_ZERO)


def could_be_loss(values: Float[ndarray, " n"]) -> bool:
    """Whether the best value is where that of a loss per data point with the sign changed, or of R², would be: a little
    below zero, or up to one. Many log densities are there too, so that this is a question and no accusation."""
    best = float(values.max())
    return LOWEST_LOSS < best < HIGHEST_LOSS or 0.0 < best <= 1.0


def steepness(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> float | None:
    """How fast the values fall off from the best one, in units of the points' own spread: 1 for draws of the density,
    more for an optimiser that comes from far, and much less for values that hardly fall. None if it cannot be told.

    Of the fifth of the points that are farthest, it is the median of 2 (best − value) / r², with r the distance in
    standard deviations of all points.
    """
    if len(values) < max(LEAST_ROWS, 3 * points.shape[1]):
        return None
    away = points - points[int(np.argmax(values))]
    spread = points.std(axis=0)
    z = away / np.where(spread > 0, spread, 1.0)
    cov = np.atleast_2d(np.cov(z.T)) + 1e-9 * np.eye(points.shape[1])
    if not np.isfinite(cov).all():
        return None
    r2 = np.einsum("ni,ij,nj->n", z, np.linalg.inv(cov), z)
    far = r2 >= max(float(np.quantile(r2, FAR)), 1e-12)
    return float(np.median(2.0 * (values.max() - values[far]) / r2[far])) if far.any() else None
