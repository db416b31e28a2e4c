"""`vsbq fit`: from files of evaluations to a folder with posterior, samples, report, summary and log."""

from __future__ import annotations

import importlib.util
import math
import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vsbq._version import __version__
from vsbq.cli.input import POSTERIOR, Source, read_files
from vsbq.cli.options import add_problem_options, problem_of
from vsbq.cli.output import LOG, REPORT, SUMMARY, Folder, Wanted, add_result_options, write_results
from vsbq.cli.terminal import FitLog, Terminal, UsageError, escaped
from vsbq.data.audit import audit
from vsbq.fit import fit
from vsbq.posterior import Posterior

__all__ = [
    "DESCRIPTION",
    "EPILOG",
    "HELP",
    "REJECTED",
    "Results",
    "add",
    "fit_into",
    "run",
    "show_results",
    "with_error",
]

HELP = "from a table of evaluations to a folder with the posterior, samples and a report"
DESCRIPTION = """\
Turn log-density evaluations into a posterior. The model is not called again.

A table has one row per evaluation, one column per parameter, and a column with the log density (log likelihood plus
log prior):

    a,b,log_density
    0.1,2.5,-104.2
    0.3,2.1,-98.7
    ...

CSV, TSV, Parquet, npz, MAT and HDF5 files are read, and the files of vsbq.Recorder. Several files are joined.
"""
EPILOG = """\
examples:
  vsbq fit evaluations.csv -o out
  vsbq fit evaluations.csv -o out --bound a=0,1 --bound b=0,           a within [0, 1], b positive
  vsbq fit run1.csv run2.csv -o out --column neg_log_density=loss      the optimiser minimised 'loss'
  vsbq fit evaluations.csv -o out --sd 1.5 --seed 1                    noisy values; the same result every time
  vsbq fit trace.mat -o out --points X --column neg_log_density=fval   arrays of MATLAB
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
Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 4 done but the posterior is rejected (why is in the
report), 130 interrupted.
"""

#: The exit code of a fit that ended, and whose posterior should not be used.
REJECTED = 4


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
        problem = problem_of(options)
        wanted = Wanted.of(options, problem.title)
        inputs = options.files if options.config is None else [*options.files, options.config]
        with wanted.folder(inputs) as folder:
            source = read_files(options.files, problem)
            results = fit_into(folder, source, wanted, terminal, log)
            folder.finish()
        show_results(results, wanted, terminal)
    return REJECTED if results.posterior.verdict == "rejected" else 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """The posterior and what the summary says of it."""

    posterior: Posterior
    summary: dict[str, Any]


def fit_into(folder: Folder, source: Source, wanted: Wanted, terminal: Terminal, log: FitLog) -> Results:
    """Say what was read, fit, and write all files of the folder as drafts."""
    _tell_source(source, terminal, log)
    rng = np.random.default_rng(wanted.seed)
    post = fit(source.evaluations, settings=wanted.settings, rng=rng, progress=terminal.progress)
    for finding in post.diagnose().findings:
        log.say(f"diagnosis, {finding}")
    log.say(f"verdict: {post.verdict}")
    log.say(f"log evidence {post.log_evidence:.6g} ± {post.log_evidence_sd:.2g}, ELBO {post.elbo:.6g}")
    summary = write_results(post, source, wanted, folder, rng=rng, log=log, warnings=terminal.warnings)
    return Results(posterior=post, summary=summary)


def _tell_source(source: Source, terminal: Terminal, log: FitLog) -> None:
    """What was read and guessed, and what looks odd about it."""
    terminal.title(
        f"Read {', '.join(escaped(str(path)) for path in source.files[:5])}{' ...' * (len(source.files) > 5)}"
    )
    terminal.facts(source.facts)
    for path, rows in zip(source.files, source.rows, strict=True):
        log.say(f"read {str(path)!r}: {rows} rows")
    for name, value in source.facts.items():
        log.say(f"{name.strip() or 'also'}: {value}")
    found = audit(source.evaluations, values_name=source.values_name)
    for finding in found.findings:
        log.say(f"audit, {finding.severity}: {finding.topic}: {finding.message}")
    if found.warnings:
        terminal.say()
    for finding in found.warnings:
        terminal.warn(finding.message)


def show_results(results: Results, wanted: Wanted, terminal: Terminal) -> None:
    """The posterior in a few lines, where the files are, and what to look at."""
    post, place = results.posterior, wanted.output
    seconds = sum(results.summary["seconds"].values())
    terminal.title(f"Posterior, after {seconds:.1f} seconds: {post.verdict}")
    for finding in post.diagnose().reasons:
        terminal.say(f"  {finding.level}: {escaped(finding.message)} {finding.remedy}".rstrip())
    if post.diagnose().reasons:
        terminal.say()
    shown = replace(post.summary(), names=tuple(map(escaped, post.names)))
    terminal.say("\n".join(f"  {line}" for line in str(shown).splitlines()))
    terminal.say()
    terminal.facts(
        {
            "log evidence": with_error(post.log_evidence, post.log_evidence_sd),
            "ELBO": f"{with_error(post.elbo, post.elbo_sd)}  (a lower bound of the surrogate's evidence)",
        }
    )
    terminal.title(f"Files in {escaped(str(place))}")
    words = {
        REPORT: "for a colleague; open it in a browser",
        POSTERIOR: "the posterior itself: vsbq.load in Python, vsbq sample, compare, suggest",
        wanted.samples: f"{wanted.draws} draws of equal weight",
        SUMMARY: "the numbers above, for programs",
        LOG: f"what was done; --seed {wanted.seed} repeats it",
    }
    terminal.facts({**words, **wanted.more})
    terminal.say(f"\nLook at {escaped(str(place / REPORT))} first. {_what_to_look_at()}")
    terminal.result({**{k: v for k, v in results.summary.items() if k != "warnings"}, "folder": str(place)})


def _what_to_look_at() -> str:
    if importlib.util.find_spec("matplotlib") is None:
        return "It has no corner plot:\nfor that, pip install 'vsbq[plot]' and write it again with vsbq report."
    return (
        "The dots in its corner plot are your evaluations: where\n"
        "the posterior has none of them it is a guess, and more evaluations are worth most (vsbq suggest)."
    )


def with_error(value: float, sd: float) -> str:
    """A number and its error, with two digits of the error."""
    places = min(max(1 - math.floor(math.log10(sd)), 0), 6) if sd > 0 else 3
    return f"{value:.{places}f} ± {sd:.{places}f}"
