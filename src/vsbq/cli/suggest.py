"""`vsbq suggest`: which points to evaluate next."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from vsbq.cli.sample import Points, add_points, leave_points
from vsbq.posterior import Posterior

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "which points to evaluate next"
DESCRIPTION = """\
Print the points whose evaluation would reduce the uncertainty of a posterior most, the most telling first, each with
the reason for it. Evaluate them with your model, write the values beside them, and pass the table to `vsbq update`.
"""
EPILOG = """\
examples:
  vsbq suggest out -n 20 -o batch.csv
  ... your own program adds a column log_density ...
  vsbq update out batch.csv -o out2

Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""

MOST_POINTS = 4000


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    add_points(parser, 100, MOST_POINTS)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Load, choose, write."""
    return leave_points(options, "points", _suggest)


def _suggest(post: Posterior, n: int, seed: int) -> Points:
    found = post.suggestions(n, seed)
    return Points(found.points, {"reason": found.reasons})
