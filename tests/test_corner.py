"""The corner plot: its densities against closed forms, and what is and is not in the picture."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from scipy import stats

import vsbq
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.history import Elbo
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.report import corner as module
from vsbq.report.corner import corner
from vsbq.report.densities import SHARES, middles, pair_marginal, smoothed, surface, surface_of_draws


def by_hand(d: int, *, bounds=None, components: int = 3, evaluations: int = 200, names=None) -> Posterior:
    rng = np.random.default_rng(d)
    trils = np.tril(0.3 * rng.normal(size=(components, d, d)))
    trils[:, range(d), range(d)] = rng.uniform(0.3, 0.9, (components, d))
    mixture = Mixture(np.full(components, -np.log(components)), 0.8 * rng.normal(size=(components, d)), trils)
    names = names or tuple(f"x{i + 1}" for i in range(d))
    hard = Bounds.parse(bounds, d, names)
    space = InferenceSpace(hard, np.full(d, 1e-9), np.zeros(d), np.ones(d))
    bare = Posterior(names, space, mixture, Elbo(0.0, 0.1, 0.01), 0.0, None, None, None)
    points = bare.sample(evaluations, rng=1)
    return replace(bare, evaluations=Evaluations(points, bare.log_pdf(points), bounds=hard, names=names))


def normal(scale: float = 1.0) -> Posterior:
    one = by_hand(2, components=1)
    return replace(one, mixture=Mixture(np.zeros(1), np.zeros((1, 2)), scale * np.eye(2)[None]))


def dots_in(figure: Figure) -> int:
    found = [c for axes in figure.axes for c in axes.collections if isinstance(c, PathCollection)]
    return len(found)


def texts(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


BOUNDED = [(0.0, None), (0.0, 1.0), (None, 2.0)]


# Densities


def test_levels_of_a_normal_are_those_of_theory():
    post, grid = normal(), (np.linspace(-4, 4, 81), np.linspace(-4, 4, 81))
    expected = (1 - SHARES) / (2 * np.pi)  # the density on the contour that encloses a share of a 2-D normal
    draws = post.sample(40_000, rng=0)
    density, levels = surface(post, (0, 1), draws, grid)
    np.testing.assert_allclose(levels, expected, rtol=0.05)
    assert density.max() == pytest.approx(1 / (2 * np.pi), rel=0.01)
    shares, levels = surface_of_draws((0, 1), draws, grid)
    np.testing.assert_allclose(levels / 0.1**2, expected, rtol=0.05)
    assert shares.sum() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("both", [(0, 1), (2, 0), (1, 2)])
def test_pair_integrates_to_the_marginal(both):
    post = by_hand(3, bounds=BOUNDED)
    pair = pair_marginal(post, both)
    first, second = (post.marginal(i) for i in both)
    x = first.quantile([0.1, 0.5, 0.8])
    edges = second.quantile(np.linspace(1e-9, 1 - 1e-9, 20_001))
    y = middles(edges)
    totals = [pair.pdf(np.column_stack([np.full(len(y), value), y])) @ np.diff(edges) for value in x]
    np.testing.assert_allclose(totals, first.pdf(x), rtol=1e-3)


def test_a_pair_of_three_parameters_ends_at_the_edge_of_the_support(rng):
    """A plane through two of them, learnt from zero density; the edge is blurred by what smooths the draws."""
    x = 1.5 * rng.normal(size=(500, 3))
    values = np.where(x[:, 0] + x[:, 1] < 0.3, -0.5 * (x**2).sum(axis=1), -np.inf)
    post = vsbq.fit(x, values, rng=0, progress=False)
    assert post.support is not None
    edges = np.linspace(-3, 3, 61)
    density, _ = surface(post, (0, 1), post.sample(20_000, rng=0), (edges, edges))
    across, up = np.meshgrid(middles(edges), middles(edges), indexing="ij")
    beyond = density[across + up > 0.9].sum() / density.sum()
    assert beyond < 0.01 < density[across + up > -0.3].sum() / density.sum()
    assert len(post.plot().axes) >= 6


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_smoothed_draws_of_two_modes(rng, scale):
    draws = scale * rng.standard_normal((20_000, 1)) + rng.choice([-1.5, 1.5], size=(20_000, 1))
    edges = np.linspace(-5, 5, 401)
    x = middles(edges)
    truth = 0.5 * (stats.norm.pdf(x, -1.5, scale) + stats.norm.pdf(x, 1.5, scale))
    assert np.abs(smoothed(draws, (edges,)) / 0.025 - truth).max() < 0.06 * truth.max()


def test_smoothed_draws_keep_the_density_at_a_bound(rng):
    draws = rng.exponential(size=(50_000, 1))
    edges = np.linspace(0, 8, 201)
    found = smoothed(draws, (edges,)) / 0.04
    assert found[0] == pytest.approx(1.0, abs=0.1)


# The picture


@pytest.mark.parametrize("d", [1, 2, 4])
def test_panels_of_the_lower_triangle(d):
    figure = corner(by_hand(d), draws=500)
    assert isinstance(figure, Figure)
    assert len(texts(figure)) == d
    assert len(figure.axes) == d * (d + 1) // 2 + (d > 1)  # and the colours of the evaluations
    assert dots_in(figure) == (d * (d - 1) // 2 or 1)


def test_picture_can_be_saved_and_repeats_itself():
    post = by_hand(2)
    first, second = io.BytesIO(), io.BytesIO()
    corner(post, draws=500, truth=post.sample(1000, rng=3)).savefig(first)
    corner(post, draws=500, truth=post.sample(1000, rng=3)).savefig(second)
    assert first.getvalue() == second.getvalue()


def test_without_evaluations():
    post = by_hand(2)
    for figure in (corner(post, draws=500, evaluations=False), corner(replace(post, evaluations=None), draws=500)):
        assert dots_in(figure) == 0
        assert len(figure.axes) == 3


def test_zero_densities_are_no_dots():
    post = by_hand(2)
    seen = post.evaluations
    values = seen.log_density.copy()
    values[:50] = -np.inf
    marked = Evaluations(seen.points, values, names=seen.names)
    everything = np.tile([-np.inf, np.inf], (2, 1))
    assert len(module._dots(marked, everything).points) == 150


def test_too_many_evaluations_are_thinned_from_below():
    post = by_hand(2, evaluations=10_000)
    dots = module._dots(post.evaluations, np.tile([-np.inf, np.inf], (2, 1)))
    assert len(dots.points) <= module.MOST_DOTS
    best = np.sort(post.evaluations.log_density.max() - post.evaluations.log_density)
    np.testing.assert_array_equal(dots.below[::-1][:2000], best[:2000])
    assert dots.below[0] == best[-1]
    assert (np.diff(dots.below) <= 0).all()  # the best are drawn last


def test_windows_hold_the_draws_and_end_at_the_bounds():
    post = by_hand(3, bounds=BOUNDED)
    layers = module._layers(post, 4000, None, {}, np.random.default_rng(0))
    windows = module._windows(layers, post.bounds)
    assert (windows[:, 0] >= post.bounds.lower).all()
    assert (windows[:, 1] <= post.bounds.upper).all()
    assert windows[0, 0] == windows[1, 0] == 0.0  # the draws come close, so the window ends there
    inside = (layers[0].draws >= windows[:, 0]) & (layers[0].draws <= windows[:, 1])
    assert (inside.mean(axis=0) > 0.997).all()


def test_reference_far_away_widens_the_window():
    post = normal()
    figure = corner(post, draws=500, truth=post.sample(1000, rng=0) + 20.0)
    assert figure.axes[0].get_xlim()[0] < 0 < 20 < figure.axes[0].get_xlim()[1]


def test_spike_narrower_than_a_cell_is_left_out_in_silence():
    wide, spike = normal(), normal(1e-6)
    picture = io.BytesIO()
    corner(spike, draws=500, others={"wide": wide}, truth=wide.sample(1000, rng=0)).savefig(picture)  # warnings fail
    assert picture.getvalue().startswith(b"\x89PNG")


def test_figure_of_the_user_is_used():
    mine = Figure(figsize=(4, 4))
    assert corner(by_hand(2), draws=500, figure=mine) is mine


def test_overlays_are_in_the_legend():
    post = by_hand(2)
    figure = corner(post, draws=500, others={"shifted": post}, truth=post.sample(100, rng=0))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["posterior", "shifted", "reference"]


def test_method_of_the_posterior():
    assert isinstance(by_hand(1).plot(draws=100), Figure)


@pytest.mark.parametrize("truth", [np.zeros((10, 3)), np.zeros(2), np.zeros((1, 2)), np.full((10, 2), np.nan)])
def test_reference_that_is_no_set_of_draws_is_refused(truth):
    with pytest.raises(ValueError, match="truth"):
        corner(by_hand(2), draws=100, truth=truth)


def test_posterior_of_other_parameters_is_refused():
    with pytest.raises(ValueError, match="'b' has the parameters"):
        corner(by_hand(2), draws=100, others={"b": by_hand(2, names=("a", "b"))})


# Words and numbers


@pytest.mark.parametrize("name", ["$", "cost in $", r"$\nonsense$", "a_b", r"$\alpha_1$", "50 %", "{x}", "été"])
def test_any_name_can_be_drawn(name):
    picture = io.BytesIO()
    corner(by_hand(2, names=("x1", name)), draws=100).savefig(picture)
    assert picture.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((1.2345, 0.123, 0.456), "$1.23^{+0.12}_{-0.46}$"),
        ((-0.001, 0.5, 0.5), "$0.00^{+0.50}_{-0.50}$"),
        ((1043.4, 90.2, 53.1), "$1043^{+90}_{-53}$"),
        ((0.0002, 0.00051, 0.00017), r"$(2.0^{+5.1}_{-1.7})\times 10^{-4}$"),
        ((123456.0, 2000.0, 1000.0), r"$(1.235^{+0.020}_{-0.010})\times 10^{5}$"),
        ((3.0, 0.0, 0.0), "$3.0^{+0.0}_{-0.0}$"),
    ],
)
def test_numbers_with_their_errors(numbers, expected):
    assert module._in_digits(*numbers)[0] == expected


@pytest.mark.parametrize(
    ("window", "labels", "unit"),
    [
        ((-1.1, 1.1), ("−1", "0", "1"), ""),
        ((0.0, 1.0), ("0.00", "0.25", "0.50", "0.75", "1.00"), ""),
        ((-1e-5, 2.1e-5), ("−1", "0", "1", "2"), " $[10^{-5}]$"),
        ((0.0, 41_000.0), ("0", "2", "4"), " $[10^{4}]$"),
    ],
)
def test_ticks(window, labels, unit):
    scale = module._Scale.of(*window, 4)
    assert scale.labels == labels
    assert scale.unit == unit


# Matplotlib


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "vsbq.report.corner")
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(ImportError, match=r"vsbq\[plot\]"):
        importlib.import_module("vsbq.report.corner")


def test_pyplot_and_its_global_state_stay_out():
    code = "import sys, vsbq.report.corner; print('matplotlib.pyplot' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
