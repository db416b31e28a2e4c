"""Step 2 of an update: the surrogate goes on from the earlier one, if what is new agrees with that.

New evaluations are a test that the earlier surrogate could not prepare for. If it has predicted them within its error
bars, what it has learnt stands: hyperparameters and coordinates stay, inducing points and factors are made of all
evaluations. Otherwise, and where there are so few evaluations that each has a say in what is learnt, it is learnt anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.history import SurrogateFit
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.shaping import shaping_sd
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import THRESHOLDS
from vsbq.posterior.diagnosis.measures import Rows
from vsbq.progress import Progress, logger
from vsbq.settings import Steps
from vsbq.steps.surrogate.fit import candidates, fit_sparse_gp, settled, sister_of, told, tried_out
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Learnt, Shaping, SparseGP
from vsbq.steps.surrogate.sisters import Proposal
from vsbq.steps.trim import TrainingSet

__all__ = ["GoingOn", "going_on", "surprise"]


def going_on(post: Posterior, together: Evaluations, steps: Steps) -> Steps:
    """The steps of an update, whose new evaluations are the last ones: from the earlier surrogate where it may stay as
    it is, else as they are."""
    how, earlier, old = steps.surrogate, post.surrogate, post.evaluations
    if not (isinstance(how, SparseGP) and isinstance(earlier, Surrogate)) or post.history is None or old is None:
        return steps
    if len(together) < 2 * how.coarse[-1].points * post.dimension:  # the new ones are part of what is learnt from
        return steps
    found = surprise(post, together.take(np.arange(len(old), len(together))), how.shaping)
    logger.info("update: the new evaluations are missed by %.2g of the standard deviations stated", found)
    if THRESHOLDS.limit("surrogate").level(found) != "trusted":
        return steps
    history = post.history.surrogate
    return replace(steps, surrogate=GoingOn(how, earlier, history.shaping_strength, history.miss))


def surprise(post: Posterior, new: Evaluations, shaping: Shaping) -> float:
    """Root mean square error of the earlier surrogate at new evaluations, in the standard deviations that it states,
    with noise and the noise of shaping, as for blocks that are held out; infinite where it says nothing."""
    model, rows, history = post.surrogate, Rows.of(post), post.history
    finite = np.isfinite(new.log_density)
    if model is None or rows is None or history is None or not finite.all():
        return np.inf
    u = model.space.forward(new.points)
    values = new.log_density - model.offset + model.space.log_jacobian(u)
    top = float(model.mean(rows.points[np.argsort(-rows.values)[:100]]).max())
    threshold = contour_depth(shaping.depth, post.dimension)
    shaped = shaping_sd(np.maximum(top - values, 0.0), threshold, shaping.sd_min, shaping.sd_med, shaping.slope)
    noise = np.zeros(len(new)) if new.log_density_sd is None else new.log_density_sd
    total = model.variance(u) + noise**2 + (history.surrogate.shaping_strength * shaped) ** 2
    return float(np.sqrt(np.mean((values - model.mean(u)) ** 2 / total)))


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
