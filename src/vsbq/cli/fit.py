"""`vsbq fit`: from files of evaluations to a folder with posterior, samples, report, summary and log."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from vsbq._version import __version__
from vsbq.cli.log import FitLog
from vsbq.cli.problem import Problem, add_problem_options
from vsbq.cli.reading import read_files
from vsbq.cli.results import Wanted, add_result_options, leave_results, show_results
from vsbq.cli.terminal import Terminal
from vsbq.cli.wording import UsageError

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "from a table of evaluations to a folder with the posterior, samples and a report"
DESCRIPTION = """\
Turn log-density evaluations into a posterior. The model is not called again.

A table has one row per evaluation, one column per parameter, and a column with the log density (log likelihood plus
log prior):

    a,b,log_density
    0.1,2.5,-104.2
    0.3,2.1,-98.7
    ...

CSV, TSV, Parquet and npz files are read, and the files of vsbq.Recorder. Several files are joined.
"""
EPILOG = """\
examples:
  vsbq fit evaluations.csv -o out
  vsbq fit evaluations.csv -o out --bound a=0,1 --bound b=0,           a within [0, 1], b positive
  vsbq fit run1.csv run2.csv -o out --column neg_log_density=loss      the optimiser minimised 'loss'
  vsbq fit evaluations.csv -o out --sd 1.5 --seed 1                    noisy values; the same result every time
  vsbq fit evaluations.csv -o out --config problem.toml

problem.toml, where everything may be left out:
  title = "Model 3, participant 12"
  tag = "participant 12"        # of which data: vsbq compare refuses models of different tags
  [parameters.a]
  bounds = [0, 1]               # outside, the density is zero; inf where a side is open
  plausible = [0.2, 0.8]        # where most of the posterior is expected
  [parameters.b]                # name all parameters here, or none: other columns are left out
  [columns]
  log_density = "ll"            # or neg_log_density, or log_likelihood with log_prior; log_density_sd
  [input]
  nonfinite = "drop"            # outside = "drop", check_sign = false, encoding = "cp1252"

what the folder holds then:
  report.html     one page for a colleague: open it first
  posterior.npz   the posterior, for vsbq report, sample, compare, suggest and vsbq.load in Python
  samples.csv     draws of equal weight, one row each
  summary.json    means, intervals and evidence for programs
  fit.log         what was done

Nothing is replaced without --overwrite. An interrupted fit leaves no files.
Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="tables of evaluations")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    add_problem_options(parser)
    add_result_options(parser)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Read, fit, write."""
    terminal = Terminal.of(options)
    if len(set(options.files)) < len(options.files):
        raise UsageError("A file is given twice. Give every file once.")
    with terminal.listening(), FitLog() as log:
        log.say(f"vsbq {__version__}: fit {shlex.join(map(str, options.files))}")
        problem = Problem.of(options)
        wanted = Wanted.of(options, problem)
        told = [] if options.config is None else [options.config]
        with wanted.folder(inputs=[*options.files, *told]) as folder:
            results = leave_results(read_files(options.files, problem), wanted, folder, terminal, log)
            folder.finish()
        show_results(results, wanted, terminal)
    return 0
