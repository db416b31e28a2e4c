"""What if the prior were different? The posterior under another prior, by weights or by a new fit.

With both priors known as functions, the new density is the old one times new / old, normalised: the draws of the
refinement get new weights, and no fit is needed as long as enough of them still count. Where too few do, or the old
prior is known at the evaluations only, the evaluations are fitted again with the new prior in place of the old one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.analysis.update import told_support
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, count_in_words, rows_in_words
from vsbq.fit import fit
from vsbq.history import Elbo, Evidence
from vsbq.numerics import mixture as mix
from vsbq.numerics.em import effective_size, weighted_em
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.weights import weigh
from vsbq.posterior import Posterior
from vsbq.posterior.density import log_density, log_inside
from vsbq.posterior.prior import LogPrior, PriorChange, log_ratio
from vsbq.progress import logger
from vsbq.randomness import RandomState
from vsbq.settings import Settings, Steps
from vsbq.steps.refine import Refined, Refinement, surrogate_sd

__all__ = ["with_prior"]

#: Weighted draws are used if they are worth at least this many, and only this share of them was impossible before.
LEAST_EFFECTIVE = 1000
MOST_IMPOSSIBLE = 1e-3

#: Share of the new mass that may lie where the surrogate is not trusted, unless it was as much before.
MOST_OUTSIDE = 0.05

#: An old prior may differ from what the evaluations hold by so much, relative and absolute: tables are often rounded.
ROUNDING = 1e-6
ROUNDING_AT_ZERO = 1e-4

#: Draws at which an old prior is compared where there are no evaluations.
CHECKED_DRAWS = 100

#: Steps of expectation maximisation from the old mixture to the new draws, and points that the old scatter counts.
EM_STEPS = 20
CAUTION = 2.0

#: Draws of the new mixture from which its ELBO is taken.
ELBO_DRAWS = 4000


def with_prior(
    post: Posterior,
    log_prior: Callable[[ndarray], Any],
    *,
    old_log_prior: Callable[[ndarray], Any] | None = None,
    rng: RandomState = None,
    settings: Settings | Steps | None = None,
) -> Posterior:
    """The posterior under another prior; see `Posterior.with_prior`."""
    generator = np.random.default_rng(rng)
    new = LogPrior.of(log_prior, post.sample(post.dimension + 2, 0), "The new log prior")
    old = _old_prior(post, old_log_prior)
    moved: Posterior | str = "the prior of the evaluations is not known as a function: pass old_log_prior="
    if old is not None:
        moved = _reweighted(post, old, new, generator)
    if not isinstance(moved, str):
        return moved
    logger.info("with_prior: no weights, as %s", moved)
    changed = _changed_evaluations(post.evaluations, old, new)
    if changed is None:
        raise EvaluationsError(
            f"The prior can't be changed. By weights: {moved}. By a new fit: the evaluations are "
            f"{'not in this posterior' if post.evaluations is None else 'of likelihood and prior together'}. Make "
            "Evaluations with log_prior= (or pass old_log_prior=), and fit or load them in full."
        )
    noted = changed._with_notes([*changed.notes, f"Changed the prior by a new fit: {moved}."])
    return fit(noted, support=told_support(post), settings=settings, rng=generator, progress=False)


def _old_prior(post: Posterior, given: Callable[[ndarray], Any] | None) -> LogPrior | None:
    """The prior so far as a function: given, of an earlier change, or the same at all evaluations, that is flat."""
    if given is not None:
        old = LogPrior.of(given, post.sample(post.dimension + 2, 0), "The old log prior")
        _check_old(old, post)
        return old
    if post.prior_change is not None:
        return post.prior_change.new
    known = None if post.evaluations is None else post.evaluations.log_prior
    if known is None or not np.isfinite(known[0]) or np.ptp(known) > 0:
        return None
    flat = float(known[0])
    return LogPrior(lambda x: np.full(len(x), flat), False, "The flat prior")


def _check_old(old: LogPrior, post: Posterior) -> None:
    """Refuse an old prior that is not the one this posterior has: its evaluations or an earlier change tell."""
    seen = post.evaluations
    if seen is None:
        if post.prior_change is not None:
            x = post.sample(CHECKED_DRAWS, 0)
            _check_agreement(old(x), post.prior_change.new(x), "that of the earlier change, at draws,")
        return
    values = old(seen.points)
    zero = np.flatnonzero(np.isneginf(values) & np.isfinite(seen.log_density)).tolist()
    if zero:
        raise EvaluationsError(
            f"The old log prior is -inf in {count_in_words(len(zero), 'row')} whose log density is finite "
            f"{rows_in_words(zero)}. Pass the log density of the prior that the evaluations were made with."
        )
    if seen.log_prior is not None:
        _check_agreement(values, seen.log_prior, "that of the evaluations")


def _check_agreement(values: Float[ndarray, " n"], known: Float[ndarray, " n"], whose: str) -> None:
    """Refuse log priors that differ by more than rounding; a known one of -inf is passed over, as its row may have
    failed."""
    rows = np.flatnonzero(np.isfinite(known))
    values, known = values[rows], known[rows]
    wrong = ~(np.abs(values - known) <= _rounding(known))
    if wrong.any():
        found, remedy = _disagreement(values, known, wrong, rows)
        raise EvaluationsError(f"The old log prior differs from {whose} {found}. {remedy}")


def _rounding(known: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return ROUNDING * (1 + np.abs(known)) + ROUNDING_AT_ZERO


def _disagreement(
    values: Float[ndarray, " n"], known: Float[ndarray, " n"], wrong: Bool[ndarray, " n"], rows: Int[ndarray, " n"]
) -> tuple[str, str]:
    """How log priors differ, and what to do: a constant, the sign, or more than that."""
    gap, every = values - known, f"all {count_in_words(len(rows), 'row')}"
    if np.isfinite(gap).all() and np.ptp(gap) <= 2 * _rounding(known).max():
        found = f"by the same {gap[0]:+.6g} in {every}: the evidence would be off by it"
        return found, "One of the two lacks this constant; add it there."
    if (np.abs(values + known) <= _rounding(known)).all():
        return f"in its sign in {every}", "Pass the log density, not minus it."
    worst = int(np.argmax(np.where(wrong, np.abs(gap), 0.0)))
    where = f"in {wrong.sum()} of {count_in_words(len(rows), 'row')} {rows_in_words(rows[wrong].tolist())}"
    example = f"it is {values[worst]:.6g}, not {known[worst]:.6g}, in row {rows[worst]}"
    return f"{where}: {example}", "Pass the log density of the prior that the evaluations were made with."


def _changed_evaluations(given: Evaluations | None, old: LogPrior | None, new: LogPrior) -> Evaluations | None:
    """Evaluations with the new prior in place of the old one; None where their likelihood is not known."""
    if given is None:
        return None
    before = given.log_prior if given.log_prior is not None or old is None else old(given.points)
    if before is None:
        return None
    after = new(given.points)
    # Where the old prior is zero, nothing is known of the likelihood.
    known = np.isfinite(before) | np.isneginf(after)
    with np.errstate(invalid="ignore"):
        density = np.where(np.isneginf(after), -np.inf, given.log_density - before + after)
    made = Evaluations(
        given.points[known],
        density[known],
        log_prior=after[known],
        log_density_sd=None if given.log_density_sd is None else given.log_density_sd[known],
        bounds=given.bounds,
        names=given.names,
        check_sign=False,
        tag=given.tag,
    )
    notes = [*given.notes, *made.notes, "The prior is not the one of the original evaluations."]
    if not known.all():
        gone = np.flatnonzero(~known).tolist()
        notes.append(f"Left out {len(gone)} evaluations whose old prior is zero {rows_in_words(gone)}.")
    return made._with_notes(notes)


# By weights


class _Weighted(NamedTuple):
    """Draws of the refinement with their weights under the new prior."""

    ratio: Float[ndarray, " n"]  # log of new / old, −inf where it does not count
    weights: Float[ndarray, " n"]
    log_mean: float
    shape: float
    effective: float


def _reweighted(post: Posterior, old: LogPrior, new: LogPrior, rng: np.random.Generator) -> Posterior | str:
    """The posterior with new weights, or why they are not good enough."""
    if post.refined is None:
        return "there are no weighted draws in this posterior (not refined, or from a compact file)"
    x = post.space.inverse(post.refined.points)
    found = _weigh(post.refined, log_ratio(old, new, x))
    if isinstance(found, str):
        return found
    change = PriorChange(partial(log_density, post), old, new, found.log_mean, found.shape, found.effective)
    evidence = _evidence(post, x, found, rng)
    if isinstance(evidence, str):
        return evidence
    counted = found.weights > 0
    mixture = weighted_em(
        post.mixture, post.refined.points[counted], found.weights[counted], EM_STEPS, CAUTION * post.dimension
    )
    to_mixture = _mixture_weights(post, mixture)
    refined = Refined(post.refined.points, found.weights, to_mixture, evidence, post.refined.region)
    try:
        evaluations = _changed_evaluations(post.evaluations, old, new)
    except EvaluationsError:
        evaluations = None  # too few of them count under the new prior to stand on their own
    moved = replace(
        post, mixture=mixture, evaluations=evaluations, surrogate=None, refined=refined, prior_change=change
    )
    return replace(moved, elbo_estimate=_elbo(moved, x, found.ratio, rng))


def _weigh(refined: Refined, ratio: Float[ndarray, " n"]) -> _Weighted | str:
    """Weights of the draws times new / old, smoothed; or why they can't be used."""
    impossible = float(refined.weights[np.isposinf(ratio)].sum())
    if impossible > MOST_IMPOSSIBLE:
        return f"{100 * impossible:.1f} % of the posterior lies where the old prior is zero and the new one is not"
    ratio = np.where(np.isposinf(ratio), -np.inf, ratio)
    rows = np.flatnonzero((refined.weights > 0) & np.isfinite(ratio))
    if len(rows) < LEAST_EFFECTIVE:
        return f"the new prior leaves only {len(rows)} of the draws"
    logs = np.log(refined.weights[rows]) + ratio[rows]
    if np.ptp(ratio[rows]) < 1e-9:  # the same prior but for a constant and an edge
        plain = np.where(np.isfinite(ratio), refined.weights, 0.0)
        log_mean = float(ratio[rows[0]] + np.log(plain.sum() / refined.weights.sum()))
        return _Weighted(ratio, plain / plain.sum(), log_mean, 0.0, effective_size(plain))
    found = weigh(logs)
    if not found.good_enough(len(ratio), LEAST_EFFECTIVE):
        return f"the draws are worth only {found.effective:.0f} under the new prior (Pareto shape {found.shape:.2f})"
    weights = np.zeros(len(ratio))
    weights[rows] = found.weights
    log_mean = found.log_mean + float(np.log(len(rows)) - np.log(refined.weights.sum()))
    return _Weighted(ratio, weights, log_mean, found.shape, found.effective)


def _evidence(post: Posterior, x: Float[ndarray, "n d"], found: _Weighted, rng: np.random.Generator) -> Evidence | str:
    """The evidence under the new prior, or why the new weights are not to be trusted with it."""
    assert post.refined is not None
    before, region = post.refined.evidence, post.refined.region
    turned = region.surrogate.space.forward(x)
    rows = np.flatnonzero(found.weights > 0)
    outside = float(found.weights[rows[np.isnan(region.log_density(turned[rows]))]].sum())
    if outside > max(MOST_OUTSIDE, 2 * -np.expm1(-before.outside)):
        return f"{100 * outside:.0f} % of the new posterior lies where the surrogate can't be trusted"
    noise = float(np.sqrt(before.monte_carlo_error**2 + max(1.0 / found.effective - 1.0 / len(x), 0.0)))
    sd = surrogate_sd(region.surrogate, turned, found.weights, Refinement(), rng)
    value, beyond = before.value + found.log_mean, -float(np.log1p(-outside))
    return before._replace(value=value, surrogate_sd=sd, outside=beyond, monte_carlo_error=noise)


def _mixture_weights(post: Posterior, mixture: Mixture) -> Float[ndarray, " n"]:
    """Weights of the draws towards another mixture."""
    assert post.refined is not None
    u, before = post.refined.points, post.refined.mixture_weights
    rows = np.flatnonzero(before > 0)
    out = np.zeros(len(u))
    logs = np.log(before[rows]) + mix.log_pdf(mixture, u[rows]) - mix.log_pdf(post.mixture, u[rows])
    out[rows] = np.exp(logs - logsumexp(logs))
    return out


def _elbo(moved: Posterior, x: Float[ndarray, "n d"], ratio: Float[ndarray, " n"], rng: np.random.Generator) -> Elbo:
    """Log evidence minus KL(mixture, posterior), the mixture being cut off where the new prior or the density is
    zero."""
    assert moved.refined is not None
    evidence = moved.refined.evidence
    edge = log_inside(moved, moved.refined.points)
    weights = np.where(np.isfinite(ratio), moved.refined.mixture_weights, 0.0) * np.exp(edge)
    mass = float(weights.sum())
    rows = rng.choice(len(weights), ELBO_DRAWS, p=weights / mass)
    u = moved.refined.points[rows]
    cut = mix.log_pdf(moved.mixture, u) + edge[rows] - moved.space.log_jacobian(u)
    gap = log_density(moved, x[rows]) - cut
    error = float(gap.std() / np.sqrt(len(gap)))
    return Elbo(evidence.value + float(gap.mean()) + float(np.log(mass)), evidence.surrogate_sd, error)
