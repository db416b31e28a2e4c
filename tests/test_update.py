"""New evaluations beside those of a posterior: noise, prior and tag stay what they are."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vsbq
from vsbq.analysis.update import joined
from vsbq.errors import EvaluationsError, VsbqWarning

SD = 1.0


@pytest.fixture(scope="module")
def cloud():
    rng = np.random.default_rng(4)
    points = 1.5 * rng.standard_normal((300, 2))
    return points, -0.5 * (points**2).sum(axis=1)


@pytest.fixture(scope="module")
def estimated(cloud):
    """A posterior whose fit had to estimate the noise."""
    points, values = cloud
    noisy = values + SD * np.random.default_rng(5).standard_normal(len(values))
    with pytest.warns(VsbqWarning, match="estimated"):
        return vsbq.fit(points, noisy, rng=0, progress=False)


NEW = np.array([[0.1, 0.2], [-1.0, 0.5], [0.7, -0.7]])
NEW_VALUES = -0.5 * (NEW**2).sum(axis=1)


def test_estimated_noise_stays_with_the_earlier_evaluations(estimated):
    together = joined(estimated, NEW, NEW_VALUES, log_density_sd=SD)
    found = estimated.history.noise.sd
    assert found == pytest.approx(SD, rel=0.2)
    np.testing.assert_array_equal(together.log_density_sd[:-3], found)
    np.testing.assert_array_equal(together.log_density_sd[-3:], SD)


def test_it_stays_after_a_file(estimated, tmp_path):
    again = vsbq.load(estimated.save(tmp_path / "noisy.npz"))
    together = joined(again, NEW, NEW_VALUES, log_density_sd=SD)
    assert together.log_density_sd[:-3].min() == pytest.approx(estimated.history.noise.sd)


def test_it_stays_beside_evaluations_of_their_own(estimated, cloud):
    points, values = cloud
    more = vsbq.Evaluations(points[:40] + 0.01, values[:40], log_density_sd=0.5)
    together = joined(estimated, more, None)
    assert together.log_density_sd[0] == estimated.history.noise.sd
    assert together.log_density_sd[-1] == 0.5


def test_noise_unknown_on_both_sides_is_estimated_anew(estimated):
    assert joined(estimated, NEW, NEW_VALUES).log_density_sd is None


def test_an_update_after_estimated_noise_is_as_good(estimated):
    """With the earlier evaluations as exact, the surrogate would follow their noise."""
    more = estimated.update(NEW, NEW_VALUES, log_density_sd=SD, rng=1, progress=False)
    truth = np.log(2 * np.pi)
    assert abs(more.log_evidence - truth) < 3 * more.log_evidence_sd
    assert abs(more.log_evidence - estimated.log_evidence) < 3 * estimated.log_evidence_sd


def test_noisy_evaluations_want_to_know_about_new_ones(cloud):
    points, values = cloud
    post = vsbq.fit(
        points, values, log_density_sd=0.5, settings=vsbq.Settings(check_noise=False), rng=0, progress=False
    )
    with pytest.raises(EvaluationsError, match="Say how noisy"):
        joined(post, NEW, NEW_VALUES)
    with pytest.raises(EvaluationsError, match="Say how noisy"):
        joined(post, vsbq.Evaluations(points[:30] + 0.01, values[:30]), None)


@pytest.fixture(scope="module")
def with_prior(cloud):
    points, values = cloud
    prior = -0.05 * (points**2).sum(axis=1)
    return vsbq.fit(vsbq.Evaluations(points, values, log_prior=prior, tag="study 1"), rng=0, progress=False)


def test_the_prior_of_new_evaluations_is_kept(with_prior):
    prior = -0.05 * (NEW**2).sum(axis=1)
    together = joined(with_prior, NEW, NEW_VALUES, log_prior=prior)
    np.testing.assert_array_equal(together.log_prior[-3:], prior)
    assert together.tag == "study 1"


def test_losing_the_prior_is_said(with_prior):
    with pytest.warns(VsbqWarning, match="Pass log_prior to update"):
        together = joined(with_prior, NEW, NEW_VALUES)
    assert together.log_prior is None
    assert any("Left out the log prior" in note for note in together.notes)


def test_the_warning_points_to_the_call_of_update(with_prior, tmp_path):
    """In a process of its own, where the checks of shapes put no calls between."""
    with_prior.save(tmp_path / "post.npz")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, warnings, vsbq, vsbq.analysis.update\n"
        "vsbq.analysis.update.fit = lambda *given, **options: None\n"
        "post = vsbq.load(sys.argv[1])\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    post.update([[0.1, 0.2]], [0.0])\n"
        "print(caught[0].filename, caught[0].lineno)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "post.npz")],
        env=os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(script), "6"]


def test_a_constant_prior_is_that_of_new_evaluations_too(cloud):
    points, values = cloud
    post = vsbq.fit(vsbq.Evaluations(points, values, log_prior=-3.0), rng=0, progress=False)
    np.testing.assert_array_equal(joined(post, NEW, NEW_VALUES).log_prior, -3.0)


def test_a_prior_that_the_earlier_ones_lack_is_refused(estimated):
    with pytest.raises(EvaluationsError, match="hold no log prior"):
        joined(estimated, NEW, NEW_VALUES, log_prior=-1.0)


def test_a_told_support_is_told_the_next_fit(cloud, monkeypatch):
    points, values = cloud

    def in_support(x):
        return x[:, 0] < 0.5

    inside = in_support(points)
    post = vsbq.fit(points[inside], values[inside], support=in_support, rng=0, progress=False)
    again = post.update([[0.4, 0.0]], [-0.08], rng=0, progress=False)
    assert again.support.told.in_support is in_support
    assert in_support(again.sample(1000, rng=0)).all()
    with pytest.raises(EvaluationsError, match="support= says that 1 evaluations"):
        post.update([[0.6, 0.0]], [-0.18], rng=0, progress=False)
    given = []

    def noted(*_, **options):
        given.append(options["support"])
        return post

    monkeypatch.setattr("vsbq.analysis.update.fit", noted)
    for support in (replace(post.support, told=None), None):
        replace(post, support=support).update([[0.4, 0.0]], [-0.08])
    assert given == [None, None]
