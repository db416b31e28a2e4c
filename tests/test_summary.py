"""What is asked of a posterior by name, by level and without a number; and what is said of a slip."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import vsbq
from vsbq.errors import ArgumentError, lists_options
from vsbq.posterior.summary import ends_of


@pytest.fixture(scope="module")
def post():
    points = np.random.default_rng(0).normal(0, 1.5, (240, 2))
    return vsbq.fit(points, -0.5 * (points**2).sum(axis=1), names=["laps", "gain"], seed=1, progress=False)


def test_another_level(post):
    wide = post.summary(level=0.95)
    np.testing.assert_allclose(np.stack([wide.low, wide.median, wide.high]), post.quantile([0.025, 0.5, 0.975]))
    np.testing.assert_allclose(wide.high, 1.96, atol=0.05)
    assert "2.5 %" in str(wide)
    assert "97.5 %" in repr(wide)
    assert set(wide.to_dict()["laps"]) == {"mean", "sd", "q02.5", "median", "q97.5"}
    usual = post.summary()
    assert set(usual.to_dict()["laps"]) == {"mean", "sd", "q05", "median", "q95"}
    assert usual.level == 0.9
    np.testing.assert_allclose(usual.high, 1.645, atol=0.05)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.5, float("nan")])
def test_a_level_that_is_none(level):
    with pytest.raises(ArgumentError, match=r"such as 0\.95"):
        ends_of(level)


def test_ends_are_round():
    assert ends_of(0.95) == (0.025, 0.975)
    assert ends_of(0.9) == (0.05, 0.95)


def test_a_number_of_draws_need_not_be_given(post):
    assert post.sample(seed=3).shape == (4000, 2)
    np.testing.assert_array_equal(post.sample(seed=3), post.sample(4000, 3))


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        ("lap", "no parameter 'lap'. Did you mean 'laps'.*'laps' and 'gain'"),
        ("zzz", "no parameter 'zzz'. There are 'laps' and 'gain'"),
        (2, "number 2: they count from 0 to 1"),
        (-3, "number -3"),
    ],
)
def test_a_parameter_that_is_not_there(post, parameter, words):
    with pytest.raises(ArgumentError, match=words):
        post.marginal(parameter)


def test_a_parameter_that_is_there(post):
    assert post.marginal("gain").name == post.marginal(1).name == post.marginal(-1).name == "gain"


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (
            "plot",
            "post.plot has no option 'dots'.*'draws', 'evaluations', 'truth', 'others', 'figure', 'rng' and 'seed'",
        ),
        ("plot_diagnosis", "post.plot_diagnosis has no option 'dots'.*'figure'"),
        ("report", "post.report has no option 'dots'.*'title', 'overwrite'"),
    ],
)
def test_an_option_that_is_not_there(post, tmp_path, method, words):
    with pytest.raises(TypeError, match=words):
        getattr(post, method)(*([tmp_path / "x.html"] if method == "report" else []), dots=True)


def test_help_shows_the_options_of_a_plot(post):
    assert {"draws", "evaluations", "truth", "others", "figure"} <= set(inspect.signature(post.plot).parameters)
    with pytest.raises(TypeError, match="Did you mean 'evaluations'"):
        post.plot(evaluation=False)


def test_the_decorator_lets_the_rest_through():
    @lists_options("f")
    def f(x, *, depth=1):
        return x, depth

    assert f(2, depth=3) == f(x=2, depth=3) == (2, 3)
    with pytest.raises(TypeError, match="missing"):
        f()


def test_numbers_of_a_posterior_are_in_its_table(post):
    html = post._repr_html_()
    assert f"{post.log_evidence:.3f}" in html
    assert f"{post.mean()[0]:.5g}" in html
    assert "\n" not in repr(post)
