"""A posterior checked against the model itself: a few more evaluations, Pareto-smoothed importance weights.

The points are drawn from the posterior, one in five from a wider mixture, so that mass around it is seen as well. The
weights lead from there to the model's own density: their mean is the evidence, and the shape of their tail, k̂, says
whether they can be relied on (Vehtari, Simpson, Gelman, Yao and Gabry 2024). The surrogate is not fitted again; that is
what `Posterior.update` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.errors import ArgumentError, EvaluationsError, VsbqError, VsbqWarning, as_count, rows_in_words
from vsbq.history import Evidence
from vsbq.markup import Markup, joined
from vsbq.numerics import mixture as mix
from vsbq.numerics.em import weighted_em
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.weights import Weighed, weigh
from vsbq.posterior import Posterior
from vsbq.posterior.density import log_density as posterior_density
from vsbq.posterior.diagnosis import THRESHOLDS, Diagnosis, Finding, diagnose, judged
from vsbq.posterior.diagnosis.distance import chance_distance, marginal_distance
from vsbq.randomness import RandomState
from vsbq.steps.refine import Refined
from vsbq.tables import caption

__all__ = ["Check", "check", "check_points", "reweight"]

#: Share of the points that come from the wider mixture, and how much wider its components are.
WIDE_SHARE = 0.2
WIDE_FACTOR = 2.0

#: Fewer points have no tail to speak of, and fewer effective ones no moments.
LEAST_POINTS = 50
LEAST_EFFECTIVE = 25.0

#: Share of the points from which on the weights are even but for a few.
EVEN_SHARE = 0.8

#: Noise in nats beyond which weights are mostly noise.
MOST_NOISE = 1.0

#: Steps of expectation maximisation towards the weighted draws, and points that the old scatter counts.
EM_STEPS = 20
CAUTION = 5.0

#: A region in which nothing is believed: the corrected density is that of the mixture, not of the surrogate.
NOWHERE = -1e300


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """What the model itself says of a posterior.

    Attributes:
        k_hat: shape of the tail of the weights; below 0.7 they can be relied on.
        effective: how many draws of equal weight the points are worth.
        log_evidence: by the weights, with its standard error.
        log_evidence_sd: that error.
        mean: of each parameter, by the weights.
        sd: likewise.
        diagnosis: the verdict after the check.
        posterior: the corrected posterior; the old one, with the new verdict, where the check can't correct it.
        points: that were evaluated.
        log_density: their values.
    """

    k_hat: float
    effective: float
    log_evidence: float
    log_evidence_sd: float
    mean: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]
    diagnosis: Diagnosis
    posterior: Posterior
    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]

    @property
    def helps(self) -> bool:
        """Whether the weights can be relied on."""
        return self.diagnosis.finding("k-hat").level == "trusted"

    def __str__(self) -> str:
        return (
            f"{len(self.points)} evaluations of the model: k-hat {self.k_hat:.2f}, worth {self.effective:.0f} draws, "
            f"log evidence {self.log_evidence:.3f} ± {self.log_evidence_sd:.3f}\n{self.diagnosis}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return str(joined(caption(str(self).split("\n", 1)[0]), Markup(self.diagnosis._repr_html_())))


class _Weighted(NamedTuple):
    """Points with smoothed weights, the log of their mean and its error; by how much the posterior moves if they take
    the place of its own weights, and by how much as many draws of equal weight would move it by chance."""

    found: Weighed
    log_evidence: float
    error: float
    log_proposal: Float[ndarray, " n"]
    moves: float
    chance: float


def check_points(post: Posterior, n: int, rng: RandomState = None) -> Float[ndarray, "n d"]:
    """n points at which the model should be evaluated to check a posterior; see `Posterior.check_points`."""
    _refuse_changed(post)
    n = as_count(n, "The number of points", 1)
    random = np.random.default_rng(rng)
    wide = round(WIDE_SHARE * n)
    far = post.space.inverse(mix.sample(_widened(post.mixture), wide, random))
    return random.permutation(np.concatenate([post.sample(n - wide, random), far]))


def check(
    post: Posterior,
    log_density: Callable[[ndarray], Any],
    n: int = 500,
    *,
    log_density_sd: ArrayLike | None = None,
    rng: RandomState = None,
) -> Check:
    """Evaluate the model at points of the posterior; see `Posterior.check`."""
    points = check_points(post, n, rng)
    values = _called(log_density, points)
    _check_rows(post, points, values)
    return _checked(post, points, values, log_density_sd)


def reweight(
    post: Posterior, points: ArrayLike, log_density: ArrayLike, log_density_sd: ArrayLike | None = None
) -> Posterior:
    """The posterior corrected by the model's values at points of `check_points`; see `Posterior.reweight`."""
    x = np.atleast_2d(np.asarray(points, dtype=np.float64))
    values = np.asarray(log_density, dtype=np.float64).reshape(-1)
    _check_rows(post, x, values)
    found = _checked(post, x, values, log_density_sd)
    if not found.helps:
        reason = found.diagnosis.finding("k-hat")
        warnings.warn(f"{reason.message} {reason.remedy}", VsbqWarning, stacklevel=3)
    return found.posterior


def _refuse_changed(post: Posterior) -> None:
    if post.prior_change is not None:
        raise VsbqError(
            "This posterior was turned to another prior. Check the posterior that it came from, and call with_prior on "
            "the result."
        )


def _called(function: Callable[[ndarray], Any], points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Values of a function of points (n, D), or of one point if it takes no more."""
    try:
        values = np.asarray(function(points.copy()), dtype=np.float64)
        if values.shape in ((len(points),), (len(points), 1)) and len(points) > 1:
            return values.reshape(-1)
    except Exception:  # if it is wrong with one point as well, that is raised below
        pass
    return np.array([_number(function(row)) for row in points.copy()])


def _number(value: Any) -> float:
    """What the model gave at one point."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiub":
        raise ArgumentError(
            f"log_density gave {value!r:.60} at one point. Let it return one number, or one number for each of several "
            "points."
        )
    return float(array.item())


def _checked(post: Posterior, x: Float[ndarray, "n d"], values: Float[ndarray, " n"], noise: ArrayLike | None) -> Check:
    _refuse_changed(post)
    sd = np.zeros(len(x)) if noise is None else np.broadcast_to(np.asarray(noise, dtype=np.float64), len(x))
    weighted = _weigh(post, x, values, sd)
    weights = weighted.found.weights
    mean = weights @ x
    diagnosis = Diagnosis.of(_findings(post, weighted, len(x), float(np.median(sd))))
    helps = diagnosis.finding("k-hat").level == "trusted"
    if not helps:
        before = post.diagnosis if post.diagnosis is not None else diagnose(post)
        diagnosis = before.with_findings(diagnosis.findings)
    corrected = _corrected(post, x, weighted) if helps else post
    return Check(
        weighted.found.shape,
        weighted.found.effective,
        weighted.log_evidence,
        weighted.error,
        mean,
        np.sqrt(weights @ (x - mean) ** 2),
        diagnosis,
        replace(corrected, diagnosis=diagnosis),
        x,
        values,
    )


def _check_rows(post: Posterior, x: Float[ndarray, "n d"], values: Float[ndarray, " m"]) -> None:
    if x.shape[1] != post.dimension or len(x) != len(values):
        raise EvaluationsError(
            f"Points of shape {x.shape} and {len(values)} values do not belong together. Pass the points of "
            f"post.check_points, one row of {post.dimension} numbers for each value."
        )
    bad = np.flatnonzero(np.isnan(values) | np.isposinf(values) | ~np.isfinite(x).all(axis=1))
    if bad.size:
        raise EvaluationsError(
            f"Some values are NaN or +inf {rows_in_words(bad.tolist())}. Give -inf where the density is zero."
        )
    if post.bounds.outside(x).any():
        raise EvaluationsError("Some points are outside the bounds. Pass the points of post.check_points.")
    if np.isfinite(values).sum() < 2:
        raise EvaluationsError("The density is zero at all points but one or none, so that nothing can be weighed.")


def _weigh(
    post: Posterior, x: Float[ndarray, "n d"], values: Float[ndarray, " n"], sd: Float[ndarray, " n"]
) -> _Weighted:
    """Weights towards the model. Noise of variance s² makes an exponential larger by s²/2 on average."""
    u = post.space.forward(x)
    own = posterior_density(post, x) + post.space.log_jacobian(u) + _norm(post)
    wide = mix.log_pdf(_widened(post.mixture), u)
    proposal = np.logaddexp(np.log1p(-WIDE_SHARE) + own, np.log(WIDE_SHARE) + wide) - post.space.log_jacobian(u)
    logs = values - 0.5 * sd**2 - proposal
    finite = np.isfinite(logs)
    found = weigh(logs[finite])
    weights = np.zeros(len(x))
    weights[finite] = found.weights
    share = found.effective / len(x)
    error = float(np.sqrt(max(1.0 / share - 1.0, 0.0) / len(x)))
    value = found.log_mean + float(np.log(finite.mean()))
    before = np.exp(own - post.space.log_jacobian(u) - proposal)
    moves = marginal_distance(u, before / before.sum(), weights)
    return _Weighted(found._replace(weights=weights), value, error, proposal, moves, chance_distance(found.effective))


def _norm(post: Posterior) -> float:
    """What is added to the posterior's log density to make it integrate to one: its evidence is an expected logarithm,
    which is lower than the logarithm of the expectation that the weighted draws are of."""
    if post.refined is None:
        return 0.0
    return -min(0.5 * post.refined.evidence.surrogate_sd**2, post.refined.region.most_rise)


def _widened(mixture: Mixture) -> Mixture:
    return Mixture(mixture.log_weights, mixture.means, WIDE_FACTOR * mixture.trils)


def _findings(post: Posterior, weighted: _Weighted, n: int, noise: float) -> Iterator[Finding]:
    k_hat, effective = weighted.found.shape, weighted.found.effective
    limit = THRESHOLDS.limit("k hat")
    told = f"{n} evaluations of the model itself: k-hat {k_hat:.2f}, worth {effective:.0f} draws"
    remedy = "Pass these evaluations to post.update, which fits again with them."
    if n < LEAST_POINTS or effective < LEAST_EFFECTIVE or noise > MOST_NOISE:
        why = "too few to correct it" if noise <= MOST_NOISE else f"too noisy (sd {noise:.2g}) to correct it by weights"
        tells = n >= LEAST_POINTS and noise <= MOST_NOISE
        level = "rejected" if tells and limit.level(k_hat) == "rejected" else "doubtful"
        words = f"{told}, {why}: the posterior is as it was."
        yield Finding("k-hat", level, float(k_hat), limit.threshold(k_hat), words, remedy)
    elif limit.level(k_hat) != "trusted":
        # A few heavy weights among even ones are a doubt, but no proof that the posterior is wrong.
        level = "doubtful" if effective >= EVEN_SHARE * n else limit.level(k_hat)
        words = f"{told}: weights cannot correct the posterior, and it is as it was."
        yield Finding("k-hat", level, float(k_hat), limit.doubtful, words, remedy)
    else:
        moved = f"by them, which moves it by {weighted.moves:.0%} of its mass"
        agrees = "; it agrees with them as well as so few points can tell, and its draws stay as they are"
        words = (
            f"{told}{agrees}." if weighted.moves <= weighted.chance else f"{told}: the posterior is corrected {moved}."
        )
        yield judged("k-hat", k_hat, limit, words)
        words = f"The log evidence is {weighted.log_evidence:.3f} ± {weighted.error:.3f} by the model itself"
        words += f", and was {post.log_evidence:.3f} ± {post.log_evidence_sd:.3f}."
        yield judged("evidence", weighted.error, THRESHOLDS.limit("evidence"), words, "Evaluate more points.")


def _corrected(post: Posterior, x: Float[ndarray, "n d"], weighted: _Weighted) -> Posterior:
    """The posterior as the weighted points; its density is that of a mixture that is moved towards them. Where it moves
    by no more than chance would move it, only the evidence is corrected."""
    u, weights = post.space.forward(x), weighted.found.weights
    counted = weights > 0
    mixture = weighted_em(post.mixture, u[counted], weights[counted], EM_STEPS, CAUTION * post.dimension)
    evidence = Evidence(weighted.log_evidence - post.offset, 0.0, 0.0, weighted.error)
    if weighted.moves <= weighted.chance and post.refined is not None:
        known = evidence._replace(value=post.refined.evidence.value - _norm(post))  # with it the density is normalised
        return replace(post, refined=replace(post.refined, evidence=known), offset=weighted.log_evidence - known.value)
    if post.refined is None:
        return replace(post, mixture=mixture, evidence_estimate=evidence)
    towards = np.exp(mix.log_pdf(mixture, u) - post.space.log_jacobian(u) - weighted.log_proposal)
    region = replace(post.refined.region, most_mean=NOWHERE)
    return replace(post, mixture=mixture, refined=Refined(u, weights, towards / towards.sum(), evidence, region))
