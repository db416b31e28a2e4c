"""Input as nobody would choose it: sizes, scales, noise, duplicates, bounds and types drawn at random from a seed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """What `vsbq.fit` is called with, and in words how it came about."""

    words: str
    points: Any
    log_density: Any
    options: dict[str, Any]


def hostile_case(seed: int) -> Case:
    """The same case for the same seed."""
    with np.errstate(all="ignore"):
        return _drawn(seed)


def _drawn(seed: int) -> Case:
    rng = np.random.default_rng([17, seed])
    d = int(rng.choice([1, 1, 2, 2, 3, 4, 6]))
    n = int(rng.integers(18 if rng.uniform() < 0.95 else 1, 12 * d + 60))
    layout, unit = _choose(rng, LAYOUTS), _choose(rng, UNITS)
    z = LAYOUTS[layout](rng, n, d)
    kind = _choose(rng, TYPES)
    points = np.array(TYPES[kind](z * UNITS[unit](rng, d)), dtype=float)
    height, values = _choose(rng, HEIGHTS), -0.5 * ((z - 0.3) ** 2).sum(axis=1)
    values = HEIGHTS[height](rng, values)
    noise, bound = _choose(rng, NOISES), _choose(rng, BOUNDS)
    options: dict[str, Any] = {"log_density_sd": NOISES[noise](rng, n), "bounds": BOUNDS[bound](rng, points)}
    hole = _choose(rng, HOLES)
    values = HOLES[hole](rng, points, values)
    if rng.uniform() < 0.15:
        options["plausible_bounds"] = np.stack([points.min(axis=0), points.max(axis=0)], axis=1)
    words = f"{seed}: {n} x {d}, {layout}, {unit}, {height}, noise {noise}, bounds {bound}, {hole}, {kind}"
    return Case(words, TYPES[kind](points), TYPES[kind](values), options)


def _choose(rng: np.random.Generator, table: dict[str, Any]) -> str:
    return list(table)[int(rng.integers(len(table)))]


# Where the points are


def _cloud(rng, n, d):
    return 1.5 * rng.standard_normal((n, d))


def _paths(rng, n, d):
    """Points that crowd at the end of a few runs."""
    width = np.geomspace(3.0, 10.0 ** rng.uniform(-8, -1), n)[:, None]
    ends = rng.normal(0, 0.5, (3, d))[rng.integers(3, size=n)]
    return ends + width * rng.standard_normal((n, d))


def _repeated(rng, n, d):
    return _cloud(rng, n, d)[rng.integers(max(1, n // 3), size=n)]


def _lattice(rng, n, d):
    return rng.integers(-2, 3, (n, d)).astype(float)


def _collinear(rng, n, d):
    z = _cloud(rng, n, d)
    z[:, -1] = z[:, 0] + 10.0 ** rng.uniform(-16, -2) * rng.standard_normal(n)
    return z


def _shifted(rng, n, d):
    """Tiny differences on top of a large number."""
    return 10.0 ** rng.uniform(0, 14) + _cloud(rng, n, d)


def _along_axes(rng, n, d):
    """One coordinate at a time, as a coordinate search moves."""
    z = np.zeros((n, d))
    z[np.arange(n), rng.integers(d, size=n)] = rng.standard_normal(n)
    return z


LAYOUTS = {
    "a cloud": _cloud,
    "paths": _paths,
    "repeated points": _repeated,
    "a lattice": _lattice,
    "collinear columns": _collinear,
    "shifted": _shifted,
    "along axes": _along_axes,
}

UNITS = {
    "units of one": lambda rng, d: np.ones(d),
    "small or large units": lambda rng, d: 10.0 ** rng.uniform(-12, 12, d),
    "tiny or huge units": lambda rng, d: 10.0 ** rng.uniform(-99, 99, d),
    "one extreme unit": lambda rng, d: np.where(np.arange(d) == 0, 10.0 ** rng.uniform(-300, 300), 1.0),
}

HEIGHTS = {
    "nats": lambda rng, values: values,
    "a constant more": lambda rng, values: values + 10.0 ** rng.uniform(0, 15),
    "steep": lambda rng, values: values * 10.0 ** rng.uniform(0, 6),
    "flat": lambda rng, values: values * 10.0 ** rng.uniform(-12, 0),
    "extreme": lambda rng, values: values * 10.0 ** rng.uniform(-300, 300),
    "steps": lambda rng, values: np.round(values),
    "heavy tails": lambda rng, values: -np.log1p(-values),
}

NOISES = {
    "none": lambda rng, n: None,
    "one": lambda rng, n: float(10.0 ** rng.uniform(-2, 1)),
    "extreme": lambda rng, n: float(10.0 ** rng.uniform(-12, 12)),
    "by row": lambda rng, n: 10.0 ** rng.uniform(-2, 1, n),
    "extreme by row": lambda rng, n: 10.0 ** rng.uniform(-12, 12, n),
    "some exact": lambda rng, n: np.where(rng.uniform(size=n) < 0.5, 0.0, 1.0),
}


def _tight(rng, points):
    return np.stack([points.min(axis=0), points.max(axis=0)], axis=1)


def _wide(rng, points):
    reach = np.abs(points).max(axis=0) * 10.0 ** rng.uniform(0, 20)
    return np.stack([-reach, reach], axis=1)


def _from_the_lowest(rng, points):
    low = points.min(axis=0)
    return [(x, None) for x in low] if rng.uniform() < 0.5 else [(x, 1e308) for x in low]


BOUNDS = {
    "none": lambda rng, points: None,
    "through the outermost points": _tight,
    "wide": _wide,
    "±1e308": lambda rng, points: np.tile([-1e308, 1e308], (points.shape[1], 1)),
    "from the lowest point": _from_the_lowest,
}


def _half_plane(rng, points, values):
    scaled = (points - points.mean(axis=0)) / np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)
    return np.where(scaled.sum(axis=1) > 0.2, -np.inf, values)


def _at_random(rng, points, values):
    return np.where(rng.uniform(size=len(values)) < 0.1, -np.inf, values)


def _cliff(rng, points, values):
    return np.where(points[:, 0] > np.median(points[:, 0]), values - 10.0 ** rng.uniform(0, 6), values)


HOLES = {
    "no hole": lambda rng, points, values: values,
    "nor here": lambda rng, points, values: values,
    "a half-plane of zeros": _half_plane,
    "zeros at random": _at_random,
    "a cliff": _cliff,
}

TYPES = {
    "float64": np.asarray,
    "float32": lambda a: a.astype(np.float32),
    "float16": lambda a: a.astype(np.float16),
    "longdouble": lambda a: a.astype(np.longdouble),
    "Fortran order": lambda a: np.asfortranarray(a),
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "lists": lambda a: a.tolist(),
}
