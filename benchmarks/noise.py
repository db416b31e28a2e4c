"""How well unknown or wrongly given noise is recovered, on traces of CMA-ES: lines in results/noise.jsonl.

    python benchmarks/noise.py [--data FOLDER] [--cache FOLDER] [--seeds 3]

For each problem, level of noise and seed the noise is left out ("unknown"), halved, doubled or given as it is.
"""

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np

import vsbq
from vsbq.errors import VsbqWarning
from vsbq.steps.noise import NoiseCheck, settle_noise
from vsbq.steps.trim import Trim
from vsbq_bench.catalogue import PROBLEMS
from vsbq_bench.job import _commit
from vsbq_bench.trace_cache import cached_trace

RESULTS = Path(__file__).parent / "results" / "noise.jsonl"
CASES = {"unknown": None, "half": 0.5, "given": 1.0, "double": 2.0}
EXACT = ("two_moons", "rosenbrock_gaussian", "timing", "multisensory", "lumpy", "lotka_volterra")
NOISY = ("timing", "multisensory")


def finding(problem, trace, said):
    sd = None if said is None else said * trace.log_density_sd
    evaluations = vsbq.Evaluations(trace.points, trace.log_density, log_density_sd=sd, bounds=problem.bounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VsbqWarning)
        return settle_noise(evaluations, NoiseCheck(), Trim(), np.random.default_rng(0))[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with the published data (default: VSBQ_DATA, else simulated)")
    parser.add_argument("--cache", type=Path, default=Path("bench-results/traces"))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.data:
        os.environ["VSBQ_DATA"] = options.data
    places = [(name, 0.0) for name in EXACT] + [(name, sd) for name in NOISY for sd in (1.0, 3.0, 7.0)]
    with RESULTS.open("w", encoding="utf-8") as file:
        for name, noise in places:
            problem = PROBLEMS[name]()
            for seed in range(options.seeds):
                budget = 3000 * problem.dimension
                trace = cached_trace(options.cache, problem, "cma", noise_sd=noise, evaluations=budget, seed=seed)
                for case in CASES if noise else ["unknown"]:
                    found = finding(problem, trace, CASES[case])._asdict()
                    line = {"problem": problem.name, "noise_sd": noise, "seed": seed, "said": case, **found}
                    file.write(json.dumps(line | {"commit": _commit(), "version": vsbq.__version__}) + "\n")
                    print(line, flush=True)


if __name__ == "__main__":
    main()
