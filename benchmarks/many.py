"""What many fits cost: one by one, in processes and on a Dask cluster of this machine, and what the import costs.

Appends one JSON line to benchmarks/results/many.jsonl, and puts the last line into docs/many.md:

    python benchmarks/many.py [--fits 24] [--workers 2] [--dimension 3] [--evaluations 1000]
    python benchmarks/many.py --page          only the page, from the last line

All fits have one BLAS thread. Run it on an idle machine: the line has the load before it began.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import vsbq
from vsbq.many.folder import Folder

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "many.jsonl"
PAGE = HERE.parent / "docs" / "many.md"
BLOCK = re.compile(r"(<!-- from benchmarks/results/many.jsonl -->\n).*?(<!-- end -->)", re.DOTALL)
CLUSTER = 100_000  # fits in the arithmetic of the page
ROUNDS = 10
IDLE = 0.5  # a load up to this is that of an idle machine

#: What the page advises for workers of Dask, so that memory is not handed back to the system after every array.
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "33554432"}

IMPORTED = """
import json, sys, time
needed = json.loads(sys.argv[1])
begin = time.perf_counter()
for name in needed:
    __import__(name)
middle = time.perf_counter()
import vsbq
print(json.dumps([middle - begin, time.perf_counter() - middle]))
"""
NEEDED = (
    "import json, sys, vsbq; print(json.dumps([n for n in sys.modules if n.partition('.')[0] in ('numpy', 'scipy')]))"
)


def participant(seed: int, n: int, dimension: int) -> vsbq.Evaluations:
    """A correlated normal with a bend, evaluated where an optimiser might have been."""
    rng = np.random.default_rng([31, seed])
    points = rng.standard_normal((n, dimension)) * np.geomspace(3.0, 0.3, n)[:, None]
    bent = points.copy()
    bent[:, -1] += 0.3 * points[:, 0] ** 2 - 0.3
    return vsbq.Evaluations(points, -0.5 * (bent**2).sum(axis=1) - 0.3 * bent[:, 0] * bent[:, -1])


@dataclass(frozen=True)
class Timed:
    """Seconds of the whole, of the processor in the process that asked, and of the fits themselves."""

    seconds: float
    own_cpu: float
    fits: vsbq.ManyFits

    @classmethod
    def run(cls, given, **options) -> Timed:
        """Fit and take the time."""
        clock, cpu = perf_counter(), process_time()
        fits = vsbq.fit_many(given, rng=1, progress=False, **options)
        return cls(perf_counter() - clock, process_time() - cpu, fits)

    def told(self) -> dict[str, float]:
        """For the line."""
        each = [row.seconds for row in self.fits.rows]
        return {"seconds": self.seconds, "own_cpu_seconds": self.own_cpu, "median_fit_seconds": float(np.median(each))}


def measure_import() -> dict[str, float]:
    """Seconds of NumPy's and SciPy's modules that are needed, and of the rest; the least of five."""
    needed = json.loads(_python(NEEDED))
    times = [json.loads(_python(IMPORTED, json.dumps(needed))) for _ in range(5)]
    numpy_and_scipy, ours = (min(column) for column in zip(*times, strict=True))
    return {"numpy_and_scipy_seconds": numpy_and_scipy, "vsbq_seconds": ours}


def _python(*arguments: str) -> str:
    return subprocess.run([sys.executable, "-c", *arguments], capture_output=True, text=True, check=True).stdout


def measure(options: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """The same fits in every way; their results must be the same."""
    make = partial(participant, n=options.evaluations, dimension=options.dimension)
    given = {f"p{i}": make(i) for i in range(options.fits)}
    one = Timed.run(given, folder=folder / "one")
    many = Timed.run(given, workers=options.workers, folder=folder / "many")
    again = Timed.run(given, folder=folder / "many")
    assert all(row.read for row in again.fits.rows)
    found = {"one_by_one": one.told(), "processes": many.told(), "resumed": again.told()}
    runs = [one, many]
    if not options.no_dask:
        dask, each = _on_dask(given, options.workers, folder)
        runs.append(dask)
        found["dask"] = dask.told() | {"handling_cpu_seconds_per_fit": each}
    for other in runs[1:]:
        assert [row.log_evidence for row in other.fits.rows] == [row.log_evidence for row in one.fits.rows]
    sizes = [path.stat().st_size for path in (folder / "one").iterdir()]
    return found | {"file": {"mean_bytes": float(np.mean(sizes))}}


def _on_dask(given, workers: int, folder: Path) -> tuple[Timed, float]:
    """The fits on a cluster, and what each costs the process of its client and its scheduler."""
    from distributed import Client, LocalCluster

    os.environ.update(ALLOCATOR)
    settings = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**settings, local_directory=str(folder)) as cluster, Client(cluster) as client:
        return Timed.run(given, client=client, folder=folder / "dask"), handling(client, given, folder)


def handling(client, given, folder: Path) -> float:
    """Processor seconds of client and scheduler for each fit: sent, fetched and saved, with no fit in between.

    The tables and the sizes of the files are those of the fits. Without fits, the idle time of the scheduler, which
    has a cost of its own, is no part of it.
    """
    from distributed import as_completed

    size = max(path.stat().st_size for path in (folder / "one").iterdir())
    shelf, cpu = Folder.opened(folder / "handled", [], overwrite=True), process_time()
    for _ in range(ROUNDS):
        futures = [client.submit(no_fit, each, size, pure=False) for each in given.values()]
        for future in as_completed(futures):
            shelf.keep("one", future.result())
    return (process_time() - cpu) / (ROUNDS * len(given))


def no_fit(evaluations: vsbq.Evaluations, size: int) -> bytes:
    """As many bytes as the file of a posterior has."""
    return os.urandom(size)


def measured(options: argparse.Namespace) -> dict:
    """One line."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options, Path(folder))
    about = {name: getattr(options, name) for name in ("fits", "workers", "dimension", "evaluations")}
    git = ["git", "describe", "--always", "--dirty"]
    commit = subprocess.run(git, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()
    versions = {name: version(name) for name in ("numpy", "scipy", "joblib", "distributed")}
    versions |= {"vsbq": vsbq.__version__, "python": platform.python_version()}
    machine = {"cores": os.cpu_count(), "load_before": load}
    about |= {"machine": machine, "versions": versions, "commit": commit}
    return {"benchmark": "many", **about, **found, "import": measure_import()}


def last_line() -> dict:
    """What was measured last."""
    return json.loads(RESULTS.read_text(encoding="utf-8").splitlines()[-1])


def rendered(line: dict) -> str:
    """The tables of the page."""
    one, many, again = line["one_by_one"], line["processes"], line["resumed"]
    count, workers = line["fits"], line["workers"]
    rows = [("one by one", one), (f"`workers={workers}`", many)]
    rows += [(f"Dask, {workers} workers", line["dask"])] if "dask" in line else []
    rows += [("all read from the folder", again)]
    table = ["| | seconds | times as fast |", "|---|---|---|"]
    for name, run in rows:
        speed = "–" if run is again else f"{one['seconds'] / run['seconds']:.2f}"
        table.append(f"| {name} | {run['seconds']:.1f} | {speed} |")
    machine = line["machine"]
    words = (
        f"{count} fits of {line['evaluations']} evaluations and {line['dimension']} parameters with the default "
        f"settings, on {machine['cores']} cores, with a load of {machine['load_before']:.1f} before it "
        f"began; commit `{line['commit']}`. A file has "
        f"{line['file']['mean_bytes'] / 1e6:.2f} MB on average. `import vsbq` takes "
        f"{line['import']['vsbq_seconds']:.2f} s beyond the "
        f"{line['import']['numpy_and_scipy_seconds']:.2f} s of the modules of NumPy and SciPy that it needs."
    )
    if machine["load_before"] > IDLE:
        words += (
            " Others used the cores at the same time, so that the last column of the first table does not tell what "
            "several processes bring; that needs a line from an idle machine."
        )
    return "\n".join([words, "", *table, *(["", *_arithmetic(line)] if "dask" in line else []), ""])


def _arithmetic(line: dict) -> list[str]:
    """What the measured numbers make of a cluster."""
    each = line["one_by_one"]["median_fit_seconds"]
    client = line["dask"]["handling_cpu_seconds_per_fit"]
    disk = CLUSTER * line["file"]["mean_bytes"] / 1e9
    rows = [f"| {w} | {CLUSTER * each / w / 60:.0f} min | {w * client / each:.2f} |" for w in (2, 32, 100, 1000)]
    return [
        f"With {each:.2f} s for a fit, and {1000 * client:.0f} ms of processor time in client and scheduler "
        f"together, {CLUSTER:,} such fits take:",
        "",
        *("| workers | time of the fits | cores that client and scheduler need |", "|---|---|---|", *rows),
        "",
        f"One client keeps about {each / client:.0f} workers busy with fits of this size, and in proportion more with "
        f"longer ones. The files take {disk:.0f} GB.",
    ]


def write_page() -> None:
    """Put the last line into the page."""
    text = PAGE.read_text(encoding="utf-8")
    filled = BLOCK.sub(lambda found: f"{found.group(1)}\n{rendered(last_line())}\n{found.group(2)}", text)
    PAGE.write_text(filled, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("fits", 24), ("workers", 2), ("dimension", 3), ("evaluations", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-dask", action="store_true")
    parser.add_argument("--page", action="store_true", help="write the page from the last line, measure nothing")
    options = parser.parse_args()
    if not options.page:
        line = json.dumps(measured(options))
        with RESULTS.open("a", encoding="utf-8") as out:
            out.write(line + "\n")
        print(line)
    write_page()


if __name__ == "__main__":
    main()
