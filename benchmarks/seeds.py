"""How much does a posterior depend on the seed of its fit? Lines in results/seeds.jsonl, one for each case.

    python benchmarks/seeds.py [--half validation] [--limit 5]
    python benchmarks/seeds.py --table

The exact cases of the zoo with at least 300 D evaluations of several runs, each fitted with five seeds: the largest
MMTV between two of the posteriors, in units of the floor (what two exact samples differ by).
"""

import argparse
import json
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np

from vsbq.errors import VsbqError
from vsbq_bench.cases.cases import all_cases, halves
from vsbq_bench.cases.trace_store import stored_trace
from vsbq_bench.job import _commit
from vsbq_bench.metrics import mmtv
from vsbq_bench.trust.study import _fit, _short, read_study

RESULTS = Path(__file__).parent / "results" / "seeds.jsonl"
CACHE = Path(__file__).parent / "results" / "traces"
SEEDS = 5
LEAST = 300
DRAWS = 5000


def cases(half):
    """Exact traces of several runs that are long enough."""
    return [
        case
        for case in all_cases()
        if halves()[case.name] == half
        and not case.noisy
        and case.runs == "several"
        and case.evaluations_per_dimension >= LEAST
    ]


def run(case, cache):
    """The line of a case."""
    problem = case.subject.make()
    about = {"case": case.name, "hard": case.hard, "half": halves()[case.name], "commit": _commit()}
    trace, rng = stored_trace(cache, case, problem), np.random.default_rng(60)
    floor = mmtv(problem.draw(DRAWS, rng), problem.draw(DRAWS, rng))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posts = [_fit(problem, trace, np.random.default_rng(seed)) for seed in range(SEEDS)]
    except VsbqError as error:
        return about | {"error": f"{type(error).__name__}: {error}"[:300]}
    draws = [post.sample(DRAWS, rng) for post in posts]
    apart = [mmtv(one, other) for one, other in combinations(draws, 2)]
    evidence = [post.log_evidence for post in posts]
    spread, stated = float(np.std(evidence, ddof=1)), float(np.median([post.log_evidence_sd for post in posts]))
    verdicts = sorted({post.verdict for post in posts})
    return about | {
        "floor": floor,
        "most": max(apart) / floor,
        "median": float(np.median(apart)) / floor,
        "evidence_sd_of_seeds": spread,
        "stated_sd": stated,
        "verdicts": verdicts,
    }


def table(lines):
    """By how hard the cases are."""
    head = "| cases | number | largest MMTV / floor, median | at most 2 | sd of log Z over seeds, median | stated |"
    rows = [head, "|---|---|---|---|---|---|"]
    for hard, words in ((False, "ordinary"), (True, "hard")):
        own = [line for line in lines if line["hard"] == hard and "most" in line]
        if own:
            most, spread, stated = (
                np.array([line[name] for line in own]) for name in ("most", "evidence_sd_of_seeds", "stated_sd")
            )
            cells = [words, len(own), f"{np.median(most):.2f}", f"{np.mean(most <= 2):.0%}"]
            rows.append(
                "| " + " | ".join(map(str, [*cells, f"{np.median(spread):.2g}", f"{np.median(stated):.2g}"])) + " |"
            )
    return "\n".join(rows)


def main():
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("development", "validation"), default="validation")
    parser.add_argument("--limit", type=int, help="at most so many cases")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--table", action="store_true", help="print the table of what has been run")
    options = parser.parse_args()
    if options.table:
        print(table(read_study(options.results)))
        return
    have = {line["case"] for line in read_study(options.results)}
    for case in [case for case in cases(options.half) if case.name not in have][: options.limit]:
        line = _short(run(case, options.cache))
        with options.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line, allow_nan=False) + "\n")
        print("one more case", flush=True)


if __name__ == "__main__":
    main()
