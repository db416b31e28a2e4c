"""What a user may choose, and what each step makes of it."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from vsbq.history import Elbo, SurrogateFit, VariationalFit
from vsbq.numerics.contours import HOPELESS
from vsbq.numerics.mixture import Mixture
from vsbq.progress import Progress
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.model import LogDensityModel
from vsbq.steps.noise import NoiseCheck
from vsbq.steps.published import PublishedGP, PublishedMixture
from vsbq.steps.refine import Refinement
from vsbq.steps.region import TrustedRegion
from vsbq.steps.surrogate.shaped_data import SparseGP
from vsbq.steps.trim import TrainingSet, Trim

__all__ = ["Choice", "MixtureStep", "Settings", "Steps", "SurrogateStep", "choices", "nested", "written"]


@runtime_checkable
class SurrogateStep(Protocol):
    """Another way to do step 2: anything that makes a `LogDensityModel` of the evaluations."""

    def fit(
        self, training: TrainingSet, rng: np.random.Generator, progress: Progress
    ) -> tuple[LogDensityModel, TrainingSet, SurrogateFit]:
        """The model, the evaluations in its coordinates, and how it came about."""


@runtime_checkable
class MixtureStep(Protocol):
    """Another way to do step 3."""

    def fit(
        self,
        region: TrustedRegion,
        training: TrainingSet,
        rng: np.random.Generator,
        progress: Progress,
        earlier: Mixture | None,
    ) -> tuple[Mixture, Elbo, VariationalFit]:
        """The mixture, its ELBO, and how it came about."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Every choice of the algorithm, one object for each step; for those who change the algorithm itself."""

    noise: NoiseCheck | None = field(default_factory=NoiseCheck)  # None: the noise is what it is said to be
    trim: Trim = field(default_factory=Trim)
    surrogate: SparseGP | SurrogateStep = field(default_factory=SparseGP)
    mixture: VariationalMixture | MixtureStep = field(default_factory=VariationalMixture)
    refinement: Refinement | None = field(default_factory=Refinement)  # None: the mixture is the posterior

    @classmethod
    def published(cls) -> Steps:
        """The algorithm as published."""
        return cls(
            noise=None,
            trim=Trim(gradients=False),
            surrogate=PublishedGP(),
            mixture=PublishedMixture(),
            refinement=None,
        )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What may be chosen. The default is the same for every problem, and meant for every problem.

    Args:
        check_noise: check the stated noise, or find noise that was not stated; False takes it as given.
        trim_sigma: evaluations surely below this contour of a normal are left out.
        inducing_per_dimension: inducing points of the surrogate for each parameter; more where the fit is poor.
        max_inducing: the most inducing points in all. Time grows with their square, memory too.
        max_learning_points: the most evaluations from which the hyperparameters are learnt; all are fitted in the end.
        residual_passes: how often the residuals of the surrogate are smoothed and added to its mean.
        max_components: the most components of the mixture.
        refine: evidence and draws from the surrogate itself; False takes the mixture as the posterior.
        draws: of the refinement; `Posterior.sample` picks from them.
        as_published: the algorithm as the paper prints it, without any of the above; see `Settings.paper`.
    """

    check_noise: bool = True
    trim_sigma: float = HOPELESS
    inducing_per_dimension: int = 150
    max_inducing: int = 1500
    max_learning_points: int = 5000
    residual_passes: int = 3
    max_components: int = 30
    refine: bool = True
    draws: int = 40_000
    as_published: bool = False

    @classmethod
    def paper(cls) -> Settings:
        """The algorithm as published: hyperparameters on all evaluations, 100 D inducing points, 50 components with
        shared diagonal scales, no refinement. The hyperparameters start where a subset of the evaluations puts them."""
        return cls(as_published=True)

    def steps(self) -> Steps:
        """What each step makes of it."""
        if self.as_published:
            return Steps.published()
        return Steps(
            noise=NoiseCheck() if self.check_noise else None,
            trim=Trim(depth=self.trim_sigma),
            surrogate=SparseGP(
                inducing_per_dimension=self.inducing_per_dimension,
                max_inducing=self.max_inducing,
                max_learning_points=self.max_learning_points,
                residual_passes=self.residual_passes,
            ),
            mixture=VariationalMixture(max_components=self.max_components),
            refinement=Refinement(draws=self.draws) if self.refine else None,
        )


class Choice(NamedTuple):
    """Dotted name of a setting that differs from its default, its value, and the default."""

    name: str
    value: Any
    usual: Any

    def __str__(self) -> str:
        return f"{self.name} = {written(self.value)} (default {written(self.usual)})"


def choices(settings: Any, prefix: str = "") -> list[Choice]:
    """Fields that differ from what they are by default, those of nested settings included."""
    found = []
    for each in fields(settings):
        value, usual = getattr(settings, each.name), _default(each)
        if nested(value) and type(value) is type(usual):
            found += choices(value, f"{prefix}{each.name}.")
        elif value != usual:
            found.append(Choice(f"{prefix}{each.name}", value, usual))
    return found


def nested(value: Any) -> bool:
    """Whether a setting is an object with settings of its own."""
    return is_dataclass(value) and not isinstance(value, type)


def _default(of: Any) -> Any:
    if of.default_factory is not MISSING:
        return of.default_factory()
    return None if of.default is MISSING else of.default


def written(value: Any) -> str:
    """The value of a setting on one line."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, float):
        return f"{value:.6g}"
    return repr(value) if isinstance(value, bool | int | str | tuple | None) else type(value).__name__
