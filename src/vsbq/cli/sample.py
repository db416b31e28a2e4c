"""`vsbq sample` and `vsbq suggest`: points from a posterior, as a table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from vsbq._typing import Float, ndarray
from vsbq.cli.input import load_posterior
from vsbq.cli.output import MOST_DRAWS, check_new, need_parquet, table_text, write_new, write_table
from vsbq.cli.terminal import Count, Terminal, add_output_options, add_seed, escaped, seed_of, write
from vsbq.posterior import Posterior

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "Points", "add", "add_points", "leave_points", "run"]

HELP = "draws from a saved posterior, as CSV"
DESCRIPTION = """\
Print draws of equal weight from a posterior as CSV, or write them to a CSV or Parquet file. POSTERIOR is a file that
post.save or `vsbq fit` wrote, or a folder of `vsbq fit`.
"""
EPILOG = """\
examples:
  vsbq sample out -n 5
  vsbq sample out -n 10000 --seed 1 -o draws.csv
  vsbq sample posterior.npz -n 10000 -o draws.parquet

Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""


class Points(NamedTuple):
    """Points, and words on each of them in columns by name."""

    points: Float[ndarray, "n d"]
    words: Mapping[str, Sequence[str]] = MappingProxyType({})


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    add_points(parser, 4000, MOST_DRAWS)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Load, draw, write."""
    return leave_points(options, "draws", lambda post, n, seed: Points(post.sample(n, seed)))


def add_points(parser: ArgumentParser, default: int, most: int) -> None:
    """The options of a command that makes points."""
    parser.add_argument("posterior", type=Path, metavar="POSTERIOR", help="a posterior file, or a folder of vsbq fit")
    parser.add_argument("-n", type=Count(most), default=default, metavar="N", help=f"how many (default: {default})")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="a .csv or .parquet file (default: stdout)")
    add_seed(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace a file of that name")
    add_output_options(parser)


def leave_points(options: Namespace, what: str, make: Callable[[Posterior, int, int], Points]) -> int:
    """Load a posterior and write points from it to where the options say."""
    terminal = Terminal.of(options)
    target, seed = options.output, seed_of(options.seed)
    with terminal.listening():
        parquet = target is not None and target.suffix.lower() in (".parquet", ".pq")
        if parquet:
            need_parquet()
        if target is not None:
            check_new(target, options.overwrite)
        post = load_posterior(options.posterior)
        points, words = make(post, options.n, seed)
        facts: dict[str, Any] = {"names": list(post.names), "n": len(points), "seed": seed}
        if target is None:
            lists = {what: points.tolist()} | {f"{name}s": list(column) for name, column in words.items()}
            _print(terminal, facts | lists, table_text(post.names, points, words))
        else:
            table = post.names, points, words
            write_new(target, lambda draft: write_table(draft, *table, parquet=parquet), options.overwrite)
            terminal.say(f"{len(points)} {what} in {escaped(str(target))} (--seed {seed} repeats them)")
            terminal.result(facts | {"file": str(target)})
    return 0


def _print(terminal: Terminal, facts: dict[str, Any], table: str) -> None:
    """The table itself is the output: it is printed even if nothing else should be."""
    if terminal.json:
        terminal.result(facts)
    else:
        write(table.removesuffix("\n"), sys.stdout)
