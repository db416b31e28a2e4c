"""What the user gets: the posterior in the user's own space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.errors import count_in_words, lists_options
from vsbq.history import Elbo, Evidence, History
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import density, moments
from vsbq.posterior.density import CutDraws
from vsbq.posterior.diagnosis import Diagnosis, diagnose
from vsbq.posterior.improvement import Improvement
from vsbq.posterior.marginal import Marginal
from vsbq.posterior.prior import PriorChange
from vsbq.posterior.summary import LEVEL, Summary
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.settings import Settings, Steps
from vsbq.steps.model import LogDensityModel
from vsbq.steps.refine import Refined
from vsbq.steps.support import Support

if TYPE_CHECKING:
    import getdist
    import pandas
    import xarray
    from matplotlib.figure import Figure

    from vsbq.analysis.check import Check
    from vsbq.analysis.comparison import Comparison
    from vsbq.analysis.predictive import Predictive
    from vsbq.analysis.suggest import Suggestions
    from vsbq.io.files.starts import LivePoints, MassMatrix


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
    support: Support | None = None  # where the density is not zero; None if it nowhere is
    tag: str | None = None  # which model and data it is of: that of the evaluations, where they are here
    diagnosis: Diagnosis | None = None  # made by the fit, or loaded; `diagnose` makes it where it is missing
    improvement: Improvement | None = None  # what `improve` did; not kept in files

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

    @cached_property
    def cut(self) -> CutDraws | None:
        """Draws that stand for what the support leaves of the mixture; None where it leaves all."""
        return density.cut_draws(self)

    @property
    def elbo(self) -> float:
        """Lower bound of the surrogate's log evidence, by the mixture; `log_evidence` may be above or below it."""
        return self.elbo_estimate.value + self.offset

    @property
    def elbo_sd(self) -> float:
        """Standard deviation of the ELBO under the surrogate's own uncertainty; not its distance to the evidence."""
        return self.elbo_estimate.sd

    @property
    def log_evidence(self) -> float:
        """Log evidence of the refined posterior: the surrogate's where it can be trusted; the ELBO without refinement.
        It is the model's only where the log densities hold a normalised prior and every constant."""
        evidence = self.evidence_parts
        return self.elbo if evidence is None else evidence.value + self.offset

    @property
    def log_evidence_sd(self) -> float:
        """What `log_evidence` may be off by: all that `Evidence` lists, from the surrogate to Monte Carlo. Without a
        refinement it is `elbo_sd`; infinite where a refinement found no draw that can be trusted.
        """
        if self.evidence_parts is not None:
            return self.evidence_parts.sd
        tried = None if self.history is None else self.history.refinement
        return float(np.inf) if tried is not None and tried.method == "none" else self.elbo_sd

    @property
    def evidence_parts(self) -> Evidence | None:
        """The log evidence relative to the offset, and what it may be off by; None without a refinement."""
        return self.evidence_estimate if self.refined is None else self.refined.evidence

    def sample(self, n: int = 4000, rng: RandomState = None, *, seed: Seed = None) -> Float[ndarray, "n d"]:
        """n draws (4000 unless told) of equal weight in random order, one row each, in the user's space.

        `rng` is None, an integer or a NumPy Generator; `seed` is another word for an integer, here and in every
        method. They come from the draws of the refinement; if you ask for more than there are, some are repeated.
        """
        return density.draw(self, n, np.random.default_rng(one_of(rng, seed)))

    def log_pdf(self, x: ArrayLike) -> Any:
        """Log posterior density with respect to the user's parameters; −inf outside the bounds and the support.

        One point of D numbers gives a number; n points (n, D) give n numbers.
        """
        return density.log_pdf(self, x)

    def pdf(self, x: ArrayLike) -> Any:
        """Posterior density; see `log_pdf`."""
        return np.exp(self.log_pdf(x))

    def marginal(self, parameter: int | str) -> Marginal:
        """The marginal posterior of one parameter, by name or by number (counted from 0)."""
        return moments.marginal(self, parameter)

    def mean(self) -> Float[ndarray, " d"]:
        """Posterior mean of each parameter."""
        return moments.mean(self)

    def cov(self) -> Float[ndarray, "d d"]:
        """Posterior covariance in the user's space."""
        return moments.cov(self)

    def quantile(self, q: ArrayLike) -> Float[ndarray, ...]:
        """Quantiles of each parameter: shape (D,) for one share, (len(q), D) for several."""
        return moments.quantile(self, q)

    def mode(self) -> Float[ndarray, " d"]:
        """The point of highest posterior density in the user's space (inside the region that holds the mass)."""
        return density.mode(self)

    def summary(self, level: float = LEVEL) -> Summary:
        """A small table with names: mean, sd, median and the central interval that holds 90 %, or another `level`."""
        return moments.summary(self, level)

    @cached_property
    def _own_diagnosis(self) -> Diagnosis:
        return self.diagnosis if self.diagnosis is not None else diagnose(self)

    @property
    def verdict(self) -> str:
        """ "trusted", "doubtful" or "rejected"; `diagnose` has the reasons."""
        return self._own_diagnosis.verdict

    # Doors: each imports its room only when it is called.

    def diagnose(self, refits: int = 0, rng: RandomState = None, *, seed: Seed = None) -> Diagnosis:
        """Whether this posterior can be used: a verdict, and findings with numbers, words and remedies.

        Without refits it costs little and is always the same. `refits` further fits, each as long as the first, show
        whether another seed, or evaluations left out (a fifth, or one run), lead to the same posterior.
        """
        from vsbq.analysis.refits import diagnose_with

        return diagnose_with(self, refits, one_of(rng, seed))

    def to_dataframe(self, n: int = 4000, rng: RandomState = None, *, seed: Seed = None) -> pandas.DataFrame:
        """Draws as a pandas DataFrame with one column per parameter."""
        from vsbq.io.files.exports import to_dataframe

        return to_dataframe(self, n, one_of(rng, seed))

    @lists_options("post.plot")
    def plot(
        self,
        *,
        draws: int = 20_000,
        evaluations: bool = True,
        truth: ArrayLike | None = None,
        others: Mapping[str, Posterior] | None = None,
        figure: Figure | None = None,
        rng: RandomState = None,
        seed: Seed = None,
    ) -> Figure:
        """Corner plot as a matplotlib `Figure`, with vsbq[plot]; `truth`: draws of a reference, `others`: by label."""
        from vsbq.report.corner import corner

        return corner(
            self, draws=draws, evaluations=evaluations, truth=truth, others=others, figure=figure, rng=rng, seed=seed
        )

    @lists_options("post.plot_diagnosis")
    def plot_diagnosis(self, *, figure: Figure | None = None) -> Figure:
        """Pictures of what `diagnose` finds, in a new figure or in an empty one; needs the extra vsbq[plot]."""
        from vsbq.report.diagnosis_plot import plot_diagnosis

        return plot_diagnosis(self, figure=figure)

    def suggest(self, n: int, rng: RandomState = None, *, seed: Seed = None) -> Float[ndarray, "n d"]:
        """n points whose evaluation would reduce the uncertainty most; pass their values to `update`."""
        from vsbq.analysis.suggest import suggest

        return suggest(self, n, one_of(rng, seed))

    def suggestions(
        self, n: int, rng: RandomState = None, *, pending: ArrayLike | None = None, seed: Seed = None
    ) -> Suggestions:
        """The points of `suggest` with a reason for each; `pending` are points whose values are still to come."""
        from vsbq.analysis.suggest import suggestions

        return suggestions(self, n, one_of(rng, seed), pending)

    def improve(self, log_density: Callable[[ndarray], Any], max_calls: int, **options: Any) -> Posterior:
        """Call the model where it helps most, until the verdict is "trusted" or the calls are used up.
        `log_density` takes one point (D,) and returns a number, or a pair of it and the sd of its noise. Options are
        those of `vsbq.improve.improve`; `improvement` of the result says how it went.
        """
        from vsbq.improve import improve

        return improve(self, log_density, max_calls, **options)

    def update(
        self,
        points: ArrayLike | Evaluations,
        log_density: ArrayLike | None = None,
        *,
        log_density_sd: ArrayLike | None = None,
        log_prior: ArrayLike | None = None,
        settings: Settings | Steps | None = None,
        rng: RandomState = None,
        seed: Seed = None,
        progress: bool | None = None,
    ) -> Posterior:
        """The posterior from these evaluations and the earlier ones together; the fit goes on from this one.

        `points` may also be an `Evaluations`. `log_prior` keeps the prior known where the earlier evaluations hold it.
        All else is as in `vsbq.fit`. Where the noise of the earlier evaluations was estimated, they keep the estimate.
        """
        from vsbq.analysis.update import update

        return update(
            *(self, points, log_density, log_density_sd, log_prior),
            settings=settings,
            rng=rng,
            seed=seed,
            progress=progress,
        )

    def check(
        self,
        log_density: Callable[[ndarray], Any],
        n: int = 500,
        *,
        log_density_sd: ArrayLike | None = None,
        rng: RandomState = None,
        seed: Seed = None,
    ) -> Check:
        """Evaluate the model itself at n points of this posterior: k-hat, corrected evidence and moments, new verdict.

        `log_density` is a function of points (n, D), or of one point. Where the model runs elsewhere, evaluate
        the points of `check_points` there, and pass them with their values to `reweight`.
        """
        from vsbq.analysis.check import check

        return check(self, log_density, n, log_density_sd=log_density_sd, rng=one_of(rng, seed))

    def check_points(self, n: int, rng: RandomState = None, *, seed: Seed = None) -> Float[ndarray, "n d"]:
        """n points at which the model should be evaluated to check and correct this posterior by `reweight`."""
        from vsbq.analysis.check import check_points

        return check_points(self, n, one_of(rng, seed))

    def reweight(self, points: ArrayLike, log_density: ArrayLike, log_density_sd: ArrayLike | None = None) -> Posterior:
        """This posterior corrected by values of the model at points of `check_points`, with a new verdict.

        Where the weights can't be relied on, it warns, and the posterior stays as it was, with a verdict that says so.
        """
        from vsbq.analysis.check import reweight

        return reweight(self, points, log_density, log_density_sd)

    def predictive(self, simulate: Callable[..., Any], observed: Any, n: int = 200, **options: Any) -> Predictive:
        """Data that `simulate` makes at n draws against the observed; see `vsbq.analysis.predictive.predictive`."""
        from vsbq.analysis.predictive import predictive

        return predictive(self, simulate, observed, n, **options)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write one self-contained HTML page that tells a colleague everything; see `vsbq.report.write_report`."""
        from vsbq.report.page import write_report

        return write_report(self, path, **options)

    def save(self, path: str | Path, *, compact: bool = False, overwrite: bool = False) -> Path:
        """Write the posterior to one npz file without pickles; `compact` leaves out surrogate and evaluations."""
        from vsbq.io.files.posterior_file import save

        return save(self, path, compact=compact, overwrite=overwrite)

    def with_prior(
        self,
        log_prior: Callable[[ndarray], Any],
        *,
        old_log_prior: Callable[[ndarray], Any] | None = None,
        rng: RandomState = None,
        seed: Seed = None,
        settings: Settings | Steps | None = None,
    ) -> Posterior:
        """What the posterior would be under another prior, without a call of the model.

        If the old prior is known as a function too, the draws get new weights, as long as enough of them count; else
        the evaluations are fitted again, and must hold `log_prior`; `prior_change` is then None. Bounds stay.

        Args:
            log_prior: log density of the new prior, of points (n, D) or of one point, with all constants.
            old_log_prior: the same of the prior that the evaluations were made with. Not needed after an earlier
                `with_prior`, nor if the evaluations hold a log prior that is the same everywhere.
        """
        from vsbq.analysis.prior_change import with_prior

        return with_prior(self, log_prior, old_log_prior=old_log_prior, rng=one_of(rng, seed), settings=settings)

    def compare(self, others: Any, names: Sequence[str] | None = None, **options: Any) -> Comparison:
        """Bayes factors and model probabilities against other posteriors, or a dict of them; see `vsbq.compare`."""
        from vsbq.analysis.comparison import compare_with

        return compare_with(self, others, names, **options)

    def to_arviz(
        self, n: int = 4000, rng: RandomState = None, chains: int | None = 4, *, seed: Seed = None
    ) -> xarray.DataTree:
        """Draws, evaluations and fit as a DataTree of ArviZ, over `chain` and `draw`; over `sample` if chains=None."""
        from vsbq.io.files.exports import to_arviz

        return to_arviz(self, n, one_of(rng, seed), chains)

    def to_getdist(
        self, n: int = 10_000, rng: RandomState = None, *, labels: Sequence[str] | None = None, seed: Seed = None
    ) -> getdist.MCSamples:
        """Draws as getdist's MCSamples, with names, LaTeX labels and ranges."""
        from vsbq.io.files.exports import to_getdist

        return to_getdist(self, n, one_of(rng, seed), labels=labels)

    def start_ensemble(self, walkers: int, rng: RandomState = None, *, seed: Seed = None) -> Float[ndarray, "n d"]:
        """Distinct draws strictly inside the bounds, to start emcee or another ensemble sampler."""
        from vsbq.io.files.starts import start_ensemble

        return start_ensemble(self, walkers, one_of(rng, seed))

    def live_points(self, n: int, rng: RandomState = None, *, widen: float = 1.5, seed: Seed = None) -> LivePoints:
        """A start for nested samplers, with the prior that makes it right; see `LivePoints` for how to use it."""
        from vsbq.io.files.starts import live_points

        return live_points(self, n, one_of(rng, seed), widen=widen)

    def mass_matrix(
        self, space: Literal["unconstrained", "user"] = "unconstrained", *, rng: RandomState = None, seed: Seed = None
    ) -> MassMatrix:
        """Inverse metric (covariance) for Hamiltonian Monte Carlo, in Stan's unconstrained space or in the user's."""
        from vsbq.io.files.starts import mass_matrix

        return mass_matrix(self, space, rng=one_of(rng, seed))

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
            f"Posterior of {count_in_words(self.dimension, 'parameter')} ({', '.join(self.names)}): "
            f"log evidence {self.log_evidence:.3f} ± {self.log_evidence_sd:.3f}, ELBO {self.elbo:.3f}"
            + (f", {self.diagnosis.verdict}" if self.diagnosis is not None else "")
        )

    def _repr_html_(self) -> str:
        return moments.as_html(self)
