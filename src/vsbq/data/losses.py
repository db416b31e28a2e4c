"""Values that are no log density: what tells a mean square, its root, R² or a density from the logarithm of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np
from scipy.stats import chi2

from vsbq._typing import Float, ndarray
from vsbq.numerics.contours import POSTERIOR, contour_depth

__all__ = [
    "LOSS_WORDS",
    "Kind",
    "is_called_log_density",
    "is_called_loss",
    "kind_of",
    "loss_word",
    "name_in",
    "note_on_name",
]

#: Rows that it takes to tell, and the share of them, the farthest ones, from which the steepness is taken.
LEAST_ROWS = 20
FAR = 0.8

#: Values this close to zero, relative to the highest, are those of a density far out; how many, and their share.
NEXT_TO_ZERO = 1e-6
LEAST_ZEROS = 3
LEAST_ZERO = 0.01

#: The best of a loss with the sign changed is below zero, and R² is at most one; a mean square of data in usual units,
#: and its root, are seldom below the lowest.
HIGHEST, LOWEST = 1.0, -3.0

#: Shares of the best value by which those of a loss fall, at least: those of a log density in the hundreds need not.
#: Below `LOWEST`, where the best of many log densities is, they must fall by more.
LEAST_FALL = 0.1
FAR_BELOW = 1.0

#: Values flatter than this are no log density that the evaluations surround: 1 is that of draws of a normal. A
#: posterior that fills its hard bounds may be flatter.
LEAST_STEEP = 0.45
LEAST_STEEP_IN_A_BOX = 0.15

#: Median depth, in 3-sigma contours, over the parts of the region that was explored; on each axis so many parts.
SHALLOW, SHALLOW_R2 = 3.5, 40.0
CELLS = 4

#: Quantiles of draws are those of a chi-squared up to this factor, and their steepness is about one.
DRAWS = 1.5
LEAST_STEEP_OF_DRAWS = 0.75

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
LOGARITHMS = ("logd", "logjoint", "logl", "logp", "ll", "lnl", "lnp", "lp")
_CALLED = "The values are called '"
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


def note_on_name(name: str | None) -> list[str]:
    """A note for evaluations whose values have the name of a loss, by which an audit knows it later."""
    return [] if name is None or loss_word(name) is None else [f"{_CALLED}{name}'."]


def name_in(notes: Iterable[str]) -> str | None:
    """The name that `note_on_name` has noted; None if there is none."""
    return next((note.removeprefix(_CALLED)[:-2] for note in notes if note.startswith(_CALLED)), None)


def is_called_log_density(name: str) -> bool:
    """Whether the name of a column says that it holds logarithms of a density, as "log_density" and "lnprob" do."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return plain.removeprefix("neg").removeprefix("minus").startswith(LOGARITHMS)


def looks_unlogged(values: Float[ndarray, " n"]) -> bool:
    """Whether values look like a density itself: none is negative, and some are next to zero."""
    best = float(values.max(initial=0.0))
    if len(values) < LEAST_ROWS or best <= 0 or values.min() < 0:
        return False
    return int(np.sum(values < NEXT_TO_ZERO * best)) >= max(LEAST_ZEROS, LEAST_ZERO * len(values))


Kind = Literal["density", "flat", "shallow", "unknown", "other"]


def kind_of(points: Float[ndarray, "n d"], values: Float[ndarray, " n"], *, boxed: bool) -> Kind:
    """What the values may be, by themselves.

    "density" has no logarithm taken; "flat" hardly falls where the evaluations went; "shallow" falls a little, from a
    best value where losses have theirs; "unknown" may be a loss as well as a log density; "other" can be no loss.
    """
    best, lowest = float(values.max()), float(values.min())
    if looks_unlogged(values):
        return "density"
    if best > HIGHEST:
        return "other"
    below = (best - lowest) / abs(best) if best else np.inf
    usual = best > LOWEST
    if (usual and below >= LEAST_FALL) or below >= FAR_BELOW or best == lowest:
        steep, deep = steepness(points, values), fall(points, values)
        draws = steep is not None and steep > LEAST_STEEP_OF_DRAWS and like_draws(values, points.shape[1])
        if steep is not None and deep is not None and not draws:
            if steep < (LEAST_STEEP_IN_A_BOX if boxed else LEAST_STEEP):
                return "flat"
            if usual and deep < (SHALLOW_R2 if best > 0 else SHALLOW):
                return "shallow"
    return "unknown"


def fall(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> float | None:
    """How far below the best the values are where the evaluations went, in depths of a normal's 3-sigma contour.

    Every part of the region counts once, however often an optimiser came back to it. None for too few rows.
    """
    if len(values) < LEAST_ROWS:
        return None
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    width = np.where(high > low, high - low, 1.0)
    cells = np.floor(CELLS * np.clip((points - low) / width, -0.5, 1.5))
    _, first = np.unique(cells, axis=0, return_index=True)
    depth = contour_depth(POSTERIOR, points.shape[1])
    return float(np.median(values.max() - values[first]) / depth)


def like_draws(values: Float[ndarray, " n"], dimension: int) -> bool:
    """Whether the values fall below the best as those of draws from a density do: by half a chi-squared."""
    shares = [0.25, 0.5, 0.75, 0.9]
    ratio = np.quantile(values.max() - values, shares) / (0.5 * chi2.ppf(shares, dimension))
    return bool(np.all((ratio > 1 / DRAWS) & (ratio < DRAWS)))


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
