"""Everything that the page says in numbers, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.posterior import Posterior
from vsbq.posterior.marginal import Marginal
from vsbq.posterior.modes import Mode, separate_modes
from vsbq.report.digits import Digits

__all__ = ["QUANTILES", "Numbers", "Support"]

QUANTILES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
DRAWS = 20_000
WHOLE, CORE = 0.99, 0.5  # shares of the posterior whose regions are looked at


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """Evaluations under the posterior: in the smallest regions that hold 99 % and 50 % of it."""

    evaluations: int
    under: int
    under_core: int
    inside: Bool[ndarray, " n"]  # which ones are under it

    @property
    def share(self) -> float:
        """Of all evaluations."""
        return self.under / self.evaluations

    @classmethod
    def of(cls, posterior: Posterior, draws: Float[ndarray, "m d"]) -> Support | None:
        """Levels of the mixture's density above which the shares of the posterior's draws lie decide."""
        if posterior.evaluations is None:
            return None
        smooth = replace(posterior, refined=None, prior_change=None)
        level, core = np.quantile(smooth.log_pdf(draws), [1 - WHOLE, 1 - CORE])
        density = np.where(
            np.isfinite(posterior.evaluations.log_density), smooth.log_pdf(posterior.evaluations.points), -np.inf
        )
        inside = np.asarray(density >= level)
        return cls(
            evaluations=len(density), under=int(inside.sum()), under_core=int((density >= core).sum()), inside=inside
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """Moments and quantiles of each parameter, correlations, the best evaluation, regions and evaluations inside."""

    marginals: tuple[Marginal, ...]
    mean: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]
    quantiles: Float[ndarray, "5 d"]
    correlation: Float[ndarray, "d d"]
    best: Float[ndarray, " d"] | None
    modes: tuple[Mode, ...]
    support: Support | None

    @classmethod
    def of(cls, posterior: Posterior) -> Numbers:
        """All of it; the random numbers are always the same ones."""
        draws = posterior.sample(DRAWS, rng=0)
        marginals = tuple(posterior.marginal(i) for i in range(posterior.dimension))
        cov = posterior.cov()
        sd = np.sqrt(np.diagonal(cov))
        return cls(
            marginals=marginals,
            mean=np.array([marginal.mean() for marginal in marginals]),
            sd=np.array([marginal.sd() for marginal in marginals]),
            quantiles=np.stack([marginal.quantile(QUANTILES) for marginal in marginals], axis=-1),
            correlation=np.clip(cov / np.maximum(np.outer(sd, sd), 1e-300), -1.0, 1.0),
            best=_best(posterior),
            modes=separate_modes(posterior, draws),
            support=Support.of(posterior, draws),
        )

    def digits(self, i: int) -> Digits:
        """How numbers of one parameter are written: to three digits of its standard deviation."""
        sizes = np.abs([self.mean[i], *self.quantiles[:, i]])
        return Digits.of(float(sizes.max()), float(self.sd[i]))

    def strongest(self) -> tuple[int, int, float] | None:
        """The pair of parameters with the largest correlation, if there are two."""
        if len(self.mean) < 2:
            return None
        off = np.abs(np.tril(self.correlation, -1))
        i, j = np.unravel_index(int(np.argmax(off)), off.shape)
        return int(j), int(i), float(self.correlation[i, j])


def _best(posterior: Posterior) -> Float[ndarray, " d"] | None:
    seen = posterior.evaluations
    return None if seen is None else np.array(seen.points[int(np.argmax(seen.log_density))])
