"""Does the audit name losses that are no log density? Regression problems, each with each kind of loss.

Writes one JSON line per problem and kind to benchmarks/results/losses.jsonl and prints the table:

    python benchmarks/losses.py                    200 problems for development, 200 others for validation
    python benchmarks/losses.py --page             only the table in docs/did_it_work.md, from the lines

Problems whose lines are there are not run again; remove the file after a change of the audit. Rules of the audit are
chosen on the development problems alone.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cma
import numpy as np
from scipy.optimize import minimize

import vsbq
from vsbq.data.loss_findings import loss_findings
from vsbq.errors import EvaluationsError

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "losses.jsonl"
PAGE = HERE.parent / "docs" / "did_it_work.md"
BLOCK = re.compile(r"(<!-- from benchmarks/results/losses.jsonl -->\n).*?(<!-- end -->)", re.DOTALL)

#: Seeds of the two halves, fixed before any rule was chosen.
HALVES = {"development": 1, "validation": 2}
COUNT = 200

LEAST_NOISE, MOST_NOISE = 1e-3, 1.0  # of data whose signal is of size one
LEAST_DATA, MOST_DATA = 10, 500
SMALLER = 30.0  # a unit of the data so many times smaller: mean squares are 900 times larger

Curve = Callable[[np.ndarray, np.ndarray], np.ndarray]


def linear(x, p):
    """A plane in D − 1 covariates; x holds them as rows."""
    return p @ x[: p.shape[1]]


def polynomial(x, p):
    """Degree D − 1."""
    return sum(p[:, [k]] * x[0] ** k for k in range(p.shape[1]))


def decay(x, p):
    """Exponentials with amplitude and log rate, and a level if one parameter is left."""
    t = 2.5 * (x[0] + 1)
    curves = sum(p[:, [k]] * np.exp(-np.exp(p[:, [k + 1]]) * t) for k in range(0, p.shape[1] - 1, 2))
    return curves + (p[:, [-1]] if p.shape[1] % 2 else 0.0)


def logistic(x, p):
    """Growth: capacity, log rate, midpoint, level."""
    level = p[:, [3]] if p.shape[1] > 3 else 0.0
    z = np.exp(p[:, [1]]) * (2 * x[0] - p[:, [2]])
    return level + 2 * p[:, [0]] / (1 + np.exp(-np.clip(z, -700, 700)))


def michaelis(x, p):
    """Michaelis–Menten: largest rate, log constant, log Hill coefficient, level."""
    s = 1.5 * (x[0] + 1) + 0.05
    power = np.exp(0.5 * p[:, [2]]) if p.shape[1] > 2 else 1.0
    level = p[:, [3]] if p.shape[1] > 3 else 0.0
    return level + 2 * p[:, [0]] * s**power / (np.exp(p[:, [1]]) ** power + s**power)


def sinusoid(x, p):
    """Frequency, then amplitudes of sine and cosine, a level, a trend and harmonics."""
    angle = (3 + p[:, [0]]) * x[0]
    terms = [np.sin(angle), np.cos(angle), 1.0, x[0], np.sin(2 * angle), np.cos(2 * angle), np.sin(3 * angle)]
    return sum(p[:, [k + 1]] * terms[k] for k in range(p.shape[1] - 1))


MODELS: dict[str, tuple[Curve, tuple[int, ...]]] = {
    "linear": (linear, (2, 3, 4, 5, 6, 7, 8)),
    "polynomial": (polynomial, (2, 3, 4, 5, 6, 7, 8)),
    "exponential decay": (decay, (2, 3, 4, 5)),
    "logistic growth": (logistic, (3, 4)),
    "Michaelis-Menten": (michaelis, (2, 3, 4)),
    "sinusoid": (sinusoid, (3, 4, 5, 6, 7, 8)),
}
METHODS = ("Nelder-Mead", "CMA-ES", "L-BFGS-B", "random points")


@dataclass(frozen=True)
class Problem:
    """A regression: a curve, data with noise of known size, and the box in which optimisers start."""

    model: str
    dimension: int
    x: np.ndarray
    y: np.ndarray
    noise: float
    width: float

    @classmethod
    def draw(cls, rng: np.random.Generator, index: int) -> Problem:
        """One problem; models take turns."""
        name = list(MODELS)[index % len(MODELS)]
        curve, dimensions = MODELS[name]
        d = int(rng.choice(dimensions))
        n = round(np.exp(rng.uniform(np.log(max(LEAST_DATA, d + 2)), np.log(MOST_DATA))))
        x = rng.uniform(-1, 1, (d, n))
        x[0] = np.linspace(-1, 1, n) if name != "linear" else 1.0
        truth = rng.choice([-1.0, 1.0], (1, d)) * rng.uniform(0.3, 1.5, (1, d))
        noise = float(np.exp(rng.uniform(np.log(LEAST_NOISE), np.log(MOST_NOISE))))
        y = curve(x, truth)[0] + noise * rng.standard_normal(n)
        return cls(name, d, x, y, noise, float(rng.uniform(2, 6)))

    def squares(self, points: np.ndarray) -> np.ndarray:
        """The sum of squared residuals at each point."""
        curve = MODELS[self.model][0]
        return ((curve(self.x, np.atleast_2d(points)) - self.y) ** 2).sum(axis=1)

    def log_density(self, squares: np.ndarray, *, constants: bool = True) -> np.ndarray:
        """Normal residuals, uniform prior in the box."""
        n = len(self.y)
        constant = n * np.log(self.noise * np.sqrt(2 * np.pi)) + self.dimension * np.log(2 * self.width)
        return -0.5 * squares / self.noise**2 - (constant if constants else 0.0)


def trace(problem: Problem, method: str, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Points in the order in which they were evaluated, and how many runs there were."""
    d, w = problem.dimension, problem.width
    budget = d * round(np.exp(rng.uniform(np.log(100), np.log(600))))
    if method == "random points":
        return rng.uniform(-w, w, (budget, d)), 1
    runs, points = int(rng.integers(2, 9)), []

    def cost(p):
        points.append(np.array(p, dtype=float))
        value = float(problem.squares(points[-1])[0] / (2 * problem.noise**2))
        return value if np.isfinite(value) else 1e300

    for _ in range(runs):
        _one_run(cost, rng.uniform(-w, w, d), method, budget // runs, rng)
    inside = [p for p in points if (np.abs(p) <= w).all()]
    return np.array(inside), runs


def _one_run(cost, start, method: str, budget: int, rng: np.random.Generator) -> None:
    w = float(np.abs(start).max()) + 1.0
    tolerance = 10 ** rng.uniform(-4, 0)
    if method == "CMA-ES":
        options = {"maxfevals": budget, "verbose": -9, "seed": int(rng.integers(1, 2**31)), "tolfun": tolerance}
        cma.fmin2(cost, start, w / 3, options)
    elif method == "Nelder-Mead":
        options = {"maxfev": budget, "fatol": tolerance, "xatol": 10 ** rng.uniform(-4, 0)}
        minimize(cost, start, method=method, options=options)
    else:
        minimize(cost, start, method=method, options={"maxfun": budget, "ftol": 1e-6 * tolerance})


# What the values may be in place of the log density

FLATTENING = ("mean square", "root mean square", "R2", "density", "mean square, smaller unit")
RESCALING = ("sum of squares", "chi-squared", "halved")
COLUMN = {
    "mean square": "mse",
    "mean square, smaller unit": "mse",
    "root mean square": "rmse",
    "R2": "r2",
    "density": "density",
    "sum of squares": "sse",
    "chi-squared": "chi2",
    "halved": "value",
}


def turned(problem: Problem, squares: np.ndarray, kind: str) -> np.ndarray:
    """The values of one kind, with the sign of something that is maximised."""
    n = len(problem.y)
    total = float(((problem.y - problem.y.mean()) ** 2).sum())
    return {
        "mean square": lambda: -squares / n,
        "mean square, smaller unit": lambda: -(SMALLER**2) * squares / n,
        "root mean square": lambda: -np.sqrt(squares / n),
        "R2": lambda: 1 - squares / total,
        "density": lambda: np.exp(problem.log_density(squares)),
        "sum of squares": lambda: -squares,
        "chi-squared": lambda: -squares / problem.noise**2,
        "halved": lambda: 0.5 * problem.log_density(squares),
    }[kind]()


def nats_per_nat(problem: Problem, kind: str, best: float) -> float:
    """How much the values change, at the best one, for one nat of the log density; below one they flatten."""
    per_square, n = 2 * problem.noise**2, len(problem.y)
    total = float(((problem.y - problem.y.mean()) ** 2).sum())
    return {
        "mean square": per_square / n,
        "mean square, smaller unit": SMALLER**2 * per_square / n,
        "root mean square": per_square / (2 * np.sqrt(n * best)),
        "R2": per_square / total,
        "density": float(np.exp(problem.log_density(np.array([best])))[0]),
        "sum of squares": per_square,
        "chi-squared": 2.0,
        "halved": 0.5,
    }.get(kind, 1.0)


# Healthy traces

TREATMENTS = ("all", "top few nats", "noisy", "few", "without constants")


def healthy(problem: Problem, points: np.ndarray, treatment: str, rng: np.random.Generator):
    """Points, log densities and stated noise of a trace that nothing is wrong with."""
    values = problem.log_density(problem.squares(points), constants=treatment != "without constants")
    sd = None
    if treatment == "top few nats":
        depth = rng.uniform(2, 4) * problem.dimension / 2 + 1
        points, values = points[values >= values.max() - depth], values[values >= values.max() - depth]
    elif treatment == "noisy":
        sd = float(rng.choice([0.3, 1.0, 3.0]))
        values = values + sd * rng.standard_normal(len(values))
    elif treatment == "few":
        rows = np.sort(rng.permutation(len(values))[: int(rng.integers(10, 31)) * problem.dimension])
        points, values = points[rows], values[rows]
    return points, values, sd


def heard(points, values, bounds, *, name: str | None = None, sd: float | None = None) -> str:
    """What is said of the values: "refused", "warned", "asked" or "silent"."""
    try:
        ev = vsbq.Evaluations(points, values, bounds=bounds, log_density_sd=sd, nonfinite="floor", check_sign=False)
    except EvaluationsError:
        return "refused"
    zero = np.isneginf(ev.log_density)
    of_loss = list(loss_findings(ev.take(~zero), int(zero.sum()), name))  # this part of vsbq.audit alone, to be fast
    if any(finding.severity == "warning" for finding in of_loss):
        return "warned"
    return "asked" if of_loss else "silent"


def rows_of(half: str, index: int) -> list[dict]:
    """All lines of one problem."""
    with np.errstate(all="ignore"):
        return list(_rows_of(half, index))


def _rows_of(half: str, index: int) -> Iterator[dict]:
    rng = np.random.default_rng([HALVES[half], index])
    problem, method = Problem.draw(rng, index), METHODS[index // len(MODELS) % len(METHODS)]
    points, runs = trace(problem, method, rng)
    points = points[np.isfinite(problem.squares(points))]
    squares = problem.squares(points)
    bounds = [(-problem.width, problem.width)] * problem.dimension if rng.random() < 0.5 else None
    told = {
        "half": half,
        "problem": index,
        "model": problem.model,
        "dimension": problem.dimension,
        "data": len(problem.y),
        "noise": round(problem.noise, 5),
        "method": method,
        "runs": runs,
        "evaluations": len(points),
        "peak": round(float(problem.log_density(squares).max()), 2),
    }
    for kind in FLATTENING + RESCALING:
        values = turned(problem, squares, kind)
        factor = float(f"{nats_per_nat(problem, kind, float(squares.min())):.3g}")
        said = {"values": heard(points, values, bounds)}
        said["name too"] = heard(points, values, bounds, name=COLUMN[kind])
        yield told | {"kind": kind, "nats per nat": factor} | said
    treatment = TREATMENTS[index % len(TREATMENTS)]
    x, values, sd = healthy(problem, points, treatment, rng)
    said = {"values": heard(x, values, bounds, sd=sd), "name too": heard(x, values, bounds, sd=sd, name="log_density")}
    yield told | {"kind": "log density", "treatment": treatment, "evaluations": len(x), "nats per nat": 1.0} | said


# The table


def table(rows: list[dict], half: str) -> str:
    """How often each kind is named, of those that flatten, and what healthy traces are told."""
    lines = [
        f"| {half}: the values are | too wide | warned | refused | asked | warned, name known |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    mine = [row for row in rows if row["half"] == half]
    for kind in (*FLATTENING, *RESCALING, "log density"):
        every = [row for row in mine if row["kind"] == kind]
        flat = [row for row in every if row["nats per nat"] < 1]
        told = flat if kind in FLATTENING and kind != "density" else every  # a density that sharpens is as wrong
        said = [
            f"{sum(row['values'] == word for row in told)} of {len(told)}" for word in ("warned", "refused", "asked")
        ]
        named = f"{sum(row['name too'] == 'warned' for row in told)} of {len(told)}"
        lines.append(f"| {kind} | {len(flat)} of {len(every)} | {' | '.join(said)} | {named} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true", help="only write the table into the page, from the lines")
    parser.add_argument("--half", choices=HALVES, action="append", help="default: both")
    options = parser.parse_args()
    halves = options.half or list(HALVES)
    for half in halves if not options.page else ():
        there = {row["problem"] for row in _read() if row["half"] == half}
        for index in sorted(set(range(COUNT)) - there):
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps(row)}\n" for row in rows_of(half, index)))
    words = "\n\n".join(table(_read(), half) for half in halves)
    print(words)
    if options.page:
        PAGE.write_text(BLOCK.sub(rf"\g<1>\n{words}\n\n\g<2>", PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _read() -> list[dict]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


if __name__ == "__main__":
    main()
