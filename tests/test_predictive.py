"""Posterior predictive checks: calibrated where the model is right, loud where it is not, and errors in words."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import vsbq
from vsbq.errors import ArgumentError

TIME = np.linspace(0, 3, 25)


@pytest.fixture(scope="module")
def line():
    """The posterior of a line with noise of sd 0.3, in closed form at the evaluated points."""
    rng = np.random.default_rng(4)
    data = 1.0 + 0.5 * TIME + 0.3 * rng.standard_normal(25)
    points = np.concatenate([rng.normal([1, 0.5], [0.25, 0.15], (250, 2)), rng.normal([1, 0.5], 0.5, (60, 2))])
    residuals = data - points[:, :1] - points[:, 1:] * TIME
    values = -0.5 * (residuals**2).sum(axis=1) / 0.3**2
    return vsbq.fit(points, values, names=["level", "slope"], rng=1, progress=False), data


def simulate(x, rng):
    return x[0] + x[1] * TIME + 0.3 * rng.standard_normal(25)


def test_data_of_the_model_are_not_far_out(line):
    post, data = line
    found = post.predictive(simulate, data, rng=2)
    assert found.replicated.shape == (200, 25)
    assert found.names == ("mean", "sd", "smallest", "largest", "distance", "neighbours")
    assert found.far == ()
    assert "the model makes such data" in str(found)
    assert "<table" in found._repr_html_()
    again = post.predictive(simulate, data, seed=2)
    np.testing.assert_array_equal(again.replicated, found.replicated)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.notes = ()
    with pytest.raises(ValueError, match="read-only"):
        found.replicated[0] = 0.0


def test_what_the_model_cannot_make_is_far_out(line):
    post, data = line
    bent = data + 1.5 * np.sin(4 * TIME)
    found = post.predictive(simulate, bent, rng=2)
    assert {"distance", "neighbours"} <= set(found.far)
    assert "Far out: " in str(found)
    assert found.to_dict()["distance"]["two_sided"] < 0.02
    assert found.to_dict()["distance"]["observed"] > found.to_dict()["distance"]["q95"]


def test_tail_probabilities_are_those_of_ranks(line):
    post, data = line
    found = post.predictive(simulate, data, 50, statistics={"first": lambda y: y[0]}, rng=3)
    share = (1 + np.sum(found.replicated[:, 0] >= data[0])) / 51
    assert found.tail.tolist() == [share]


def test_summary_statistics_by_name(line):
    post, data = line
    observed = {"mean": data.mean(), "peak": data.max()}

    def summaries(x, rng):
        made = simulate(x, rng)
        return {"peak": made.max(), "mean": made.mean()}

    found = post.predictive(summaries, observed, 40, rng=2)
    assert found.names == ("mean", "peak")
    np.testing.assert_array_equal(found.of_replicated, found.replicated)
    with pytest.raises(ArgumentError, match=r"failed at draw 0 .*KeyError.*a dict with 'mean' and 'peak'"):
        post.predictive(lambda x, rng: {"mean": 1.0}, observed, 40)


def test_a_simulator_without_noise_is_noticed(line):
    post, data = line
    found = post.predictive(lambda x: x[0] + x[1] * TIME, data, 40, rng=2)
    assert "seems to add no noise" in str(found)
    assert post.predictive(simulate, data, 40, rng=2).notes == ()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, rng: 1 / 0, r"failed at draw 0 \(level = .*, slope = .*\) with ZeroDivisionError: division by zero"),
        (lambda x, rng: np.full(25, np.nan), "25 values that are NaN or inf at draw 0"),
        (lambda x, rng: np.zeros(24), r"shape \(24,\) at draw 0 .*, but those observed have \(25,\)"),
        (lambda x, rng: "data", "failed at draw 0 .*ValueError"),
        (lambda: 0, "failed at draw 0 .*TypeError.*called with one point of D numbers"),
    ],
)
def test_failures_of_the_simulator_are_in_words(function, words, line):
    post, data = line
    with pytest.raises(ArgumentError, match=words):
        post.predictive(function, data, rng=1)


def test_other_arguments_that_cannot_be(line):
    post, data = line
    with pytest.raises(ArgumentError, match=r"n is 5\. Give a whole number of draws, 20 or more"):
        post.predictive(simulate, data, 5)
    with pytest.raises(ArgumentError, match="1 values that are NaN"):
        post.predictive(simulate, np.where(TIME == 0, np.nan, data))
    with pytest.raises(ArgumentError, match="observed is empty"):
        post.predictive(simulate, [])
    with pytest.raises(ArgumentError, match="observed holds no array of numbers"):
        post.predictive(simulate, ["a", "b"])
    with pytest.raises(ArgumentError, match="statistics is empty"):
        post.predictive(simulate, data, statistics={})
    with pytest.raises(ArgumentError, match=r"statistic 'all' is an array of shape \(25,\)"):
        post.predictive(simulate, data, statistics={"all": lambda y: y})
    with pytest.raises(ArgumentError, match="statistic 'bad' failed with IndexError"):
        post.predictive(simulate, data, statistics={"bad": lambda y: y[99]})


def test_the_picture(line):
    post, data = line
    found = post.predictive(simulate, data, 60, rng=2)
    figure = found.plot(x=TIME)
    band, *histograms = figure.axes
    np.testing.assert_array_equal(band.lines[-1].get_xydata(), np.column_stack([TIME, data]))
    assert [axes.get_title().partition(":")[0] for axes in histograms] == list(found.names)
    assert histograms[0].lines[0].get_xdata()[0] == pytest.approx(data.mean())
    with pytest.raises(ArgumentError, match="x has 3 numbers, but there are 25 data"):
        found.plot(x=[1, 2, 3])
    single = post.predictive(lambda x, rng: x[0] + rng.normal(), 1.0, 40, rng=1)
    assert single.names == ("value",)
    assert len(single.plot().axes) == 1
