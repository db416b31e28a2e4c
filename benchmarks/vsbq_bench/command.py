"""The actions of `vsbq bench`, whose options are in `vsbq.cli.bench`: each takes them and returns an exit code."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence

from vsbq.errors import VsbqError
from vsbq_bench.lines import Line
from vsbq_bench.problems import Problem
from vsbq_bench.stored import of_cases, of_problems, stored_lines
from vsbq_bench.suites import CASE_SUITES, SUITES, Job, jobs_of

__all__ = [
    "compare_results",
    "draw_figures",
    "print_tables",
    "refresh_page",
    "run_suite",
    "show_cases",
    "show_catalogue",
    "study_verdicts",
]


def show_catalogue(options: Namespace) -> int:
    """Print the problems, methods and suites."""
    from vsbq_bench.catalogue import METHODS, PROBLEMS

    print("Problems")
    for name, make in PROBLEMS.items():
        told = getattr(make, "func", make).__doc__ or ""  # of a partial function, what is said of the function itself
        print(f"  {name:<22} {_size(make):<5} {told.splitlines()[0]}")
    print("\nMethods\n  " + "\n  ".join(METHODS))
    print("\nSuites")
    for name in (*SUITES, *CASE_SUITES):
        print(f"  {name:<16} {len(jobs_of(name))} runs")
    return 0


def show_cases(options: Namespace) -> int:
    """Print the cases of the zoo: how many of each kind are in either half, and their names."""
    from vsbq_bench.cases.cases import all_cases, halves
    from vsbq_bench.cases.split import HALVES, count_by_kind

    rows = count_by_kind(all_cases(), halves())
    print(f"{'kind':<16}" + "".join(f"{half:>13}" for half in HALVES))
    for row in rows:
        print(f"{row.kind:<16}{row.development:>13}{row.validation:>13}")
    print(f"{'all':<16}{sum(row.development for row in rows):>13}{sum(row.validation for row in rows):>13}")
    for half in HALVES:
        print(f"\n{half}")
        for case in sorted(all_cases(), key=lambda case: (case.kind, case.name)):
            if halves()[case.name] == half:
                hard = "hard" if case.hard else ""
                print(f"  {case.kind:<15} {'science' if case.science else 'shape':<8} {hard:<5} {case.name}")
    return 0


def study_verdicts(options: Namespace) -> int:
    """Run what is missing of the study of verdicts, or put its tables into a page."""
    from vsbq_bench.trust.judge import judge
    from vsbq_bench.trust.study import read_study, run_study
    from vsbq_bench.trust.table import refresh_trust, summary

    path = options.results / "trust.jsonl"
    if options.page is not None:
        refresh_trust(options.page, read_study(path))
        return 0
    cache = options.cache or options.results / "traces"
    for line in run_study(path, cache, limit=options.limit, half=options.half, processes=options.processes):
        print(f"{line['trial']}: {line['verdict']}, {'usable' if line.get('usable') else 'not usable'}", flush=True)
    print(summary([judge(line) for line in read_study(path) if options.half in (None, line["half"])]))
    return 0


def compare_results(options: Namespace) -> int:
    """Print what got better and worse between two files of results."""
    from vsbq_bench.cases.compare import DEFAULT, compare, of_method
    from vsbq_bench.cases.report import comparison_in_words
    from vsbq_bench.cases.result_files import lines_of_two

    old, new = lines_of_two(options.old, options.new)
    if options.method is not None:
        _check("method", [options.method], sorted({line.method for line in new}))
        old, new = of_method(old, DEFAULT), of_method(new, options.method)
    print(comparison_in_words(compare(old, new)))
    return 0


def _size(make: Callable[[], Problem]) -> str:
    """The number of parameters, or that no truth is stored for the data at hand."""
    try:
        return f"D={make().dimension}"
    except ValueError:
        return "no truth"


def run_suite(options: Namespace) -> int:
    """Run what is missing of a suite; the exit code is 1 if a run of this call failed."""
    from vsbq_bench.run import Runner, missing_jobs

    if options.data is not None:
        os.environ["VSBQ_DATA"] = str(options.data.resolve())
    suite = options.suite or "small"
    lines = options.results / f"{suite}.jsonl"
    jobs = missing_jobs(_chosen(suite, options), lines, retry_failed=options.retry_failed)
    if options.dry_run:
        print("\n".join(_in_words(job) for job in jobs) or "nothing is missing")
        return 0
    cache = options.cache or options.results / "traces"
    runner = Runner(lines=lines, cache=cache, processes=options.processes, timeout=options.timeout)
    failed = [line for line in runner.run(jobs) if line.error is not None]
    for line in failed:
        print(
            f"failed: {line.problem} σ={line.noise_sd:g} {line.optimiser} {line.method} seed {line.seed}: {line.error}"
        )
    print(f"{len(jobs) - len(failed)} runs done, {len(failed)} failed; lines in {lines}")
    return 1 if failed else 0


def print_tables(options: Namespace) -> int:
    """Print the tables."""
    from vsbq_bench.page import CASE_TABLES
    from vsbq_bench.tables import all_tables

    lines = _lines(options)
    problems, cases = of_problems(lines), of_cases(lines)
    parts = [all_tables(problems)] if problems else []
    parts += [f"## {name}\n\n{table(cases)}" for name, table in CASE_TABLES.items()] if cases else []
    print("\n\n".join(parts))
    return 0


def draw_figures(options: Namespace) -> int:
    """Draw the figures."""
    from vsbq_bench.page import write_figures

    for path in write_figures(_lines(options), options.output):
        print(path)
    return 0


def refresh_page(options: Namespace) -> int:
    """Refresh the tables of a page, and the figures beside it."""
    from vsbq_bench.page import figures_of, refresh, write_figures

    lines = _lines(options)
    text = refresh(options.page.read_text(encoding="utf-8"), lines)
    if names := figures_of(text):
        write_figures(lines, options.page.parent / "results", only=names)
    options.page.write_text(text, encoding="utf-8")
    return 0


def _chosen(suite: str, options: Namespace) -> list[Job]:
    from vsbq_bench.catalogue import METHODS, PROBLEMS
    from vsbq_bench.trace_cache import OPTIMISERS

    _check("suite", [suite], (*SUITES, *CASE_SUITES))
    jobs = jobs_of(suite)
    zoo = suite in CASE_SUITES
    _check("method", options.methods, METHODS)
    _check("problem", options.problems, sorted({job.problem for job in jobs}) if zoo else PROBLEMS)
    _check("optimiser", options.optimisers, sorted({job.optimiser for job in jobs}) if zoo else OPTIMISERS)
    return [
        job
        for job in jobs
        if (not options.methods or job.method in options.methods)
        and (not options.problems or job.problem in options.problems)
        and (not options.optimisers or job.optimiser in options.optimisers)
        and (options.seeds is None or job.seed < options.seeds)
    ]


def _check(kind: str, names: Sequence[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            raise VsbqError(f"There is no {kind} {name!r}; there are {', '.join(known)}.")


def _lines(options: Namespace) -> list[Line]:
    lines = stored_lines(options.results, options.suite)
    if not lines:
        raise VsbqError(f"There are no lines in {options.results}; `vsbq bench run` makes some.")
    return lines


def _in_words(job: Job) -> str:
    trace = f"{job.optimiser} {job.evaluations_per_dimension}·D"
    return f"{job.problem} σ={job.noise_sd:g} {trace} {job.method} seed {job.seed}"
