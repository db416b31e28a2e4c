"""Densities of one or two parameters on a grid, and contour levels.

They are exact for a mixture of Gaussians and smoothed for draws; a refined posterior is its mixture, exact, times the
smoothed ratio by which refinement moved it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.fft import dctn, idctn
from scipy.ndimage import gaussian_filter, map_coordinates

from vsbq._typing import Float, ndarray
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.posterior.marginal import Marginal
from vsbq.steps.refine import Refined

__all__ = ["SHARES", "middles", "pair_marginal", "shown_density", "smoothed", "surface", "surface_of_draws"]

#: What the contours enclose, the outer one first.
SHARES = np.array([0.9, 0.5])

#: Width of the strip beside a bound, as a share of the picture, over which a density of one parameter is averaged.
STRIP = 1 / 30

#: Share of the density's squared norm that may be lost for a smoother picture.
SLACK = 1e-4

#: Widths of the smoothing to choose from, in cells.
WIDTHS = np.geomspace(0.5, 40.0, 20)

#: Width, in cells, over which the ratio of a refined density to its mixture is smoothed, how often this is done, and
#: the draws under the smoothing kernel of which half are taken as unmoved.
RATIO_WIDTH = 3.0
RATIO_PASSES = 2
FEW_DRAWS = 5.0

Grid = tuple[Float[ndarray, " e"], Float[ndarray, " e"]]  # edges of the cells along both parameters
Surface = tuple[Float[ndarray, "c c"], Float[ndarray, " 2"]]  # density per cell, and the levels that enclose SHARES


def shown_density(marginal: Marginal, x: Float[ndarray, " c"]) -> Float[ndarray, " c"]:
    """The density of one parameter at evenly spaced places, as means over cells; beside a bound over a strip.

    A density may be infinite at a bound though next to no mass is there. A mean over some width is what can be seen.
    """
    cell = 0.5 * (x[-1] - x[0]) / max(len(x) - 1, 1)
    lower, upper = marginal.space.bounds.pair(0)
    from_bound = np.minimum(x - lower, upper - x)
    reach = np.maximum(cell, STRIP * (x[-1] - x[0]) - from_bound)
    left, right = np.maximum(x - reach, lower), np.minimum(x + reach, upper)
    return np.asarray((marginal.cdf(right) - marginal.cdf(left)) / np.maximum(right - left, 1e-300))


def surface(posterior: Posterior, both: tuple[int, int], draws: Float[ndarray, "n d"], grid: Grid) -> Surface:
    """The density of two parameters; a share q of the draws is where it is above its (1 − q)-quantile.

    What an edge of the support leaves of a mixture has no marginals in closed form: those are of the draws.
    """
    if posterior.support is not None and posterior.dimension > 2:
        return surface_of_draws(both, draws, grid)
    x, y = np.meshgrid(*map(middles, grid), indexing="ij")
    cells, seen = np.column_stack([x.ravel(), y.ravel()]), draws[:, both]
    pair = posterior if both == (0, 1) and posterior.dimension == 2 else pair_marginal(posterior, both)
    density, at_draws = pair.pdf(cells).reshape(x.shape), pair.pdf(seen)
    if posterior.refined is not None and pair is not posterior:
        points, weights = posterior.space.inverse(posterior.refined.points)[:, both], posterior.refined.weights
        ratio = _moved(posterior.refined, points, grid)
        # What smoothing the ratio cost: the draws within the grid have the mass that they have.
        mass = (density * ratio * np.outer(*map(np.diff, grid))).sum()
        ratio *= np.histogramdd(points, grid, weights=weights)[0].sum() / mass
        density, at_draws = density * ratio, at_draws * _looked_up(ratio, seen, grid)
    return density, np.quantile(at_draws, 1 - SHARES)


def _moved(refined: Refined, points: Float[ndarray, "n 2"], grid: Grid) -> Float[ndarray, "c c"]:
    """By how much refinement raised the density of two parameters in each cell.

    The same draws stand for both densities, so that their ratio has little noise; it is one where there are none. A
    smoothed ratio is too flat: what is left of it is smoothed too, and multiplied.
    """
    after, before = (np.histogramdd(points, grid, weights=weights)[0] for weights in refined.both_weights)
    few = FEW_DRAWS / (4 * np.pi * RATIO_WIDTH**2 * len(points))
    ratio = np.ones_like(after)
    for _ in range(RATIO_PASSES):
        there, reached = (gaussian_filter(part, RATIO_WIDTH, mode="nearest") for part in (after, before * ratio))
        ratio *= (there + few) / (reached + few)
    return ratio


def _looked_up(values: Float[ndarray, "c c"], points: Float[ndarray, "n 2"], grid: Grid) -> Float[ndarray, " n"]:
    """Values of the cells at some points, interpolated; beyond the grid those of the nearest cell."""
    cells = [(x - edges[0]) / (edges[1] - edges[0]) - 0.5 for x, edges in zip(points.T, grid, strict=True)]
    return np.asarray(map_coordinates(values, cells, order=1, mode="nearest"))


def surface_of_draws(both: tuple[int, int], draws: Float[ndarray, "n d"], grid: Grid) -> Surface:
    """The smoothed density of two columns of some draws; the levels bound the smallest regions with the shares."""
    density = smoothed(draws[:, both], grid)
    falling = np.sort(density, axis=None)[::-1]
    return density, np.interp(SHARES, np.cumsum(falling), falling)


def pair_marginal(posterior: Posterior, both: tuple[int, int]) -> Posterior:
    """The marginal of two parameters, of the mixture where the posterior is refined."""
    space, mixture, i = posterior.space, posterior.mixture, list(both)
    rows = mixture.trils[:, i]
    trils = np.linalg.cholesky(rows @ np.swapaxes(rows, 1, 2))
    return replace(
        posterior,
        names=tuple(posterior.names[k] for k in both),
        space=space.columns(both),
        mixture=Mixture(mixture.log_weights, mixture.means[:, i], trils),
        evaluations=None,
        surrogate=None,
        history=None,
        refined=None,
        prior_change=None,
    )


def middles(edges: Float[ndarray, " e"]) -> Float[ndarray, " c"]:
    """The middle of each cell."""
    return np.asarray(0.5 * (edges[1:] + edges[:-1]))


def smoothed(draws: Float[ndarray, "n k"], edges: tuple[Float[ndarray, " _"], ...]) -> Float[ndarray, ...]:
    """Shares of the draws per cell, smoothed with the width at which one half of the draws best predicts the other.

    In the cosine transform, which reflects at the ends, a Gaussian of some width is a product with m. What it takes
    away is smoothed once more, 1 − (1 − m)² in all, so that a peak stays nearly as high as it was.
    """
    one, two = (dctn(np.histogramdd(half, edges)[0] / len(half), norm="ortho") for half in (draws[::2], draws[1::2]))
    squares = [(np.pi * np.arange(size) / size) ** 2 for size in one.shape]
    frequency = sum(np.meshgrid(*squares, indexing="ij"), start=np.zeros(one.shape))
    kernels = [1 - (1 - np.exp(-0.5 * width**2 * frequency)) ** 2 for width in WIDTHS]
    # |K one − two|² + |K two − one|² up to a constant, which leaves about minus twice the squared norm of the density.
    errors = np.array([(kernel**2 * (one**2 + two**2) - 4 * kernel * one * two).sum() for kernel in kernels])
    chosen = np.flatnonzero(errors <= (1 - SLACK) * errors.min())[-1]
    return np.asarray(np.maximum(idctn(kernels[chosen] * (one + two) / 2, norm="ortho"), 0.0))
