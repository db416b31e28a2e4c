"""What many fits give: posteriors by name, failures by name, and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vsbq.errors import VsbqError, names_in_words
from vsbq.io.files.posterior_file import load
from vsbq.markup import joined
from vsbq.posterior import Posterior
from vsbq.tables import caption, note, notebook_table

__all__ = ["Failure", "ManyFits", "MissingFitError", "Row"]

#: Rows that are printed; of a longer table the first ones are.
MOST_ROWS = 60
MOST_MESSAGES = 10

#: Of the columns between the name and where the posterior comes from.
TITLES = ("evaluations", "D", "log evidence", "sd", "seconds", "warnings")


class MissingFitError(VsbqError, KeyError):
    """There is no posterior of this name; the message says why."""

    def __str__(self) -> str:
        return str(self.message)  # a KeyError would print it in quotes


@dataclass(frozen=True, kw_only=True)
class Row:
    """One fit in the table.

    `seconds` are those of the fit when it was done, `seed` is that of all fits with which it was done, and `warnings`
    are those that the fit gave. `read` says that the posterior was in the folder and the fit was not repeated.
    """

    name: str
    evaluations: int
    dimension: int
    log_evidence: float
    log_evidence_sd: float
    seconds: float
    seed: int
    warnings: tuple[str, ...] = ()
    read: bool = False


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a fit gave no posterior: the kind of error, its message, and where in the code it happened."""

    kind: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {' '.join(self.message.split())}"


@dataclass(frozen=True, eq=False)
class Shelf(Mapping[str, Posterior]):
    """Posteriors by name, kept in memory, or in files from which they are loaded when they are asked for."""

    places: Mapping[str, Posterior | Path]

    def __getitem__(self, name: str) -> Posterior:
        place = self.places[name]
        return load(place) if isinstance(place, Path) else place

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


@dataclass(frozen=True, eq=False)
class ManyFits(Mapping[str, Posterior]):
    """What `vsbq.fit_many` returns: a mapping from names to posteriors, which prints as a table.

    A fit that failed is not in the mapping but in `failures`. With a folder, posteriors are loaded from their files
    each time they are asked for, so that more of them can be had than fit in memory.
    """

    rows: tuple[Row, ...]
    failures: Mapping[str, Failure]
    posteriors: Mapping[str, Posterior]

    def __getitem__(self, name: str) -> Posterior:
        if name in self.failures:
            raise MissingFitError(f"The fit of '{name}' failed: ", self.failures[name].message)
        if name not in self.posteriors:
            raise MissingFitError(f"There is no fit of {name!r:.60}. There are {names_in_words(self.posteriors)}.")
        return self.posteriors[name]

    def __contains__(self, name: object) -> bool:
        return name in self.posteriors

    def __iter__(self) -> Iterator[str]:
        return iter(self.posteriors)

    def __len__(self) -> int:
        return len(self.posteriors)

    def __repr__(self) -> str:
        return f"ManyFits({len(self)} posteriors, {len(self.failures)} failures)"

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows[:MOST_ROWS]), default=0)
        width = max(4, min(width, 40))
        lines = [_heading(width), *(_line(row, width) for row in self.rows[:MOST_ROWS])] if self.rows else []
        more = len(self.rows) - MOST_ROWS
        lines += [f"... and {more} more"] if more > 0 else []
        failures = list(self.failures.items())
        lines += [f"failed: {name}: {failure}" for name, failure in failures[:MOST_MESSAGES]]
        more = len(failures) - MOST_MESSAGES
        lines += [f"... and {more} more failures"] if more > 0 else []
        return "\n".join([*lines, self._total()])

    def _repr_html_(self) -> str:
        """The table, and below it which fits failed and why."""
        failed = [
            caption(f"failed: {name}: {failure}") for name, failure in list(self.failures.items())[:MOST_MESSAGES]
        ]
        more = len(self.failures) - MOST_MESSAGES
        failed += [note(f"and {more} more failures")] if more > 0 else []
        rows = ([row.name, *_numbers(row), "file" if row.read else "fit"] for row in self.rows)
        return notebook_table(["name", *TITLES, "from"], rows, above=caption(self._total()), below=joined(*failed))

    def _total(self) -> str:
        read = sum(row.read for row in self.rows)
        known = f" ({read} of them read from files)" if read else ""
        return f"{len(self.rows)} fitted{known}, {len(self.failures)} failed"

    def worded(self, say: Callable[[str], str]) -> ManyFits:
        """The same with other words for the failures, as the command line has them."""
        failures = {name: replace(why, message=say(why.message)) for name, why in self.failures.items()}
        return replace(self, failures=failures)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, as for JSON."""
        columns = [name for name in Row.__dataclass_fields__ if name != "name"]
        fits = {row.name: {column: getattr(row, column) for column in columns} for row in self.rows}
        failures = {name: {"kind": why.kind, "message": str(why.message)} for name, why in self.failures.items()}
        return {"fits": fits, "failures": failures}


def _heading(width: int) -> str:
    return f"{'name':<{width}}" + "".join(f"{title:>14}" for title in TITLES) + "  from"


def _line(row: Row, width: int) -> str:
    name = row.name if len(row.name) <= width else f"{row.name[: width - 3]}..."
    numbers = "".join(f"{number:>14}" for number in _numbers(row))
    return f"{name:<{width}}{numbers}  {'file' if row.read else 'fit'}"


def _numbers(row: Row) -> list[str]:
    """What the table says of a fit, below its titles."""
    evidence = [f"{row.log_evidence:.3f}", f"{row.log_evidence_sd:.3f}"]
    return [str(row.evaluations), str(row.dimension), *evidence, f"{row.seconds:.1f}", str(len(row.warnings))]
