"""How fast the library is, in units that survive a busy machine: one 2000 x 2000 product in the same process.

Kernels stand beside their floor: the operations that they cannot do without, at the speed of that product. Whole fits
are of traces of the paper's problems, of trace-like sets of 200 to 1,000,000 evaluations, and of .npy files of
1,000,000 and more with `vsbq.fit_large`; each is in a process of its own, with its peak memory. Appends JSON lines to
benchmarks/results/speed.jsonl, says what got slower than the last line of the same name, threads and machine there, and
what is above what was asked for:

    python benchmarks/speed.py [--threads 1] [--only NAME ...] [--data FOLDER] [--results FILE]
    python benchmarks/speed.py --page          only the tables of docs/scale.md, from the last lines

`units` is time on the clock, `cpu_units` processor time, each by that of the product: on an idle machine they are the
same with one thread, and on a busy one only the second can be compared. Each line has the load before it began. All of
it takes less than a quarter of an hour on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "speed.jsonl"
PAGE = HERE.parent / "docs" / "scale.md"
BETWEEN = re.compile(r"(<!-- from benchmarks/results/speed.jsonl -->\n).*?(<!-- end -->)", re.DOTALL)
SLOWER = 1.2  # times the units of the last line that count as slower
#: Rows, inducing points, dimension, and how many times N M² operations it cannot do without.
KERNELS = {
    "bound 200x60 D=3": (200, 60, 3, 4),
    "bound 2500x250 D=6": (2500, 250, 6, 4),
    "bound 3600x360 D=6": (3600, 360, 6, 4),
    "bound 18000x600 D=6": (18_000, 600, 6, 4),
    "sums 18000x900 D=6": (18_000, 900, 6, 2),
    "choice 6000x900 D=6": (6000, 900, 6, 1),
    "variance 40000x900 D=6": (40_000, 900, 6, 1),
}
PROBLEMS = {
    "two_moons": 0.0,
    "timing": 3.0,
    "rosenbrock_gaussian": 0.0,
    "multisensory": 0.0,
    "lotka_volterra": 0.0,
}
SETS = {
    "set 200 D=3": (200, 3),
    "set 1,000 D=2": (1000, 2),
    "set 10,000 D=6": (10_000, 6),
    "set 6,000 D=12": (6000, 12),
    "set 100,000 D=6": (100_000, 6),
    "set 1,000,000 D=6": (1_000_000, 6),
}
LARGE = {"file 1,000,000 D=6": (1_000_000, 6), "file 10,000,000 D=6": (10_000_000, 6)}

#: Units and GiB that are asked for.
ASKED = {
    "two_moons": (8, 0.3),
    "timing": (20, 0.5),
    "rosenbrock_gaussian": (30, 0.5),
    "multisensory": (35, 0.5),
    "lotka_volterra": (60, 0.7),
    "set 6,000 D=12": (60, 0.7),
    "set 1,000,000 D=6": (400, 3.0),
    "file 1,000,000 D=6": (400, 3.0),
    "set 200 D=3": (3, np.inf),
}


def names() -> list[str]:
    """All that is measured."""
    return [*(f"kernel {name}" for name in KERNELS), *PROBLEMS, *SETS, *LARGE]


def kernel(name: str) -> dict[str, Any]:
    """Processor seconds of a kernel, and of as many operations as it needs in a product."""
    from vsbq.numerics import sgpr
    from vsbq.numerics.inducing import greedy_inducing
    from vsbq.numerics.kernel import Hyperparameters
    from vsbq.numerics.variance import variance_roots, variances

    n, m, d, operations = KERNELS[name]
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n, d))
    hyp = Hyperparameters(np.log(np.full(d, 1.5)), np.log(3.0), 0.0, np.zeros(d), np.zeros(d))
    data = points[:m].copy(), points, -0.5 * (points**2).sum(axis=1), np.full(n, 1e-2)
    workspace = sgpr.Workspace(n * m)
    factor = rng.standard_normal((2000, 2000))
    factors = sgpr.fit_factors(hyp, *data)[0]
    roots = variance_roots(factors)
    rough = hyp._replace(log_scales=hyp.log_scales - 2.0)  # so that there are never enough inducing points
    work: dict[str, Callable[[], object]] = {
        "bound": lambda: sgpr.bound_and_gradient(hyp.pack(), *data, workspace),
        "sums": lambda: sgpr.statistics(hyp, data[0], factors.chol_kernel, *data[1:]),
        "choice": lambda: greedy_inducing(rough, points, data[3], m),
        "variance": lambda: variances(hyp, factors, roots, points, noise=False),
    }
    seconds = _fastest(work[name.partition(" ")[0]])
    floor = operations * n * m * m / (2 * 2000**3) * _fastest(lambda: factor @ factor)
    return {"seconds": seconds, "floor_seconds": floor, "times_floor": seconds / floor}


def _fastest(work: Callable[[], object], repeats: int = 7) -> float:
    """Processor seconds of the fastest of several repetitions: the least disturbed one."""
    times = []
    for _ in range(repeats):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times[1:])


def trace_like(n: int, d: int, *seed: int) -> tuple[Any, Any]:
    """Clouds that shrink towards the mode of a bent normal, as runs of an optimiser leave them."""
    rng = np.random.default_rng([n, d, *seed])
    points = rng.standard_normal((n, d)) * np.exp(rng.uniform(np.log(0.1), np.log(4.0), n))[:, None]
    bent = points.copy()
    bent[:, -1] += 0.5 * (points[:, 0] ** 2 - 1)
    return points, -0.5 * (bent**2).sum(axis=1) - 0.3 * points[:, 0] * bent[:, -1]


def files_of(n: int, d: int, folder: Path) -> tuple[str, str]:
    """A trace-like set as two files, written a million rows at a time; nothing where they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = str(folder / f"points_{n}_{d}.npy"), str(folder / f"values_{n}_{d}.npy")
    if not all(Path(path).exists() for path in paths):
        points = np.lib.format.open_memmap(paths[0], mode="w+", dtype=np.float64, shape=(n, d))
        values = np.lib.format.open_memmap(paths[1], mode="w+", dtype=np.float64, shape=(n,))
        for start in range(0, n, 1_000_000):
            stop = min(start + 1_000_000, n)
            points[start:stop], values[start:stop] = trace_like(stop - start, d, start)
        points.flush()
        values.flush()
    return paths


def evidence(d: int) -> float:
    """Of a trace-like set."""
    return float(0.5 * d * np.log(2 * np.pi) - 0.5 * np.log(1 - 0.3**2))


def unit() -> tuple[float, float]:
    """Seconds of the product, on the clock and of the processor: medians, the first one left out."""
    factor = np.random.default_rng(0).standard_normal((2000, 2000))
    times = []
    for _ in range(4):
        clock, cpu = perf_counter(), process_time()
        factor @ factor
        times.append((perf_counter() - clock, process_time() - cpu))
    return float(np.median([t[0] for t in times[1:]])), float(np.median([t[1] for t in times[1:]]))


def fit(name: str, cache: Path) -> dict[str, Any]:
    """Seconds and units of a fit, and how far its evidence is off where that is known."""
    import vsbq

    told: dict[str, Any] = {}
    large = name in LARGE
    if large:
        n, d = LARGE[name]
        given, truth = files_of(n, d, cache), evidence(d)
    elif name in SETS:
        n, d = SETS[name]
        given, truth = vsbq.Evaluations(*trace_like(n, d)), evidence(d)
    else:
        from vsbq_bench.cases.place import find_place
        from vsbq_bench.suites import Job

        place = find_place(name)
        trace = place.trace(Job(name, PROBLEMS[name], "cma", 3000, "vsbq", 0), cache)
        bounds = place.problem.bounds
        given = vsbq.Evaluations(trace.points, trace.log_density, log_density_sd=trace.log_density_sd, bounds=bounds)
        truth = place.problem.log_evidence
        n = len(given)
    before = unit()
    clock, cpu = perf_counter(), process_time()
    post = vsbq.fit_large(*given, rng=0, progress=False) if large else vsbq.fit(given, rng=0, progress=False)
    seconds, cpu = perf_counter() - clock, process_time() - cpu
    on_clock, of_processor = (float(np.mean(pair)) for pair in zip(before, unit(), strict=True))
    told |= {"evaluations": n, "seconds": seconds, "cpu_seconds": cpu, "unit_seconds": on_clock}
    told |= {"units": seconds / on_clock, "cpu_units": cpu / of_processor}
    told |= {"stages": dict(post.history.seconds) if post.history else {}}
    told |= {"error": post.log_evidence - float(truth), "log_evidence_sd": post.log_evidence_sd}
    return told | {"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def measured(name: str, threads: int, cache: Path) -> dict[str, Any]:
    """The line of one measurement, made in a process of its own."""
    pools = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    load = os.getloadavg()[0]
    if name in LARGE:
        files_of(*LARGE[name], cache)  # here, so that writing them is no part of what is measured
    command = [sys.executable, __file__, "--child", name, "--cache", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **pools}, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip()[-400:]}")
    about = {"name": name, "threads": threads, "machine": platform.processor() or platform.machine(), "load": load}
    return about | {"commit": _commit()} | json.loads(done.stdout.strip().splitlines()[-1])


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()


def last_lines(path: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """The last line of each name, number of threads and machine."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {(line["name"], line["threads"], line["machine"]): line for line in lines}


def cost(line: dict[str, Any]) -> float:
    """What is compared: times the floor, or units of processor time."""
    return float(line["times_floor"] if "times_floor" in line else line.get("cpu_units", line["units"]))


def report(new: dict[str, Any], old: dict[str, Any] | None) -> str:
    """A line for people."""
    if "times_floor" in new:
        text = f"{new['name']:28s} {1e3 * new['seconds']:8.1f} ms  {new['times_floor']:5.1f} times its floor"
    else:
        text = f"{new['name']:28s} {new['seconds']:8.1f} s  {new['units']:6.1f} units ({cost(new):.1f} of processor)"
        text += f"  {new['peak_gib']:.2f} GiB  log Z {new.get('error', np.nan):+.4f}"
        units, gib = ASKED.get(new["name"], (np.inf, np.inf))
        if cost(new) > units or new["peak_gib"] > gib:
            text += f"  MORE than {units} units and {gib} GiB"
    if old is not None and cost(new) > SLOWER * cost(old):
        text += f"  SLOWER than {cost(old):.1f} at {old['commit']}"
    return text


def table(lines: list[dict[str, Any]]) -> str:
    """The fits of some lines, for the page."""
    rows = ["| | evaluations | units | GiB | error of log Z | load |", "|---|---|---|---|---|---|"]
    rows += [
        f"| {line['name']} | {line['evaluations']:,} | {cost(line):.1f} | {line['peak_gib']:.2f} | "
        f"{line['error']:+.4f} | {line['load']:.1f} |"
        for line in lines
        if "cpu_units" in line
    ]
    return "\n".join(rows)


def arithmetic(small: dict[str, Any], big: dict[str, Any]) -> str:
    """What more evaluations take, from what two numbers of them took; not a measurement."""
    more = big["evaluations"] - small["evaluations"]
    each = max(cost(big) - cost(small), 0.0) / more
    rest, unit = max(cost(small) - each * small["evaluations"], 0.0), big["unit_seconds"]
    head = (
        f"From {small['evaluations']:,} to {big['evaluations']:,} evaluations a million take {1e6 * each:.1f} units "
        f"more, and the rest {rest:.0f} units whatever their number. With these, and {unit:.2f} s for a unit, the next "
        "table is arithmetic, not a measurement; reading from a disk that many share may take longer."
    )
    rows = ["| evaluations | 1 worker | 8 workers | 64 workers |", "|---|---|---|---|"]
    for count in (10**7, 10**8, 10**9):
        times = (unit * (rest + each * count / workers) / 60 for workers in (1, 8, 64))
        rows.append(f"| {count:,} | " + " | ".join(f"{minutes:.1f} min" for minutes in times) + " |")
    return "\n".join([head, "", *rows])


def write_page(results: Path, page: Path = PAGE) -> None:
    """Put the last lines of one thread into the page."""
    lines = {line["name"]: line for (_, threads, _), line in last_lines(results).items() if threads == 1}
    if not lines:
        return
    commits = sorted({str(line["commit"]) for line in lines.values()})
    parts = [f"Fits with one thread, in processor time; commit {', '.join(f'`{each}`' for each in commits)}.", ""]
    parts += [table([lines[name] for name in names() if name in lines])]
    if all(name in lines for name in LARGE):
        parts += ["", arithmetic(*(lines[name] for name in LARGE))]
    text = page.read_text(encoding="utf-8")
    page.write_text(BETWEEN.sub(lambda found: found[1] + "\n" + "\n".join(parts) + "\n\n" + found[2], text), "utf-8")


def run(only: list[str], threads: int, results: Path, cache: Path) -> Iterator[str]:
    """Measure one after the other; each line is written before the next one begins."""
    before = last_lines(results)
    for name in only:
        new = measured(name, threads, cache)
        results.parent.mkdir(parents=True, exist_ok=True)
        with results.open("a") as stream:
            stream.write(json.dumps(new) + "\n")
        yield report(new, before.get((name, threads, new["machine"])))


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=names(), default=names(), metavar="NAME")
    parser.add_argument("--data", help="folder with timing.csv and multisensory.csv")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=Path("bench-results/traces"))
    parser.add_argument("--page", action="store_true", help="write the page from the last lines, measure nothing")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.data:
        os.environ["VSBQ_DATA"] = given.data
    if given.child:
        warnings.simplefilter("ignore")
        name = given.child
        kind = name.removeprefix("kernel ")
        print(json.dumps(kernel(kind) if name.startswith("kernel ") else fit(name, given.cache)))
        return
    for text in run([] if given.page else given.only, given.threads, given.results, given.cache):
        print(text, flush=True)
    if given.results == RESULTS:
        write_page(RESULTS)


if __name__ == "__main__":
    main()
