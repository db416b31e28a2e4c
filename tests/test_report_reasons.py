"""The pictures of the report: one for each reason of a verdict, and curves without spikes."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.figure import Figure

from test_corner import by_hand
from test_report import page_of, real_fit
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Diagnosis, Finding, Thresholds
from vsbq.report.densities import shown_density
from vsbq.report.reason_plots import plot_reason
from vsbq.report.reasons import CAPTIONS, place_of

#: Thresholds of findings that need more fits or the model itself; the posterior alone has nothing to draw for them.
ELSEWHERE = {"refits", "refit evidence", "k hat", "rejected"}


@pytest.fixture(scope="module")
def fitted() -> Posterior:
    return real_fit()


def test_every_reason_has_its_picture(fitted, tmp_path):
    found = Diagnosis.of(Finding(name, "doubtful", 1.0, 0.5, f"It is {name}.", "Do this.") for name in CAPTIONS)
    assert {field.name.replace("_", " ") for field in fields(Thresholds)} - ELSEWHERE == set(CAPTIONS) - {"together"}
    page = page_of(replace(fitted, diagnosis=found), tmp_path)
    assert {image["alt"].split(" The picture")[0] for image in page.all("img")[1:-1]} == {
        f"It is {name}." for name in CAPTIONS
    }
    links = {attributes["href"] for attributes in page.all("a")}
    ids = {attributes.get("id") for attributes in page.all("figure")}
    assert {place_of(name) for name in CAPTIONS} <= ids
    assert {f"#{place_of(name)}" for name in CAPTIONS} <= links
    assert page.source.count("<strong>What to do. </strong>Do this.</p>") == 1


def test_a_reason_that_nothing_shows_has_no_link(fitted, tmp_path):
    found = Diagnosis.of([Finding("moon", "rejected", None, None, "It is full.", "Wait.")])
    page = page_of(replace(fitted, diagnosis=found), tmp_path)
    assert "It is full." in page.words
    assert "See the picture" not in page.words
    assert "The reasons in pictures" not in page.words


def misplaced(figure: Figure) -> list[str]:
    """Titles and labels of a figure that run into each other or out of it."""
    figure.draw_without_rendering()
    texts = [part for axes in figure.axes for part in (axes.title, axes.xaxis.label, axes.yaxis.label)]
    boxes = [(part.get_text(), part.get_window_extent()) for part in texts if part.get_text()]
    whole = figure.bbox
    out = [text for text, box in boxes if box.x0 < 0 or box.x1 > whole.x1 or box.y0 < 0 or box.y1 > whole.y1]
    return out + [f"{one} / {other}" for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]


def test_labels_of_the_pictures_keep_apart(fitted):
    long = replace(fitted, names=("lapse rate", "speed of the evidence", "sd of the drift, in seconds"))
    assert misplaced(long.plot_diagnosis()) == []
    for name in CAPTIONS:
        assert misplaced(plot_reason(long, Finding(name, "doubtful", 1.0, 0.5, "It is so.", ""))) == []


def test_labels_that_run_into_each_other_are_noticed():
    figure = Figure(figsize=(4, 2))
    left, right = figure.subplots(1, 2)
    left.set_title("a title that is longer than its picture")
    right.set_title("and one more that is")
    assert len(misplaced(figure)) == 2


def test_a_density_that_is_infinite_at_a_bound_is_no_spike():
    """A normal of sd 1.2 in probit coordinates."""
    post = by_hand(1, components=1, bounds=[(0.0, 1.0)])
    space = replace(post.space, centre=np.zeros(1), scale=np.ones(1))
    mixture = Mixture(np.zeros(1), np.zeros((1, 1)), np.full((1, 1, 1), 1.2))
    marginal = replace(post, space=space, mixture=mixture).marginal(0)
    x = np.linspace(0, 1, 401)
    exact, shown = marginal.pdf(x), shown_density(marginal, x)
    assert exact[0] > 30
    assert shown.max() < 3
    inner = (x > 0.05) & (x < 0.95)
    np.testing.assert_allclose(shown[inner], exact[inner], rtol=1e-3)
    assert np.trapezoid(shown, x) == pytest.approx(1.0, abs=0.02)
