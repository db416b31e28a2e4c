"""What the user gets: the posterior in the user's own space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.optimize import minimize

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.analysis.prior_change import DrawnMarginal, PriorChange
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.history import Elbo, Evidence, History
from vsbq.numerics import mixture as mix
from vsbq.numerics.mixture import Mixture
from vsbq.posterior.marginal import NODES, Marginal
from vsbq.posterior.summary import Summary
from vsbq.steps.model import LogDensityModel
from vsbq.steps.refine import Refined

if TYPE_CHECKING:
    import getdist
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from vsbq.analysis.comparison import Comparison
    from vsbq.io.files.exports import LivePoints, MassMatrix
    from vsbq.settings import Settings, Steps

RandomState = int | np.random.Generator | None


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
    surrogate: LogDensityModel | None
    history: History | None
    refined: Refined | None = None
    evidence_estimate: Evidence | None = None  # of a refinement whose draws are not here, as in a compact file
    prior_change: PriorChange | None = None  # of `with_prior`, where new weights of the draws were enough
    tag: str | None = None  # which model and data it is of: that of the evaluations, where they are here

    def __post_init__(self) -> None:
        if self.evaluations is not None:
            object.__setattr__(self, "tag", self.evaluations.tag)

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
        """What `log_evidence` may be off by: all that `Evidence` lists, from the surrogate to Monte Carlo.

        Without a refinement it is `elbo_sd`; where a refinement found no draw at which the surrogate can be trusted,
        nothing is known of the error, and it is infinite.
        """
        if self._evidence is not None:
            return self._evidence.sd
        tried = None if self.history is None else self.history.refinement
        return float(np.inf) if tried is not None and tried.method == "none" else self.elbo_sd

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
        """The density that the surrogate expects, normalised, where it is trusted; the mixture's elsewhere."""
        if self.prior_change is not None:
            return self.prior_change.log_pdf(x)
        u = self.space.forward(x)
        out = mix.log_pdf(self.mixture, u) - self.space.log_jacobian(u)
        if self.refined is not None:
            space = self.refined.region.surrogate.space
            turned = space.forward(x)
            known = self.refined.region.log_density(turned) - space.log_jacobian(turned)
            out = np.where(np.isnan(known), out, known - self.refined.evidence.value)
        return out

    def pdf(self, x: ArrayLike) -> Any:
        """Posterior density; see `log_pdf`."""
        return np.exp(self.log_pdf(x))

    def marginal(self, parameter: int | str) -> Marginal:
        """The marginal posterior of one parameter, by number or by name."""
        i = self.names.index(parameter) if isinstance(parameter, str) else range(self.dimension)[parameter]
        one = self.space.columns([i])
        sds = np.linalg.norm(self.mixture.trils[:, i], axis=1)
        plain = Marginal(self.names[i], one, self.mixture.log_weights, self.mixture.means[:, i], sds)
        if self.refined is None:
            return plain
        corrected = plain.corrected(self.refined.points[:, i], *self.refined.both_weights)
        if self.prior_change is None:
            return corrected
        return DrawnMarginal.of(
            corrected, self.refined.points[:, i], self.refined.weights - self.refined.mixture_weights
        )

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

    def suggest(self, n: int, rng: RandomState = None) -> Float[ndarray, "n d"]:
        """n points in the user's space whose evaluation would reduce the uncertainty of this posterior most.

        They lie where the surrogate is uncertain and the density may be high: also beyond the evaluations, where
        nobody has looked yet. Evaluate them all and pass the values to `update`. The most telling ones come first.
        """
        from vsbq.analysis.suggest import suggest

        return suggest(self, n, rng)

    def update(
        self,
        points: ArrayLike | Evaluations,
        log_density: ArrayLike | None = None,
        *,
        log_density_sd: ArrayLike | None = None,
        log_prior: ArrayLike | None = None,
        settings: Settings | Steps | None = None,
        rng: RandomState = None,
        progress: bool | None = None,
    ) -> Posterior:
        """The posterior from these evaluations and the earlier ones together; the fit goes on from this one.

        `points` may also be an `Evaluations`. `log_prior` keeps the prior known where the earlier evaluations hold it.
        All other arguments are those of `vsbq.fit`. Where the fit had to estimate the noise of the earlier evaluations
        and the new ones come with theirs, the earlier ones keep the estimate.
        """
        from vsbq.analysis.update import joined
        from vsbq.fit import fit

        together = joined(self, points, log_density, log_density_sd, log_prior)
        return fit(together, settings=settings, start=self, rng=rng, progress=progress)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write one self-contained HTML page that tells a colleague everything; see `vsbq.report.write_report`."""
        from vsbq.report.page import write_report

        return write_report(self, path, **options)

    def save(self, path: str | Path, *, compact: bool = False, overwrite: bool = False) -> Path:
        """Write the posterior to one npz file without pickles; `compact` leaves out surrogate and evaluations."""
        from vsbq.io.files.posterior_file import PosteriorFileError, save

        if self.prior_change is not None and not compact:
            raise PosteriorFileError(
                "A prior of yours, a function, is part of this posterior, and files hold no functions. Save the "
                "posterior it came from and repeat with_prior, or save this one's mixture with compact=True."
            )
        return save(self, path, compact=compact, overwrite=overwrite)

    def with_prior(
        self,
        log_prior: Callable[[ndarray], Any],
        *,
        old_log_prior: Callable[[ndarray], Any] | None = None,
        rng: RandomState = None,
        settings: Settings | Steps | None = None,
    ) -> Posterior:
        """What the posterior would be under another prior, without a call of the model.

        If the old prior is known as a function too, the draws get new weights, as long as enough of them count;
        otherwise the evaluations are fitted anew, for which they must hold `log_prior`. Bounds stay as they are: the
        new prior is cut off there. `prior_change` of the result is None after a new fit.

        Args:
            log_prior: log density of the new prior, of points (n, D) or of one point, with all constants.
            old_log_prior: the same of the prior that the evaluations were made with. Not needed after an earlier
                `with_prior`, nor if the evaluations hold a log prior that is the same everywhere.
            rng: None, an integer or a NumPy Generator.
            settings: of the new fit, if there is one.
        """
        from vsbq.analysis.prior_change import with_prior

        return with_prior(self, log_prior, old_log_prior=old_log_prior, rng=rng, settings=settings)

    def compare(self, others: Any, names: Sequence[str] | None = None, **options: Any) -> Comparison:
        """Bayes factors and model probabilities against another posterior, several, or a dict of them by name.

        `names` are of all models, this one first; of this one alone with a dict. Options are those of `vsbq.compare`.
        """
        from vsbq.analysis.comparison import compare_with

        return compare_with(self, others, names, **options)

    def to_arviz(self, n: int = 4000, rng: RandomState = None, chains: int | None = None) -> xarray.DataTree:
        """Draws, evaluations and fit as a DataTree of ArviZ, over `sample`, or over `chain` and `draw` if `chains`."""
        from vsbq.io.files.exports import to_arviz

        return to_arviz(self, n, rng, chains)

    def to_getdist(
        self, n: int = 10_000, rng: RandomState = None, *, labels: Sequence[str] | None = None
    ) -> getdist.MCSamples:
        """Draws as getdist's MCSamples, with names, LaTeX labels and ranges."""
        from vsbq.io.files.exports import to_getdist

        return to_getdist(self, n, rng, labels=labels)

    def start_ensemble(self, walkers: int, rng: RandomState = None) -> Float[ndarray, "n d"]:
        """Distinct draws strictly inside the bounds, to start emcee or another ensemble sampler."""
        from vsbq.io.files.exports import start_ensemble

        return start_ensemble(self, walkers, rng)

    def live_points(self, n: int, rng: RandomState = None, *, widen: float = 1.5) -> LivePoints:
        """A start for nested samplers, with the prior that makes it right; see `LivePoints` for how to use it."""
        from vsbq.io.files.exports import live_points

        return live_points(self, n, rng, widen=widen)

    def mass_matrix(
        self, space: Literal["unconstrained", "user"] = "unconstrained", *, rng: RandomState = None
    ) -> MassMatrix:
        """Inverse metric (covariance) for Hamiltonian Monte Carlo, in Stan's unconstrained space or in the user's."""
        from vsbq.io.files.exports import mass_matrix

        return mass_matrix(self, space, rng=rng)

    def covmat_text(self) -> str:
        """The covariance with a line of names, as Cobaya reads it."""
        from vsbq.io.files.exports import covmat_text

        return covmat_text(self)

    def save_covmat(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write `covmat_text` to a file."""
        from vsbq.io.files.exports import save_covmat

        return save_covmat(self, path, overwrite=overwrite)

    def __repr__(self) -> str:
        return (
            f"Posterior of {self.dimension} parameters ({', '.join(self.names)}): "
            f"log evidence {self.log_evidence:.3f} ± {self.log_evidence_sd:.3f}, ELBO {self.elbo:.3f}"
        )
