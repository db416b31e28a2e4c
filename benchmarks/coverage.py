"""What the evaluations allow: scores of the default beside those of a surrogate that is exact wherever it is trusted.

    python benchmarks/coverage.py [--data FOLDER] [--cache FOLDER] [--seeds 10] [--problems timing …]

Outside the trusted region no evaluation is near, and no draw is made. Exact draws, less those that fall outside, are
therefore what this trace would give with a surrogate that makes no error: "inside". Without noise, a fit that scores no
worse has no error of its own. One JSON line per fit in benchmarks/results/coverage.jsonl; fits that have a line already
are not repeated. The last lines printed are medians.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np

import vsbq
from vsbq_bench.catalogue import PROBLEMS
from vsbq_bench.job import _commit
from vsbq_bench.metrics import DRAWS, floor, gskl, mmtv
from vsbq_bench.trace_cache import cached_trace

RESULTS = Path(__file__).parent / "results" / "coverage.jsonl"
EXACT = ("rosenbrock_gaussian", "timing", "multisensory", "lumpy", "lotka_volterra")


def measured(problem, cache, seed):
    """The fit that `vsbq bench run` makes of this trace, and exact draws inside the region that it trusts."""
    trace = cached_trace(cache, problem, "cma", noise_sd=0.0, evaluations=3000 * problem.dimension, seed=seed)
    rng = np.random.default_rng([seed, 3])
    rng.spawn(1)  # as the benchmark does, so that the fit is the same
    post = vsbq.fit(trace.points, trace.log_density, bounds=problem.bounds, rng=rng, progress=False)
    truth_rng = np.random.default_rng([seed, 2])
    truth, least = problem.draw(DRAWS, truth_rng), floor(problem, DRAWS, truth_rng)
    others = problem.draw(DRAWS, truth_rng)
    region = post.refined.region
    inside = np.isfinite(region.log_density(region.surrogate.space.forward(others)))
    draws = post.sample(DRAWS, rng=seed)
    return {
        "problem": problem.name,
        "seed": seed,
        "mass_outside": float(1 - inside.mean()),
        "delta_lml": abs(post.log_evidence - problem.log_evidence),
        "mmtv": mmtv(draws, truth),
        "gskl": gskl(draws, truth),
        "delta_lml_inside": float(-np.log(inside.mean())),
        "mmtv_inside": mmtv(others[inside], truth),
        "gskl_inside": gskl(others[inside], truth),
        "floor_mmtv": least.mmtv,
        "floor_gskl": least.gskl,
        "commit": _commit(),
        "version": vsbq.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the published data (default: VSBQ_DATA, else simulated)")
    parser.add_argument("--cache", type=Path, default=Path("bench-results/traces"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--problems", nargs="+", default=EXACT, choices=EXACT)
    options = parser.parse_args()
    if options.data:
        os.environ["VSBQ_DATA"] = options.data
    lines = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()] if RESULTS.exists() else []
    for problem in (PROBLEMS[name]() for name in options.problems):
        for seed in range(options.seeds):
            if not any((line["problem"], line["seed"]) == (problem.name, seed) for line in lines):
                lines.append(measured(problem, options.cache, seed))
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
                print(lines[-1], flush=True)
    for name in dict.fromkeys(line["problem"] for line in lines):
        mine = [line for line in lines if line["problem"] == name]
        keys = [key for key in mine[0] if key not in ("problem", "seed", "commit", "version")]
        print(name, len(mine), {key: float(f"{np.median([line[key] for line in mine]):.2g}") for key in keys})


if __name__ == "__main__":
    main()
