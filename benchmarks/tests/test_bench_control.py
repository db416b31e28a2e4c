"""The negative controls are what they say: a fifth of the inducing points, and a region half as wide for one fit."""

from dataclasses import fields
from importlib import import_module

import numpy as np
import pytest

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
        "max_inducing",
        "coarse",
        "fine",
        "finest",
    }
    for name in changed - {"coarse", "fine", "finest"}:
        assert getattr(few.surrogate, name) == getattr(usual.surrogate, name) // 5
    levels = [(*gp.coarse, gp.fine, gp.finest) for gp in (few.surrogate, usual.surrogate)]
    for one, other in zip(*levels, strict=True):
        assert one == other._replace(inducing=other.inducing // 5)
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
    kept = {f.name for f in fields(usual)} - {"surrogate", "lower", "upper"}
    assert all(getattr(narrow, name) == getattr(usual, name) for name in kept)
    # Along every ray from the best evaluation it ends at half the way.
    rays = np.random.default_rng(0).standard_normal((20, narrow.centre.size))
    steps = np.linspace(0.0, 4.0, 401)
    for ray in rays * (usual.upper - usual.lower):
        trusted = [np.isfinite(region.log_density(narrow.centre + steps[:, None] * ray)) for region in (usual, narrow)]
        far, half = (steps[np.argmin(inside)] for inside in trusted)
        assert all(inside[0] for inside in trusted)
        assert half == pytest.approx(far / 2, abs=0.011)


def test_the_usual_region_is_put_back_after_a_fit(monkeypatch):
    used = []

    def recycle(task, settings):
        used.append((algorithm.TrustedRegion, settings))
        return Answer(draws=np.zeros((2, 2)), log_evidence=None)

    monkeypatch.setattr(control, "recycle", recycle)
    narrow_region(task(bounded=True))
    assert used == [(NarrowRegion, Settings())]
    assert algorithm.TrustedRegion is TrustedRegion
