"""How fast the library is, in units that survive a busy machine: one 2000 x 2000 product in the same process.

Kernels (a bound with its gradient) stand beside their floor, 4 N M² operations at the speed of that product; whole fits
are of traces of the paper's problems and of trace-like sets of 1,000 to 1,000,000 evaluations, each in a process of its
own, with its peak memory. Appends JSON lines to benchmarks/results/speed.jsonl, and says what got slower than the last
line of the same name, threads and machine there:

    python benchmarks/speed.py [--threads 1] [--only NAME ...] [--data FOLDER] [--results FILE]

Run it on an idle machine: each line has the load before it began.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "speed.jsonl"
SLOWER = 1.2  # times the units of the last line that count as slower
KERNELS = {"200x60 D=3": (200, 60, 3), "2500x250 D=6": (2500, 250, 6), "18000x600 D=6": (18_000, 600, 6)}
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


def names() -> list[str]:
    """All that is measured."""
    return [*(f"kernel {name}" for name in KERNELS), *PROBLEMS, *SETS]


def kernel(name: str) -> dict[str, Any]:
    """Processor seconds of a bound with gradient, and of as many operations as it needs in a product."""
    import numpy as np

    from vsbq.numerics import sgpr
    from vsbq.numerics.kernel import Hyperparameters

    n, m, d = KERNELS[name]
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n, d))
    hyp = Hyperparameters(np.log(np.full(d, 1.5)), np.log(3.0), 0.0, np.zeros(d), np.zeros(d))
    data = points[:m].copy(), points, -0.5 * (points**2).sum(axis=1), np.full(n, 1e-2)
    workspace = sgpr.Workspace(n * m)
    factor = rng.standard_normal((2000, 2000))
    seconds = _fastest(lambda: sgpr.bound_and_gradient(hyp.pack(), *data, workspace))
    floor = 4 * n * m * m / (2 * 2000**3) * _fastest(lambda: factor @ factor)
    return {"seconds": seconds, "floor_seconds": floor, "times_floor": seconds / floor}


def _fastest(work: Callable[[], object], repeats: int = 7) -> float:
    """Processor seconds of the fastest of several repetitions: the least disturbed one."""
    times = []
    for _ in range(repeats):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times[1:])


def trace_like(n: int, d: int) -> tuple[Any, Any]:
    """Clouds that shrink towards the mode of a bent normal, as runs of an optimiser leave them."""
    import numpy as np

    rng = np.random.default_rng([n, d])
    points = rng.standard_normal((n, d)) * np.exp(rng.uniform(np.log(0.1), np.log(4.0), n))[:, None]
    bent = points.copy()
    bent[:, -1] += 0.5 * (points[:, 0] ** 2 - 1)
    return points, -0.5 * (bent**2).sum(axis=1) - 0.3 * points[:, 0] * bent[:, -1]


def fit(name: str, cache: Path) -> dict[str, Any]:
    """Seconds and units of a fit, and how far its evidence is off where that is known."""
    import numpy as np

    import vsbq
    from vsbq_bench.job import unit_seconds

    told: dict[str, Any] = {}
    if name in SETS:
        n, d = SETS[name]
        points, values = trace_like(n, d)
        given = vsbq.Evaluations(points, values)
        truth = 0.5 * d * np.log(2 * np.pi) - 0.5 * np.log(1 - 0.3**2)
    else:
        from vsbq_bench.cases.place import find_place
        from vsbq_bench.suites import Job

        place = find_place(name)
        trace = place.trace(Job(name, PROBLEMS[name], "cma", 3000, "vsbq", 0), cache)
        bounds = place.problem.bounds
        given = vsbq.Evaluations(trace.points, trace.log_density, log_density_sd=trace.log_density_sd, bounds=bounds)
        truth = place.problem.log_evidence
    unit = unit_seconds()
    clock, cpu = perf_counter(), process_time()
    post = vsbq.fit(given, rng=0, progress=False)
    seconds, cpu = perf_counter() - clock, process_time() - cpu
    unit = (unit + unit_seconds()) / 2
    told |= {"evaluations": len(given), "seconds": seconds, "cpu_seconds": cpu, "unit_seconds": unit}
    told |= {"units": seconds / unit, "stages": dict(post.history.seconds) if post.history else {}}
    told |= {"error": post.log_evidence - float(truth), "log_evidence_sd": post.log_evidence_sd}
    return told | {"peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def measured(name: str, threads: int, cache: Path) -> dict[str, Any]:
    """The line of one measurement, made in a process of its own."""
    pools = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    load = os.getloadavg()[0]
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
    """What is compared: times the floor, or units."""
    return float(line["times_floor"] if "times_floor" in line else line["units"])


def report(new: dict[str, Any], old: dict[str, Any] | None) -> str:
    """A line for people."""
    if "times_floor" in new:
        text = f"{new['name']:28s} {1e3 * new['seconds']:8.1f} ms  {new['times_floor']:5.1f} times its floor"
    else:
        text = f"{new['name']:28s} {new['seconds']:8.1f} s  {new['units']:6.1f} units  {new['peak_gib']:.2f} GiB"
    if old is not None and cost(new) > SLOWER * cost(old):
        text += f"  SLOWER than {cost(old):.1f} at {old['commit']}"
    return text


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
    for text in run(given.only, given.threads, given.results, given.cache):
        print(text, flush=True)


if __name__ == "__main__":
    main()
