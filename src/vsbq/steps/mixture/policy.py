"""How the mixture is fitted."""

from __future__ import annotations

from dataclasses import dataclass

from vsbq.numerics.contours import SPREAD
from vsbq.numerics.families import FullCovariance, SharedDiagonal


@dataclass(frozen=True, kw_only=True)
class VariationalMixture:
    """How the mixture is fitted: ELBO ascent from each start (draws per component, L-BFGS steps), rounds of importance
    weighting and EM (draws, EM steps), and ELBO ascent again."""

    base_components: int = 10  # K = base + per dimension · D, at most `max_components`
    components_per_dimension: int = 5
    max_components: int = 30
    family: type[FullCovariance] | type[SharedDiagonal] = FullCovariance
    first: tuple[int, int] = (64, 12)  # for each start
    adapt: tuple[tuple[int, int], ...] = ((4_000, 10), (8_000, 10), (16_000, 12), (32_000, 12), (32_000, 12))
    enough: float = 0.9  # effective share of the draws with which the rounds end
    then: tuple[int, int] = (256, 20)
    spread_depth: float = SPREAD  # the wide start covers evaluations within this contour of the best
    elbo_draws: int = 100_000

    def components(self, dimension: int) -> int:
        """Number of components K to start with."""
        return min(self.base_components + self.components_per_dimension * dimension, self.max_components)
