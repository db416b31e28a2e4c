"""One round of suggested points on runs with poor coverage: before, after, and the same number of posterior draws.

    python benchmarks/suggest.py

Poor runs: Nelder–Mead from random starts, and CMA-ES of which only one side of the posterior is left. Each gets 100 D
more evaluations: those that `post.suggest` asks for, or, as a control, draws of the posterior that was fitted first.
One JSON line per fit in benchmarks/results/suggest.jsonl; fits that have a line already are not repeated.
"""

import argparse
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.optimize import minimize

import vsbq
from vsbq_bench.catalogue import PROBLEMS
from vsbq_bench.job import _environment
from vsbq_bench.lines import Line, append_line, read_lines
from vsbq_bench.metrics import DRAWS, scores
from vsbq_bench.traces import cma_trace

RESULTS = Path(__file__).parent / "results" / "suggest.jsonl"
SEEDS = range(3)


def one_side(problem, rng, per_dimension, noise_sd):
    """What CMA-ES found where the first parameter is below its median."""
    trace = cma_trace(problem, rng, evaluations=per_dimension * problem.dimension, noise_sd=noise_sd)
    left = trace.points[:, 0] < np.median(problem.draw(4000, np.random.default_rng(0))[:, 0])
    return trace.points[left], trace.log_density[left]


def nelder_mead(problem, rng, per_dimension, noise_sd):
    """Runs of a simplex from random points of the plausible box, one after the other."""
    budget = per_dimension * problem.dimension
    points, values = [], []

    def cost(x):
        points.append(x.copy())
        values.append(float(problem.log_density(x[None])[0] + noise_sd * rng.standard_normal()))
        return -values[-1] if np.isfinite(values[-1]) else 1e30

    while len(points) < budget:
        start = rng.uniform(*problem.plausible_bounds.T)
        options = {"maxfev": budget - len(points)}
        minimize(cost, start, method="Nelder-Mead", bounds=problem.bounds, options=options)
    return np.array(points), np.array(values)


CASES = [
    ("two_moons", 0.0, "one_side", partial(one_side, per_dimension=300)),
    ("half_bounded", 0.0, "one_side", partial(one_side, per_dimension=100)),
    ("student", 0.0, "one_side", partial(one_side, per_dimension=100)),
    ("student", 1.0, "one_side", partial(one_side, per_dimension=100)),
    ("timing", 0.0, "nelder_mead", partial(nelder_mead, per_dimension=100)),
    ("rosenbrock_gaussian", 0.0, "nelder_mead", partial(nelder_mead, per_dimension=300)),
    ("correlated_gaussian", 0.0, "nelder_mead", partial(nelder_mead, per_dimension=300)),
]


def run(case, seed, record):
    """Three fits of one poor run."""
    name, noise_sd, optimiser, make = case
    problem = PROBLEMS[name]()
    rng = np.random.default_rng([seed, 77])
    points, values = make(problem, rng, noise_sd=noise_sd)
    evaluations = vsbq.Evaluations(
        points,
        values,
        log_density_sd=noise_sd or None,
        bounds=problem.bounds,
        plausible_bounds=problem.plausible_bounds,
        nonfinite="drop",
    )
    line = partial(
        Line, problem=problem.name, noise_sd=noise_sd, optimiser=optimiser, evaluations=len(evaluations), seed=seed
    )
    start = perf_counter()
    first = vsbq.fit(evaluations, rng=seed, progress=False)
    record(line(method="before", **measured(problem, first, seed), seconds={"fit": perf_counter() - start}))
    count = 100 * problem.dimension
    for method, ask in (("suggested", first.suggest), ("posterior_draws", first.sample)):
        start = perf_counter()
        new = ask(count, rng=seed)
        asked = perf_counter()
        log_density = problem.log_density(new) + noise_sd * rng.standard_normal(count)
        after = first.update(new, log_density, log_density_sd=noise_sd or None, rng=seed, progress=False)
        seconds = {"ask": asked - start, "fit": perf_counter() - asked}
        record(line(method=method, **measured(problem, after, seed), seconds=seconds, target_evaluations=count))


def measured(problem, post, seed):
    found = scores(problem, post.sample(DRAWS, rng=seed), post.log_evidence, np.random.default_rng([seed, 2]))
    return {
        **found._asdict(),
        "log_evidence": post.log_evidence,
        "log_evidence_sd": post.log_evidence_sd,
        "true_log_evidence": problem.log_evidence,
        "draws": DRAWS,
        **_environment(),
    }


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    done = {(line.problem, line.noise_sd, line.optimiser, line.seed) for line in read_lines([RESULTS])}
    for case in CASES:
        for seed in SEEDS:
            if (PROBLEMS[case[0]]().name, *case[1:3], seed) not in done:
                lines = []
                run(case, seed, lines.append)
                for line in lines:
                    append_line(RESULTS, line)
                    print(
                        f"{line.problem} σ={line.noise_sd:g} {line.optimiser} {line.seed} {line.evaluations} "
                        f"{line.method}: ΔLML {line.delta_lml:.3f} MMTV {line.mmtv:.3f} GsKL {line.gskl:.4f} "
                        f"sd {line.log_evidence_sd:.3f}, {line.seconds['fit']:.0f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
