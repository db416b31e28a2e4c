"""Where the mixture starts: around the best points, spread over the high-density region, or from an earlier fit."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.transform import InferenceSpace, ModelSpace
from vsbq.numerics.contours import CORE, highest, near_top
from vsbq.numerics.families import log_softmax
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.subset import cluster_centres
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.trim import TrainingSet


def starts(
    training: TrainingSet, settings: VariationalMixture, rng: np.random.Generator, earlier: Mixture | None = None
) -> dict[str, Mixture]:
    """The two starts: an earlier mixture, or around the best points; and spread over the high-density points."""
    if earlier is None:
        first = {"best points": _narrow_start(training, settings, rng)}
    else:
        cov = np.matmul(earlier.trils, np.swapaxes(earlier.trils, 1, 2))
        first = {"earlier posterior": earlier._replace(trils=settings.family.roots(earlier.weights, cov))}
    return {**first, "high-density region": _spread_start(training, settings, rng)}


def moved(mixture: Mixture, here: InferenceSpace, there: ModelSpace) -> Mixture | None:
    """The same density in other coordinates of the same parameters, which differ by a linear map if the same bounds
    bend them; None if not."""
    if here.bending != there.plain.bending:
        return None
    plain = there.plain
    back = np.eye(len(plain.scale)) if isinstance(there, InferenceSpace) else there.rotation
    linear = (back / plain.scale) * here.scale
    shift = (here.centre - plain.centre) / plain.scale @ back.T
    half = linear @ mixture.trils
    trils = np.linalg.cholesky(half @ np.swapaxes(half, 1, 2))
    return Mixture(mixture.log_weights, mixture.means @ linear.T + shift, trils)


def _range(points: Float[ndarray, "n d"]) -> Float[ndarray, " d"]:
    """The range of each coordinate; one where all points share it, which then tells nothing of its scale."""
    width = np.ptp(points, axis=0)
    return np.where(width > 0, width, 1.0)


def _narrow_start(training: TrainingSet, settings: VariationalMixture, rng: np.random.Generator) -> Mixture:
    """All components around the best points."""
    k = settings.components(training.dimension)
    top = training.points[highest(training.level, max(training.dimension + 2, len(training) // 100))]
    near = training.points[near_top(training.level, CORE, training.dimension)]
    near = near if len(near) > 2 * training.dimension else top
    width = np.maximum(near.std(axis=0), 1e-3 * _range(training.points))
    centres = top.mean(axis=0) + 0.1 * width * rng.standard_normal((k, training.dimension))
    return Mixture(np.full(k, -np.log(k)), centres, np.tile(np.diag(0.5 * width), (k, 1, 1)))


def _spread_start(training: TrainingSet, settings: VariationalMixture, rng: np.random.Generator) -> Mixture:
    """One component a K-means cluster, as wide as the cluster, weighted by the mass that its best point suggests."""
    near = near_top(training.level, settings.spread_depth, training.dimension)
    components = settings.components(training.dimension)
    enough = min(len(training), 10 * components)
    if near.sum() < enough:
        near = np.zeros(len(training), dtype=bool)
        near[highest(training.level, enough)] = True
    points, values = training.points[near], training.level[near]
    centres, label = cluster_centres(points, components, rng)
    k, d = centres.shape
    overall = np.maximum(points.std(axis=0), 1e-3 * _range(training.points))
    count = np.bincount(label, minlength=k)
    square = np.stack([np.bincount(label, weights=(points - centres[label])[:, i] ** 2, minlength=k) for i in range(d)])
    prior = 2.0
    scale = np.sqrt((square.T + prior * (overall / k ** (1 / d)) ** 2) / (count + prior)[:, None])
    top = np.array([values[label == c].max() for c in range(k)])
    logits = top + np.log(scale).sum(axis=1)
    return Mixture(log_softmax(np.maximum(logits, logits.max() - 6.0)), centres, scale[:, :, None] * np.eye(d))
