"""`vsbq update`: a posterior and tables of new evaluations to a folder with the posterior from all of them."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

import numpy as np

from vsbq._version import __version__
from vsbq.analysis.update import update
from vsbq.cli.fit import REJECTED, Results, show_results
from vsbq.cli.input import Source, load_posterior, posterior_path
from vsbq.cli.new_rows import NewRows, read_new_rows
from vsbq.cli.options import add_problem_options, problem_of
from vsbq.cli.output import Folder, Wanted, add_result_options, write_results
from vsbq.cli.problem import Problem
from vsbq.cli.terminal import FitLog, Terminal, UsageError
from vsbq.errors import count_in_words
from vsbq.posterior import Posterior

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "a posterior and new evaluations to a new posterior"
DESCRIPTION = """\
Add evaluations to a posterior and fit again, from where the old fit ended. POSTERIOR is a folder of `vsbq fit` or
`vsbq update`, or a file of post.save. The tables have the columns of the parameters, and one with the log density, as
for `vsbq fit`; there may be few rows. A row without a value (an empty cell, NaN) is left out; -inf says that the
density is zero there. Bounds and names are those of the posterior.
"""
EPILOG = """\
examples:
  vsbq suggest out -n 20 -o batch.csv                 which points to evaluate
  ... your own program adds a column log_density ...
  vsbq update out batch.csv -o out2                   the posterior with them
  vsbq update out values/*.csv -o out2 --sd 0.5       one small file from each job; noisy values

The folder holds what that of `vsbq fit` holds. Nothing is replaced without --overwrite.
Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 4 done but the posterior is rejected (why is in the
report), 130 interrupted.
"""

#: What the posterior knows better.
KNOWN = ("params", "bounds", "plausible", "nonfinite", "outside")


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("posterior", type=Path, metavar="POSTERIOR", help="a posterior file, or a folder of vsbq fit")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="tables of new evaluations")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the results")
    add_problem_options(parser)
    add_result_options(parser)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Load, read, fit, write."""
    terminal = Terminal.of(options)
    if len(set(options.files)) < len(options.files):
        raise UsageError("A file is given twice. Give every file once.")
    with terminal.listening(), FitLog() as log:
        log.say(f"vsbq {__version__}: update {shlex.join(map(str, (options.posterior, *options.files)))}")
        problem = problem_of(options)
        _check_told(problem)
        wanted = Wanted.of(options, problem.title)
        inputs = [posterior_path(options.posterior), *options.files]
        with wanted.folder(inputs if options.config is None else [*inputs, options.config]) as folder:
            before = load_posterior(options.posterior)
            new = read_new_rows(options.files, problem, before)
            results = _update_into(folder, (before, new, options.files), wanted, terminal, log)
            folder.finish()
        show_results(results, wanted, terminal)
    return REJECTED if results.posterior.verdict == "rejected" else 0


def _check_told(problem: Problem) -> None:
    told = [name for name in KNOWN if getattr(problem, name)]
    if told:
        raise UsageError(f"The posterior knows its {' and '.join(told)}. Leave out --{told[0].rstrip('s')}.")


def _update_into(
    folder: Folder, given: tuple[Posterior, NewRows, list[Path]], wanted: Wanted, terminal: Terminal, log: FitLog
) -> Results:
    """Say what was read, fit, and write all files of the folder as drafts."""
    before, new, files = given
    count = count_in_words(len(new.log_density), "evaluation")
    known = 0 if before.evaluations is None else len(before.evaluations)
    facts = {"new": f"{count} from {count_in_words(len(files), 'file')}", "before": f"{known} evaluations"}
    facts |= {"verdict before": before.verdict} | ({"also": " ".join(new.notes)} if new.notes else {})
    terminal.title("Read")
    terminal.facts(facts)
    for name, value in facts.items():
        log.say(f"{name}: {value}")
    rng = np.random.default_rng(wanted.seed)
    columns = new.log_density, new.log_density_sd, new.log_prior
    post = update(before, new.points, *columns, settings=wanted.settings, rng=rng, progress=terminal.progress)
    assert post.evaluations is not None
    for finding in post.diagnose().findings:
        log.say(f"diagnosis, {finding}")
    source = Source(evaluations=post.evaluations, files=tuple(files), rows=new.rows, facts=facts)
    summary = write_results(post, source, wanted, folder, rng=rng, log=log, warnings=terminal.warnings)
    return Results(posterior=post, summary=summary)
