"""Step 2 for an update: what an earlier surrogate has learnt, with all evaluations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.transform import InferenceSpace
from vsbq.history import SurrogateFit
from vsbq.numerics.kernel import Hyperparameters
from vsbq.progress import Progress
from vsbq.steps.surrogate.fit import candidates, fit_sparse_gp, settled, sister_of, told, tried_out
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Learnt, SparseGP
from vsbq.steps.surrogate.sisters import Proposal
from vsbq.steps.trim import TrainingSet

__all__ = ["GoingOn"]


@dataclass(frozen=True, eq=False)
class GoingOn:
    """A surrogate step with what an earlier surrogate has learnt."""

    settings: SparseGP
    earlier: Surrogate
    strength: float
    miss: float  # nats by which it missed high evaluations

    def fit(
        self, training: TrainingSet, rng: np.random.Generator, progress: Progress
    ) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
        """The sparse GP of all evaluations with the earlier hyperparameters; from the beginning if it misses more."""
        settings = self.settings
        main = self._main(training)
        if main is None:
            return fit_sparse_gp(training, settings, rng, progress)
        pool = candidates(main.training, settings, rng)
        count = max(settings.first_inducing(training.dimension), len(self.earlier.inducing))
        tried = tried_out(main, pool, count, settings, rng.spawn(1)[0])
        if tried.miss > self.miss + settings.tolerable_miss:
            return fit_sparse_gp(training, settings, rng, progress)
        surrogate, there = settled(tried)
        others = [sister_of(there, one, pool, count, settings) for one in self._sisters(main)]
        surrogate = replace(surrogate, sisters=tuple(sister for sister in others if sister is not None))
        return surrogate, there, told(surrogate, tried)

    def _main(self, training: TrainingSet) -> Proposal | None:
        """The earlier hyperparameters, and the evaluations in their coordinates but for a shift; None where other
        bounds bend the coordinates."""
        here, there = self.earlier.space, training.space.plain
        if here.plain.bending != there.bending:
            return None
        back = np.eye(training.dimension) if isinstance(here, InferenceSpace) else here.rotation
        turned = training.turned(back * (there.scale / here.plain.scale))
        shift = back @ ((there.centre - here.plain.centre) / here.plain.scale)
        rise = self.earlier.offset - training.offset
        if training.noisy:
            seen = turned.points + shift
            turned = turned.smoothed(self.earlier.mean(seen) + rise, self.earlier.variance(seen))
        return Proposal(turned, self._learnt(_moved(self.earlier.hyp, shift, rise)))

    def _sisters(self, main: Proposal) -> list[Proposal]:
        """The sisters' hyperparameters, and the evaluations in their coordinates."""
        main_before, rise = self.earlier.hyp, main.learnt.hyp.mean_top - self.earlier.hyp.mean_top
        shift = main_before.mean_location - main.learnt.hyp.mean_location
        return [
            Proposal(main.training.turned(one.turn), self._learnt(_moved(one.hyp, one.turn @ shift, rise)))
            for one in self.earlier.sisters
        ]

    def _learnt(self, hyp: Hyperparameters) -> Learnt:
        return Learnt(hyp, float(np.log(self.strength)), np.zeros(0))


def _moved(hyp: Hyperparameters, shift: Float[ndarray, " d"], rise: float) -> Hyperparameters:
    """For points without a shift, and values with another offset."""
    return hyp._replace(mean_location=hyp.mean_location - shift, mean_top=hyp.mean_top + rise)
