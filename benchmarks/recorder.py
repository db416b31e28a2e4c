"""What recording costs: the time of a wrapped call whose objective takes next to none, in one and more processes.

Appends one JSON line to benchmarks/results/recorder.jsonl:

    python benchmarks/recorder.py [--evaluations 10000] [--processes 1 2 8] [--dimension 10]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import vsbq
from vsbq.io.record import Recorder, read_store

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "recorder.jsonl"


def next_to_nothing(x):
    return 1.0


def measure(path: Path, dimension: int, evaluations: int) -> list[float]:
    """Milliseconds that recording adds to each call."""
    names = [f"x{i}" for i in range(1, dimension + 1)]
    points = np.random.default_rng(0).normal(size=(evaluations, dimension))
    with Recorder(path, names=names, tag="benchmark") as rec:
        f = rec.minimise(next_to_nothing)
        f(points[0])
        times = []
        for point in points:
            start = perf_counter()
            f(point)
            times.append(perf_counter() - start)
    return [1000 * seconds for seconds in times]


def measure_at_once(processes: int, dimension: int, evaluations: int) -> dict[str, float]:
    """The same in several processes that write to one file; nothing may be lost."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fits.db"
        if processes == 1:
            found = [measure(path, dimension, evaluations)]
        else:
            with multiprocessing.get_context("spawn").Pool(processes) as pool:
                found = pool.starmap(measure, [(path, dimension, evaluations)] * processes, chunksize=1)
        stored = len(read_store(path))
    assert stored == processes * (evaluations + 1), f"{stored} evaluations are in the file"
    times = np.concatenate(found)
    return {
        "processes": processes,
        "median_ms": round(float(np.median(times)), 4),
        "mean_ms": round(float(times.mean()), 4),
        "p99_ms": round(float(np.quantile(times, 0.99)), 4),
        "worst_process_median_ms": round(max(float(np.median(one)) for one in found), 4),
    }


def commit() -> str | None:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip() or None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--evaluations", type=int, default=10_000, help="of each process")
    parser.add_argument("--dimension", type=int, default=10)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 8])
    options = parser.parse_args()
    line = {
        "benchmark": "recorder",
        "evaluations_per_process": options.evaluations,
        "dimension": options.dimension,
        "overhead": [measure_at_once(n, options.dimension, options.evaluations) for n in options.processes],
        "versions": {
            "vsbq": vsbq.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "sqlite": sqlite3.sqlite_version,
        },
        "commit": commit(),
    }
    print(json.dumps(line))
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
