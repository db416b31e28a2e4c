"""How far the paper's family can go on Rosenbrock–Gaussian: the ELBO traded for covering the posterior.

    python benchmarks/paper_family.py

50 components with shared diagonal scales, started by K-means on draws of the default posterior, maximise
ELBO + γ E_p[log q] for several γ, with p the surrogate (importance-weighted draws). One JSON line per γ,
in benchmarks/results/paper_family.jsonl.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.numerics import mixture as mix
from vsbq.numerics.families import SharedDiagonal
from vsbq.numerics.optimise import maximise
from vsbq.numerics.subset import cluster_centres
from vsbq.progress import Progress
from vsbq.steps.mixture.elbo import elbo, elbo_and_gradient
from vsbq.steps.mixture.fit import fit_variational
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.region import TrustedRegion
from vsbq.steps.surrogate.fit import fit_sparse_gp
from vsbq.steps.surrogate.shaped_data import SparseGP
from vsbq.steps.trim import Trim, trim_evaluations
from vsbq_bench.metrics import DRAWS, scores
from vsbq_bench.problems import rosenbrock_gaussian
from vsbq_bench.traces import cma_trace

COMPONENTS = 50


def cross_entropy(mixture, u, weights):
    """E_p[log q] from weighted draws of p, and its gradient in the mixture."""
    centre = mixture.weights @ mixture.means
    form, precision, linear = mix.coefficients(mixture, centre)
    phi = mix.features(np.ascontiguousarray((u - centre).T))
    share = form @ phi
    value = weights @ mix.log_sum_exp_in_place(share)
    moments = share @ (phi * weights).T
    own = mix._own_parameters(mixture, moments, centre, precision, linear)
    by_weights = moments[:, -1] / np.maximum(mixture.weights, 1e-300)
    return value, mix.MixtureGradient(by_weights, own.means, np.tril(own.trils))


def start(u, rng):
    centres, label = cluster_centres(u, COMPONENTS, rng, iterations=30)
    mass = np.bincount(label) / len(u)
    scatter = np.stack([1.5 * np.cov(u[label == k].T) for k in range(len(centres))])
    return mix.Mixture(np.log(mass), centres, SharedDiagonal.roots(mass, scatter))


def climb(mixture, gamma, u, weights, surrogate, box, rng):
    for per_component, steps in ((64, 150), (256, 150)):
        family = SharedDiagonal(mixture)
        draws = mix.standard_draws(len(mixture.means), per_component, u.shape[1], rng)

        def objective(free, family=family, draws=draws):
            value, gradient = elbo_and_gradient(free, family, surrogate, box, draws)
            cover, by_cover = cross_entropy(family.mixture(free), u, weights)
            return value + gamma * cover, gradient + gamma * family.pull_back(free, by_cover)

        mixture = family.mixture(maximise(objective, family.start(), steps=steps, tolerance=1e-6).argument)
    return mixture


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    problem = rosenbrock_gaussian()
    rng = np.random.default_rng(0)
    trace = cma_trace(problem, np.random.default_rng([0, 1]))
    training, _ = trim_evaluations(Evaluations(trace.points, trace.log_density), Trim())
    surrogate, training, _ = fit_sparse_gp(training, SparseGP(whiten=False), rng, Progress(3, False))
    region = TrustedRegion.around(surrogate, training)
    reference, _, _ = fit_variational(region, training, VariationalMixture(), rng, Progress(1, False))
    u, weights = region.weighted_draws(reference, 15_000, rng)
    box, first = SoftBox.around(training.points), start(u, rng)
    with (Path(__file__).parent / "results" / "paper_family.jsonl").open("w") as out:
        for gamma in (0.0, 0.1, 0.3, 1.0):
            found = climb(first, gamma, u, weights, surrogate, box, rng)
            value = elbo(found, surrogate, rng, 100_000).value + surrogate.offset
            draws = training.space.inverse(mix.sample(found, DRAWS, rng))
            line = {"gamma": gamma, **scores(problem, draws, value, rng)._asdict()}
            out.write(json.dumps(line) + "\n")
            print(line)


if __name__ == "__main__":
    main()
