"""`vsbq demo`: an optimiser looks for the best point of Two Moons, and what it leaves behind becomes a posterior."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np

from vsbq.cli import two_moons
from vsbq.cli.fit import Results, fit_into, show_results, with_error
from vsbq.cli.input import Source, read_files
from vsbq.cli.output import Folder, Wanted, add_result_options, write_table
from vsbq.cli.problem import Problem
from vsbq.cli.terminal import FitLog, Terminal

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
            trace = two_moons.optimise(BUDGET, np.random.default_rng(wanted.seed), folder.draft / "recorded.db")
            table = np.column_stack([trace.points, trace.log_density])
            write_table(folder.draft / TABLE, [*two_moons.NAMES, "log_density"], table, parquet=False)
            _show_run(terminal, trace)
            results = fit_into(folder, _read(folder, wanted), wanted, terminal, log)
            folder.finish()
        truth = _truth(results, wanted)
        show_results(replace(results, summary=results.summary | {"truth": truth}), wanted, terminal)
        _show_truth(results, truth, terminal)
    return 0


def _read(folder: Folder, wanted: Wanted) -> Source:
    """The table just written, under the name it will have."""
    source = read_files([folder.draft / TABLE], Problem())
    return replace(source, files=(wanted.output / TABLE,))


def _show_run(terminal: Terminal, trace: two_moons.Run) -> None:
    best = int(np.argmax(trace.log_density))
    at = ", ".join(f"{name} = {x:.3f}" for name, x in zip(two_moons.NAMES, trace.points[best], strict=True))
    terminal.title(f"Two Moons, maximised by {trace.optimiser}")
    terminal.facts(
        {
            "evaluations": str(len(trace.log_density)),
            "best point": at,
            "its log density": f"{trace.log_density[best]:.3f}, which is all that is usually kept",
        }
    )


def _truth(results: Results, wanted: Wanted) -> dict[str, float]:
    """What is known of Two Moons, beside what the posterior says."""
    draws = results.posterior.sample(20_000, np.random.default_rng(wanted.seed))
    return {
        "log_evidence": two_moons.log_evidence(),
        "right_moon": two_moons.RIGHT_SHARE,
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
