"""Files of several machines become one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vsbq.record.file import full_path, is_there
from vsbq.record.problem import Problem, RecorderError
from vsbq.record.store import Store, describe, read_contents, reading

__all__ = ["Merged", "merge"]


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What merging did: `added` evaluations were new in the file, which now holds `total`."""

    path: Path
    added: int
    total: int


def merge(paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str], into: str | os.PathLike[str]) -> Merged:
    """Add the evaluations of some files of recorders to one, which is made if it does not exist.

    Nothing is overwritten, and evaluations that are there already are not added again, so the same files may be merged
    as often as one likes. Tag, names and bounds of all must agree; this is checked before anything is written.
    Recorders may be open on all of the files.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    sources, target = [full_path(path) for path in given], full_path(into)
    if not sources:
        raise RecorderError("There is nothing to merge: the list of files is empty. Pass at least one.")
    problem = _common_problem([*sources, *([target] if is_there(target) else [])])
    with Store(target, problem, "merge") as store:
        store.open()
        added = 0
        for source in sources:
            if not os.path.samefile(source, target):
                with reading(source) as connection:
                    contents = read_contents(connection)
                added += store.take_in(contents)
        total = (store.ask("SELECT count(*) FROM evaluation") or (0,))[0]
    return Merged(path=target, added=added, total=total)


def _common_problem(paths: Sequence[Path]) -> Problem:
    problem = describe(paths[0])
    for path in paths[1:]:
        problem = problem.joined(describe(path), f"'{paths[0]}' holds", f"'{path}' holds")
    return problem
