"""What `post.reweight` makes of fits that are not trusted, with 500 evaluations of the model.

    python benchmarks/reweight.py --half development
    python benchmarks/reweight.py --table

The trials are those of the study of verdicts (vsbq_bench.trust): of each kind of sabotage the first few whose fit is
not trusted. The model is evaluated at `post.check_points(500)`, without noise, as in a recheck by the user. An error is
the largest of ΔLML, MMTV / 0.2 and the root of GsKL / (1/8): above one a posterior is not usable. It is better if the
error is smaller afterwards than before, or below that of draws of the truth itself; and it says that it cannot if the
verdict afterwards is not that of a correction. One JSON line for each fit in benchmarks/results/reweight.jsonl; what
has its line is not run again.
"""

import argparse
import json
import warnings
from pathlib import Path
from time import process_time
from zlib import crc32

import numpy as np

from vsbq.errors import VsbqError, VsbqWarning
from vsbq_bench.cases.place import find_place
from vsbq_bench.job import _commit
from vsbq_bench.lines import _drop_cut_line
from vsbq_bench.metrics import gskl, mmtv
from vsbq_bench.trust.population import half_of, population
from vsbq_bench.trust.sabotage import SABOTAGES
from vsbq_bench.trust.study import DRAWS, USABLE, _fit, _short, _trace, read_study

RESULTS = Path(__file__).parent / "results" / "reweight.jsonl"
CACHE = Path(__file__).parent / "results" / "traces"

CALLS = 500
PER_KIND = 3  # fits that are not trusted, of each kind and half


def run(trial, cache):
    """The line of a trial: what was wrong before and after, or only the verdict where it is trusted."""
    problem = find_place(trial.place).problem
    rng = np.random.default_rng([crc32(trial.name.encode()), 50])
    about = {"trial": trial.name, "sabotage": trial.sabotage, "half": half_of(trial), "dimension": problem.dimension}
    about |= {"commit": _commit()}
    try:
        post = _fit(problem, SABOTAGES[trial.sabotage].change(problem, _trace(trial, cache), rng), rng)
    except VsbqError as error:
        return about | {"verdict": "refused", "error": f"{type(error).__name__}: {error}"[:300]}
    if post.verdict == "trusted":
        return about | {"verdict": "trusted"}
    return about | {"verdict": post.verdict} | reweighted(post, problem, rng)


def reweighted(post, problem, rng):
    """Errors before and after, and whether `reweight` said that it cannot."""
    points, start = post.check_points(CALLS, rng), process_time()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", VsbqWarning)
            after = post.reweight(points, problem.log_density(points))
    except VsbqError as error:
        return {"cannot": True, "said": f"{error}"[:300]}
    finding = after.diagnosis.finding("k-hat")
    truth = problem.draw(DRAWS, rng)
    return {
        "cannot": bool(told),
        "k_hat": finding.number,
        "after": after.verdict,
        "error_before": errors(post, problem, truth, rng),
        "error_after": errors(after, problem, truth, rng),
        "floor": largest(0.0, mmtv(problem.draw(DRAWS, rng), truth), gskl(problem.draw(DRAWS, rng), truth)),
        "cpu_seconds": process_time() - start,
    }


def errors(post, problem, truth, rng):
    """How wrong a posterior is, as a multiple of what makes it unusable."""
    draws = post.sample(DRAWS, rng)
    return largest(abs(post.log_evidence - problem.log_evidence), mmtv(draws, truth), gskl(draws, truth))


def largest(evidence, marginals, moments):
    """Of three errors, as multiples of what makes a posterior unusable; that of the moments goes with a square."""
    parts = evidence / USABLE["delta_lml"], marginals / USABLE["mmtv"], np.sqrt(moments / USABLE["gskl"])
    return float(max(parts))


def outcome(line):
    """ "better", "cannot" or "worse", and None where there was nothing to correct."""
    if "cannot" not in line:
        return None
    if line["cannot"]:
        return "cannot"
    before, after = (np.inf if line[name] is None else line[name] for name in ("error_before", "error_after"))
    return "better" if after < before or after <= line["floor"] else "worse"


def table(lines):
    """What became of fits that were not trusted, by half and kind."""
    head = ["half", "sabotage", "fits", "better", "says that it cannot", "worse"]
    rows = [head, ["---"] * len(head)]
    for half in ("development", "validation"):
        own = [line for line in lines if line["half"] == half and outcome(line)]
        rows += [_row(half, kind, [line for line in own if line["sabotage"] == kind]) for kind in SABOTAGES]
        rows += [_row(half, "**all**", own)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows if row[2] != "0")


def _row(half, kind, lines):
    found = [outcome(line) for line in lines]
    return [half, kind, str(len(found)), *(str(found.count(word)) for word in ("better", "cannot", "worse"))]


def missing(lines, half):
    """Trials without a line, of kinds of which there are too few, one of each kind after the other."""
    have = {line["trial"] for line in lines}
    mine = [trial for trial in population() if half_of(trial) == half and trial.name not in have]
    for kind in SABOTAGES:
        enough = sum(line["sabotage"] == kind and line["half"] == half and outcome(line) is not None for line in lines)
        if enough < PER_KIND:
            yield from (trial for trial in mine if trial.sabotage == kind)


def main():
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("development", "validation"), action="append", help="default: both")
    parser.add_argument("--limit", type=int, help="fits that are made, at most")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the traces")
    parser.add_argument("--lines", type=Path, default=RESULTS, help="file of the lines")
    parser.add_argument("--table", action="store_true", help="print the table of the lines, and run nothing")
    options = parser.parse_args()
    made = 0
    for half in () if options.table else options.half or ("development", "validation"):
        while made != options.limit and (trial := next(missing(read_study(options.lines), half), None)) is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                line = run(trial, options.cache)
            made += 1
            options.lines.parent.mkdir(parents=True, exist_ok=True)
            _drop_cut_line(options.lines)
            with options.lines.open("a", encoding="utf-8") as out:
                out.write(json.dumps(_short(line), allow_nan=False, ensure_ascii=False) + "\n")
            print(f"{trial.name}: {line['verdict']}, {outcome(line) or 'nothing to correct'}", flush=True)
    print(table(read_study(options.lines)))


if __name__ == "__main__":
    main()
