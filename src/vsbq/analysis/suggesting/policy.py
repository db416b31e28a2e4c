"""How points are suggested: the numbers that the other modules read."""

from __future__ import annotations

from dataclasses import dataclass

from vsbq.numerics.contours import POSTERIOR

__all__ = ["Suggesting"]


@dataclass(frozen=True, kw_only=True)
class Suggesting:
    """Candidates, and places at which uncertainty is counted, are drawn from the posterior, from wider versions of it,
    from the box of the evaluations, and where the verdict doubts the fit: beyond cuts and between modes."""

    candidates: int = 400  # for each parameter and one more, and
    candidates_per_point: int = 3
    places: int = 200  # likewise
    least_inside: float = 0.05  # probability that the density is not zero, for a place to count
    shares: tuple[float, float, float, float] = (0.3, 0.2, 0.3, 0.2)  # posterior, wider parts, wider whole, box
    share_of_doubt: float = 0.25  # as many again beyond cuts, and as many between modes, where there are any
    most_widening: float = 5.0  # wider by factors from 1 to this along one direction, less in all at once
    caution: float = 1.0  # sds above its mean at which the surrogate's log density might be
    contour: float = POSTERIOR  # of the posterior: a place that might reach it counts in full
    growing_doubt: float = 1.0  # of the surrogate's sd, for each posterior sd away from the evaluations
    exploration: float = 0.1  # times 2^-D is the weight of a place where nothing is suspected
    small_sd: float = 0.1  # s₀, nats
    least_noise_sd: float = 0.03  # nats by which an exact evaluation does not speak for its neighbourhood
