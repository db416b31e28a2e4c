"""`vsbq suggest`: which points to evaluate next."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from vsbq.cli.sample import add_points, leave_points

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "which points to evaluate next"
DESCRIPTION = """\
Print the points whose evaluation would reduce the uncertainty of a posterior most, the most telling first. Evaluate
them with your model, add the rows to your table (or make a second one), and fit again.
"""
EPILOG = """\
examples:
  vsbq suggest out -n 100 -o next.csv
  vsbq fit evaluations.csv next-evaluated.csv -o out2

Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""

MOST_POINTS = 4000


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    add_points(parser, 100, MOST_POINTS)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Load, choose, write."""
    return leave_points(options, "points", lambda post, n, seed: post.suggest(n, seed))
