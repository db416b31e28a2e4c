"""The algorithm as published, for comparison: steps 2 and 3 as the paper prints them.

Hyperparameters are learnt on all evaluations with 100 D inducing points, starting where a subset puts them; the mixture
has 50 components that share diagonal scales, and climbs by Adam with fresh draws at every step. Shared with the default
are the formulas, the starts, and the test of the surrogate's error bars.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.history import Elbo, SurrogateFit, VariationalFit
from vsbq.numerics import sgpr
from vsbq.numerics.families import SharedDiagonal
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.optimise import adam
from vsbq.numerics.subset import stratified_rows
from vsbq.progress import Progress, logger
from vsbq.steps.mixture.elbo import elbo, elbo_and_gradient
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.mixture.starts import starts
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion
from vsbq.steps.surrogate.fit import fit_all, settled, tested, told
from vsbq.steps.surrogate.learning import Learning, bound_at, learn_sparse, weak_prior
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import ShapedData, Shaping, SparseGP
from vsbq.steps.surrogate.sisters import Proposal, with_levels
from vsbq.steps.trim import TrainingSet

__all__ = ["PublishedGP", "PublishedMixture"]

#: Evaluations on which learning starts, for each dimension and at the most.
FIRST_POINTS_PER_DIMENSION = 600
MAX_FIRST_POINTS = 6000
FIRST_STEPS = 200  # of each round

#: Steps on all evaluations in the end, and the gain in nats below which they stop.
POLISH_STEPS = 30
POLISH_TOLERANCE = 0.1

#: Draws a component of one gradient of the entropy, half of them mirrored, and the rates of Adam.
ADAM_DRAWS = 16
ADAM_RATES = (0.05, 0.001)


@dataclass(frozen=True, kw_only=True)
class PublishedGP:
    """Step 2 as published: noise shaping by the values themselves, no whitening, no corrections, no residual passes."""

    inducing_per_dimension: int = 100
    rounds: int = 5
    shaping: Shaping = field(
        default_factory=lambda: Shaping(
            depth=10.0, slope=0.05, strengths=(1.0, 1.0), exact_strength=1.0, noise_growth=0.0
        )
    )

    def fit(
        self, training: TrainingSet, rng: np.random.Generator, progress: Progress
    ) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
        """The sparse GP of all evaluations."""
        training = replace(training, gradients=None)  # the published algorithm knows values alone
        settings = SparseGP(shaping=self.shaping, inducing_per_dimension=self.inducing_per_dimension)
        count = settings.first_inducing(training.dimension)
        first = with_levels(training, settings, rng, by_value=True)
        training, learnt = first.training, first.learnt
        data = ShapedData.curved(training, training.values, self.shaping)
        prior = weak_prior(data, training.level, settings, rng)
        pool = np.sort(rng.permutation(len(training))[: settings.max_candidates])
        size = min(FIRST_POINTS_PER_DIMENSION * training.dimension, MAX_FIRST_POINTS)
        some = data.take(stratified_rows(data.points, training.level, size, rng))
        found = learn_sparse(
            Learning(some, min(count, len(some.points)), FIRST_STEPS, self.rounds), prior, learnt, progress
        )
        noise = data.noise(found.learnt.log_strength)
        rows = pool[greedy_inducing(found.learnt.hyp, data.points[pool], noise[pool], min(count, len(pool)))]
        bound = bound_at(rows, sgpr.Workspace(len(rows) * len(data.points)))
        polished = prior.maximise(bound, data, found.learnt, POLISH_STEPS, POLISH_TOLERANCE)
        logger.info("all evaluations: %d steps, bound %.1f", polished.steps, polished.value)
        learnt = prior.unpack(polished.argument) if np.isfinite(polished.value) else found.learnt
        fitted = fit_all(learnt, data.points[rows], data.regression(learnt.log_strength), passes=0)
        proposal = Proposal(training, learnt, found.bounds, found.failures)
        tried = tested(proposal, fitted, count, rng.spawn(1)[0])
        surrogate, training = settled(tried)
        return surrogate, training, told(surrogate, tried)


@dataclass(frozen=True, kw_only=True)
class PublishedMixture:
    """Step 3 as published: components with shared diagonal scales, Adam from each start, the better one."""

    components: int = 50
    steps: int = 3000
    elbo_draws: int = 100_000

    def fit(
        self,
        region: TrustedRegion,
        training: TrainingSet,
        rng: np.random.Generator,
        progress: Progress,
        earlier: Mixture | None = None,
    ) -> tuple[Mixture, Elbo, VariationalFit]:
        """The mixture with the higher ELBO of those that stay where the surrogate can be trusted."""
        model, box = region.surrogate, SoftBox.around(training.points)
        tried: list[tuple[bool, float, str, Mixture]] = []
        for name, start in starts(training, self.shape, rng, earlier).items():
            progress.say(f"mixture: start {name}")
            mixture = self._climb(start, model, box, rng)
            left = region.grows_outside(start, mixture, rng)
            tried.append((not left, elbo(mixture, model, rng, 20_000).value, name, mixture))
        best = max(tried, key=lambda one: one[:2])[3]
        named = tuple((name, value + model.offset) for _, value, name, _ in tried)
        return best, elbo(best, model, rng, self.elbo_draws), VariationalFit(named, len(best.means))

    @property
    def shape(self) -> VariationalMixture:
        """The family and the number of components, for the starts."""
        return VariationalMixture(
            family=SharedDiagonal,
            base_components=self.components,
            components_per_dimension=0,
            max_components=self.components,
        )

    def _climb(self, start: Mixture, model: LogDensityModel, box: SoftBox, rng: np.random.Generator) -> Mixture:
        """Adam with fresh draws at every step."""
        family = SharedDiagonal(start)
        k, d = start.means.shape

        def objective(free: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
            half = rng.standard_normal((k, ADAM_DRAWS, d))
            return elbo_and_gradient(free, family, model, box, np.concatenate([half, -half], axis=1))

        rate, final_rate = ADAM_RATES
        return family.mixture(
            adam(objective, family.start(), steps=self.steps, rate=rate, final_rate=final_rate).argument
        )
