"""The choice of a batch: one point after the other, each the one that lowers what is open of all places most."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.analysis.suggesting.doubt import Doubts, Relevance
from vsbq.numerics import linalg

__all__ = ["Batch"]

#: Points chosen between two looks at all candidates, and the candidates among which a block chooses.
BLOCK = 32
SHORTLIST = 128


class Batch:
    """Points chosen so far, and what is left open of candidates and places once they are evaluated.

    What a candidate would tell hardly ever grows when others are evaluated. So what it told when it was last looked at
    is a limit, and only those with the highest limits are looked at again.
    """

    def __init__(
        self,
        doubts: Doubts,
        points: tuple[Float[ndarray, "c d"], Float[ndarray, "p d"]],
        relevance: Relevance,
        noise_sd: float,
    ) -> None:
        candidates, places = (doubts.at(each) for each in points)
        self.relevance, self.part = relevance, candidates
        # No less than rounding errors of the kernel matrices.
        self.noise = max(noise_sd**2, 1e-8 * doubts.model.prior_variance * float(candidates.factor.max()) ** 2)
        self.cross = candidates.covariance(places)
        self.variance, self.variance_there = candidates.variance(), places.variance()
        self.mean_there = doubts.mean(points[1])
        self.rows = np.empty((0, len(self.variance)))  # Cholesky rows of the chosen points, with all candidates
        self.there = np.empty((0, len(self.variance_there)))  # and with all places
        self.chosen: list[int] = []
        slope = relevance.slope(self.mean_there, self.variance_there)
        self.limit = np.einsum("cp,cp,p->c", self.cross, self.cross, slope) / (self.variance + self.noise)

    def take(self, rows: Int[ndarray, " b"]) -> None:
        """Count some candidates as evaluated, without choice."""
        for start in range(0, len(rows), BLOCK):
            self._condition(rows[start : start + BLOCK])

    def choose(self, count: int) -> None:
        """The next points, from a shortlist of the candidates that look best now."""
        slope = self.relevance.slope(self.mean_there, self.variance_there)
        listed = np.argsort(-self.limit, kind="stable")[: max(SHORTLIST, 4 * count)]
        listed = listed[np.isfinite(self.limit[listed])]
        near, known = self.part.take(listed), np.asfortranarray(self.rows[:, listed])
        among = near.covariance(near) - linalg.product(known.T, known)
        cross = self.cross[listed] - linalg.product(known.T, self.there)
        self.limit[listed] = np.einsum("cp,cp,p->c", cross, cross, slope) / (self.variance[listed] + self.noise)
        picked = _greedy(among, cross, slope, self.noise, count)
        self._condition(listed[picked])

    def _condition(self, new: Int[ndarray, " b"]) -> None:
        """Take what evaluations of some candidates would explain off all variances."""
        known = np.asfortranarray(self.rows[:, new])
        to_all = self.part.take(new).covariance(self.part)
        to_all -= linalg.product(known.T, self.rows)
        factor, _ = linalg.jittered_cholesky(to_all[:, new] + self.noise * np.eye(len(new)), self.noise)
        rows = linalg.solve_lower(factor, np.asfortranarray(to_all))
        there = linalg.solve_lower(factor, np.asfortranarray(self.cross[new] - linalg.product(known.T, self.there)))
        self.variance = np.maximum(self.variance - np.einsum("bc,bc->c", rows, rows), 0.0)
        self.variance_there = np.maximum(self.variance_there - np.einsum("bp,bp->p", there, there), 0.0)
        self.rows, self.there = np.concatenate([self.rows, rows]), np.concatenate([self.there, there])
        self.chosen.extend(int(i) for i in new)
        self.limit[new] = -np.inf


def _greedy(
    among: Float[ndarray, "s s"], cross: Float[ndarray, "s p"], slope: Float[ndarray, " p"], noise: float, count: int
) -> Int[ndarray, " b"]:
    """Rows that one after the other lower the weighted variance of the places most."""
    among, cross = among.copy(), cross * np.sqrt(slope)
    picked: list[int] = []
    for _ in range(min(count, len(among))):
        left = np.maximum(np.diagonal(among), 0.0) + noise
        gain = np.einsum("sp,sp->s", cross, cross) / left
        gain[picked] = -np.inf
        best = int(np.argmax(gain))
        picked.append(best)
        step = among[:, best] / left[best]
        cross -= np.outer(step, cross[best])
        among -= np.outer(step, among[best])
    return np.array(picked, dtype=np.int64)
