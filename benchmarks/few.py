"""Two hundred evaluations or fewer: is any posterior absurd? Lines in results/few.jsonl, one for each fit.

    python benchmarks/few.py [--limit 20]
    python benchmarks/few.py --table

Fresh traces, of which none was looked at before: every subject of the zoo of at most six parameters, with optimisers,
lengths (50, 100 or 200 evaluations) and noise in turn. A posterior is absurd if the standard deviation of a parameter
is off by more than a factor of three, or if its evidence is more than the highest evaluation over all of the explored
box could give.
"""

import argparse
import json
import warnings
from itertools import cycle, islice
from pathlib import Path
from zlib import crc32

import numpy as np

from vsbq.errors import VsbqError
from vsbq_bench.cases.cases import all_cases
from vsbq_bench.cases.subjects import SCIENCE, SHAPES
from vsbq_bench.cases.traces import case_trace
from vsbq_bench.job import _commit
from vsbq_bench.metrics import mmtv
from vsbq_bench.trust.study import _fit, _short, read_study

RESULTS = Path(__file__).parent / "results" / "few.jsonl"
OPTIMISERS = ("cma", "nelder_mead", "l_bfgs_b", "differential_evolution", "powell")
LENGTHS = (50, 100, 200)
NOISE = (0.0, 0.0, 1.0, 3.0)
FITS = 200
MOST_PARAMETERS = 6
DRAWS = 5000
OFF = 3.0


def trials():
    """Subject, optimiser, number of evaluations and noise, so that all combinations of any two occur."""
    all_cases()  # registers the subjects
    subjects = [name for name, one in {**SCIENCE, **SHAPES}.items() if one.make().dimension <= MOST_PARAMETERS]
    for row, name in islice(enumerate(cycle(subjects)), FITS):
        turn = row // len(subjects)
        yield name, OPTIMISERS[(row + turn) % 5], LENGTHS[(row + 2 * turn) % 3], NOISE[(row + 3 * turn) % 4]


def run(name, optimiser, length, noise):
    """The line of a fit."""
    problem = {**SCIENCE, **SHAPES}[name].make()
    rng = np.random.default_rng([crc32(f"{name} {optimiser} {length} {noise}".encode()), 50])
    about = {"trial": f"{name}, {optimiser}, {length}, sd {noise:g}", "noise": noise, "evaluations": length}
    about |= {"dimension": problem.dimension, "commit": _commit()}
    trace = case_trace(
        problem, rng, optimiser=optimiser, several=True, evaluations=length, noise=noise, box="plausible"
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = _fit(problem, trace, rng)
    except VsbqError as error:
        return about | {"verdict": "refused", "error": f"{type(error).__name__}: {error}"[:300]}
    draws, truth = post.sample(DRAWS, rng), problem.draw(DRAWS, rng)
    with np.errstate(over="ignore"):
        ratio = draws.std(axis=0) / truth.std(axis=0)
    finite = np.isfinite(trace.log_density)
    most = trace.log_density[finite].max() + np.log(np.ptp(trace.points[finite], axis=0)).sum()
    return about | {
        "verdict": post.verdict,
        "widest": float(ratio.max()),
        "narrowest": float(ratio.min()),
        "beyond": float(post.log_evidence - most),
        "signed_error": post.log_evidence - problem.log_evidence,
        "log_evidence_sd": post.log_evidence_sd,
        "mmtv": mmtv(draws, truth),
    }


def absurd(line):
    """Why a posterior is absurd, or nothing."""
    if "widest" not in line:
        return ""
    reasons = {"too wide": not (line["widest"] or np.inf) <= OFF, "too narrow": line["narrowest"] < 1 / OFF}
    reasons["evidence that no evaluation supports"] = line["beyond"] > 0
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def table(lines):
    """How many are absurd, by noise and verdict."""
    rows = ["| noise sd | fits | refused | absurd | of the trusted ones | within 2 sd |", "|---|---|---|---|---|---|"]
    for noise in (*sorted(set(NOISE)), None):
        own = [line for line in lines if noise in (None, line["noise"])]
        fits = [line for line in own if "widest" in line]
        trusted = [line for line in fits if line["verdict"] == "trusted"]
        near = sum(abs(line["signed_error"]) <= 2 * (line["log_evidence_sd"] or np.inf) for line in fits)
        cells = [
            "all" if noise is None else f"{noise:g}",
            len(own),
            len(own) - len(fits),
            sum(bool(absurd(line)) for line in fits),
            f"{sum(bool(absurd(line)) for line in trusted)} of {len(trusted)}",
            f"{near / max(len(fits), 1):.0%}",
        ]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def main():
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="at most so many fits")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the table of what has been run")
    options = parser.parse_args()
    if options.table:
        print(table(read_study(options.results)))
        return
    have = {line["trial"] for line in read_study(options.results)}
    missing = [trial for trial in trials() if f"{trial[0]}, {trial[1]}, {trial[2]}, sd {trial[3]:g}" not in have]
    for trial in missing[: options.limit]:
        line = _short(run(*trial))
        with options.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, allow_nan=False) + "\n")
        print(line["trial"], line["verdict"], absurd(line), flush=True)


if __name__ == "__main__":
    main()
