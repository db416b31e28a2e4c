"""Which model? Three polynomials through the same data, their evidences, and what another prior would say.

The models are linear with normal priors and noise, so that the exact evidences are known.

    python examples/model_comparison.py
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm

import vsbq

TIME = np.linspace(-1, 1, 30)
NOISE = 0.25
DATA = 0.3 + 0.8 * TIME - 0.6 * TIME**2 + NOISE * np.random.default_rng(5).standard_normal(30)


def log_prior(x: np.ndarray, sd: float = 2.0) -> np.ndarray:
    """Independent normals of some sd on all coefficients."""
    return norm.logpdf(np.atleast_2d(x), 0, sd).sum(axis=1)


def exact_evidence(degree: int, sd: float = 2.0) -> float:
    """The data are normal too, once the coefficients are integrated out."""
    powers = np.vander(TIME, degree + 1, increasing=True)
    cov = NOISE**2 * np.eye(len(TIME)) + sd**2 * powers @ powers.T
    return float(multivariate_normal.logpdf(DATA, cov=cov))


def fitted(degree: int) -> vsbq.Posterior:
    """Optimise from a few starts, keep all evaluations, and make a posterior of them."""
    powers = np.vander(TIME, degree + 1, increasing=True)
    points, likelihoods, priors = [], [], []

    def cost(x: np.ndarray) -> float:
        points.append(x.copy())
        likelihoods.append(norm.logpdf(DATA, powers @ x, NOISE).sum())
        priors.append(log_prior(x)[0])
        return -(likelihoods[-1] + priors[-1])

    for start in np.random.default_rng(degree).normal(0, 1, (6 * (degree + 1), degree + 1)):
        minimize(cost, start, method="Nelder-Mead", options={"fatol": 0.1, "xatol": 0.1})
    names = [f"c{power}" for power in range(degree + 1)]
    evaluations = vsbq.Evaluations(points, log_likelihood=likelihoods, log_prior=priors, names=names)
    return vsbq.fit(evaluations, rng=1)


def main() -> None:
    models = {"constant and slope": fitted(1), "parabola": fitted(2), "cubic": fitted(3)}
    comparison = vsbq.compare(models, rng=1)
    print(comparison)
    exact = [exact_evidence(degree) for degree in (1, 2, 3)]
    print("\nexact log evidences:", np.round(exact, 3))
    print("off by:", np.round(comparison.log_evidence - exact, 3))

    narrow = {
        name: post.with_prior(lambda x: log_prior(x, 1.0), old_log_prior=log_prior, rng=2)
        for name, post in models.items()
    }
    print("\nWith a prior of half the width:\n")
    print(vsbq.compare(narrow, rng=1))


if __name__ == "__main__":
    main()
