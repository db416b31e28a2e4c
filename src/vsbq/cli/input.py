"""What commands read: files of evaluations, with words on what was guessed of them, and saved posteriors."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsbq.cli.problem import VALUES, Problem
from vsbq.cli.terminal import FileError
from vsbq.data.evaluations import Evaluations
from vsbq.data.losses import name_in
from vsbq.errors import EvaluationsError, VsbqError, count_in_words, names_in_words
from vsbq.io.files.posterior_file import load
from vsbq.io.readers import tables
from vsbq.io.readers.columns import KNOWN, Roles, find_roles, questions
from vsbq.io.readers.table import Column, Table
from vsbq.posterior import Posterior

__all__ = [
    "POSTERIOR",
    "Source",
    "guess_roles",
    "load_posterior",
    "posterior_path",
    "read_files",
    "read_groups",
    "read_part",
    "told",
]

POSTERIOR = "posterior.npz"  # in a folder that `vsbq fit` made

#: A file with fewer rows is no basis for checks of its own; it is read as if its rows stood in another file.
SMALL = 100

#: Columns that are taken as the values under --neg, or suggested as such without it.
MINIMISED = re.compile(
    r"(f|fun|fval|fvals|cost|loss|objective|value|values|nll|neg(ative)?(log)?(l|lik|like|likelihood))"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """Evaluations, and what was read where: `facts` are for a person."""

    evaluations: Evaluations
    files: tuple[Path, ...]
    rows: tuple[int, ...]
    facts: dict[str, str]
    values_name: str | None = None  # of the column that holds the values

    @property
    def read_as(self) -> dict[str, str]:
        """The facts without the notes below them."""
        return {name: value for name, value in self.facts.items() if name.strip() and name != "also"}


class _Part(NamedTuple):
    """A file with a table in it."""

    path: Path
    table: Table

    @property
    def rows(self) -> int:
        return len(self.table[self.table.columns[0]].values)


def read_files(paths: Sequence[Path], problem: Problem) -> Source:
    """The evaluations of one or several files together."""
    read = [read_part(path, problem) for path in paths]
    together, roles = _together(read, problem)
    return Source(
        evaluations=together,
        files=tuple(paths),
        rows=tuple(part.rows if isinstance(part, _Part) else len(part) for part in read),
        facts=_facts(together, roles, problem, len(paths)),
        values_name=None if roles is None else _values_name(roles),
    )


def read_groups(paths: Sequence[Path], problem: Problem, by: str) -> dict[str, Callable[[], Evaluations]]:
    """The evaluations of each label in the column `by` of the files, to be made when they are asked for."""
    found: dict[str, list[_Part | Evaluations]] = {}
    for path in paths:
        part = read_part(path, problem, by)
        if isinstance(part, Evaluations):
            raise EvaluationsError(
                f"{told(path)}: it is a recorder's file, which has no column '{by}'. Leave out --by."
            )
        try:
            for label, table in part.table.split(by).items():
                found.setdefault(label, []).append(_Part(path, table))
        except VsbqError as error:
            raise EvaluationsError(f"{told(path)}: ", error) from error
    return {label: partial(_labelled, parts, problem, f"{by}={label}") for label, parts in found.items()}


def _labelled(parts: Sequence[_Part | Evaluations], problem: Problem, which: str) -> Evaluations:
    try:
        return _together(parts, problem)[0]
    except EvaluationsError as error:
        raise EvaluationsError(f"Of the rows with {which}, in ", error) from error


def _together(read: Sequence[_Part | Evaluations], problem: Problem) -> tuple[Evaluations, Roles | None]:
    """The evaluations of all parts, and which columns of the tables mean what; None without tables."""
    groups = _groups([part for part in read if isinstance(part, _Part)])
    roles = _common_roles(groups, problem)
    made = [_evaluations(group, roles, problem) for group in groups]
    made += [part for part in read if isinstance(part, Evaluations)]
    together = made[0]
    for more in made[1:]:
        together = _join(together, more)
    return together, roles if groups else None


def _values_name(roles: Roles) -> str | None:
    names = (roles.log_density, roles.neg_log_density, roles.log_likelihood)
    return next((name for name in names if isinstance(name, str)), None)


def told(path: Path) -> str:
    """The path for a message: quoted, and not too long."""
    text = repr(str(path))
    return text if len(text) <= 200 else f"{text[:100]}...{text[-90:]}"


# Reading


def read_part(path: Path, problem: Problem, labels: str | None = None) -> _Part | Evaluations:
    """A table, or the evaluations of a recorder, which knows its own columns."""
    try:
        with tables.open_table(path) as stream:
            head = stream.read(100)
            if not head.startswith(b"SQLite format 3\0"):
                stream.seek(0)
                read = partial(tables.read_table, stream, path, problem.text, labels, problem.arrays)
                return _Part(path, tables.read_safely(read))
        if problem.columns or problem.neg or problem.points:
            raise EvaluationsError(
                "it is a recorder's file, which knows its own columns. Leave out --column, --neg, --points, --sd."
            )
    except VsbqError as error:
        raise EvaluationsError(f"{told(path)}: ", error) from error
    except OSError as error:
        raise EvaluationsError(f"{told(path)}: it can't be read ({error.strerror}).") from error
    stored = _tagged(Evaluations.from_file(path, **replace(problem, tag=None).evaluation_options()), problem.tag)
    if problem.params and set(problem.params) != set(stored.names):
        raise EvaluationsError(
            f"{told(path)}: its parameters are {names_in_words(stored.names)}, not {names_in_words(problem.params)}. "
            "A recorder's file is taken with all of them."
        )
    return stored


def _tagged(stored: Evaluations, tag: str | None) -> Evaluations:
    """The evaluations of a recorder under the tag that is told; without one they keep their own."""
    if tag is None or tag == stored.tag:
        return stored
    note = [] if stored.tag is None else [f"Took the tag {tag!r:.80} in place of {stored.tag!r:.80} of the file."]
    return stored.with_tag(tag)._with_notes([*note, *stored.notes])


def _groups(parts: Sequence[_Part]) -> list[list[_Part]]:
    """Tables that are read as one: small files go with the first large one."""
    large = [[part] for part in parts if part.rows >= SMALL] or [[]]
    large[0] += [part for part in parts if part.rows < SMALL]
    return [group for group in large if group]


def _common_roles(groups: Sequence[Sequence[_Part]], problem: Problem) -> Roles:
    """Which columns mean what, the same in all tables."""
    found: list[tuple[_Part, Roles]] = []
    for part in (part for group in groups for part in group):
        try:
            found.append((part, guess_roles(part.table, problem)))
        except VsbqError as error:
            raise EvaluationsError(f"{told(part.path)}: ", error) from error
        first, roles = found[0]
        if found[-1][1] != roles:
            raise EvaluationsError(
                f"{told(part.path)}: its values are in {names_in_words(found[-1][1].named())}, those of "
                f"{told(first.path)} in {names_in_words(roles.named())}. Name the columns with --column."
            )
    return found[0][1] if found else Roles()


def guess_roles(table: Table, problem: Problem) -> Roles:
    """The roles as told or found by name; --neg turns the sign of what would be the log density."""
    given: dict[str, Any] = dict(problem.columns)
    likely = [name for name in table.columns if MINIMISED.fullmatch(_plain(name)) and name not in problem.params]
    if problem.neg and not set(given) & set(VALUES) and not _has_values(table) and len(likely) == 1:
        return find_roles(table, Roles(**given | {"neg_log_density": likely[0]}))
    try:
        roles = find_roles(table, Roles(**given))
    except EvaluationsError as error:
        if len(likely) == 1 and not set(given) & set(VALUES) and not questions(likely):
            raise EvaluationsError(error, f" Perhaps: --column neg_log_density={likely[0]}") from error
        raise
    if not problem.neg:
        return roles
    if roles.log_likelihood is not None:
        raise EvaluationsError(
            f"'{roles.log_likelihood}' is a likelihood, and --neg turns log densities only. Name a column with "
            "--column neg_log_density=NAME, or store log likelihoods that are not negated."
        )
    return replace(roles, log_density=None, neg_log_density=roles.log_density or roles.neg_log_density)


def _has_values(table: Table) -> bool:
    words = set().union(*(KNOWN[role] for role in VALUES))
    return any(_plain(name) in words for name in table.columns)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _evaluations(group: Sequence[_Part], roles: Roles, problem: Problem) -> Evaluations:
    """One `Evaluations` from the tables of a group."""
    label = told(group[0].path) + (f" and {count_in_words(len(group) - 1, 'small file')}" if len(group) > 1 else "")
    try:
        both = [name for name in problem.params if name in roles.named()]
        if both:
            raise EvaluationsError(f"{names_in_words(both)} can't be a parameter and the values at once. Name another.")
        params = list(problem.params) or None
        made = tables.evaluations_of(_stacked(group), roles, params, problem.evaluation_options())
        unused = [name for name in group[0].table.columns if name not in (*made.names, *roles.named())]
        return made._with_notes([*_unused(unused if params else []), *made.notes])
    except VsbqError as error:
        raise EvaluationsError(f"{label}: ", error) from error


def _unused(names: list[str]) -> list[str]:
    return [f"Left out {names_in_words(names)}, which the parameters given don't name."] if names else []


def _stacked(group: Sequence[_Part]) -> Table:
    """The rows of all tables below one another."""
    first = group[0].table
    for path, table in group[1:]:
        differ = sorted(_with_numbers(table) ^ _with_numbers(first))
        if differ:
            raise EvaluationsError(
                f"the columns of {told(path)} differ in {names_in_words(differ)}. Fit only files with the same "
                "columns together."
            )
    common = [name for name in first.columns if all(name in part.table.columns for part in group)]
    columns = {name: _column([part.table[name] for part in group]) for name in common}
    notes = tuple(dict.fromkeys(note for part in group for note in part.table.notes))
    return Table(columns, notes, (), first.parameters)


def _with_numbers(table: Table) -> set[str]:
    """The columns that are not words throughout, such as reasons, which nobody misses."""
    return {name for name in table.columns if not table[name].is_text}


def _column(parts: Sequence[Column]) -> Column:
    troubles = [part.trouble for part in parts if part.trouble is not None]
    trouble = replace(troubles[0], count=sum(each.count for each in troubles)) if troubles else None
    return Column(np.concatenate([part.values for part in parts]), trouble, sum(part.filled for part in parts))


def _join(one: Evaluations, other: Evaluations) -> Evaluations:
    try:
        return one + other
    except EvaluationsError as error:
        raise EvaluationsError("The files can't be joined: ", error) from error


# What was read, in words


def _facts(made: Evaluations, roles: Roles | None, problem: Problem, files: int) -> dict[str, str]:
    facts = {"evaluations": f"{len(made)}" + (f" from {files} files" if files > 1 else "")}
    if roles is not None:
        facts |= _values(roles, problem)
    guessed = "" if problem.params or roles is None else " (the other numeric columns)"
    facts["parameters"] = names_in_words(made.names, 30) + guessed
    facts["bounds"] = _bounds(made)
    facts["noise"] = _noise(made)
    facts |= {} if made.tag is None else {"tag": made.tag}
    notes = [note for note in made.notes if name_in([note]) is None]  # the column is among the facts already
    for i, note in enumerate(notes[:12]):
        facts["also" if i == 0 else " " * i] = note
    return facts


def _values(roles: Roles, problem: Problem) -> dict[str, str]:
    """Where values and prior come from, and whether that was told or guessed."""
    told = set(problem.columns.values())
    words = {
        "log_density": "log density",
        "neg_log_density": "minus log density",
        "log_likelihood": "log likelihood",
        "log_prior": "log prior",
        "log_density_sd": "noise sd",
    }
    facts = {}
    for role, word in words.items():
        value = getattr(roles, role)
        if isinstance(value, str):
            facts[word] = f"column '{value}'" + ("" if value in told else " (guessed from its name)")
        elif value is not None:
            facts[word] = f"{value:g} in every row"
    return facts


def _bounds(made: Evaluations) -> str:
    kinds = made.bounds.kind
    if set(kinds) == {"open"}:
        return f"none given; if there are any, say so: --bound {made.names[0]}=LOW,HIGH"
    pairs = [(name, *made.bounds.pair(i)) for i, name in enumerate(made.names) if kinds[i] != "open"]
    words = [f"{name} in [{low:g}, {high:g}]" for name, low, high in pairs[:8]]
    rest = [f"{len(pairs) - 8} more"] if len(pairs) > 8 else []
    return ", ".join([*words, *rest])


def _noise(made: Evaluations) -> str:
    sd = made.log_density_sd
    if sd is None:
        return "none given: the values count as exact; if they are not, say so: --sd NUMBER"
    low, high = float(sd.min()), float(sd.max())
    return f"sd {low:g}" if low == high else f"sd from {low:.3g} to {high:.3g}"


# Posteriors


def posterior_path(path: Path) -> Path:
    """The posterior file: itself, or the one in a folder that `vsbq fit` made."""
    try:
        if path.is_dir():
            inside = path / POSTERIOR
            if not inside.is_file():
                raise FileError(
                    f"{str(path)!r} is a folder without {POSTERIOR}. Pass a posterior file, or such a folder."
                )
            return inside
        found = path if path.exists() or path.suffix else path.with_name(path.name + ".npz")
        if not stat.S_ISREG(os.stat(found).st_mode):
            raise FileError(f"{str(path)!r} is no file. Pass a posterior file, or a folder of vsbq fit.")
    except FileNotFoundError as error:
        raise FileError(f"There is no file {str(path)!r}. Check the path.") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} can't be opened ({error!s:.200}).") from error
    return found


def load_posterior(path: Path) -> Posterior:
    """The posterior in a file or in a folder that `vsbq fit` made."""
    found = posterior_path(path)
    try:
        return load(found)
    except OSError as error:
        raise FileError(f"{str(found)!r} can't be read ({error.strerror}).") from error
