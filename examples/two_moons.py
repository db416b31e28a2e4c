"""From what an optimiser left behind to a posterior: Two Moons, a density with two curved modes.

CMA-ES looks for the best point, as one would for a MAP estimate, and every log density it computes is kept.
`vsbq.fit` turns them into a posterior without computing another one. Run it with `make demo`, or

    pip install "vsbq[demo]"
    python examples/two_moons.py --out demo --seed 1
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import cma
import numpy as np
from scipy.special import i0

import vsbq

NAMES = ("x1", "x2")
KAPPA, RADIUS, WIDTH, RIGHT = 8.0, np.sqrt(0.5), 0.1, 1 / 3  # two arcs of a ring; the right one has a third of the mass
BUDGET = 6000
DRAWS = 20_000


def log_density(x: np.ndarray) -> float:
    """The model, as far as this example goes: a log density that is not normalised."""
    radius = np.hypot(*x)
    along = KAPPA * x[0] / radius
    return np.logaddexp(along + np.log(RIGHT), -along + np.log(1 - RIGHT)) - 0.5 * ((radius - RADIUS) / WIDTH) ** 2


def search(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """What a user already has: the points and log densities of some optimisation runs, and how many runs."""
    points, values, runs = [], [], 0

    def cost(x: np.ndarray) -> float:
        points.append(np.array(x))
        values.append(log_density(x))
        return -values[-1]

    while len(values) < BUDGET:
        start = min(rng.uniform(-1, 1, (40, 2)), key=cost)
        options = {"tolfun": 0.1, "verbose": -10, "seed": np.nan, "randn": lambda *shape: rng.standard_normal(shape)}
        strategy = cma.CMAEvolutionStrategy(start, 0.5, options)
        while not strategy.stop():
            asked = strategy.ask()
            strategy.tell(asked, [cost(x) for x in asked])
        runs += 1
    return np.array(points), np.array(values), runs


def main() -> None:
    options = parse()
    rng = np.random.default_rng(options.seed)
    evaluations = search_and_show(rng)

    # The posterior, from these numbers alone.
    start = time.perf_counter()
    post = vsbq.fit(evaluations, rng=rng, progress=True)
    seconds = time.perf_counter() - start
    print(f"\nPosterior, after {seconds:.1f} seconds\n")
    print(post.summary())
    compare_with_truth(post, rng)

    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "two_moons.png"
    post.plot(truth=true_draws(DRAWS, rng)).savefig(picture)
    file = post.save(options.out / "two_moons.npz", overwrite=True)
    print(f"Picture in {picture}, posterior in {file}\n")


def search_and_show(rng: np.random.Generator) -> vsbq.Evaluations:
    """The evaluations, and what usually is all that is kept of them."""
    points, values, runs = search(rng)
    evaluations = vsbq.Evaluations(points, values, names=NAMES)
    best = points[np.argmax(values)]
    print("\nTwo Moons, optimised by CMA-ES\n")
    line("runs", f"{runs}")
    line("evaluations", f"{len(evaluations)}")
    line("best point", ", ".join(f"{name} = {value:.4f}" for name, value in zip(NAMES, best, strict=True)))
    line("its log density", f"{values.max():.4f}")
    return evaluations


# Here the truth is known.

RADII = np.linspace(0, 2, 20_001)
RADIAL = RADII * np.exp(-0.5 * ((RADII - RADIUS) / WIDTH) ** 2)
LOG_EVIDENCE = np.log(2 * np.pi * i0(KAPPA)) + np.log(np.trapezoid(RADIAL, RADII))

#: Of the distances below: above these a posterior is not worth having, says the paper.
USABLE = {"ΔLML": 1.0, "MMTV": 0.2, "GsKL": 1 / 8}


def true_draws(n: int, rng: np.random.Generator) -> np.ndarray:
    """Exact draws: an angle of either moon, and a radius by the inverse of its distribution function."""
    angle = rng.vonmises(np.where(rng.random(n) < RIGHT, 0, np.pi), KAPPA)
    radius = np.interp(rng.random(n), np.cumsum(RADIAL) / RADIAL.sum(), RADII)
    return radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def compare_with_truth(post: vsbq.Posterior, rng: np.random.Generator) -> None:
    """The evidence, the masses of the moons, and three distances with what exact draws would score."""
    draws, truth, again = post.sample(DRAWS, rng), true_draws(DRAWS, rng), true_draws(DRAWS, rng)
    print(f"\n{'Against the truth':<24}{'posterior':>20}{'truth':>12}\n")
    line("log evidence", f"{post.log_evidence:.4f} ± {post.log_evidence_sd:.4f}", f"{LOG_EVIDENCE:.4f}")
    line("mass of the right moon", f"{np.mean(draws[:, 0] > 0):.4f}", f"{RIGHT:.4f}")
    print(f"\n{'Distance from the truth':<24}{'posterior':>20}{'floor':>12}{'usable below':>16}\n")
    measured = abs(post.log_evidence - LOG_EVIDENCE), marginal_distance(draws, truth), moment_distance(draws, truth)
    floor = 0.0, marginal_distance(again, truth), moment_distance(again, truth)
    for (title, limit), *numbers in zip(USABLE.items(), measured, floor, strict=True):
        line(title, *(f"{number:.3g}" for number in (*numbers, limit)))
    print("\nThe floor is what exact draws would score.")


def marginal_distance(a: np.ndarray, b: np.ndarray) -> float:
    """MMTV, the total variation between marginals, here from histograms with 60 bins; the mean over parameters."""
    edges = np.linspace(-1.5, 1.5, 61)
    counts = [[np.histogram(column, edges)[0] for column in draws.T] for draws in (a, b)]
    return float(np.abs(np.subtract(*counts)).sum() / (2 * len(a) * a.shape[1]))


def moment_distance(a: np.ndarray, b: np.ndarray) -> float:
    """GsKL, the symmetrised Kullback–Leibler divergence of normals with the same moments, divided by 2 D."""
    shift, (first, second) = a.mean(axis=0) - b.mean(axis=0), (np.cov(a.T), np.cov(b.T))
    inverses = np.linalg.inv(first) + np.linalg.inv(second)
    traces = np.trace(np.linalg.solve(first, second) + np.linalg.solve(second, first)) - 2 * len(shift)
    return float((traces + shift @ inverses @ shift) / (4 * len(shift)))


def line(title: str, value: str, *more: str) -> None:
    """One line of a table, its numbers aligned to the right."""
    widths = (20, 12, 16)
    cells = (f"{cell:>{width}}" for cell, width in zip((value, *more), widths, strict=False))
    print(f"{title:<24}" + ("".join(cells) if more else value))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fit a posterior to the evaluations of CMA-ES on Two Moons.")
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for the results")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the random numbers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
