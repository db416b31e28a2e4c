"""Shapes: targets with exact draws and an exact evidence, each a single difficulty. New ones go to the end."""

from __future__ import annotations

from math import inf

import numpy as np

from vsbq_bench.cases.shapes.base import Shape, as_problem
from vsbq_bench.cases.shapes.curved import banana_chain, crescent, funnel
from vsbq_bench.cases.shapes.edges import betas, corner, cut_normal, disc, simplex, truncated_normals, uniform
from vsbq_bench.cases.shapes.smooth import (
    flat_top,
    laplace,
    log_normal,
    mixture,
    normal,
    rotated_log_gamma,
    skew_normal,
    student,
)
from vsbq_bench.cases.subjects import SHAPES, Subject, register
from vsbq_bench.problems import Problem

__all__: list[str] = []


def _two_far() -> Shape:
    return mixture((0.8, 0.2), np.array([[-5.0, 0.0], [5.0, 2.0]]), np.array([[0.8, 0.5], [0.5, 0.9]]))


def _three_near() -> Shape:
    means = np.array([[0.0, 0.0, 0.0, 0.0], [2.6, 0.5, -1.0, 0.0], [-0.5, 2.8, 1.0, 1.5]])
    return mixture((0.5, 0.35, 0.15), means, np.array([[1.0] * 4, [0.7] * 4, [0.8] * 4]))


def _five() -> Shape:
    rng = np.random.default_rng(55)
    means = rng.uniform(-6, 6, (5, 3))
    return mixture((0.4, 0.25, 0.2, 0.1, 0.05), means, rng.uniform(0.4, 1.2, (5, 3)))


def _single() -> Shape:
    return mixture((0.35, 0.65), np.array([[-1.5], [2.0]]), np.array([[0.4], [0.9]]))


def _spike_and_slab() -> Shape:
    return mixture((0.4, 0.6), np.array([[0.3, -0.2, 0.1], [0.0, 0.0, 0.0]]), np.array([[0.05] * 3, [1.0] * 3]))


def _shape(name: str, kind: str, shape: Shape, *, hard: bool = False, units: bool = True) -> Subject:
    def make() -> Problem:
        return as_problem(name, shape, units=units)

    return Subject(name=name, kind=kind, science=False, hard=hard, make=make)


register(
    SHAPES,
    (
        _shape("normal_2", "correlated", normal(2, 1e4, 2)),
        _shape("normal_8", "correlated", normal(8, 1e4, 8)),
        _shape("normal_15", "high_dimension", normal(15, 1e4, 15)),
        _shape("log_normal_3", "skewed", log_normal((0.3, 0.7, 1.1))),
        _shape("skew_normal_4", "skewed", skew_normal((4.0, -6.0, 2.0, 8.0))),
        _shape("log_gamma_5", "skewed", rotated_log_gamma((0.5, 1.0, 2.0, 4.0, 1.0), 5)),
        _shape("student_3_in_4", "heavy_tails", student(4, 3.0, 34), hard=True),
        _shape("student_5_in_6", "heavy_tails", student(6, 5.0, 56), hard=True),
        _shape("student_8_in_3", "heavy_tails", student(3, 8.0, 83)),
        _shape("laplace_4", "heavy_tails", laplace(4, 44)),
        _shape("beta_4", "bounded", betas(((20.0, 30.0), (2.0, 8.0), (1.0, 4.0), (1.3, 1.1))), units=False),
        _shape(
            "half_normal_3",
            "bounded",
            truncated_normals(((0.0, 1.0, 0.0, inf), (-0.5, 1.0, 0.0, inf), (0.9, 0.3, 0.0, 1.0))),
        ),
        _shape("uniform_3", "bounded", uniform(3)),
        _shape("two_far_modes", "modes", _two_far(), hard=True),
        _shape("three_near_modes", "modes", _three_near()),
        _shape("five_modes", "modes", _five(), hard=True),
        _shape("one_parameter", "modes", _single()),
        _shape("spike_and_slab", "modes", _spike_and_slab(), hard=True),
        _shape("funnel_3", "funnel", funnel(3, 3.0), hard=True),
        _shape("funnel_6", "funnel", funnel(6, 1.5), hard=True),
        _shape("funnel_10", "funnel", funnel(10, 1.5), hard=True),
        _shape("flat_top_2", "gaussian", flat_top(2, 8.0, 82)),
        _shape("flat_top_6", "gaussian", flat_top(6, 8.0, 86)),
        _shape("cliff_40", "cliff", cut_normal(3, 0.7, 40.0, 40), hard=True),
        _shape("cliff_10000", "cliff", cut_normal(5, -0.5, 1e4, 41), hard=True),
        _shape("half_space_4", "edge", cut_normal(4, 0.3, inf, 42), hard=True),
        _shape("simplex_4", "edge", simplex((1.5, 2.0, 4.0, 1.0, 3.0)), hard=True, units=False),
        _shape("disc", "edge", disc((0.6, 0.5), 0.5), hard=True),
        _shape("corner_3", "edge", corner((1.0, 2.0, 0.5), 7), hard=True),
        _shape("ring_2", "curved", crescent(2, 0.1, 0.0)),
        _shape("shell_3", "curved", crescent(3, 0.15, 0.0)),
        _shape("crescent_2", "curved", crescent(2, 0.08, 2.5)),
        _shape("crescent_5", "curved", crescent(5, 0.12, 4.0)),
        _shape("bananas_4", "curved", banana_chain(2, 1.2, 0.4, 0.6)),
        _shape("bananas_10", "curved", banana_chain(5, 0.8, 0.4, 0.5), hard=True),
        _shape("bananas_12", "curved", banana_chain(6, 0.6, 0.5, 0.7), hard=True),
    ),
)
