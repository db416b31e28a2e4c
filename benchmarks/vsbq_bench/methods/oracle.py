"""What noise allows: the default with hyperparameters that were learnt from the values without their noise.

The coordinates, length scales, mean and shaping strength, and which evaluations count as high, come from the noise-free
values at the same points, which no user has. The sparse GP with these hyperparameters is then conditioned on the noisy
values, and all later steps are the default's. What separates the default from it is what it does not find out under
noise; what separates it from the truth is the noise itself, or the default's own limits without noise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Bool, Float, ndarray
from vsbq.data.transform import GRID
from vsbq.history import SurrogateFit
from vsbq.numerics.contours import HOPELESS, near_top
from vsbq.numerics.kernel import Hyperparameters
from vsbq.progress import Progress
from vsbq.settings import Settings, Steps
from vsbq.steps.surrogate.fit import candidates, fit_sparse_gp, settled, sister_of, told, tried_out
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Learnt, SparseGP
from vsbq.steps.surrogate.sisters import Proposal
from vsbq.steps.trim import TrainingSet, Trim
from vsbq_bench.methods.recycle import recycle
from vsbq_bench.task import Answer, Task

__all__ = ["OracleGP", "oracle"]

#: Noise sds by which no evaluation is off: trimming by noisy values then keeps all that it would keep without noise.
SURE = 8.0


def oracle(task: Task) -> Answer:
    """Fit the posterior to the noisy trace as if the hyperparameters were known; without noise, the default's fit."""
    points = task.trace.points
    if task.trace.log_density_sd is None:
        return recycle(task, Settings())
    known = OracleGP(points=points, log_density=task.problem.log_density(points))
    answer = recycle(task, Steps(noise=None, trim=Trim(confidence=SURE), surrogate=known))
    return replace(answer, settings={**answer.settings, "surrogate": asdict(known.settings)})


@dataclass(frozen=True, eq=False, kw_only=True)
class OracleGP:
    """Step 2 with the noise-free log density at the evaluated points, in the user's space.

    The coordinates without bounds, in which step 2 starts, are those of the noisy evaluations: a shift and a scale.
    """

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    settings: SparseGP = field(default_factory=SparseGP)

    def fit(
        self, training: TrainingSet, rng: np.random.Generator, progress: Progress
    ) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
        """The sparse GP of the noisy evaluations, with the hyperparameters of the noise-free ones."""
        exact = self.without_noise(training)
        kept = near_top(exact.level, HOPELESS, training.dimension)
        exact, training = part(exact, kept), part(with_levels_of(exact, training), kept)
        model, _, found = fit_sparse_gp(exact, self.settings, rng, progress)
        return conditioned(training, model, found, self.settings, rng)

    def without_noise(self, training: TrainingSet) -> TrainingSet:
        """The evaluations as they would be in a trace without noise."""
        offset = float(self.log_density.max())
        relative = np.round((self.log_density - offset) / GRID) * GRID
        nearest = cKDTree(training.space.forward(self.points)).query(training.points)[1]
        values = relative[nearest] + training.space.log_jacobian(training.points)
        return replace(training, values=values, level=values, noise_sd=np.zeros(len(values)), offset=offset)


def with_levels_of(exact: TrainingSet, training: TrainingSet) -> TrainingSet:
    """The noisy evaluations, with the noise-free values as their levels."""
    return replace(training, level=exact.level + (exact.offset - training.offset))


def part(training: TrainingSet, kept: Bool[ndarray, " n"]) -> TrainingSet:
    """Some of the evaluations; the others are hopeless."""
    return replace(
        training,
        points=training.points[kept],
        values=training.values[kept],
        noise_sd=training.noise_sd[kept],
        level=training.level[kept],
        low=np.concatenate([training.low, training.points[~kept]]),
    )


def conditioned(
    training: TrainingSet, model: Surrogate, found: SurrogateFit, settings: SparseGP, rng: np.random.Generator
) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
    """The sparse GP of these evaluations with the coordinates and hyperparameters of another model.

    Sisters have hyperparameters of their own, but the shaping strength of the main one: theirs is not kept.
    """

    def proposal(plain: TrainingSet, turn: Float[ndarray, "d d"], hyp: Hyperparameters) -> Proposal:
        hyp = hyp._replace(mean_top=hyp.mean_top + model.offset - training.offset)
        return Proposal(plain.turned(turn), Learnt(hyp, float(np.log(found.shaping_strength)), np.zeros(0)))

    d, pool = training.dimension, candidates(training, settings, rng)
    main = proposal(training, model.space.from_plain(np.eye(d)).T, model.hyp)
    tried = tried_out(main, pool, settings.first_inducing(d), settings, rng.spawn(1)[0])
    if tried.poor(settings):
        tried = tried_out(main, pool, settings.last_inducing(d), settings, rng.spawn(1)[0])
    surrogate, _ = settled(tried)  # whose levels are noisy
    others = [proposal(main.training, sister.turn, sister.hyp) for sister in model.sisters]
    sisters = [sister_of(main.training, one, pool, tried.allowed, settings) for one in others]
    surrogate = replace(surrogate, sisters=tuple(sister for sister in sisters if sister is not None))
    return surrogate, main.training, told(surrogate, tried)
