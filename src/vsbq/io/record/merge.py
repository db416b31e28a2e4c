"""Files of several machines become one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsbq.io.record.file import full_path, is_there
from vsbq.io.record.problem import Problem, RecorderError
from vsbq.io.record.reader import describe, read_all
from vsbq.io.record.store import Store
from vsbq.io.record.verify import Damaged

__all__ = ["Merged", "merge"]


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What merging did: `added` evaluations were new in the file, which now holds `total`.

    `notes` say what is left out because of damage.
    """

    path: Path
    added: int
    total: int
    notes: tuple[str, ...] = ()


def merge(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    into: str | os.PathLike[str],
    *,
    damaged: Damaged = "raise",
) -> Merged:
    """Add the evaluations of some files of recorders to one, which is made if it does not exist.

    Nothing is overwritten, and evaluations that are there already are not added again, so the same files may be merged
    as often as one likes. Tag, names and bounds of all must agree; this is checked before anything is written.
    Recorders may be open on all of the files.

    Args:
        paths: one file, or several.
        into: the file that gets the evaluations.
        damaged: "raise" to refuse a file in which an evaluation is not what was recorded, or "drop" to leave out such
            evaluations with a note: what is left of a damaged file is so saved to a sound one.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    sources, target = [full_path(path) for path in given], full_path(into)
    if not sources:
        raise RecorderError("There is nothing to merge: the list of files is empty. Pass at least one.")
    problem = _common_problem(sources, target, damaged)
    added, notes = 0, []
    with Store(target, problem, "merge") as store:
        store.open()
        for source in sources:
            if not os.path.samefile(source, target):
                contents, found = read_all(source, damaged).verified
                added += store.take_in(contents)
                notes += [f"'{source}': {note}" for note in found]
        total = sum(len(rows) for _, rows in read_all(target).verified.contents)
    return Merged(path=target, added=added, total=total, notes=tuple(notes))


def _common_problem(sources: Sequence[Path], target: Path, damaged: Damaged) -> Problem:
    """What all files are about; the file to be added to must be sound."""
    problem = describe(sources[0], damaged)
    for path in sources[1:]:
        problem = problem.joined(describe(path, damaged), f"'{sources[0]}' holds", f"'{path}' holds")
    if is_there(target):
        problem = problem.joined(read_all(target).problem, f"'{sources[0]}' holds", f"'{target}' holds")
    return problem
