"""`vsbq demo`: an optimiser looks for the best point of Two Moons, and what it leaves behind becomes a posterior."""

from __future__ import annotations

import importlib.util
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from vsbq._typing import Float, ndarray
from vsbq.cli.files import write_table
from vsbq.cli.folder import Folder
from vsbq.cli.log import FitLog
from vsbq.cli.problem import Problem as Told
from vsbq.cli.reading import Source, read_files
from vsbq.cli.results import Results, Wanted, add_result_options, leave_results, show_results, with_error
from vsbq.cli.terminal import Terminal
from vsbq.io.record import Recorder, read_store
from vsbq_bench.problems import LEFT_SHARE, Problem, two_moons
from vsbq_bench.traces import cma_trace

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "see it work on an example: Two Moons"
DESCRIPTION = """\
Two Moons is a density with two curved modes. An optimiser looks for its highest point (CMA-ES if pycma is installed,
Nelder-Mead from SciPy else), as one would for a best fit. Every evaluation it made goes into a table, and the table
becomes a posterior, which is compared with the truth. It takes half a minute.
"""
EPILOG = """\
examples:
  vsbq demo
  vsbq demo -o moons --seed 2

The folder holds evaluations.csv, the table that your own should look like, and what `vsbq fit` makes of it.
Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""

TABLE = "evaluations.csv"
BUDGET = 3000
RUN_BUDGET = 100  # of one run of Nelder-Mead


class _Run(NamedTuple):
    """What an optimiser leaves behind."""

    optimiser: str
    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("vsbq-demo"), metavar="DIR", help="default: vsbq-demo"
    )
    add_result_options(parser)
    parser.set_defaults(run=run, seed=1, title="Two Moons, a demonstration")


def run(options: Namespace) -> int:
    """Optimise, fit, compare with the truth."""
    terminal = Terminal.of(options)
    with terminal.listening(), FitLog() as log:
        wanted = replace(Wanted.of(options), more={TABLE: "what went in; a table of your own looks like this"})
        with wanted.folder() as folder:
            problem = two_moons()
            trace = _optimise(problem, np.random.default_rng(wanted.seed), folder.draft / "recorded.db")
            table = np.column_stack([trace.points, trace.log_density])
            write_table(folder.draft / TABLE, [*problem.names, "log_density"], table, parquet=False)
            _show_run(terminal, trace, problem)
            results = leave_results(_read(folder, wanted), wanted, folder, terminal, log)
            folder.finish()
        truth = _truth(results, problem, wanted)
        show_results(replace(results, summary=results.summary | {"truth": truth}), wanted, terminal)
        _show_truth(results, truth, terminal)
    return 0


def _read(folder: Folder, wanted: Wanted) -> Source:
    """The table just written, under the name it will have."""
    source = read_files([folder.draft / TABLE], Told())
    return replace(source, files=(wanted.output / TABLE,))


def _optimise(problem: Problem, rng: np.random.Generator, path: Path) -> _Run:
    """Look for the highest point from several starts, and keep every evaluation."""
    if importlib.util.find_spec("cma") is not None:
        trace = cma_trace(problem, rng, evaluations=BUDGET)
        return _Run("CMA-ES", trace.points, trace.log_density)
    with Recorder(path, names=problem.names, tag="Two Moons") as record:
        cost = record.minimise(lambda x: -float(problem.log_density(x[None])[0]))
        while len(record) < BUDGET:
            start = rng.uniform(*problem.plausible_bounds.T)
            minimize(cost, start, method="Nelder-Mead", options={"fatol": 0.1, "xatol": 0.1, "maxfev": RUN_BUDGET})
    stored = read_store(path)
    return _Run("Nelder-Mead", stored.points, stored.log_density)


def _show_run(terminal: Terminal, trace: _Run, problem: Problem) -> None:
    best = int(np.argmax(trace.log_density))
    at = ", ".join(f"{name} = {x:.3f}" for name, x in zip(problem.names, trace.points[best], strict=True))
    terminal.title(f"Two Moons, maximised by {trace.optimiser}")
    terminal.facts(
        {
            "evaluations": str(len(trace.log_density)),
            "best point": at,
            "its log density": f"{trace.log_density[best]:.3f}, which is all that is usually kept",
        }
    )


def _truth(results: Results, problem: Problem, wanted: Wanted) -> dict[str, float]:
    """What is known of Two Moons, beside what the posterior says."""
    draws = results.posterior.sample(20_000, np.random.default_rng(wanted.seed))
    return {
        "log_evidence": problem.log_evidence,
        "right_moon": 1 - LEFT_SHARE,
        "right_moon_found": float(np.mean(draws[:, 0] > 0)),
    }


def _show_truth(results: Results, truth: dict[str, float], terminal: Terminal) -> None:
    post = results.posterior
    terminal.title("Against the truth, which is known here")
    found = with_error(post.log_evidence, post.log_evidence_sd)
    terminal.say(f"  {'':<26}{'posterior':>18}{'truth':>10}")
    terminal.say(f"  {'log evidence':<26}{found:>18}{truth['log_evidence']:>10.3f}")
    terminal.say(f"  {'mass of the right moon':<26}{truth['right_moon_found']:>18.3f}{truth['right_moon']:>10.3f}")
    terminal.say("\nNow with a table of your own:  vsbq fit evaluations.csv -o out")
