"""What a fit leaves behind: files in a folder, a short table on the terminal, and JSON for programs."""

from __future__ import annotations

import importlib.util
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from vsbq._version import __version__
from vsbq.cli.files import POSTERIOR, need_parquet, write_table
from vsbq.cli.folder import SUMMARY, Folder
from vsbq.cli.log import FitLog
from vsbq.cli.numbers import Count, add_seed, seed_of
from vsbq.cli.problem import Problem
from vsbq.cli.reading import Source
from vsbq.cli.terminal import Terminal, add_output_options, as_json
from vsbq.cli.wording import as_options, escaped
from vsbq.data.audit import audit
from vsbq.fit import fit
from vsbq.posterior import Posterior
from vsbq.report.page import write_report
from vsbq.settings import Settings

__all__ = ["Results", "Wanted", "add_result_options", "leave_results", "show_results", "with_error"]

REPORT, LOG = "report.html", "fit.log"
MOST_DRAWS = 10_000_000


def add_result_options(parser: ArgumentParser) -> None:
    """The options on what the folder holds."""
    group = parser.add_argument_group("results")
    group.add_argument("--title", help="of the report")
    group.add_argument("--draws", type=Count(MOST_DRAWS), default=4000, metavar="N", help="samples (default: 4000)")
    group.add_argument("--format", choices=("csv", "parquet"), default="csv", help="of the samples (default: csv)")
    add_seed(group)
    group.add_argument("--overwrite", action="store_true", help="replace the results that are in the folder")
    add_output_options(parser, progress=True)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the user wants to have in the end."""

    output: Path
    title: str | None
    draws: int
    parquet: bool
    seed: int
    overwrite: bool
    more: Mapping[str, str] = field(default_factory=dict)  # files that a command adds, and words on them

    @classmethod
    def of(cls, options: Namespace, problem: Problem | None = None) -> Wanted:
        """As the options say, and the TOML file on the title."""
        parquet = options.format == "parquet"
        if parquet:
            need_parquet()
        return cls(
            output=options.output,
            title=options.title or (problem.title if problem else None),
            draws=options.draws,
            parquet=parquet,
            seed=seed_of(options.seed),
            overwrite=options.overwrite,
        )

    @property
    def samples(self) -> str:
        """The name of the file of samples."""
        return "samples.parquet" if self.parquet else "samples.csv"

    def folder(self, inputs: Iterable[Path] = ()) -> AbstractContextManager[Folder]:
        """The folder of the results, ready to be written to; the summary is its last file."""
        names = (*self.more, POSTERIOR, self.samples, REPORT, LOG, SUMMARY)
        return Folder.prepared(self.output, names, overwrite=self.overwrite, inputs=inputs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """The posterior and what the summary says of it."""

    posterior: Posterior
    summary: dict[str, Any]


def leave_results(source: Source, wanted: Wanted, folder: Folder, terminal: Terminal, log: FitLog) -> Results:
    """Fit, and write all files as drafts."""
    _tell_source(source, terminal, log)
    settings = Settings()
    rng = np.random.default_rng(wanted.seed)
    post = fit(source.evaluations, settings=settings, rng=rng, progress=terminal.progress)
    log.say(f"log evidence {post.log_evidence:.6g} ± {post.log_evidence_sd:.2g}, ELBO {post.elbo:.6g}")
    post.save(folder.draft / POSTERIOR)
    draws = post.sample(wanted.draws, rng)
    write_table(folder.draft / wanted.samples, post.names, draws, parquet=wanted.parquet)
    log.say(f"{wanted.draws} draws; writing the report")
    write_report(
        post, folder.draft / REPORT, title=wanted.title, log=log.text, settings=settings, rng=f"seed {wanted.seed}"
    )
    (folder.draft / LOG).write_text(log.text, encoding="utf-8", errors="backslashreplace")
    summary = _summary(post, source, wanted, folder.names, terminal.warnings)
    (folder.draft / SUMMARY).write_text(as_json(summary) + "\n", encoding="utf-8")
    return Results(posterior=post, summary=summary)


def _tell_source(source: Source, terminal: Terminal, log: FitLog) -> None:
    """What was read and guessed, and what looks odd about it."""
    terminal.title(
        f"Read {', '.join(escaped(str(path)) for path in source.files[:5])}{' ...' * (len(source.files) > 5)}"
    )
    terminal.facts({name: as_options(value) for name, value in source.facts.items()})
    for path, rows in zip(source.files, source.rows, strict=True):
        log.say(f"read {str(path)!r}: {rows} rows")
    for name, value in source.facts.items():
        log.say(f"{name.strip() or 'also'}: {value}")
    found = audit(source.evaluations)
    for finding in found.findings:
        log.say(f"audit, {finding.severity}: {finding.topic}: {finding.message}")
    if found.warnings:
        terminal.say()
    for finding in found.warnings:
        terminal.warn(finding.message)


def _summary(
    post: Posterior, source: Source, wanted: Wanted, files: tuple[str, ...], warnings: list[str]
) -> dict[str, Any]:
    """Everything in numbers."""
    table = post.summary().to_dict()
    for i, name in enumerate(post.names):
        table[name] |= dict(zip(("lower_bound", "upper_bound"), post.bounds.pair(i), strict=True))
    return {
        "title": wanted.title,
        "tag": post.tag,
        "parameters": table,
        "log_evidence": post.log_evidence,
        "log_evidence_sd": post.log_evidence_sd,
        "elbo": post.elbo,
        "elbo_sd": post.elbo_sd,
        "evaluations": len(source.evaluations),
        "inputs": [{"file": str(path), "rows": rows} for path, rows in zip(source.files, source.rows, strict=True)],
        "read_as": {name: value for name, value in source.facts.items() if name.strip() and name != "also"},
        "notes": list(source.evaluations.notes),
        "warnings": list(warnings),
        "seed": wanted.seed,
        "draws": wanted.draws,
        "seconds": post.history.seconds if post.history else {},
        "versions": {"vsbq": __version__, "numpy": np.__version__, "scipy": scipy.__version__},
        "files": list(files),
    }


def with_error(value: float, sd: float) -> str:
    """A number and its error, with two digits of the error."""
    places = min(max(1 - math.floor(math.log10(sd)), 0), 6) if sd > 0 else 3
    return f"{value:.{places}f} ± {sd:.{places}f}"


def _what_to_look_at() -> str:
    if importlib.util.find_spec("matplotlib") is None:
        return "It has no corner plot:\nfor that, pip install 'vsbq[plot]' and write it again with vsbq report."
    return (
        "The dots in its corner plot are your evaluations: where\n"
        "the posterior has none of them it is a guess, and more evaluations are worth most (vsbq suggest)."
    )


def show_results(results: Results, wanted: Wanted, terminal: Terminal) -> None:
    """The posterior in a few lines, where the files are, and what to look at."""
    post, place = results.posterior, wanted.output
    seconds = sum(results.summary["seconds"].values())
    terminal.title(f"Posterior, after {seconds:.1f} seconds")
    shown = replace(post.summary(), names=tuple(map(escaped, post.names)))
    terminal.say("\n".join(f"  {line}" for line in str(shown).splitlines()))
    terminal.say()
    terminal.facts(
        {
            "log evidence": with_error(post.log_evidence, post.log_evidence_sd),
            "ELBO": f"{with_error(post.elbo, post.elbo_sd)}  (a lower bound of the log evidence)",
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
