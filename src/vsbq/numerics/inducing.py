"""Choice of inducing points: weighted greedy variance selection (Eq. 25) by a pivoted Cholesky, in blocks."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters, kernel

#: Pivots that share one pass over all points, and the points among which a block looks for them.
BLOCK = 32
SHORTLIST = 512


def greedy_inducing(
    hyp: Hyperparameters,
    points: Float[ndarray, "n d"],
    noise_variance: Float[ndarray, " n"],
    count: int,
) -> Int[ndarray, " m"]:
    """Rows of `points` that greedily maximise diag[(K − Q) S⁻¹], O(n·count²) in matrix products.

    A block takes its pivots from a shortlist of the points with the largest weighted variance, for as long as the best
    of them is at least as good as every point that is not on the list: the choice is that of the plain greedy rule.
    """
    n = len(points)
    count = min(count, n)
    rows = np.empty((count, n))  # the Cholesky rows of all pivots so far
    variance = np.full(n, hyp.output_variance)
    floor = 1e-10 * hyp.output_variance
    chosen: list[int] = []
    while len(chosen) < count:
        picked, local = _pick_block(hyp, points, rows[: len(chosen)], variance, noise_variance, count, chosen)
        if not picked:
            break
        new = kernel(points[picked], points, hyp)
        if chosen:
            new -= linalg.product(np.asfortranarray(rows[: len(chosen), picked].T), rows[: len(chosen)])
        new = linalg.solve_lower(local, np.asfortranarray(new))
        rows[len(chosen) : len(chosen) + len(picked)] = new
        variance -= np.einsum("bn,bn->n", new, new)
        chosen.extend(picked)
        variance[chosen] = 0.0
        np.maximum(variance, 0.0, out=variance)
        if variance.max() <= floor:
            break
    return np.array(chosen, dtype=np.int64)


def _pick_block(
    hyp: Hyperparameters,
    points: Float[ndarray, "n d"],
    rows: Float[ndarray, "c n"],
    variance: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    count: int,
    chosen: list[int],
) -> tuple[list[int], Float[ndarray, "b b"]]:
    """The next pivots (row numbers) and the Cholesky factor of their conditional covariance."""
    score = variance / noise_variance
    size = min(SHORTLIST, len(score))
    listed = np.sort(np.argpartition(-score, size - 1)[:size]) if size < len(score) else np.arange(len(score))
    rest = np.delete(score, listed).max() if size < len(score) else 0.0
    cov = kernel(points[listed], points[listed], hyp)
    if len(rows):
        pivots = rows[:, listed]
        cov = cov - linalg.product(pivots.T, pivots)
    left = variance[listed].copy()
    weight = 1.0 / noise_variance[listed]
    picked: list[int] = []
    limit = min(BLOCK, count - len(chosen))
    local = np.empty((limit, size))
    floor = 1e-10 * hyp.output_variance
    while len(picked) < limit:
        best = int(np.argmax(left * weight))
        if left[best] <= floor or (picked and left[best] * weight[best] < rest):
            break
        row = (cov[:, best] - local[: len(picked), best] @ local[: len(picked)]) / np.sqrt(left[best])
        local[len(picked)] = row
        left -= row * row
        left[best] = 0.0
        picked.append(best)
    factor = np.asfortranarray(local[: len(picked), picked].T)
    return [int(i) for i in listed[picked]], np.tril(factor)
