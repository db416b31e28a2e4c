"""The whole algorithm on one page: trim, fit the surrogate, fit the mixture, refine, diagnose."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from vsbq._typing import ArrayLike
from vsbq._version import __version__
from vsbq.data.bounds import BoundsLike
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, FitError, VsbqError, VsbqWarning, lists_options
from vsbq.history import Elbo, History, SurrogateFit, VariationalFit
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.threads import one_blas_thread
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Diagnosis, diagnose
from vsbq.progress import Progress
from vsbq.randomness import RandomState, Seed, in_words, one_of
from vsbq.settings import MixtureStep, Settings, Steps, SurrogateStep, choices
from vsbq.steps.mixture.fit import fit_variational
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.mixture.starts import moved
from vsbq.steps.model import LogDensityModel
from vsbq.steps.noise import settle_noise
from vsbq.steps.refine import refine
from vsbq.steps.region import TrustedRegion
from vsbq.steps.support import InSupport, beyond_cliffs, find_support
from vsbq.steps.surrogate.fit import fit_sparse_gp
from vsbq.steps.surrogate.shaped_data import SparseGP
from vsbq.steps.trim import TrainingSet, trim_evaluations

#: How often evaluations beyond a cliff are set apart, and the surrogate fitted without them.
MOST_CLIFFS = 2

#: What people may expect of `fit`, and where it is.
IN_EVALUATIONS = "It belongs to the evaluations: vsbq.fit(vsbq.Evaluations(points, ..., {0}=...)). "
HINTS = {
    name: IN_EVALUATIONS.format(name) for name in ("log_likelihood", "log_prior", "zero_below", "nonfinite", "outside")
}
HINTS |= dict.fromkeys(("noise", "sigma", "sd", "noise_sd"), "Noise of the log density is log_density_sd=. ")
HINTS |= dict.fromkeys(("random_state", "random_seed"), "Did you mean 'rng'? ")
HINTS |= dict.fromkeys(("loss", "cost", "nll"), "Values that were minimised are neg_log_density=, if they are one. ")


@lists_options("vsbq.fit", HINTS)
def fit(
    points: ArrayLike | Evaluations,
    log_density: ArrayLike | None = None,
    *,
    neg_log_density: ArrayLike | None = None,
    log_density_sd: ArrayLike | None = None,
    bounds: BoundsLike = None,
    plausible_bounds: BoundsLike = None,
    names: Sequence[str] | None = None,
    tag: str | None = None,
    support: InSupport | None = None,
    settings: Settings | Steps | None = None,
    start: Posterior | None = None,
    rng: RandomState = None,
    seed: Seed = None,
    progress: bool | None = None,
) -> Posterior:
    """Posterior from log-density evaluations, with no further call of the model.

    Args:
        points: evaluated parameters, (n, D), or an `Evaluations` that holds everything up to `tag`.
        log_density: log of likelihood times prior at each point, with respect to the parameters as they are given.
        neg_log_density: the same with a minus sign, for people who minimise; give one of the two.
        log_density_sd: standard deviation of the noise of each value: None (exact), one number, or one for each.
        bounds: hard bounds, outside which the density is zero: pairs (None where open), a (D, 2) array,
            a `scipy.optimize.Bounds`, or a dict by name.
        plausible_bounds: a box that is likely to hold most of the posterior; inferred from the evaluations if None.
        names: of the parameters.
        tag: which model and data these are of, in your words; models of different tags are not compared.
        support: a function of points (n, D) that returns n booleans, true where the density is not zero, if this is
            known without a call of the model; otherwise evaluations of -inf tell where the density ends.
        settings: choices of the algorithm; the default is meant for every problem.
        start: a posterior from some of these evaluations, from which the fit goes on; see also `Posterior.update`.
        rng: None, an integer or a NumPy Generator; the same one gives the same posterior on the same machine. BLAS
            has one thread during the fit, whatever it has before and after; with another BLAS, digits differ.
        seed: another word for an integer as `rng`.
        progress: None shows a bar in a terminal and in a notebook, and elsewhere a line on stderr for each stage;
            True shows a bar anywhere, False prints nothing.

    Example:
        Evaluations of a standard normal density of two parameters, as an optimiser would leave them behind::

            import numpy as np
            import vsbq

            points = np.random.default_rng(1).normal(0, 2, (300, 2))
            log_density = -0.5 * (points**2).sum(axis=1)  # log likelihood + log prior, with your model
            post = vsbq.fit(points, log_density, names=["a", "b"], rng=1)
            print(post.summary())  # mean, sd and interval of each parameter
            print(post.verdict)  # "trusted", "doubtful" or "rejected"
            draws = post.sample(4000, rng=2)

        The documentation begins with docs/quickstart.md; docs/loss.md says what a log density is.
    """
    random = one_of(rng, seed)
    given = _evaluations(
        points,
        log_density=log_density,
        neg_log_density=neg_log_density,
        log_density_sd=log_density_sd,
        bounds=bounds,
        plausible_bounds=plausible_bounds,
        names=names,
        tag=tag,
    )
    if start is not None:
        _check_start(start, given)
    # Whatever the user has set for floating-point errors: underflow is part of the work here, the rest is not.
    with np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"), _in_words(), one_blas_thread():
        steps = _steps(settings)
        shown = Progress(4 if steps.refinement is None else 5, progress)
        post = _infer(given, steps, (start, support), np.random.default_rng(random), shown)
    _warn(post.diagnosis)
    return _noted(post, settings or Settings(), random)


def _noted(post: Posterior, settings: Settings | Steps, random: RandomState) -> Posterior:
    """With what it takes to repeat the fit, for its file and its report."""
    chosen = tuple(str(choice) for choice in choices(settings))
    history = post.history and post.history._replace(rng=in_words(random), settings=chosen)
    return replace(post, history=history)


def _infer(
    given: Evaluations,
    steps: Steps,
    known: tuple[Posterior | None, InSupport | None],
    rng: np.random.Generator,
    progress: Progress,
) -> Posterior:
    """The algorithm: trim, fit the surrogate, fit the mixture, refine. Known may be an earlier posterior, and where the
    density is not zero."""
    start, in_support = known
    refined, refined_fit, noise, settled = None, None, None, given
    try:
        with progress.stage("trim"):
            if steps.noise is not None:
                settled, noise = settle_noise(given, steps.noise, steps.trim, rng.spawn(1)[0])
            training, trimmed = trim_evaluations(settled, steps.trim)
            support = find_support(training, in_support, rng.spawn(1)[0])
        with progress.stage("surrogate"):
            plain = training  # in the coordinates before the surrogate's
            surrogate, training, surrogate_fit = fit_surrogate(plain, steps.surrogate, rng, progress)
            for _ in range(MOST_CLIFFS):
                cliff = beyond_cliffs(surrogate, plain, support, rng.spawn(1)[0])
                if cliff is None:
                    break
                plain, support = cliff
                surrogate, training, surrogate_fit = fit_surrogate(plain, steps.surrogate, rng, progress)
        with progress.stage("mixture"):
            region = TrustedRegion.around(surrogate, training, support)
            earlier = None if start is None else moved(start.mixture, start.space, training.space)
            mixture, elbo, mixture_fit = fit_mixture(region, training, steps.mixture, rng, progress, earlier)
        if steps.refinement is not None:
            with progress.stage("refinement"):
                refined, refined_fit = refine(mixture, region, steps.refinement, rng, progress)
        history = History(trimmed, surrogate_fit, mixture_fit, progress.seconds, __version__, refined_fit, noise)
        space = training.space
        found = space.plain, space.mixture_to_plain(mixture), elbo, training.offset, given, surrogate, history, refined
        post = Posterior(given.names, *found, support=support)
        with progress.stage("diagnosis"):
            return replace(post, diagnosis=diagnose(post))
    finally:
        progress.close()


def fit_surrogate(
    training: TrainingSet, how: SparseGP | SurrogateStep, rng: np.random.Generator, progress: Progress
) -> tuple[LogDensityModel, TrainingSet, SurrogateFit]:
    """Step 2, by the default or by another model of the log density."""
    if isinstance(how, SparseGP):
        return fit_sparse_gp(training, how, rng, progress)
    return how.fit(training, rng, progress)


def fit_mixture(
    region: TrustedRegion,
    training: TrainingSet,
    how: VariationalMixture | MixtureStep,
    rng: np.random.Generator,
    progress: Progress,
    earlier: Mixture | None,
) -> tuple[Mixture, Elbo, VariationalFit]:
    """Step 3, by the default or in another way."""
    if isinstance(how, VariationalMixture):
        return fit_variational(region, training, how, rng, progress, earlier=earlier)
    return how.fit(region, training, rng, progress, earlier)


def _steps(settings: Settings | Steps | None) -> Steps:
    return settings if isinstance(settings, Steps) else (settings or Settings()).steps()


def _warn(diagnosis: Diagnosis | None) -> None:
    """Say the verdict and its main reasons, unless the fit is trusted."""
    if diagnosis is None or diagnosis.verdict == "trusted":
        return
    remedy = next((finding.remedy for finding in diagnosis.reasons if finding.remedy), "")
    words = [diagnosis.headline, remedy, "post.diagnose() tells more."]
    warnings.warn(" ".join(filter(None, words)), VsbqWarning, stacklevel=4)  # past the decorator


@contextmanager
def _in_words() -> Iterator[None]:
    """A last net: what breaks down in arithmetic that nobody foresaw reaches the user in the package's own words."""
    try:
        yield
    except VsbqError:
        raise
    except (ArithmeticError, ValueError) as error:
        raise FitError(
            f"The arithmetic of the fit broke down ({error}). vsbq.audit(evaluations) lists what looks odd about them; "
            "rescale parameters or log densities that span many orders of magnitude, and please report this."
        ) from error


def _check_start(start: Posterior, given: Evaluations) -> None:
    """Refuse to go on from a posterior of other parameters."""
    if start.names != given.names or start.bounds != given.bounds:
        raise EvaluationsError(
            "The posterior to start from has other parameters or bounds than the evaluations. Pass one that was fitted "
            "to some of these evaluations, with the same names and bounds, or leave start out."
        )


def _evaluations(points: ArrayLike | Evaluations, **options: Any) -> Evaluations:
    """The evaluations themselves, or made from arrays."""
    if not isinstance(points, Evaluations):
        return Evaluations(points, **options)
    extra = [name for name, value in options.items() if value is not None]
    if extra:
        raise EvaluationsError(
            f"An Evaluations already holds its values, bounds and names, but {', '.join(extra)} was given as well. "
            "Pass them when the Evaluations is made."
        )
    return points
