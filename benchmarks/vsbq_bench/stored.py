"""Stored result lines by suite: those of the catalogue's problems and those of the zoo's cases, kept apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from vsbq_bench.lines import Line, read_lines
from vsbq_bench.suites import CASE_SUITES, SUITES

__all__ = ["COMPARED", "FIRST", "NOW", "of_cases", "of_problems", "stored_lines"]

NOW = "vsbq"
FIRST = "vsbq_first"  # the method of lines of the default's first version, once they have been read
COMPARED = "vsbq_compared"  # and of those that the control was compared with: the default of the same commit
ENDINGS = {"-first": FIRST, "-usual": COMPARED}  # of the names of their files


def stored_lines(folder: Path, suite: str | None = None) -> list[Line]:
    """Return the lines in a folder, of one suite or of all; those of earlier versions of the default are marked."""
    # Of several lines of a run the last one counts: those that are there for their run times come first.
    names = [suite] if suite else [*sorted(SUITES, key=lambda name: name != "runtime"), *CASE_SUITES]
    lines = read_lines(folder / f"{name}.jsonl" for name in names)
    for ending, method in ENDINGS.items():
        earlier = read_lines(folder / f"{name}{ending}.jsonl" for name in names if name in CASE_SUITES)
        lines += [replace(line, method=method) for line in earlier if line.method == NOW]
    return lines


def of_problems(lines: Iterable[Line]) -> list[Line]:
    """Leave out the cases of the zoo, which have tables of their own."""
    return [line for line in lines if not line.case]


def of_cases(lines: Iterable[Line]) -> list[Line]:
    """Keep the cases of the zoo only."""
    return [line for line in lines if line.case]
