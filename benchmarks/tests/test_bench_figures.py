"""The figures: what is in them, seen through matplotlib's own objects, and what they do with gaps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from test_bench_tables import cell_of, synthetic_lines
from vsbq_bench import figures
from vsbq_bench.problems import two_moons


def words(figure: Figure) -> str:
    figure.canvas.draw()
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    labels = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    titles = [axes.get_title(loc) for axes in figure.axes for loc in ("left", "center")]
    return "\n".join(found + labels + titles)


def medians(figure: Figure, panel: int, points: int) -> list[np.ndarray]:
    """The heights of the curves with so many points in a panel."""
    return [np.asarray(line.get_ydata()) for line in figure.axes[panel].lines if len(line.get_xdata()) == points]


def test_noise_figure_shows_the_medians():
    figure = figures.by_noise(synthetic_lines(), "timing")
    assert len(figure.axes) == 3
    curves = medians(figure, 1, 5)
    assert len(curves) == 2  # both versions of VSBQ at five levels of noise
    assert 0.01 < curves[0][0] < curves[0][-1] < 0.3
    text = words(figure)
    assert "VSBQ as printed" in text
    assert "Laplace" in text
    thresholds = {line.get_ydata()[0] for axes in figure.axes for line in axes.lines if line.get_linestyle() == "-."}
    assert thresholds == {1.0, 0.2, 0.125}


def test_infinite_and_missing_scores_do_not_break_a_figure():
    lines = synthetic_lines()
    broken = [replace(one, gskl=None) if one.noise_sd == 7 and one.method == "vsbq" else one for one in lines]
    huge = [replace(one, gskl=1e14) if one.method == "slice_surrogate" else one for one in broken]
    figure = figures.by_noise(huge, "timing")
    figure.canvas.draw()
    assert figure.axes[2].get_ylim()[1] <= 100 / 8
    assert np.isfinite(figure.axes[2].get_ylim()).all()


def test_nothing_to_draw():
    alone = cell_of("timing", "vsbq", [0.1])
    assert figures.by_noise(alone, "timing") is None
    for draw in (figures.sensitivity, figures.optimisers):
        assert draw(alone) is None
    assert figures.runtime([replace(one, processes=2) for one in alone]) is None


def test_sensitivity_has_a_row_for_each_problem():
    more = [cell_of("lumpy", "vsbq", [0.1, 0.2], evaluations=n) for n in (10_000, 20_000)]
    figure = figures.sensitivity([*synthetic_lines(), *more[0], *more[1]])
    assert len(figure.axes) == 6
    assert "Bayesian timing, σ = 3, traces of CMA-ES" in words(figure)
    assert len(medians(figure, 0, 3)) == 2


def test_optimisers_side_by_side():
    text = words(figures.optimisers(synthetic_lines()))
    assert text.count("σ = 3") == 2
    assert "Two Moons" in text


def test_runtime_bars_add_up():
    lines = cell_of("two_moons", "vsbq", [0.1, 0.1]) + cell_of("two_moons", "laplace", [0.1])
    figure = figures.runtime(lines)
    (axes,) = figure.axes
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(25.01)
    assert "paper: 164 s" in words(figure)
    assert "Laplace" not in words(figure)


def test_runtime_bars_leave_no_stage_out():
    seconds = {"trim": 1.0, "surrogate": 2.0, "mixture": 3.0, "refinement": 4.0, "another": 5.0, "total": 15.0}
    (line,) = cell_of("two_moons", "vsbq", [0.1])
    figure = figures.runtime([replace(line, seconds=seconds)])
    (axes,) = figure.axes
    assert sum(bar.get_width() for bar in axes.patches) == pytest.approx(15.0)
    assert "15 s" in words(figure)


def test_labels_move_apart_and_no_further():
    assert figures._spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    moved = figures._spread([0.5, 0.5, 0.52], 0.1)
    assert np.diff(moved) == pytest.approx([0.1, 0.1])
    assert np.mean(moved) == pytest.approx(np.mean([0.5, 0.5, 0.52]))


def test_noise_shaping_helps():
    figure = figures.noise_shaping()
    distance = [float(figure.axes[panel].get_xlabel().split()[-1]) for panel in (2, 5)]
    assert distance[1] < 0.15 < 0.3 < distance[0]
    inducing = [
        next(line.get_xdata() for line in figure.axes[panel].lines if line.get_marker() == "^") for panel in (1, 4)
    ]
    assert [len(points) for points in inducing] == [10, 10]
    assert np.abs(inducing[1]).mean() < np.abs(inducing[0]).mean()  # shaping draws them to the mass


def test_posterior_against_truth(rng):
    problem = two_moons()
    figure = figures.posterior_against_truth(problem, problem.draw(2000, rng), rng.uniform(-1, 1, (50, 2)))
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 3
    assert [text.get_text() for text in figure.texts] == ["posterior", "truth", "evaluations"]
    marginal = shown[0].lines
    heights = [np.asarray(line.get_ydata()) for line in marginal]
    assert np.abs(heights[0] - heights[1]).sum() < 0.3  # draws of the truth itself
    without = figures.posterior_against_truth(problem, problem.draw(2000, rng))
    assert len(without.texts) == 2
