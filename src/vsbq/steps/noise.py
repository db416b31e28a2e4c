"""Step 0: whether the evaluations are as noisy as they are said to be.

Nobody has to know the noise: replicates tell it, and so do neighbours, since a smooth log density hardly differs
between points that nearly coincide. A Gaussian process on groups of close neighbours learns one factor of all given
standard deviations, or one standard deviation where none was given. It is used only where the evidence for it is
strong, so that evaluations that are what they are said to be stay as they are.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import GRID
from vsbq.errors import VsbqWarning
from vsbq.history import NoiseFinding
from vsbq.numerics import exact
from vsbq.numerics.contours import NEGLIGIBLE, contour_depth, highest
from vsbq.numerics.optimise import GaussianPrior, Maximum, Objective, maximise_with_prior
from vsbq.numerics.subset import spread_rows
from vsbq.progress import logger
from vsbq.steps.surrogate.learning import weak_prior
from vsbq.steps.surrogate.shaped_data import NUGGET, ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet, Trim, copies, trim_evaluations

#: A given standard deviation below this, in nats, is as good as none: that of the surrogate's own nugget.
LEAST_GIVEN = NUGGET**0.5


@dataclass(frozen=True, kw_only=True)
class NoiseCheck:
    """When another noise than the given one is believed."""

    groups: int = 70
    neighbours: int = 5  # with the point itself, of which a group consists
    crowded: float = 0.3  # share of the points, those with the nearest neighbours, around which groups are
    most_seeds: int = 5000
    shortest: float = 0.6  # length scale, in units of the spread of the better points: what varies faster is noise
    depth: float = NEGLIGIBLE  # the contour below the best within which groups are looked for
    least_sd: float = 0.1  # nats; less noise than this is none
    jump: float = 3.0  # a gap this many times the rest of a group's range is a jump between two sides, not noise
    tolerable_factor: float = 1.25  # between the given and the estimated noise
    least_gain: float = 10.0  # nats of evidence
    enough_replicates: int = 30  # degrees of freedom with which replicates alone decide


def settle_noise(
    evaluations: Evaluations, settings: NoiseCheck, trim: Trim, rng: np.random.Generator
) -> tuple[Evaluations, NoiseFinding]:
    """The evaluations with the noise that is believed; a warning says so where it is not the given one."""
    given = evaluations.log_density_sd
    noisy = given is not None and bool((given > 0).any())
    same = NoiseFinding("given" if noisy else "exact", _typical(given), 1.0, 0)
    if given is not None and not (given > 0).all():
        return evaluations, same  # exact evaluations among them: the user knows which is which
    # A density of zero is a boundary and no value: what stands in for it would make every edge look noisy.
    finite = np.isfinite(evaluations.log_density)
    base = np.ones(len(finite)) if given is None else np.maximum(given, LEAST_GIVEN)
    valued = evaluations.take(finite).with_sd(base[finite])
    replicates = _replicate_variance(valued)
    same = same._replace(replicates=replicates.freedom)
    if replicates.freedom >= settings.enough_replicates and replicates.variance > 0:
        factor = float(np.sqrt(replicates.variance))
        sure = abs(np.log(replicates.variance)) > 4 * np.sqrt(2 / replicates.freedom) or not noisy
    else:
        # Without a given noise, the evaluations are trimmed as the exact ones that they are said to be.
        training, _ = trim_evaluations(valued if noisy else evaluations.take(finite), replace(trim, gradients=False))
        factor, gain = _learnt_factor(training, noisy, settings, rng)
        sure = gain > settings.least_gain
    logger.info(
        "noise: factor %.3g of %s, %s", factor, "the given" if noisy else "1 nat", "sure" if sure else "not sure"
    )
    off = abs(np.log(factor)) > np.log(settings.tolerable_factor) if noisy else factor > settings.least_sd
    if not (sure and off):
        return evaluations, same
    sd = factor * base
    factor = _typical(sd) / _typical(given) if noisy else factor
    found = NoiseFinding("rescaled" if noisy else "estimated", _typical(sd), factor, replicates.freedom)
    warnings.warn(found.words, VsbqWarning, stacklevel=4)
    return evaluations.with_sd(sd), found


def _typical(sd: Float[ndarray, " n"] | None) -> float:
    return 0.0 if sd is None else float(np.median(sd))


class _Replicates(NamedTuple):
    variance: float  # in units of the given variances
    freedom: int


def _replicate_variance(evaluations: Evaluations) -> _Replicates:
    """The pooled variance of evaluations at the same point, relative to the given variances; copies are none."""
    relative = evaluations.log_density - evaluations.log_density.max()
    values, sd = np.round(relative / GRID) * GRID, evaluations.log_density_sd
    assert sd is not None
    order = np.lexsort((sd, values, *evaluations.points.T[::-1]))  # whatever the order of the rows was
    order = order[~copies(evaluations.points[order], values[order])]
    points, values, weight = evaluations.points[order], values[order], 1.0 / sd[order] ** 2
    _, group = np.unique(points, axis=0, return_inverse=True)
    group = group.ravel()
    total = np.bincount(group, weights=weight)
    mean = np.bincount(group, weights=weight * values) / total
    freedom = len(values) - len(total)
    squares = float((weight * (values - mean[group]) ** 2).sum())
    return _Replicates(squares / max(1, freedom), freedom)


def _learnt_factor(
    training: TrainingSet, noisy: bool, settings: NoiseCheck, rng: np.random.Generator
) -> tuple[float, float]:
    """The factor of the noise that a GP on close neighbours learns, and the evidence that it gains."""
    rows, group = _close_groups(training, settings, rng)
    if len(rows) < settings.neighbours:
        return 1.0, 0.0
    base = np.where(training.noise_sd > 0, training.noise_sd, 1.0)[rows] ** 2
    gp = SparseGP()
    shaping = np.full(len(rows), gp.shaping.sd_min**2)
    data = ShapedData(training.points[rows], training.values[rows], base, shaping)
    prior = weak_prior(data, training.values[rows], gp, rng).packed
    start = np.clip(prior.mean, prior.lower, prior.upper)
    prior.lower[: training.dimension] = prior.mean[: training.dimension] + np.log(settings.shortest)
    least = 0.5 * float(np.log(NUGGET / np.median(base)))
    reference = 0.0 if noisy else least
    free = GaussianPrior(
        np.append(prior.mean, reference),
        np.append(prior.sd, 3.0),
        np.append(prior.lower, least),
        np.append(prior.upper, 7.0),
    )
    fixed = free._replace(lower=np.append(prior.lower, reference), upper=np.append(prior.upper, reference))
    # Every group has a height of its own: only what differs among neighbours tells of noise. A jump between two groups,
    # which no smooth function follows, then says nothing.
    heights = np.ptp(data.values) ** 2 * (group[:, None] == group).astype(np.float64)
    objective = _noise_objective(data, heights)
    plain = maximise_with_prior(objective, np.append(start, reference), fixed, steps=100, tolerance=0.1)
    noisiest = np.append(start, np.log(np.std(data.values / np.sqrt(base)) + 1e-3))
    tries = [maximise_with_prior(objective, t, free, steps=100, tolerance=0.1) for t in (noisiest, plain.argument)]
    best = max((_flat(found, free) for found in tries), key=lambda found: found.value)
    return float(np.exp(best.argument[-1])), best.value - plain.value


def _flat(found: Maximum, prior: GaussianPrior) -> Maximum:
    """Without what the prior says of the factor: it is there to scale the optimiser's steps."""
    off = (found.argument[-1] - prior.mean[-1]) / prior.sd[-1]
    return found._replace(value=found.value + 0.5 * off**2)


def _close_groups(
    training: TrainingSet, settings: NoiseCheck, rng: np.random.Generator
) -> tuple[Int[ndarray, " k"], Int[ndarray, " k"]]:
    """Rows of points spread over the crowded parts of the high-density region, each with its nearest neighbours, and
    the group that each row belongs to."""
    values, points = training.values, training.points
    reach = contour_depth(settings.depth, training.dimension)
    least = settings.groups * settings.neighbours
    high = highest(values, max(least, int((values >= values.max() - 2 * reach).sum())))
    spread = points[high].std(axis=0)
    scaled = points / np.where(spread > 0, spread, 1.0)
    seeds = rng.permutation(high)[: settings.most_seeds]
    found = cKDTree(scaled).query(scaled[seeds], k=min(2 * settings.neighbours, len(points)))
    distance, neighbours = np.asarray(found[0]), np.asarray(found[1], dtype=np.int64)
    # By the mean of neighbours: points that are chosen for their own high values have lucky noise.
    level = values[neighbours].mean(axis=1)
    near = level >= min(level.max() - reach, np.quantile(level, 0.5))
    close = near & (distance[:, -1] <= np.quantile(distance[near, -1], settings.crowded))
    groups = neighbours[close, : settings.neighbours]
    groups = groups[spread_rows(points[seeds[close]], settings.groups, rng)]
    groups = groups[~_straddles(values[groups], settings.jump)]
    rows, first = np.unique(groups, return_index=True)
    return rows, first // settings.neighbours


def _straddles(values: Float[ndarray, "g k"], jump: float) -> Bool[ndarray, " g"]:
    """Which groups of values lie on two sides of a jump, as at the edge of a cliff: they say nothing about noise.

    Whether the largest gap of a normal sample is that wide does not depend on its variance, and hardly tells of it:
    leaving such groups out does not bias the noise.
    """
    gaps = np.diff(np.sort(values, axis=1), axis=1)
    largest = gaps.max(axis=1)
    return np.asarray(largest > jump * (gaps.sum(axis=1) - largest))


def _noise_objective(data: ShapedData, heights: Float[ndarray, "n n"]) -> Objective:
    """The evidence as a function of hyperparameters, log shaping strength and log factor of the noise."""

    def objective(theta: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        scaled = np.exp(2 * theta[-1]) * data.observed
        total = scaled + np.exp(2 * theta[-2]) * data.shaping
        found = exact.evidence_and_gradient(theta[:-2], data.points, data.values, total, heights)
        share = scaled / total
        return found.value, np.concatenate(
            [found.hyperparameters, [found.log_noise_sd @ (1 - share), found.log_noise_sd @ share]]
        )

    return objective
