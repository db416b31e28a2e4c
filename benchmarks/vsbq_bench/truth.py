"""Stored truth of problems without an exact sampler: posterior draws, the evidence, and which density they belong to.

A file is a plain npz without pickles. Draws are stored as 16-bit cells between the lowest and the highest of each
column; a fixed stream spreads them within their cells when they are read, so that there are no ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import LogDensity

__all__ = ["Truth", "data_digest", "load_truth", "read_truth", "write_truth"]

LEVELS = 2**16
CHECK_POINTS = 8
TOLERANCE = 1e-6  # of a log density, relative to its size: other libraries may round otherwise


def least_effective_share(dimension: int) -> float:
    """Of the importance weights behind a truth; a mixture of Gaussians covers many parameters less closely."""
    return 0.6 if dimension <= 10 else 0.2


@dataclass(frozen=True, eq=False, kw_only=True)
class Truth:
    """Draws of a posterior and its evidence.

    `effective_share` is that of the importance weights behind both, `worst_z` the largest difference between them and
    chains, in standard errors. `data_digest` is that of the data (empty where the problem has none), and
    `check_values` are the log densities at `check_points`, by which a truth knows its problem.
    """

    draws: Float[ndarray, "n d"]
    log_evidence: float
    log_evidence_sd: float
    effective_share: float
    worst_z: float
    check_points: Float[ndarray, "c d"]
    check_values: Float[ndarray, " c"]
    data_digest: str
    made: str

    def draw(self, n: int, rng: Generator) -> Float[ndarray, "n d"]:
        """Pick n of the draws without repeats."""
        if n > len(self.draws):
            raise ValueError(
                f"only {len(self.draws)} draws of the true posterior are stored, got a request for {n}; "
                "repeating some would make any comparison look better than it is"
            )
        return rng.choice(self.draws, n, replace=False)

    def check(self, log_density: LogDensity) -> None:
        """Raise ValueError if these draws belong to another log density."""
        now = log_density(self.check_points)
        miss = np.abs(now - self.check_values) / np.maximum(1.0, np.abs(self.check_values))
        if not miss.max() <= TOLERANCE:
            raise ValueError(
                f"the stored truth belongs to another log density: at {self.check_points[miss.argmax()].tolist()} it "
                f"was {self.check_values[miss.argmax()]:.6f}, now it is {now[miss.argmax()]:.6f}; "
                "benchmarks/make_truth.py makes a new one"
            )


def data_digest(table: Float[ndarray, "n c"]) -> str:
    """SHA-256 of the numbers of a table, whatever the file they came from looked like."""
    numbers = np.ascontiguousarray(table, dtype="<f8") + 0.0  # there is only one zero
    return sha256(f"{numbers.shape}".encode() + numbers.tobytes()).hexdigest()


@cache
def load_truth(name: str) -> Truth:
    """Read the truth that comes with the package under this name; the arrays are read-only."""
    folder = files("vsbq_bench") / "truths"
    resource = folder / f"{name}.npz"
    if not resource.is_file():
        known = sorted(entry.name.removesuffix(".npz") for entry in folder.iterdir() if entry.name.endswith(".npz"))
        raise ValueError(f"no truth is stored for {name!r}; there is {', '.join(known)}")
    return _decode(resource.read_bytes(), name)


def read_truth(path: Path) -> Truth:
    """Read a truth from a file of your own."""
    return _decode(path.read_bytes(), path.name)


def write_truth(path: Path, truth: Truth) -> None:
    """Write a truth, all of it or nothing; its draws lose what lies below 16 bits of their range."""
    low, high = truth.draws.min(axis=0), truth.draws.max(axis=0)
    cell = np.where(high > low, (high - low) / LEVELS, 1.0)
    codes = np.clip((truth.draws - low) / cell, 0, LEVELS - 1).astype(np.uint16)
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez_compressed(
        unfinished,
        codes=np.ascontiguousarray(codes.T),
        low=low,
        high=high,
        log_evidence=truth.log_evidence,
        log_evidence_sd=truth.log_evidence_sd,
        effective_share=truth.effective_share,
        worst_z=truth.worst_z,
        check_points=truth.check_points,
        check_values=truth.check_values,
        data_digest=truth.data_digest,
        made=truth.made,
    )
    unfinished.replace(path)


def _decode(content: bytes, label: str) -> Truth:
    try:
        with np.load(BytesIO(content), allow_pickle=False) as stored:
            truth = Truth(
                draws=_spread(stored["codes"].T, stored["low"], stored["high"]),
                log_evidence=float(stored["log_evidence"]),
                log_evidence_sd=float(stored["log_evidence_sd"]),
                effective_share=float(stored["effective_share"]),
                worst_z=float(stored["worst_z"]),
                check_points=stored["check_points"],
                check_values=stored["check_values"],
                data_digest=str(stored["data_digest"]),
                made=str(stored["made"]),
            )
    except (KeyError, OSError, TypeError, ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{label} is not a file of a truth: {error}") from error
    for array in (truth.draws, truth.check_points, truth.check_values):
        array.flags.writeable = False
    return truth


def _spread(codes: ndarray, low: Float[ndarray, " d"], high: Float[ndarray, " d"]) -> Float[ndarray, "n d"]:
    """Uniform points within the cells, always the same ones."""
    place = codes + np.random.default_rng(0).random(codes.shape)
    draws: ndarray = np.clip(low + (high - low) * (place / LEVELS), low, high)
    return draws
