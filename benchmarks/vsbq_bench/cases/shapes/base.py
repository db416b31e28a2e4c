"""A shape in coordinates of its own, and the problem that is made of it: with units, a start box and a constant."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import Draw, LogDensity, Problem

__all__ = ["Shape", "as_problem", "random_rotation"]

BOX_DRAWS = 4000
LARGEST_OFFSET = 300.0  # of the log evidence from zero


class Shape(NamedTuple):
    """A normalised log density with its exact sampler; `bounds` is None where every coordinate is free."""

    dimension: int
    log_density: LogDensity
    draw: Draw
    bounds: Float[ndarray, "d 2"] | None = None


def as_problem(name: str, shape: Shape, *, units: bool = True) -> Problem:
    """Give a shape units (unless `units` is False), a start box and a constant, all by the seed of its name.

    Coordinates are moved, and scaled differently by up to a factor of a thousand, as parameters with units are. The
    constant is the log evidence. The start box holds the middle 90 % of each marginal and up to as much again on either
    side, within the bounds.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    offset = rng.uniform(-LARGEST_OFFSET, LARGEST_OFFSET)
    scale = 10 ** rng.uniform(-1.5, 1.5, shape.dimension) if units else np.ones(shape.dimension)
    shift = scale * rng.normal(0.0, 3.0, shape.dimension) if units else np.zeros(shape.dimension)
    constant = offset - float(np.log(scale).sum())
    bounds = None if shape.bounds is None else shift[:, None] + scale[:, None] * shape.bounds

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        values = shape.log_density(_inside((x - shift) / scale, shape.bounds)) + constant
        return values if bounds is None else np.where(np.all(x == _inside(x, bounds), axis=1), values, -np.inf)

    def draw(n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
        return np.asarray(_inside(shift + scale * shape.draw(n, rng), bounds))

    return Problem(
        name=name,
        dimension=shape.dimension,
        log_density=log_density,
        bounds=bounds,
        plausible_bounds=_start_box(draw(BOX_DRAWS, rng), bounds, rng),
        names=tuple(f"x{i + 1}" for i in range(shape.dimension)),
        log_evidence=offset,
        log_evidence_sd=0.0,
        draw=draw,
    )


def random_rotation(dimension: int, seed: int) -> Float[ndarray, "d d"]:
    """Return an orthogonal matrix without preferred directions."""
    normal = np.random.default_rng(seed).standard_normal((dimension, dimension))
    q, r = np.linalg.qr(normal)
    return np.asarray(q * np.sign(np.diag(r)))


def _inside(points: Float[ndarray, "n d"], bounds: Float[ndarray, "d 2"] | None) -> Float[ndarray, "n d"]:
    """Undo what the rounding of units does at a bound."""
    return points if bounds is None else np.clip(points, *bounds.T)


def _start_box(
    draws: Float[ndarray, "n d"], bounds: Float[ndarray, "d 2"] | None, rng: np.random.Generator
) -> Float[ndarray, "d 2"]:
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    room = rng.uniform(0.1, 1.0, (2, draws.shape[1])) * (high - low)
    box = np.column_stack([low - room[0], high + room[1]])
    return box if bounds is None else np.clip(box, bounds[:, :1], bounds[:, 1:])
