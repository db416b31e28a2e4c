"""`vsbq bench`: the options of the paper's experiments; the work is in a package of its own, `vsbq_bench`.

The package is loaded when an action runs, not before: no other command needs it.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add"]

HELP = "the paper's experiments: run them, print tables, draw figures"
DESCRIPTION = """\
The experiments of the paper on this machine. They are a package of their own, vsbq-bench, in the folder benchmarks of
the repository: `pip install ./benchmarks` in a clone of it, or `make bench`.

The published data of the two behavioural models are not part of the package: name their folder with --data or in the
environment variable VSBQ_DATA. Without them a participant is simulated.
"""
EPILOG = """\
examples:
  vsbq bench list                      what there is
  vsbq bench run --suite small         the fast methods, two seeds
  vsbq bench run --suite paper         everything; stop it and start it again as you like
  vsbq bench table                     the tables of what has been run
  vsbq bench figures -o pictures/      the figures
  vsbq bench cases                     the cases that nobody tuned on, and the half each belongs to
  vsbq bench trust --limit 20          fits that are good or bad by construction, and what the verdict says of them
  vsbq bench compare OLD NEW           what got better and worse between two files of result lines
"""
INTERRUPTED = "interrupted; what is done is kept, the same command goes on from there"
MISSING = (
    "The experiments are a package of their own, which is not installed: in a clone of the repository, "
    "`pip install ./benchmarks` or `make bench`."
)


def _action(name: str) -> Callable[[Namespace], int]:
    """A function of `vsbq_bench.command`, which is looked up when it is called."""

    def run(options: Namespace) -> int:
        try:
            command = import_module("vsbq_bench.command")
        except ModuleNotFoundError as error:
            if error.name != "vsbq_bench":  # it is there, and something that it needs is not
                raise
            raise ImportError(MISSING) from error
        code: int = getattr(command, name)(options)
        return code

    return run


def add(parser: ArgumentParser) -> None:
    """The actions and their options."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    shared = ArgumentParser(add_help=False)
    shared.add_argument("--suite", default=None, help="which suite (default: small for run, all that have lines else)")
    shared.add_argument("--results", type=Path, default=Path("bench-results"), help="folder of the JSON lines")

    listed = actions.add_parser("list", help="problems, methods and suites")
    listed.set_defaults(run=_action("show_catalogue"))

    run = actions.add_parser("run", parents=[shared], help="run what is missing of a suite")
    _add_run(run)
    run.set_defaults(run=_action("run_suite"), interrupted=INTERRUPTED)

    table = actions.add_parser("table", parents=[shared], help="print the tables of the lines as Markdown")
    table.set_defaults(run=_action("print_tables"))

    figures = actions.add_parser("figures", parents=[shared], help="draw the figures of the lines")
    figures.add_argument("-o", "--output", type=Path, default=Path("bench-figures"), help="folder of the pictures")
    figures.set_defaults(run=_action("draw_figures"))

    page = actions.add_parser("page", parents=[shared], help="put tables and figures into a Markdown page")
    page.add_argument("page", type=Path, help="a page with <!-- begin: NAME --> markers, such as docs/results.md")
    page.set_defaults(run=_action("refresh_page"))

    trust = actions.add_parser("trust", parents=[shared], help="the study of verdicts: run what is missing of it")
    _add_trust(trust)
    trust.set_defaults(run=_action("study_verdicts"), interrupted=INTERRUPTED)

    cases = actions.add_parser("cases", help="the cases of the zoo, by kind and half")
    cases.set_defaults(run=_action("show_cases"))

    compare = actions.add_parser("compare", help="what got better and worse beyond its noise")
    compare.add_argument("old", metavar="OLD", help="a file of result lines, REVISION:PATH, or a git revision of NEW")
    compare.add_argument("new", metavar="NEW", help="likewise")
    compare.add_argument(
        "--method", metavar="NAME", help="compare this method's lines of NEW with the default's of OLD"
    )
    compare.set_defaults(run=_action("compare_results"))


def _add_trust(trust: ArgumentParser) -> None:
    trust.add_argument("--half", choices=("development", "validation"), help="only this half")
    trust.add_argument("--limit", type=int, metavar="N", help="at most so many fits")
    trust.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1)), help="fits at a time")
    trust.add_argument("--cache", type=Path, help="folder of the traces (default: traces/ beside the lines)")
    trust.add_argument("--page", type=Path, help="put the tables into this page instead of running anything")


def _add_run(run: ArgumentParser) -> None:
    run.add_argument("--data", type=Path, help="folder with timing.csv and multisensory.csv (or set VSBQ_DATA)")
    run.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1)), help="runs at a time")
    run.add_argument("--seeds", type=int, help="only the first so many seeds")
    run.add_argument("--methods", nargs="+", default=(), metavar="NAME", help="only these methods")
    run.add_argument("--problems", nargs="+", default=(), metavar="NAME", help="only these problems")
    run.add_argument("--optimisers", nargs="+", default=(), metavar="NAME", help="only traces of these optimisers")
    run.add_argument("--cache", type=Path, help="folder of the traces (default: traces/ beside the lines)")
    run.add_argument("--timeout", type=float, default=7200.0, metavar="SECONDS", help="give a run up after this long")
    run.add_argument("--retry-failed", action="store_true", help="run again what ended with an error")
    run.add_argument("--dry-run", action="store_true", help="say what would be run")
