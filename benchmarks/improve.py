"""How many doubtful fits does `post.improve` repair, with how many calls, and would random points do as well?

    python benchmarks/improve.py --half validation --fits 60 --processes 2      about 5 hours on 2 cores
    python benchmarks/improve.py --half development --noise 0 --limit 5      some minutes
    python benchmarks/improve.py --table

The trials are those of the study of verdicts (vsbq_bench.trust) whose evaluations are true but too few, in one place,
or on one side. Exact ones are run as they are and with noise of 1 and 3 nats on all evaluations, old and new. Where the
first fit is not trusted, it gets at most 10 D and then 30 D calls: at points that `improve` suggests, or, as a control,
at draws of the posterior of the moment, in the same batches and with the same end. A posterior is usable as in the
study. One JSON line for each fit in benchmarks/results/improve.jsonl; what has its lines is not run again. `--fits`
ends a run when so many fits of each noise were found that are not trusted.
"""

import argparse
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from zlib import crc32

import numpy as np

from vsbq.errors import VsbqError
from vsbq.improve.loop import _batch
from vsbq_bench.cases.place import find_place
from vsbq_bench.job import _commit
from vsbq_bench.metrics import mmtv
from vsbq_bench.parallel import append_lines, in_processes
from vsbq_bench.trust.population import half_of, population
from vsbq_bench.trust.sabotage import SABOTAGES
from vsbq_bench.trust.study import DRAWS, _fit, _results, _trace, read_study

RESULTS = Path(__file__).parent / "results" / "improve.jsonl"
CACHE = Path(__file__).parent / "results" / "traces"

#: Kinds of sabotage that leave true evaluations.
COVERAGE = (
    "none",
    "first 30 D",
    "first 100 D",
    "thinned to 30 D",
    "thinned to 100 D",
    "thinned to 300 D",
    "one run",
    "one side",
    "top two nats",
)
NOISE = (0.0, 1.0, 3.0)
BUDGETS = (10, 30)  # calls for each parameter, from the first
METHODS = ("suggested", "posterior_draws")
LEAST_PARAMETERS, MOST_PARAMETERS = 2, 12
KEPT = (
    "verdict",
    "reasons",
    "delta_lml",
    "mmtv",
    "floor",
    "gskl",
    "usable",
    "signed_error",
    "log_evidence_sd",
    "unseen",
)


def trials(half):
    """Every trial with the noise of its evaluations, in the order of the study."""
    for trial in population():
        if trial.sabotage in COVERAGE and half in (None, half_of(trial)):
            place = find_place(trial.place)
            if LEAST_PARAMETERS <= place.problem.dimension <= MOST_PARAMETERS:
                own = 0.0 if place.case is None else place.case.noise_sd
                yield from ((trial, noise) for noise in (NOISE if own == 0 else (own,)))


def first_fit(trial, noise, cache, rng):
    """The fit of the trace of a trial, with noise added to an exact one."""
    place = find_place(trial.place)
    trace = SABOTAGES[trial.sabotage].change(place.problem, _trace(trial, cache), rng)
    if noise and trace.log_density_sd is None:
        values = trace.log_density + noise * rng.standard_normal(len(trace.log_density))
        trace = replace(trace, log_density=values, log_density_sd=np.full(len(values), noise))
    return _fit(place.problem, trace, rng)


def run(trial, noise, cache):
    """The lines of a trial: before, and after each budget with each method, until it is trusted."""
    problem = find_place(trial.place).problem
    rng = np.random.default_rng([crc32(trial.name.encode()), round(noise), 30])
    about = {"trial": trial.name, "sabotage": trial.sabotage, "half": half_of(trial), "noise": noise}
    about |= {"dimension": problem.dimension, "commit": _commit()}
    start = process_time()
    try:
        first = first_fit(trial, noise, cache, rng)
    except VsbqError as error:
        return [about | {"method": "before", "error": f"{type(error).__name__}: {error}"[:300]}]
    lines = [about | line_of(first, problem, rng, "before", process_time() - start)]
    for method in METHODS if first.verdict != "trusted" else ():
        post, calls, seed = first, 0, int(rng.integers(2**31))
        for budget in BUDGETS:
            start, most = process_time(), budget * problem.dimension
            if post.verdict != "trusted":
                try:
                    post, made = spend(post, method, most - calls, model_of(problem, noise, seed + budget), seed)
                except VsbqError as error:
                    lines.append(about | {"method": method, "budget": budget, "error": f"{error}"[:300]})
                    break
                calls += made
            line = line_of(post, problem, rng, method, process_time() - start)
            lines.append(about | line | {"budget": budget, "calls": calls})
    return lines


def model_of(problem, noise, seed):
    """The log density as a user would have it: one point, a value, and its noise if there is any."""
    rng = np.random.default_rng([seed, 40])

    def log_density(x):
        value = float(problem.log_density(x[None])[0])
        return (value + noise * rng.standard_normal(), noise) if noise else value

    return log_density


def spend(post, method, calls, model, seed):
    """The posterior after some more calls, and how many were made."""
    if method == "suggested":
        post = post.improve(model, calls, rng=seed, progress=False)
        return post, post.improvement.calls
    made, batch, rng = 0, _batch(None, post.dimension, 1), np.random.default_rng(seed)
    while made < calls and post.verdict != "trusted":
        points = post.sample(min(batch, calls - made), rng)
        answers = [model(x) for x in points]
        values, sd = zip(*answers, strict=True) if isinstance(answers[0], tuple) else (answers, None)
        if sd is None and post.evaluations.log_density_sd is not None:
            sd = np.zeros(len(values))
        made += len(points)
        post = post.update(points, values, log_density_sd=sd, rng=rng, progress=False)
    return post, made


def line_of(post, problem, rng, method, seconds):
    """What is kept of a posterior."""
    found = _results(post, problem, rng)
    found["floor"] = mmtv(problem.draw(DRAWS, rng), problem.draw(DRAWS, rng))
    more = {} if post.improvement is None else {"ended": post.improvement.ended}
    evaluations = {"evaluations": len(post.evaluations), "method": method, "cpu_seconds": seconds}
    return {name: found[name] for name in KEPT} | evaluations | more


def table(lines):
    """Of the fits that were not trusted: how many are usable, trusted, and trusted without being usable."""
    head = [
        "half",
        "noise",
        "calls",
        "points",
        "fits",
        "usable",
        "trusted",
        "usable and trusted",
        "trusted, not usable",
    ]
    head += ["MMTV / floor (median)", "calls made (median)"]
    rows = [head, ["---"] * len(head)]
    for half in ("development", "validation"):
        for noise in NOISE:
            own = [line for line in lines if line["half"] == half and line["noise"] == noise and "verdict" in line]
            begun = doubted(own)
            before = [x for x in own if x["method"] == "before"]
            rows += [_row(half, noise, "0", "", before, begun)] if begun else []
            for budget in BUDGETS if begun else ():
                for method in METHODS:
                    these = [x for x in own if x["method"] == method and x["budget"] == budget]
                    rows.append(_row(half, noise, f"{budget} D", method.replace("_", " "), these, begun))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def doubted(lines):
    """Trials whose first fit was not trusted, and which have all their lines."""
    begun = {line["trial"] for line in lines if line["method"] == "before" and line["verdict"] != "trusted"}
    return begun & {line["trial"] for line in lines if (line["method"], line.get("budget")) == (METHODS[1], BUDGETS[1])}


def _row(half, noise, calls, points, lines, begun):
    lines = [line for line in lines if line["trial"] in begun]
    trusted = [line for line in lines if line["verdict"] == "trusted"]
    both = sum(line["usable"] for line in trusted)
    ratios = [line["mmtv"] / line["floor"] for line in lines if "floor" in line]
    shown = f"{np.median(ratios):.2g}" if ratios else ""
    made = f"{np.median([line.get('calls', 0) for line in lines]):.0f}" if lines else ""
    numbers = (len(lines), sum(line["usable"] for line in lines), len(trusted), both, len(trusted) - both)
    return [half, f"{noise:g}", calls, points, *map(str, numbers), shown, made]


def quietly(job, cache):
    """The lines of a trial, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(*job, cache)


def missing(options):
    """What has no lines yet, in the order of the study."""
    have = {(line["trial"], line["noise"]) for line in read_study(options.lines)}
    for trial, noise in trials(options.half):
        small = find_place(trial.place).problem.dimension <= options.most_parameters
        if small and (trial.name, noise) not in have and options.noise in (None, noise):
            yield trial, noise


def enough(options):
    """Noises of which there are so many fits that are not trusted."""
    lines = [x for x in read_study(options.lines) if x["method"] == "before" and options.half in (None, x["half"])]
    count = Counter(line["noise"] for line in lines if line.get("verdict", "trusted") != "trusted")
    return {noise for noise in NOISE if options.fits is not None and count[noise] >= options.fits}


def tell(line):
    """One line for the terminal."""
    told = f"{line['trial']} σ={line['noise']:g} {line['method']} {line.get('calls', 0)} calls: "
    scores = {name: line.get(name) for name in ("verdict", "usable", "delta_lml", "mmtv", "gskl", "error")}
    words = (f"{k} {v:.3g}" if type(v) is float else f"{k} {v}" for k, v in scores.items() if v is not None)
    print(told + ", ".join(words), flush=True)


def run_missing(options):
    """Trial after trial, some at a time, until there are enough."""
    left, most = list(missing(options))[: options.limit], 4 * options.processes
    while left:
        full = enough(options)
        left = [job for job in left if job[1] not in full]
        now, left = left[:most], left[most:]
        for _, lines in in_processes(partial(quietly, cache=options.cache), now, options.processes):
            append_lines(options.lines, lines)
            for line in lines:
                tell(line)


def main():
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("development", "validation"), help="of the study (default: both)")
    parser.add_argument("--fits", type=int, help="so many fits of each noise that are not trusted, about")
    parser.add_argument("--limit", type=int, help="trials to be run, at most")
    parser.add_argument("--most-parameters", type=int, default=MOST_PARAMETERS)
    parser.add_argument("--noise", type=float, help="only trials of this noise")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the traces")
    parser.add_argument("--lines", type=Path, default=RESULTS, help="file of the lines")
    parser.add_argument("--table", action="store_true", help="print the table of the lines, and run nothing")
    options = parser.parse_args()
    if options.table:
        print(table(read_study(options.lines)))
    else:
        run_missing(options)


if __name__ == "__main__":
    main()
