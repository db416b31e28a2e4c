"""Results as JSON lines: one per run, appended as runs end, read back by tables and figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from vsbq.errors import VsbqError

__all__ = ["Cell", "Line", "append_line", "read_lines"]


class Cell(NamedTuple):
    """What is repeated over seeds: one problem and noise, traces of one optimiser and length, one method."""

    problem: str
    noise_sd: float
    optimiser: str
    evaluations: int
    method: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """One run: what was run, what came out, and what it took.

    A run that failed has its `error` and no scores. `delta_lml` and `log_evidence` are None where a method gives no
    evidence; an infinite score is stored as None too and named in
    `details["infinite"]`. `evaluations` is the
    length of the trace, `target_evaluations` how often the method itself called the model. `units` is the time of the
    method in products of two 2000×2000 matrices in the same process; `processes` tells how many runs shared the
    machine. `floor_mmtv` and `floor_gskl` are the scores of exact draws against exact draws. `signed_error` is the log
    evidence minus the true one, `z` the same in standard deviations as stated (and of the truth, where it has an error
    of its own). `warnings` has the texts of the library's warnings and how often each was given; `share_outside` is the
    mass where the surrogate is not trusted. `case` has the attributes of a case of the zoo.
    """

    problem: str
    noise_sd: float
    optimiser: str
    evaluations: int
    method: str
    seed: int
    error: str | None = None
    delta_lml: float | None = None
    mmtv: float | None = None
    gskl: float | None = None
    log_evidence: float | None = None
    log_evidence_sd: float | None = None
    true_log_evidence: float | None = None
    floor_mmtv: float | None = None
    floor_gskl: float | None = None
    draws: int | None = None
    target_evaluations: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    units: float | None = None
    peak_gib: float | None = None
    processes: int = 1
    threads: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    signed_error: float | None = None
    z: float | None = None
    share_outside: float | None = None
    warnings: Mapping[str, int] = field(default_factory=dict)
    case: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cell(self) -> Cell:
        """What the run shares with those of other seeds."""
        return Cell(self.problem, self.noise_sd, self.optimiser, self.evaluations, self.method)

    def to_json(self) -> str:
        """Return the line as strict JSON, numbers that JSON does not know as null."""
        return json.dumps(_finite(asdict(self)), allow_nan=False, ensure_ascii=False)


def append_line(path: Path, line: Line) -> None:
    """Add a line to the end of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_cut_line(path)
    with path.open("a", encoding="utf-8") as out:
        out.write(line.to_json() + "\n")


def _drop_cut_line(path: Path) -> None:
    """Remove what a crash left of a last line, so that the next one starts on a line of its own."""
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


def read_lines(paths: Iterable[Path]) -> list[Line]:
    """Read the lines of all files that exist; a line cut short by a crash at the end of a file is left out."""
    return [line for path in paths if path.exists() for line in _read(path)]


def _read(path: Path) -> Iterable[Line]:
    known = {item.name for item in fields(Line)}
    text = path.read_text(encoding="utf-8")
    rows = text.splitlines()
    for number, row in enumerate(rows, 1):
        try:
            values = json.loads(row)
            yield Line(**{name: value for name, value in values.items() if name in known})
        except (ValueError, TypeError, AttributeError) as error:
            if number == len(rows) and not text.endswith("\n"):
                return
            raise VsbqError(f"{path}, line {number}: not a result line ({error}); remove it or restore it") from error


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value.__name__ if isinstance(value, type) else value
