"""The benchmark of speed: what it measures is right, and it sees what got slower."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate

sys.path.insert(0, str(Path(__file__).parents[1]))
import speed


def test_the_density_of_the_sets_has_the_stated_integral():
    """In two dimensions, by quadrature; the last coordinate is bent by the first, which changes no volume."""

    def density(y, x):
        bent = y + 0.5 * (x**2 - 1)
        return np.exp(-0.5 * (x**2 + bent**2) - 0.3 * x * bent)

    found, _ = integrate.dblquad(density, -8, 8, -45, 12, epsabs=1e-8)
    assert np.log(found) == pytest.approx(np.log(2 * np.pi) - 0.5 * np.log(1 - 0.3**2), abs=1e-4)
    points, values = speed.trace_like(50, 2)
    np.testing.assert_allclose(np.exp(values), [density(y, x) for x, y in points])


def test_a_kernel_is_not_faster_than_its_floor(monkeypatch):
    monkeypatch.setitem(speed.KERNELS, "small", (400, 60, 2))
    found = speed.kernel("small")
    assert found["times_floor"] == pytest.approx(found["seconds"] / found["floor_seconds"])
    assert found["seconds"] > 0


@pytest.mark.parametrize(("units", "slower"), [(10.0, False), (11.0, False), (13.0, True)])
def test_what_got_slower_is_said(units, slower, tmp_path, monkeypatch):
    path = tmp_path / "speed.jsonl"
    line = {"name": "two_moons", "threads": 1, "machine": "m", "commit": "abc", "seconds": 1.0, "peak_gib": 0.1}
    path.write_text(json.dumps(line | {"units": 99.0}) + "\n" + json.dumps(line | {"units": 10.0}) + "\n")
    monkeypatch.setattr(speed, "measured", lambda *_: line | {"units": units})
    (said,) = speed.run(["two_moons"], 1, path, tmp_path)
    assert ("SLOWER than 10.0 at abc" in said) == slower
    assert [json.loads(text)["units"] for text in path.read_text().splitlines()] == [99.0, 10.0, units]


def test_a_line_of_another_machine_or_other_threads_is_not_compared(tmp_path, monkeypatch):
    path = tmp_path / "speed.jsonl"
    line = {"name": "two_moons", "threads": 1, "machine": "m", "commit": "abc", "seconds": 1.0, "peak_gib": 0.1}
    path.write_text(json.dumps(line | {"machine": "other", "units": 1.0}) + "\n")
    monkeypatch.setattr(speed, "measured", lambda *_: line | {"units": 50.0})
    (said,) = speed.run(["two_moons"], 1, path, tmp_path)
    assert "SLOWER" not in said
