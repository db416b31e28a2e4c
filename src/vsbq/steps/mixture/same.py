"""Step 3 for an update: the earlier mixture, where it suits the new surrogate as well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsbq.history import Elbo, VariationalFit
from vsbq.numerics.em import effective_size
from vsbq.numerics.mixture import Mixture
from vsbq.progress import Progress
from vsbq.steps.mixture.elbo import elbo, elbo_within
from vsbq.steps.mixture.fit import fit_variational
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.region import TrustedRegion
from vsbq.steps.trim import TrainingSet

__all__ = ["SameMixture"]


@dataclass(frozen=True, eq=False)
class SameMixture:
    """A mixture step that tries the earlier mixture first."""

    settings: VariationalMixture

    def fit(
        self,
        region: TrustedRegion,
        training: TrainingSet,
        rng: np.random.Generator,
        progress: Progress,
        earlier: Mixture | None,
    ) -> tuple[Mixture, Elbo, VariationalFit]:
        """The earlier mixture with its new ELBO if it is good enough, else as in any fit."""
        settings = self.settings
        if earlier is None or not self._enough(region, earlier, rng):
            return fit_variational(region, training, settings, rng, progress, earlier=earlier)
        draws = settings.elbo_draws
        within = region.support is not None  # the ELBO of a mixture alone knows of no edge
        found = elbo_within(earlier, region, rng, draws) if within else elbo(earlier, region.surrogate, rng, draws)
        start = ("earlier posterior", found.value + region.surrogate.offset)
        return earlier, found, VariationalFit((start,), len(earlier.means))

    def _enough(self, region: TrustedRegion, mixture: Mixture, rng: np.random.Generator) -> bool:
        draws = self.settings.adapt[0][0]
        u, weights = region.weighted_draws(mixture, draws, rng)
        return len(u) >= self.settings.enough * draws and effective_size(weights) >= self.settings.enough * len(u)
