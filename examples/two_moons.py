"""From what an optimiser left behind to a posterior: Two Moons, a density with two curved modes.

CMA-ES looks for the best point, as one would for a MAP estimate, and every log density it computes is kept.
`vsbq.fit` turns them into a posterior without computing another one. Run it with `make demo`, or

    python examples/two_moons.py --out demo --seed 1
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import vsbq
from vsbq_bench.metrics import DRAWS, Scores, floor, scores
from vsbq_bench.problems import two_moons
from vsbq_bench.traces import cma_trace


def main() -> None:
    options = parse()
    rng = np.random.default_rng(options.seed)
    problem = two_moons()

    # What a user already has: the points and log densities of some optimisation runs.
    trace = cma_trace(problem, rng)
    evaluations = vsbq.Evaluations(trace.points, trace.log_density, names=problem.names)
    best = evaluations.points[np.argmax(evaluations.log_density)]
    print("\nTwo Moons, optimised by CMA-ES\n")
    line("runs", f"{trace.run.max() + 1}")
    line("evaluations", f"{len(evaluations)}")
    line("best point", ", ".join(f"{name} = {value:.4f}" for name, value in zip(problem.names, best, strict=True)))
    line("its log density", f"{evaluations.log_density.max():.4f}")

    # The posterior, from these numbers alone.
    start = time.perf_counter()
    post = vsbq.fit(evaluations, rng=rng, progress=True)
    seconds = time.perf_counter() - start
    draws = post.sample(DRAWS, rng)
    print(f"\nPosterior, after {seconds:.1f} seconds\n")
    print(post.summary())

    # Here the truth is known.
    print(f"\n{'Against the truth':<24}{'posterior':>20}{'truth':>12}\n")
    line("log evidence", f"{post.log_evidence:.4f} ± {post.log_evidence_sd:.4f}", f"{problem.log_evidence:.4f}")
    line("mass of the right moon", f"{np.mean(draws[:, 0] > 0):.4f}", f"{1 / 3:.4f}")
    measured, perfect = scores(problem, draws, post.log_evidence, rng), floor(problem, DRAWS, rng)
    print(f"\n{'Distance from the truth':<24}{'posterior':>20}{'floor':>12}{'usable below':>16}\n")
    for title, *numbers in zip(("ΔLML", "MMTV", "GsKL"), measured, perfect, USABLE, strict=True):
        line(title, *(f"{number:.3g}" for number in numbers))
    print("\nThe floor is what exact draws would score.")

    options.out.mkdir(parents=True, exist_ok=True)
    picture = options.out / "two_moons.png"
    post.plot(truth=problem.draw(DRAWS, rng)).savefig(picture)
    file = post.save(options.out / "two_moons.npz", overwrite=True)
    print(f"Picture in {picture}, posterior in {file}\n")


#: Above these a posterior is not worth having, says the paper.
USABLE = Scores(delta_lml=1.0, mmtv=0.2, gskl=1 / 8)


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
