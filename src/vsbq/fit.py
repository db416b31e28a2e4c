"""The whole algorithm on one page: trim, fit the surrogate, fit the mixture."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vsbq._typing import ArrayLike
from vsbq._version import __version__
from vsbq.errors import EvaluationsError
from vsbq.evaluations import Evaluations
from vsbq.numerics.families import SharedDiagonal
from vsbq.posterior import History, Posterior, RandomState
from vsbq.progress import Progress
from vsbq.surrogate import SparseGP, fit_surrogate
from vsbq.transform import unrotated
from vsbq.trim import Trim, trim_evaluations
from vsbq.variational import VariationalMixture, fit_mixture


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All choices of the algorithm, one object per step. The default is the same for every problem."""

    trim: Trim = field(default_factory=Trim)
    surrogate: SparseGP = field(default_factory=SparseGP)
    variational: VariationalMixture = field(default_factory=VariationalMixture)

    @classmethod
    def paper(cls) -> Settings:
        """The algorithm as printed: hyperparameters on all evaluations, 50 components with shared diagonal scales."""
        return cls(
            surrogate=SparseGP(learning_points_per_dimension=None, learning_inducing_per_dimension=None, whiten=False),
            variational=VariationalMixture(components=50, family=SharedDiagonal),
        )


def fit(
    points: ArrayLike | Evaluations,
    log_density: ArrayLike | None = None,
    *,
    settings: Settings | None = None,
    rng: RandomState = None,
    progress: bool | None = None,
    **evaluations: object,
) -> Posterior:
    """Posterior from log-density evaluations, with no further call of the model."""
    given = _evaluations(points, log_density, evaluations)
    settings = settings or Settings()
    generator = np.random.default_rng(rng)
    steps = Progress(3, progress)
    try:
        with steps.stage("trim"):
            training, trimmed = trim_evaluations(given, settings.trim)
        with steps.stage("surrogate"):
            surrogate, training, surrogate_fit = fit_surrogate(training, settings.surrogate, generator, steps)
        with steps.stage("mixture"):
            mixture, elbo, variational_fit = fit_mixture(surrogate, training, settings.variational, generator, steps)
    finally:
        steps.close()
    history = History(trimmed, surrogate_fit, variational_fit, steps.seconds, __version__)
    space, mixture = unrotated(training.space, mixture)
    return Posterior(given.names, space, mixture, elbo, training.offset, given, surrogate, history)


def _evaluations(
    points: ArrayLike | Evaluations, log_density: ArrayLike | None, options: dict[str, object]
) -> Evaluations:
    if not isinstance(points, Evaluations):
        return Evaluations(points, log_density, **options)  # type: ignore[arg-type]
    if log_density is not None or options:
        given = ", ".join((["log_density"] if log_density is not None else []) + list(options))
        raise EvaluationsError(
            f"An Evaluations already holds its values, bounds and names, but {given} was given as well. "
            "Pass them when the Evaluations is made."
        )
    return points
