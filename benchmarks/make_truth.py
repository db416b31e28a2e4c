"""The true posteriors of the problems that have no exact sampler: make, inspect, compare.

    python benchmarks/make_truth.py                          # all of them; the published ones need VSBQ_DATA
    python benchmarks/make_truth.py timing --data mine.csv   # of your own data, written beside them
    python benchmarks/make_truth.py --show                   # what is stored
    python benchmarks/make_truth.py --check FOLDER           # against draws made elsewhere (NAME.npz: samples, log_Z)

A truth is written only if two ways to it agree (see vsbq_bench.reference_sampler).
"""

import argparse
import os
import time
from dataclasses import fields
from pathlib import Path

import numpy as np

from vsbq_bench.behaviour import DATA_FOLDER, EXPERIMENTS, own_truth_path, unsolved_lotka_volterra
from vsbq_bench.metrics import DRAWS, gskl, mmtv
from vsbq_bench.reference_sampler import ReferenceSampler, reference_posterior
from vsbq_bench.truth import CHECK_POINTS, Truth, least_effective_share, load_truth, read_truth, write_truth

TRUTHS = Path(__file__).parent / "vsbq_bench" / "truths"
LARGEST_PARETO_SHAPE = 0.5
LARGEST_EVIDENCE_SD = 0.01
LARGEST_Z = 4.0
LEAST_DISTINCT = 0.99


def problems():
    """Every problem that a truth is kept for: name -> a function that returns the unsolved problem."""
    folder = os.environ.get(DATA_FOLDER)
    found = {}
    for experiment in EXPERIMENTS:
        if folder:
            found[experiment.name] = lambda e=experiment: e.unsolved(Path(folder) / e.table)
    for experiment in EXPERIMENTS:
        found[f"{experiment.name}_simulated"] = lambda e=experiment: e.unsolved(None)
    found["lotka_volterra"] = unsolved_lotka_volterra
    return found


def make(problem, path, seed, sampler):
    """Sample one posterior and store it; stop if it can't be trusted."""
    start = time.perf_counter()
    print(f"{problem.name}: ", end="", flush=True)
    found = reference_posterior(
        problem.log_density,
        problem.bounds,
        problem.plausible_bounds,
        np.random.default_rng(seed),
        sampler=sampler,
        report=lambda line: print(line, end="; ", flush=True),
    )
    print(
        f"effective share {found.effective_share:.2f}, largest weight {found.largest_weight:.1f}, Pareto shape "
        f"{found.pareto_shape:.2f}, largest z {found.worst_z:.1f}, distinct {found.distinct:.4f}; "
        f"{time.perf_counter() - start:.0f} s"
    )
    if (
        found.effective_share < least_effective_share(problem.dimension)
        or not found.pareto_shape < LARGEST_PARETO_SHAPE
        or not found.log_evidence_sd < LARGEST_EVIDENCE_SD
        or not found.worst_z < LARGEST_Z
        or found.distinct < LEAST_DISTINCT
    ):
        raise SystemExit(f"{problem.name}: not written, chains and weights do not vouch for each other")
    points = found.draws[:CHECK_POINTS]
    truth = Truth(
        draws=found.draws,
        log_evidence=found.log_evidence,
        log_evidence_sd=found.log_evidence_sd,
        effective_share=found.effective_share,
        worst_z=found.worst_z,
        check_points=points,
        check_values=problem.log_density(points),
        data_digest=problem.data_digest,
        made=f"seed {seed}, {sampler}, chains with an autocorrelation time of {found.autocorrelation_time:.1f} steps",
    )
    write_truth(path, truth)


def show():
    for path in sorted(TRUTHS.glob("*.npz")):
        truth = read_truth(path)
        print(f"{path.stem}: {truth.draws.shape[0]} draws, {path.stat().st_size / 1024:.0f} KiB, {truth.made}")
        print(
            f"  log Z {truth.log_evidence:.4f} ± {truth.log_evidence_sd:.4f}, effective share "
            f"{truth.effective_share:.2f}, largest z {truth.worst_z:.1f}"
        )
        print("  mean", np.round(truth.draws.mean(axis=0), 4), "\n  sd  ", np.round(truth.draws.std(axis=0), 4))


def check(folder):
    """Compare the stored truths with other draws of the same posteriors; the floor is that of our own halves."""
    rng = np.random.default_rng(0)
    for experiment in EXPERIMENTS:
        if not (folder / f"{experiment.name}.npz").is_file():
            print(f"{experiment.name}: nothing to compare with in {folder}")
            continue
        truth = load_truth(experiment.name)
        with np.load(folder / f"{experiment.name}.npz") as other:
            samples, log_z, log_z_sd = other["samples"].astype(float), float(other["log_Z"]), float(other["log_Z_sd"])
        n = min(DRAWS, len(samples))
        ours, again = np.split(truth.draw(2 * n, rng), 2)
        theirs = rng.choice(samples, n, replace=False)
        sd = np.hypot(truth.log_evidence_sd, log_z_sd)
        print(
            f"{experiment.name}: log Z {truth.log_evidence:.4f} ± {truth.log_evidence_sd:.4f}, there {log_z:.4f} ± "
            f"{log_z_sd:.4f}, difference {(truth.log_evidence - log_z) / sd:+.1f} sd; MMTV {mmtv(ours, theirs):.4f} "
            f"(floor {mmtv(ours, again):.4f}), GsKL {gskl(ours, theirs):.2e} (floor {gskl(ours, again):.2e})"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(problems())}; all if left out")
    parser.add_argument("--data", type=Path, help="a table of your own for the experiment NAME")
    parser.add_argument("--seed", type=int, default=1)
    for field in fields(ReferenceSampler):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=int, default=field.default, help=f"{field.default}"
        )
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--check", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    unknown = set(options.names) - set(problems()) - {experiment.name for experiment in EXPERIMENTS}
    if unknown:
        parser.error(f"unknown {', '.join(sorted(unknown))}; there is {', '.join(problems())}")
    sampler = ReferenceSampler(**{field.name: getattr(options, field.name) for field in fields(ReferenceSampler)})
    if options.data:
        own = [experiment for experiment in EXPERIMENTS if [experiment.name] == options.names]
        if not own:
            parser.error("--data needs the name of one experiment")
        make(own[0].unsolved(options.data), own_truth_path(own[0], options.data), options.seed, sampler)
    elif not (options.show or options.check):
        missing = set(options.names) - set(problems())
        if missing:
            parser.error(f"{', '.join(missing)}: name the folder of the published data in {DATA_FOLDER}")
        for name in options.names or problems():
            make(problems()[name](), TRUTHS / f"{name}.npz", options.seed, sampler)
    if options.show:
        show()
    if options.check:
        check(options.check)


if __name__ == "__main__":
    main()
