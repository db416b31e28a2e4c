"""An exact Gaussian process as a model of the log density: another implementation of the interface of step 2.

It is plain on purpose: dense matrices, hyperparameters of highest posterior density, and closed forms for everything
that the later steps ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vsbq.data.transform import InferenceSpace
from vsbq.history import SurrogateFit
from vsbq.numerics import exact, linalg, quadrature
from vsbq.numerics.contours import NEGLIGIBLE, POSTERIOR, contour_depth, near_top
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.mixture import Mixture, MixtureGradient
from vsbq.numerics.optimise import GaussianPrior, maximise_with_prior
from vsbq.numerics.sgpr import Variance
from vsbq.numerics.shaping import shaping_sd
from vsbq.numerics.subset import cluster_centres
from vsbq.progress import Progress
from vsbq.steps.model import Prediction, predict
from vsbq.steps.trim import TrainingSet

NUGGET = 1e-5
BLOCKS = 8


@dataclass(frozen=True, eq=False)
class ExactGP:
    """The posterior of an exact Gaussian process, in the coordinates of `space` and relative to `offset`."""

    space: InferenceSpace
    hyp: Hyperparameters
    factors: exact.ExactFactors
    offset: float
    without: Any  # (b, n): changes of the weights if blocks of evaluations were not there
    ends: Any  # (2 d): how far the better evaluations go, up and down each axis
    missed: Any  # (2 d): how far the outermost ones there are missed without them, for the square of their distance
    tested: float = 1.0

    @property
    def prior_variance(self) -> float:
        return self.hyp.output_variance

    def predict(self, x) -> Prediction:
        return predict(self, x)

    @property
    def rise(self) -> float:
        return 0.0

    def mean(self, u):
        return exact.predict(self.hyp, self.factors, u)[0]

    def means(self, u):
        return self.mean(u)[None]

    def variance(self, u):
        return exact.predict(self.hyp, self.factors, u)[1]

    def variances(self, u):
        """The noise of the mean is that of its weights of the values."""
        chol, cross = self.factors.chol, kernel(self.factors.points, u, self.hyp)
        weights = linalg.solve_lower(chol, linalg.solve_lower(chol, cross), transpose=True)
        noise = np.einsum("ij,ij->i", chol, chol) - self.hyp.output_variance
        return Variance(self.variance(u), np.minimum(noise @ weights**2, self.variance(u)))

    def covariance(self, a, b):
        return self.at(a).covariance(self.at(b))

    def at(self, u) -> Located:
        return Located(self, u, self._explained(kernel(self.factors.points, u, self.hyp)))

    def changes(self, u):
        return self.without @ kernel(self.factors.points, u, self.hyp)

    def doubt_beyond(self, u):
        beyond = np.maximum(np.column_stack([u, -u]) - self.ends, 0.0)
        return (self.missed * beyond**2).max(axis=1, initial=0.0)

    def trends(self, u):
        """A constant, known as well as the average of all evaluations is."""
        return np.full((1, len(u)), 1.0 / np.sqrt(len(self.factors.points)))

    def expectation(self, mixture: Mixture) -> tuple[float, MixtureGradient]:
        """Σ_k w_k ∫ N(x; μ_k, Σ_k) (m(x) + κ(x, X) α) dx, and its derivatives."""
        integrals = quadrature.kernel_integrals(mixture, self.factors.points, self.hyp) * self.factors.weights
        values = integrals.sum(axis=1) + quadrature.mean_integrals(mixture, self.hyp)
        precision, widths = np.linalg.inv(self._spread(mixture)), np.exp(-2 * self.hyp.mean_log_widths)
        gap = (self.factors.points - mixture.means[:, None, :]) @ precision  # (Λ + Σ_k)⁻¹ (x − μ_k), row by row
        to_means = np.einsum("kn,knd->kd", integrals, gap) - (mixture.means - self.hyp.mean_location) * widths
        # Twice the derivative by Σ_k, and the chain rule from Σ_k = L Lᵀ to L.
        second = np.einsum("kn,knd,kne->kde", integrals, gap, gap) - integrals.sum(axis=1)[:, None, None] * precision
        to_trils = np.tril((second - np.diag(widths)) @ mixture.trils)
        weights = mixture.weights
        gradient = MixtureGradient(values, weights[:, None] * to_means, weights[:, None, None] * to_trils)
        return float(weights @ values), gradient

    def expectation_variance(self, mixture: Mixture) -> float:
        """∫∫ q(x) q(x') cov(f(x), f(x')) of two normals at a time: κ smoothed twice, less what is explained."""
        scales, weights = np.exp(self.hyp.log_scales), mixture.weights
        cov = mixture.trils @ np.swapaxes(mixture.trils, 1, 2)
        spread = np.diag(scales**2) + cov[:, None] + cov[None, :]
        gap = mixture.means[:, None] - mixture.means[None, :]
        distance = np.einsum("jki,jkil,jkl->jk", gap, np.linalg.inv(spread), gap)
        smoothed = np.prod(scales) / np.sqrt(np.linalg.det(spread)) * np.exp(-0.5 * distance)
        half = self._explained(quadrature.kernel_integrals(mixture, self.factors.points, self.hyp).T) @ weights
        total = self.hyp.output_variance * weights @ smoothed @ weights - half @ half
        return max(float(total), 0.0)

    def _spread(self, mixture: Mixture):
        """Λ + Σ_k."""
        return np.diag(np.exp(2 * self.hyp.log_scales)) + mixture.trils @ np.swapaxes(mixture.trils, 1, 2)

    def _explained(self, cross):
        """L⁻¹ of columns of covariances with the evaluations."""
        return linalg.solve_lower(self.factors.chol, np.asfortranarray(cross))


class Located(NamedTuple):
    """Points with L⁻¹ κ(X, u): all that their covariances need."""

    model: ExactGP
    points: Any
    half: Any

    def take(self, rows) -> Located:
        return Located(self.model, self.points[rows], self.half[:, rows])

    def variance(self):
        plain = self.model.hyp.output_variance - (self.half**2).sum(axis=0)
        return np.maximum(plain, 0.0)

    def covariance(self, other):
        return kernel(self.points, other.points, self.model.hyp) - self.half.T @ other.half


@dataclass(frozen=True, kw_only=True)
class ExactGPStep:
    """Step 2 by an exact Gaussian process; `rotation` turns the coordinates first."""

    rotation: Any = None
    steps: int = 100

    def fit(
        self, training: TrainingSet, rng: np.random.Generator, progress: Progress
    ) -> tuple[ExactGP, TrainingSet, SurrogateFit]:
        """The model, the evaluations in its coordinates, and how it came about."""
        training = training if self.rotation is None else training.turned(self.rotation)
        noise = noise_variance(training)
        regression = (training.points, training.values, noise)
        prior = _prior(training)
        progress.say("exact GP")
        found = maximise_with_prior(
            lambda theta: exact.evidence_and_gradient(theta, *regression)[:2],
            prior.mean,
            prior,
            steps=self.steps,
            tolerance=1e-3,
        )
        hyp = Hyperparameters.unpack(found.argument)
        factors = exact.fit_factors(hyp, *regression)
        precision = linalg.inverse_from_cholesky(factors.chol)
        without = _left_out(factors, precision, training, rng)
        ends = _outermost(factors, precision, training)
        model = ExactGP(training.space, hyp, factors, training.offset, without, *ends)
        near = near_top(training.level, POSTERIOR, training.dimension)
        miss = float(np.sqrt(np.mean((model.mean(training.points) - training.values)[near] ** 2)))
        count, turned = len(training), self.rotation is not None
        return model, training, SurrogateFit(found.value, (found.value,), count, 0.0, miss, 1.0, found.failures, turned)


def noise_variance(training: TrainingSet):
    """That of the evaluations, a nugget, and more where the density is negligible."""
    below = training.level.max() - training.level
    shaping = shaping_sd(below, contour_depth(NEGLIGIBLE, training.dimension), 0.01, 1.0, 1.0)
    return training.noise_sd**2 + NUGGET + shaping**2


def _prior(training: TrainingSet) -> GaussianPrior:
    """Everything of the order of the high-density points' spread, or of the values' near the top."""
    near = near_top(training.level, NEGLIGIBLE, training.dimension)
    centre, spread = training.points[near].mean(axis=0), training.points[near].std(axis=0)
    top, rise, one = float(training.level.max()), float(training.values[near].std()) + 0.1, np.ones(len(spread))
    mean = Hyperparameters(np.log(spread), np.log(rise), top, centre, np.log(spread)).pack()
    sd = Hyperparameters(one, 1.5, 3 * rise, spread, one).pack()
    return GaussianPrior(mean, sd, mean - 6 * sd, mean + 6 * sd)


def _left_out(factors: exact.ExactFactors, precision: Any, training: TrainingSet, rng: np.random.Generator):
    """What it does to the weights if blocks of evaluations are left out: with P = (K + S)⁻¹ the residual of block B is
    P_BB⁻¹ α_B."""
    near = np.flatnonzero(near_top(training.level, NEGLIGIBLE, training.dimension))
    label = cluster_centres(training.points[near], BLOCKS, rng)[1]
    without = []
    for rows in (near[label == block] for block in range(label.max() + 1)):
        residual = np.linalg.solve(precision[np.ix_(rows, rows)], factors.weights[rows])
        without.append(-precision[:, rows] @ residual)
    return np.array(without)


def _outermost(factors: exact.ExactFactors, precision: Any, training: TrainingSet):
    """Up and down each axis: how far the better evaluations go, and how well the others predict a tenth of them."""
    near = np.flatnonzero(near_top(training.level, NEGLIGIBLE, training.dimension))
    along = np.column_stack([training.points[near], -training.points[near]])
    missed = []
    for side in along.T:
        order = np.argsort(-side)
        outer, inner = np.split(order, [max(1, len(near) // 10)])
        rows = near[outer]
        residual = np.linalg.solve(precision[np.ix_(rows, rows)], factors.weights[rows])
        missed.append(abs(residual.mean()) / (side[outer].mean() - side[inner].max()) ** 2)
    return along.max(axis=0), np.array(missed)
