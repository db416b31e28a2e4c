"""The default made worse on purpose: a comparison that does not see these would not see a real worsening either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib import import_module

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.settings import Settings, Steps
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion
from vsbq.steps.support import Support
from vsbq.steps.surrogate.shaped_data import Level, SparseGP
from vsbq.steps.trim import TrainingSet
from vsbq_bench.methods.recycle import recycle
from vsbq_bench.task import Answer, Task

__all__ = ["CONTROLS", "NarrowRegion", "few_inducing", "few_inducing_steps", "narrow_region"]

#: The methods of this module by their names in the catalogue, as people write them.
CONTROLS = {
    "control_few_inducing": "a fifth of the inducing points",
    "control_narrow_region": "a trusted region half as wide",
}

FEWER = 5  # times fewer inducing points
NARROWER = 0.5  # the reach of the trusted region


def few_inducing_steps() -> Steps:
    """Return the default with a fifth of the inducing points at every stage that has a number of them."""
    usual = SparseGP()
    numbers = {item.name: getattr(usual, item.name) for item in fields(usual) if "inducing" in item.name}
    fewer = {name: max(1, value // FEWER) for name, value in numbers.items()}
    coarse, fine, finest = tuple(map(_fewer, usual.coarse)), _fewer(usual.fine), _fewer(usual.finest)
    return Steps(surrogate=replace(usual, **fewer, coarse=coarse, fine=fine, finest=finest))


def _fewer(level: Level) -> Level:
    return level._replace(inducing=max(1, level.inducing // FEWER))


def few_inducing(task: Task) -> Answer:
    """Fit the posterior with too few inducing points."""
    return recycle(task, few_inducing_steps())


@dataclass(frozen=True, eq=False)
class NarrowRegion(TrustedRegion):
    """What the default trusts, drawn together to half its width around the best evaluation, whatever its shape."""

    centre: Float[ndarray, " d"] = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def around(cls, surrogate: LogDensityModel, training: TrainingSet, support: Support | None = None) -> NarrowRegion:
        """Narrow what the default trusts."""
        usual = TrustedRegion.around(surrogate, training, support)
        values = {item.name: getattr(usual, item.name) for item in fields(usual)}
        return cls(**values, centre=training.points[np.argmax(training.level)])

    def in_box(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points would still be trusted by the default if they were twice as far from the best evaluation."""
        stretched = self.centre + (u - self.centre) / NARROWER
        inside = super().in_box(stretched)
        rows = np.flatnonzero(inside)
        inside[rows] = self.surrogate.variance(stretched[rows]) <= self.most_variance
        return inside


@contextmanager
def _narrowed() -> Iterator[None]:
    """Let fits use the narrow region, and put the usual one back whatever happens."""
    algorithm = import_module("vsbq.fit")  # the package has a function of that name
    usual = algorithm.TrustedRegion
    algorithm.TrustedRegion = NarrowRegion  # type: ignore[attr-defined]
    try:
        yield
    finally:
        algorithm.TrustedRegion = usual  # type: ignore[attr-defined]


def narrow_region(task: Task) -> Answer:
    """Fit the posterior with a trusted region that is too narrow."""
    with _narrowed():
        return recycle(task, Settings())
