"""Calls of the command line, and a table to call it with."""

from __future__ import annotations

import contextlib
import csv
import io
from pathlib import Path

import numpy as np

from vsbq.cli import main

N = 200
CENTRE, VARIANCE = np.array([0.3, -0.2]), np.array([0.5, 1.5])
LOG_EVIDENCE = 7.0 + np.log(2 * np.pi) + 0.5 * np.log(VARIANCE).sum()


def evaluations(n: int = N, seed: int = 0):
    rng = np.random.default_rng(seed)
    points = rng.normal([0.5, -0.5], [1.0, 1.5], (n, 2))
    return points, 7.0 - 0.5 * ((points - CENTRE) ** 2 / VARIANCE).sum(axis=1)


def write_csv(path: Path, names: list[str], *columns) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows(np.column_stack(columns).tolist())
    return path


def call(*arguments) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()
