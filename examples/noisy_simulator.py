"""A simulator without a likelihood: choices of a noisy observer, and a log likelihood that is itself estimated.

Inverse binomial sampling draws from the simulator until it repeats the participant's choice; the number of draws gives
an unbiased estimate of the log likelihood and of its variance. Differential evolution minimises the noisy value, a
recorder keeps every evaluation with its standard deviation, and `vsbq.fit` makes a posterior of them.

    python examples/noisy_simulator.py --out demo
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import differential_evolution
from scipy.special import polygamma
from scipy.stats import norm

import vsbq

TRUTH = np.array([0.3, 0.0])  # bias, log of the sensory noise
BOX = [(-2.0, 2.0), (-2.0, 1.5)]
STIMULI = np.repeat(np.linspace(-2, 2, 8), 5)


def simulate(x: np.ndarray, stimuli: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choices ("right" is True) of an observer with a bias and sensory noise."""
    return stimuli + x[0] + np.exp(x[1]) * rng.standard_normal(stimuli.shape) > 0


def noisy_cost(x: np.ndarray, choices: np.ndarray, rng: np.random.Generator, repeats: int = 10) -> tuple[float, float]:
    """Minus the log posterior by inverse binomial sampling, and the standard deviation of its noise."""
    stimuli, wanted = np.tile(STIMULI, repeats), np.tile(choices, repeats)
    tries, open_trials = np.ones(len(stimuli)), np.arange(len(stimuli))
    for _ in range(500):
        open_trials = open_trials[simulate(x, stimuli[open_trials], rng) != wanted[open_trials]]
        if not open_trials.size:
            break
        tries[open_trials] += 1
    value = -(polygamma(0, tries) - polygamma(0, 1)).sum() / repeats
    variance = (polygamma(1, 1) - polygamma(1, tries)).sum() / repeats**2
    log_prior = -np.log(4.0 * 3.5)  # flat in the box
    return -(value + log_prior), float(np.sqrt(variance))


def main() -> None:
    parser = argparse.ArgumentParser(description="A posterior from a simulator's noisy log likelihoods.")
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    choices = simulate(TRUTH, STIMULI, rng)

    file = options.out / "noisy_simulator.db"
    rec = vsbq.Recorder(file, names=["bias", "log noise"], bounds=BOX, tag="simulated observer 1")
    cost = rec.minimise(lambda x: noisy_cost(x, choices, rng), returns="value_and_sd")
    # A population, which noise does not confuse; Nelder-Mead would get stuck where it starts.
    differential_evolution(lambda x: cost(x)[0], BOX, maxiter=19, polish=False, tol=0, rng=rng)

    post = vsbq.fit(vsbq.Evaluations.from_recorder(file), rng=1)
    print(f"{len(rec)} evaluations, noise of sd {np.median(post.evaluations.log_density_sd):.2f}\n")
    print(post.summary())

    # Here the likelihood is known after all.
    grid = np.stack(np.meshgrid(*(np.linspace(*pair, 200) for pair in BOX), indexing="ij"), axis=-1).reshape(-1, 2)
    chance = norm.cdf((STIMULI + grid[:, :1]) / np.exp(grid[:, 1:]))
    log_likelihood = np.log(np.where(choices, chance, 1 - chance).clip(1e-300)).sum(axis=1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    print("\nexact means", np.round(weights @ grid / weights.sum(), 3))
    print("report in", post.report(options.out / "noisy_simulator.html", title="Noisy simulator", overwrite=True))


if __name__ == "__main__":
    main()
