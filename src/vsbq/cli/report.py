"""`vsbq report`: the page about a posterior that was saved earlier."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from vsbq.cli.input import load_posterior, posterior_path
from vsbq.cli.output import LOG, SUMMARY, check_new, write_new
from vsbq.cli.terminal import Terminal, add_output_options, escaped
from vsbq.report.page import write_report

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "add", "run"]

HELP = "write the HTML report of a saved posterior"
DESCRIPTION = """\
Write one self-contained HTML page about a posterior: what went in, the posterior with a corner plot, the evidence, how
the fit went and how to repeat it. It loads nothing from the network. POSTERIOR is a file that post.save or `vsbq fit`
wrote, or a folder of `vsbq fit`.
"""
EPILOG = """\
examples:
  vsbq report out -o page.html --title "Model 3, participant 12"
  vsbq report posterior.npz                    writes posterior.html beside it

Exit codes: 0 done, 1 it failed (why is on stderr), 2 wrong usage, 130 interrupted.
"""

LARGEST_LOG = 2**20  # bytes


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("posterior", type=Path, metavar="POSTERIOR", help="a posterior file, or a folder of vsbq fit")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="PAGE.html", help="the page (default: beside the posterior)"
    )
    parser.add_argument("--title", help="of the page")
    parser.add_argument("--overwrite", action="store_true", help="replace a page of that name")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: Namespace) -> int:
    """Load, write."""
    terminal = Terminal.of(options)
    with terminal.listening():
        source = posterior_path(options.posterior)
        target = options.output or source.with_suffix(".html")
        target = target if target.suffix or os.path.lexists(target) else target.with_name(target.name + ".html")
        check_new(target, options.overwrite)
        post = load_posterior(source)
        log, seed = _log(source.with_name(LOG)), _seed(source.with_name(SUMMARY))
        write_new(
            target,
            lambda draft: write_report(post, draft, title=options.title, log=log, rng=seed),
            options.overwrite,
        )
        terminal.say(f"The report is {escaped(str(target))}. Open it in a browser.")
        terminal.result({"report": str(target)})
    return 0


def _log(path: Path) -> str | None:
    """The log beside the posterior, if there is one of decent size."""
    try:
        if path.is_file() and path.stat().st_size <= LARGEST_LOG:
            return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        pass
    return None


def _seed(path: Path) -> str | None:
    """The seed that the summary beside the posterior tells."""
    try:
        if path.is_file() and path.stat().st_size <= LARGEST_LOG:
            seed = json.loads(path.read_text(encoding="utf-8"))["seed"]
            return f"seed {seed}" if isinstance(seed, int) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None
