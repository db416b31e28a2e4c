"""Choice of inducing points: weighted greedy variance selection (Eq. 25) by a pivoted Cholesky, in blocks."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters, kernel

#: Pivots that share one pass over all points, and the points among which a block looks for them.
BLOCK = 32
SHORTLIST = 512

#: Nats that the bound can still gain by more of them, ½ Tr((K − Q) S⁻¹), below which there are enough.
ENOUGH = 0.1


def greedy_inducing(
    hyp: Hyperparameters,
    points: Float[ndarray, "n d"],
    noise_variance: Float[ndarray, " n"],
    count: int,
    stand_for: float = 1.0,
) -> Int[ndarray, " m"]:
    """Rows of `points` that greedily maximise diag[(K − Q) S⁻¹], O(n·count²) in matrix products; each of the points
    stands for so many.

    A block takes its pivots from a shortlist of the points with the largest weighted variance, for as long as the best
    of them is at least as good as every point that is not on the list: the choice is that of the plain greedy rule.
    """
    state = _PivotedCholesky(hyp, points, noise_variance, min(count, len(points)), ENOUGH / stand_for)
    while len(state.chosen) < state.count and state.variance.max() > state.floor and not state.enough:
        picked, factor = state.next_block()
        if not picked:
            break
        state.condition_on(picked, factor)
    return np.array(state.chosen, dtype=np.int64)


class _PivotedCholesky:
    """Cholesky rows of the pivots so far, and the variance that they leave at every point."""

    def __init__(
        self,
        hyp: Hyperparameters,
        points: Float[ndarray, "n d"],
        noise_variance: Float[ndarray, " n"],
        count: int,
        tolerable: float,
    ) -> None:
        self.hyp, self.points, self.noise_variance, self.count = hyp, points, noise_variance, count
        self.tolerable = tolerable
        self.rows = np.empty((count, len(points)))
        self.variance = np.full(len(points), hyp.output_variance)
        self.floor = 1e-10 * hyp.output_variance
        self.chosen: list[int] = []

    @property
    def enough(self) -> bool:
        """Whether the bound loses next to nothing by the trace of what is not explained."""
        return bool(self.chosen) and 0.5 * float((self.variance / self.noise_variance).sum()) <= ENOUGH

    def next_block(self) -> tuple[list[int], Float[ndarray, "b b"]]:
        """The next pivots (row numbers) and the Cholesky factor of their conditional covariance."""
        listed, rest = self._shortlist()
        cov = kernel(self.points[listed], self.points[listed], self.hyp)
        if self.chosen:
            before = self.rows[: len(self.chosen), listed]
            cov = cov - linalg.product(before.T, before)
        left, weight = self.variance[listed].copy(), 1.0 / self.noise_variance[listed]
        limit = min(BLOCK, self.count - len(self.chosen))
        local = np.empty((limit, len(listed)))
        picked: list[int] = []
        while len(picked) < limit:
            best = int(np.argmax(left * weight))
            if left[best] <= self.floor or (picked and left[best] * weight[best] < rest):
                break
            so_far = local[: len(picked)]
            row = (cov[:, best] - so_far[:, best] @ so_far) / np.sqrt(left[best])
            local[len(picked)] = row
            left -= row * row
            left[best] = 0.0
            picked.append(best)
        return [int(i) for i in listed[picked]], np.tril(local[: len(picked), picked].T)

    def condition_on(self, picked: list[int], factor: Float[ndarray, "b b"]) -> None:
        """Add the Cholesky rows of new pivots and take what they explain off the variance."""
        done = len(self.chosen)
        new = kernel(self.points[picked], self.points, self.hyp)
        if done:
            new -= linalg.product(np.asfortranarray(self.rows[:done, picked].T), self.rows[:done])
        new = linalg.solve_lower(np.asfortranarray(factor), np.asfortranarray(new))
        self.rows[done : done + len(picked)] = new
        self.chosen.extend(picked)
        self.variance -= np.einsum("bn,bn->n", new, new)
        self.variance[self.chosen] = 0.0
        np.maximum(self.variance, 0.0, out=self.variance)

    def _shortlist(self) -> tuple[Int[ndarray, " k"], float]:
        """Points with the largest weighted variance, in order of their rows, and the largest of the others'."""
        score = self.variance / self.noise_variance
        if len(score) <= SHORTLIST:
            return np.arange(len(score)), 0.0
        listed = np.sort(np.argpartition(-score, SHORTLIST - 1)[:SHORTLIST])
        return listed, float(np.delete(score, listed).max())
