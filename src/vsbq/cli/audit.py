"""`vsbq audit`: what a file of evaluations holds and what is odd about it, before anything is fitted."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace
from pathlib import Path

from vsbq.cli.input import read_files
from vsbq.cli.options import add_problem_options, problem_of
from vsbq.cli.terminal import Terminal, add_output_options, escaped, in_options
from vsbq.data.audit import audit
from vsbq.errors import count_in_words

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "what is odd about a table of evaluations, before anything is fitted"
DESCRIPTION = """\
Read evaluations as `vsbq fit` would, and say what was guessed and what looks odd: too few evaluations, duplicates,
values that look negated, stand for failures or are no log density, values that stick out, runs that are offset from
each other, noise, bounds. Nothing is written.
"""
EPILOG = """\
examples:
  vsbq audit evaluations.csv
  vsbq audit evaluations.csv --bound a=0,1 --column neg_log_density=loss
  vsbq audit run1.csv run2.csv --config problem.toml --json

Exit codes: 0 done, whatever was found; 1 the file can't be used (why is on stderr), 2 wrong usage, 130 interrupted.
`vsbq fit --help` shows what a table and problem.toml look like.
"""


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="tables of evaluations")
    add_problem_options(parser)
    add_output_options(parser, quiet=False)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Read and look; a sign that looks wrong is one of the findings."""
    terminal = Terminal.of(options)
    with terminal.listening():
        problem = problem_of(options)
        source = read_files(options.files, replace(problem, check_sign=False))
        found = audit(source.evaluations, values_name=source.values_name)
        terminal.title(f"Read {', '.join(escaped(str(path)) for path in source.files)}")
        terminal.facts(source.read_as)
        odd = (
            count_in_words(len(found.warnings), "thing") + " to look at" if found.warnings else "Nothing to worry about"
        )
        terminal.title(odd)
        for finding in found.findings:
            alarming = finding.severity == "warning"
            words = f"{finding.topic}: {escaped(in_options(finding.message))}"
            terminal.item("  attention  " if alarming else "  note       ", words, "33" if alarming else "")
        terminal.result(
            {
                "files": [str(path) for path in source.files],
                "evaluations": len(source.evaluations),
                "parameters": list(source.evaluations.names),
                "read_as": source.read_as,
                "findings": [asdict(replace(each, message=in_options(each.message))) for each in found.findings],
            }
        )
    return 0
