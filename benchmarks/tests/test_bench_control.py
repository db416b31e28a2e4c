"""The negative controls are what they say: a fifth of the inducing points, and a region half as wide for one fit."""

from dataclasses import fields
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose

from test_bench_methods import task
from vsbq.settings import Settings
from vsbq.steps.region import TrustedRegion
from vsbq.steps.surrogate.shaped_data import SparseGP
from vsbq_bench.catalogue import METHODS
from vsbq_bench.methods import control
from vsbq_bench.methods.control import CONTROLS, NarrowRegion, few_inducing_steps, narrow_region
from vsbq_bench.task import Answer

algorithm = import_module("vsbq.fit")


def test_controls_are_in_the_catalogue():
    assert set(CONTROLS) == {name for name in METHODS if name.startswith("control_")}


def test_a_fifth_of_the_inducing_points_at_every_stage():
    few, usual = few_inducing_steps(), Settings().steps()
    changed = {f.name for f in fields(SparseGP) if getattr(few.surrogate, f.name) != getattr(usual.surrogate, f.name)}
    assert changed >= {
        "inducing_per_dimension",
        "max_inducing_per_dimension",
        "learning_inducing_per_dimension",
        "trial_inducing_per_dimension",
        "max_inducing",
    }
    for name in changed:
        assert getattr(few.surrogate, name) == getattr(usual.surrogate, name) // 5
    assert (few.noise, few.trim, few.mixture, few.refinement) == (
        usual.noise,
        usual.trim,
        usual.mixture,
        usual.refinement,
    )
    for dimension in (1, 4, 15):
        assert few.surrogate.first_inducing(dimension) == usual.surrogate.first_inducing(dimension) // 5


class Stop(Exception):
    pass


@pytest.fixture
def regions(monkeypatch):
    """The regions that a fit asks for, which then stops."""
    made = []

    def stop(region, *others):
        made.append(region)
        raise Stop

    monkeypatch.setattr(algorithm, "fit_mixture", stop)
    return made


def test_the_region_is_half_as_wide_and_put_back_after_a_failure(regions):
    for method in (narrow_region, METHODS["vsbq"]):
        with pytest.raises(Stop):
            method(task(bounded=True))
        assert algorithm.TrustedRegion is TrustedRegion
    narrow, usual = regions
    assert type(narrow) is NarrowRegion
    assert type(usual) is TrustedRegion
    assert_allclose(narrow.upper - narrow.lower, 0.5 * (usual.upper - usual.lower))
    assert_allclose(narrow.upper + narrow.lower, usual.upper + usual.lower, atol=1e-9)
    assert narrow.most_variance == pytest.approx(0.25 * usual.most_variance)
    kept = {f.name for f in fields(usual)} - {"lower", "upper", "most_variance", "surrogate"}
    assert all(getattr(narrow, name) == getattr(usual, name) for name in kept)
    u = np.stack([usual.lower, (usual.lower + usual.upper) / 2])
    assert usual.in_box(u).tolist() == [True, True]
    assert narrow.in_box(u).tolist() == [False, True]


def test_the_usual_region_is_put_back_after_a_fit(monkeypatch):
    used = []

    def recycle(task, settings):
        used.append((algorithm.TrustedRegion, settings))
        return Answer(draws=np.zeros((2, 2)), log_evidence=None)

    monkeypatch.setattr(control, "recycle", recycle)
    narrow_region(task(bounded=True))
    assert used == [(NarrowRegion, Settings())]
    assert algorithm.TrustedRegion is TrustedRegion
