"""What the user gets: the posterior in the user's own space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.bounds import Bounds
from vsbq.evaluations import Evaluations
from vsbq.marginal import NODES, Marginal
from vsbq.numerics import mixture as mix
from vsbq.numerics.mixture import Mixture
from vsbq.refine import Evidence, Refined, RefinedFit
from vsbq.surrogate import Surrogate, SurrogateFit
from vsbq.transform import InferenceSpace
from vsbq.trim import Trimmed
from vsbq.variational import Elbo, VariationalFit

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

RandomState = int | np.random.Generator | None


class History(NamedTuple):
    """How the fit went: read in reports, never by the algorithm."""

    trimmed: Trimmed
    surrogate: SurrogateFit
    variational: VariationalFit
    seconds: dict[str, float]
    version: str
    refinement: RefinedFit | None = None


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean, standard deviation and central 90 % interval of each parameter; prints as a table."""

    names: tuple[str, ...]
    mean: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]
    q05: Float[ndarray, " d"]
    median: Float[ndarray, " d"]
    q95: Float[ndarray, " d"]

    def __str__(self) -> str:
        width = max(9, *(len(name) for name in self.names))
        head = f"{'':<{width}}" + "".join(f"{title:>12}" for title in ("mean", "sd", "5 %", "median", "95 %"))
        rows = [
            f"{name:<{width}}" + "".join(f"{value:>12.5g}" for value in values)
            for name, *values in zip(self.names, self.mean, self.sd, self.q05, self.median, self.q95, strict=True)
        ]
        return "\n".join([head, *rows])

    def to_dict(self) -> dict[str, dict[str, float]]:
        """One entry per parameter."""
        columns = {"mean": self.mean, "sd": self.sd, "q05": self.q05, "median": self.median, "q95": self.q95}
        return {name: {key: float(v[i]) for key, v in columns.items()} for i, name in enumerate(self.names)}


@dataclass(frozen=True, eq=False)
class Posterior:
    """A posterior in the user's space: the refined density, or where there is none a mixture of Gaussians in inference
    space. Made by `vsbq.fit` or `vsbq.load`."""

    names: tuple[str, ...]
    space: InferenceSpace
    mixture: Mixture
    elbo_estimate: Elbo
    offset: float
    evaluations: Evaluations | None
    surrogate: Surrogate | None
    history: History | None
    refined: Refined | None = None
    evidence_estimate: Evidence | None = None  # of a refinement whose draws are not here, as in a compact file

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def bounds(self) -> Bounds:
        """Hard bounds of the parameters."""
        return self.space.bounds

    @property
    def elbo(self) -> float:
        """Evidence lower bound: the log evidence is at least this much, if the surrogate is right.

        It is the log evidence of the model only where the log densities hold a normalised prior and every constant of
        the likelihood.
        """
        return self.elbo_estimate.value + self.offset

    @property
    def elbo_sd(self) -> float:
        """Standard deviation of the ELBO under the surrogate's own uncertainty; not its distance to the evidence."""
        return self.elbo_estimate.sd

    @property
    def log_evidence(self) -> float:
        """Log evidence of the refined posterior: the surrogate's where it can be trusted; the ELBO without refinement.

        As for `elbo`, it is that of the model only if the log densities hold every constant.
        """
        evidence = self._evidence
        return self.elbo if evidence is None else evidence.value + self.offset

    @property
    def log_evidence_sd(self) -> float:
        """What `log_evidence` may be off by: the surrogate's uncertainty, the mass beyond it, and Monte Carlo."""
        evidence = self._evidence
        return self.elbo_sd if evidence is None else evidence.sd

    @property
    def _evidence(self) -> Evidence | None:
        return self.evidence_estimate if self.refined is None else self.refined.evidence

    def sample(self, n: int, rng: RandomState = None) -> Float[ndarray, "n d"]:
        """n draws of equal weight in random order, one row each, in the user's space.

        They are picked from the draws of the refinement; more than those hold come with repetitions.
        """
        if n < 0:
            raise ValueError(f"The number of draws is at least 0, not {n}.")
        generator = np.random.default_rng(rng)
        if self.refined is None:
            return self.space.inverse(mix.sample(self.mixture, int(n), generator))
        return self.space.inverse(self.refined.draw(int(n), generator))

    def log_pdf(self, x: ArrayLike) -> Any:
        """Log posterior density with respect to the user's parameters; −inf outside the bounds.

        One point of D numbers gives a number; n points (n, D) give n numbers.
        """
        values = np.asarray(x, dtype=np.float64)
        points = np.atleast_2d(values)
        if values.ndim > 2 or points.shape[1] != self.dimension:
            raise ValueError(f"Points have {self.dimension} coordinates; got an array of shape {values.shape}.")
        inside = ~self.bounds.outside(points).any(axis=1) & np.isfinite(points).all(axis=1)
        out = np.full(len(points), -np.inf)
        out[inside] = self._log_pdf(points[inside])
        return float(out[0]) if values.ndim < 2 else out

    def _log_pdf(self, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The surrogate's density, normalised, where it can be trusted; the mixture's elsewhere."""
        u = self.space.forward(x)
        out = mix.log_pdf(self.mixture, u) - self.space.log_jacobian(u)
        if self.refined is not None:
            space = self.refined.region.surrogate.space
            turned = space.forward(x)
            known = self.refined.region.believed_mean(turned) - space.log_jacobian(turned)
            out = np.where(np.isnan(known), out, known - self.refined.evidence.value)
        return out

    def pdf(self, x: ArrayLike) -> Any:
        """Posterior density; see `log_pdf`."""
        return np.exp(self.log_pdf(x))

    def marginal(self, parameter: int | str) -> Marginal:
        """The marginal posterior of one parameter, by number or by name."""
        i = self.names.index(parameter) if isinstance(parameter, str) else range(self.dimension)[parameter]
        one = InferenceSpace(
            Bounds(self.bounds.lower[[i]], self.bounds.upper[[i]]),
            self.space.edge[[i]],
            self.space.centre[[i]],
            self.space.scale[[i]],
        )
        sds = np.linalg.norm(self.mixture.trils[:, i], axis=1)
        plain = Marginal(self.names[i], one, self.mixture.log_weights, self.mixture.means[:, i], sds)
        return plain if self.refined is None else plain.corrected(self.refined.points[:, i], *self.refined.both_weights)

    def mean(self) -> Float[ndarray, " d"]:
        """Posterior mean of each parameter."""
        return np.array([self.marginal(i).mean() for i in range(self.dimension)])

    def cov(self) -> Float[ndarray, "d d"]:
        """Posterior covariance in the user's space."""
        if self.refined is None:
            return self._mixture_cov()
        plain = replace(self, refined=None)
        centre = plain.mean()
        x = self.space.inverse(self.refined.points) - centre
        moved = self.refined.shift(x)
        products = self.refined.shift(np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)).reshape(len(centre), -1)
        cov = plain.cov() + products - np.outer(moved, moved)
        sd = np.array([self.marginal(i).sd() for i in range(self.dimension)])
        turn = sd / np.sqrt(np.diagonal(cov))
        return cov * np.outer(turn, turn)

    def _mixture_cov(self) -> Float[ndarray, "d d"]:
        """Covariance of the mixture, by Gauss–Hermite quadrature per component."""
        centre = self.mean()
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights = weights / weights.sum()
        sigma = np.einsum("kij,klj->kil", self.mixture.trils, self.mixture.trils)
        out = np.empty((self.dimension, self.dimension))
        marginals = [self.marginal(i) for i in range(self.dimension)]
        for i, first in enumerate(marginals):
            a = first.means[:, None] + first.sds[:, None] * nodes
            x = first.space.inverse(a.reshape(-1, 1)).reshape(a.shape) - centre[i]
            out[i, i] = np.exp(first.log_weights) @ (x**2 @ weights)
            for j in range(i):
                slope = sigma[:, i, j] / first.sds**2
                rest = np.sqrt(np.maximum(sigma[:, j, j] - slope * sigma[:, i, j], 0.0))
                b = marginals[j].means[:, None] + (slope * first.sds)[:, None] * nodes
                inner = b[:, :, None] + rest[:, None, None] * nodes
                y = marginals[j].space.inverse(inner.reshape(-1, 1)).reshape(inner.shape) @ weights - centre[j]
                out[i, j] = out[j, i] = np.exp(first.log_weights) @ ((x * y) @ weights)
        return out

    def quantile(self, q: ArrayLike) -> Float[ndarray, ...]:
        """Quantiles of each parameter: shape (D,) for one share, (len(q), D) for several."""
        return np.stack([self.marginal(i).quantile(q) for i in range(self.dimension)], axis=-1)

    def mode(self) -> Float[ndarray, " d"]:
        """The point of highest posterior density in the user's space (inside the region that holds the mass)."""
        u = np.concatenate([self.mixture.means, mix.sample(self.mixture, 4000, np.random.default_rng(0))])
        density = self._log_pdf(self.space.inverse(u))
        limits = list(zip(u.min(axis=0), u.max(axis=0), strict=True))

        def negative(point: Float[ndarray, " d"]) -> float:
            return -float(self._log_pdf(self.space.inverse(point[None]))[0])

        climbs = [minimize(negative, u[k], method="L-BFGS-B", bounds=limits) for k in np.argsort(-density)[:3]]
        return self.space.inverse(min(climbs, key=lambda found: found.fun).x[None])[0]

    def summary(self) -> Summary:
        """A small table with names: mean, sd and the central 90 % interval."""
        low, middle, high = self.quantile([0.05, 0.5, 0.95])
        sd = np.array([self.marginal(i).sd() for i in range(self.dimension)])
        return Summary(self.names, self.mean(), sd, low, middle, high)

    def to_dataframe(self, n: int = 4000, rng: RandomState = None) -> pandas.DataFrame:
        """Draws as a pandas DataFrame with one column per parameter."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_dataframe needs pandas: pip install pandas") from error
        return pandas.DataFrame(self.sample(n, rng), columns=list(self.names))

    def plot(self, **options: Any) -> Figure:
        """Corner plot of the posterior with the evaluations under it; needs the extra vsbq[plot]."""
        from vsbq.report.corner import corner

        return corner(self, **options)

    def save(self, path: str | Path, *, compact: bool = False, overwrite: bool = False) -> Path:
        """Write the posterior to one npz file without pickles; `compact` leaves out surrogate and evaluations."""
        from vsbq.files.posterior_file import save

        return save(self, path, compact=compact, overwrite=overwrite)

    def __repr__(self) -> str:
        return (
            f"Posterior of {self.dimension} parameters ({', '.join(self.names)}): "
            f"log evidence {self.log_evidence:.3f} ± {self.log_evidence_sd:.3f}, ELBO {self.elbo:.3f}"
        )
