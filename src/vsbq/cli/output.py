"""What commands leave behind: the folder of a fit, and single files; complete or not there, and nothing is replaced."""

from __future__ import annotations

import csv
import importlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq._version import __version__
from vsbq.cli.input import POSTERIOR, Source
from vsbq.cli.terminal import Count, FileError, FitLog, add_output_options, add_seed, as_json, seed_of
from vsbq.posterior import Posterior
from vsbq.report.page import write_report
from vsbq.settings import Settings

__all__ = [
    "LOG",
    "MOST_DRAWS",
    "REPORT",
    "SUMMARY",
    "Folder",
    "Wanted",
    "add_result_options",
    "check_new",
    "need_parquet",
    "table_text",
    "write_new",
    "write_results",
    "write_table",
]

REPORT, LOG, SUMMARY = "report.html", "fit.log", "summary.json"
SAMPLES = ("samples.csv", "samples.parquet")
MOST_DRAWS = 10_000_000

#: Columns of words by name.
Words = Mapping[str, Sequence[str]]
NO_WORDS: Words = MappingProxyType({})


# What a fit is asked to leave


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
    """What the user wants to have in the end, where, and how it is made."""

    output: Path
    title: str | None
    draws: int
    parquet: bool
    seed: int
    overwrite: bool
    settings: Settings = field(default_factory=Settings)
    more: Mapping[str, str] = field(default_factory=dict)  # files that a command adds, and words on them

    @classmethod
    def of(cls, options: Namespace, title: str | None = None) -> Wanted:
        """As the options say; `title` is the one of the TOML file, over which an option wins."""
        parquet = options.format == "parquet"
        if parquet:
            need_parquet()
        return cls(
            output=options.output,
            title=options.title or title,
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


# The files of a fit


def write_results(
    post: Posterior, source: Source, wanted: Wanted, folder: Folder, *, rng: Generator, log: FitLog, warnings: list[str]
) -> dict[str, Any]:
    """Write all files as drafts: posterior, samples, report, log and, last, the summary, which is returned."""
    post.save(folder.draft / POSTERIOR)
    draws = post.sample(wanted.draws, rng)
    write_table(folder.draft / wanted.samples, post.names, draws, parquet=wanted.parquet)
    log.say(f"{wanted.draws} draws; writing the report")
    page, seed = folder.draft / REPORT, f"seed {wanted.seed}"
    write_report(post, page, title=wanted.title, log=log.text, settings=wanted.settings, rng=seed)
    (folder.draft / LOG).write_text(log.text, encoding="utf-8", errors="backslashreplace")
    summary = _summary(post, source, wanted, folder.names, warnings)
    (folder.draft / SUMMARY).write_text(as_json(summary) + "\n", encoding="utf-8")
    return summary


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
        "verdict": post.verdict,
        "diagnosis": post.diagnose().to_dict()["findings"],
        "parameters": table,
        "log_evidence": post.log_evidence,
        "log_evidence_sd": post.log_evidence_sd,
        "elbo": post.elbo,
        "elbo_sd": post.elbo_sd,
        "evaluations": len(source.evaluations),
        "inputs": [{"file": str(path), "rows": rows} for path, rows in zip(source.files, source.rows, strict=True)],
        "read_as": source.read_as,
        "notes": list(source.evaluations.notes),
        "warnings": list(warnings),
        "seed": wanted.seed,
        "draws": wanted.draws,
        "seconds": post.history.seconds if post.history else {},
        "versions": {"vsbq": __version__, "numpy": np.__version__, "scipy": scipy.__version__},
        "files": list(files),
    }


# A folder whose files appear together


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Where the results go, and under which names; `draft` is a folder inside it that nobody sees for long."""

    path: Path
    draft: Path
    names: tuple[str, ...]
    overwrite: bool

    @classmethod
    @contextmanager
    def prepared(
        cls, path: Path, names: tuple[str, ...], *, overwrite: bool, inputs: Iterable[Path] = ()
    ) -> Iterator[Folder]:
        """Make the folder and see that all files can be written, before the work starts; tidy up if it fails."""
        _check(path, names, overwrite, inputs)
        made = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=path))
        except (OSError, ValueError) as error:
            raise FileError(f"The folder {str(path)!r} can't be written ({error!s:.200}). Choose another.") from error
        try:
            yield cls(path=path, draft=draft, names=names, overwrite=overwrite)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            if made:
                with suppress(OSError):  # there is something in it, as there should be
                    path.rmdir()

    def finish(self) -> None:
        """Give all files their names; the summary comes last and says that the others are there."""
        _check(self.path, self.names, self.overwrite, ())
        stale = [] if not self.overwrite else _stale(self.path, self.names)
        try:
            for name in self.names:
                os.replace(self.draft / name, self.path / name)
            for file in stale:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise FileError(f"The folder {str(self.path)!r} can't be written ({error.strerror}).") from error


def _check(path: Path, names: tuple[str, ...], overwrite: bool, inputs: Iterable[Path]) -> None:
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise FileError(f"{str(path)!r} is a file. Give the name of a folder for the results.")
        if not path.is_dir():
            return
        here = {name for name in {*names, *SAMPLES} if os.path.lexists(path / name)}
        if here and not overwrite:
            raise FileError(
                f"{str(path)!r} holds results already ({', '.join(sorted(here))}). Pass --overwrite to replace them, "
                "or choose another folder."
            )
        for name in here & set(names):
            check_new(path / name, overwrite)
        for given in inputs:
            if any(os.path.samefile(given, path / name) for name in here if os.path.exists(given)):
                raise FileError(f"{str(given)!r} is read, and would be replaced by the results. Choose another folder.")
    except (OSError, ValueError) as error:
        raise FileError(f"The folder {str(path)!r} can't be used ({error!s:.200}). Choose another.") from error


def _stale(path: Path, names: tuple[str, ...]) -> list[Path]:
    """Samples of an earlier fit in the other format: they would not belong to the new posterior."""
    try:
        told: Any = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        files = told["files"]
        return [path / name for name in SAMPLES if name not in names and name in files]
    except (OSError, ValueError, KeyError, TypeError):
        return []


# Single files


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse, before any work is done, what could not be written in the end."""
    try:
        if "\0" in path.name:
            raise FileError(f"{str(path)!r} can't be the name of a file. Choose another.")
        if path.is_dir():
            raise FileError(f"{str(path)!r} is a folder. Give the name of a file.")
        if not path.parent.is_dir():
            raise FileError(f"There is no folder {str(path.parent)!r} for {path.name!r}. Create it first.")
        if os.path.lexists(path):
            if not overwrite:
                raise FileError(f"{str(path)!r} exists. Pass --overwrite to replace it, or choose another name.")
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise FileError(f"{str(path)!r} is a link or a device, and is not replaced. Choose another name.")
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} can't be written ({error!s:.200}).") from error


def write_new(path: Path, write: Callable[[Path], object], overwrite: bool) -> None:
    """Write a file under another name and give it its own when it is complete."""
    check_new(path, overwrite)
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        write(draft)
        check_new(path, overwrite)
        draft.replace(path)
    except OSError as error:
        raise FileError(f"{str(path)!r} can't be written ({error.strerror}).") from error
    finally:
        draft.unlink(missing_ok=True)


def table_text(names: Sequence[str], rows: Float[ndarray, "n d"], words: Words = NO_WORDS) -> str:
    """CSV with a line of names and all digits of the numbers, and columns of words after them."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *words])
    writer.writerows([*row, *more] for row, *more in zip(rows.tolist(), *words.values(), strict=True))
    return text.getvalue()


def need_parquet() -> Any:
    """The package for Parquet files; called early, so that nobody waits for a fit only to hear that it is missing."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'vsbq[parquet]'. CSV files need nothing.") from error


def write_table(
    path: Path, names: Sequence[str], rows: Float[ndarray, "n d"], words: Words = NO_WORDS, *, parquet: bool
) -> None:
    """A table with a column for each parameter, and columns of words after them."""
    if not parquet:
        path.write_bytes(table_text(names, rows, words).encode("utf-8", "backslashreplace"))
        return
    pyarrow = need_parquet()
    columns = dict(zip(names, rows.T.copy(), strict=True)) | {name: list(column) for name, column in words.items()}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, write_page_checksum=True)
