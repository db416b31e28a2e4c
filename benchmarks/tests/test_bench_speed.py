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


@pytest.mark.parametrize("kind", ["bound", "sums", "choice", "variance"])
def test_a_kernel_stands_beside_its_floor(kind, monkeypatch):
    monkeypatch.setitem(speed.KERNELS, f"{kind} small", (400, 60, 2, 4))
    found = speed.kernel(f"{kind} small")
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


def test_processor_time_is_what_is_compared_and_what_is_asked_for_is_said(tmp_path, monkeypatch):
    path = tmp_path / "speed.jsonl"
    line = {"name": "two_moons", "threads": 1, "machine": "m", "commit": "abc", "seconds": 1.0, "peak_gib": 0.1}
    path.write_text(json.dumps(line | {"units": 5.0, "cpu_units": 5.0}) + "\n")
    busy = line | {"units": 50.0, "cpu_units": 5.1}
    monkeypatch.setattr(speed, "measured", lambda *_: busy)
    (said,) = speed.run(["two_moons"], 1, path, tmp_path)
    assert "SLOWER" not in said
    assert "MORE" not in said
    monkeypatch.setattr(speed, "measured", lambda *_: busy | {"peak_gib": 0.4})
    (said,) = speed.run(["two_moons"], 1, path, tmp_path)
    assert "MORE than 8 units and 0.3 GiB" in said


def test_files_of_a_set_hold_a_set(tmp_path, monkeypatch):
    points, values = (np.load(path) for path in speed.files_of(1000, 2, tmp_path))
    bent = points[:, 1] + 0.5 * (points[:, 0] ** 2 - 1)
    np.testing.assert_allclose(values, -0.5 * (points[:, 0] ** 2 + bent**2) - 0.3 * points[:, 0] * bent)
    assert len(np.unique(points, axis=0)) == 1000
    monkeypatch.setattr(speed, "trace_like", None)  # what is there is not written again
    speed.files_of(1000, 2, tmp_path)


def test_the_page_has_the_last_lines_and_says_what_is_arithmetic(tmp_path):
    page, path = tmp_path / "page.md", tmp_path / "speed.jsonl"
    page.write_text("before\n\n<!-- from benchmarks/results/speed.jsonl -->\nold\n<!-- end -->\nafter\n")
    same = {"threads": 1, "machine": "m", "commit": "abc", "seconds": 1.0, "peak_gib": 0.1, "load": 0.2, "error": 0.01}
    same |= {"unit_seconds": 0.3, "units": 9.0}
    small, big = speed.LARGE
    lines = [
        same | {"name": small, "evaluations": 10**6, "cpu_units": 999.0},
        same | {"name": small, "evaluations": 10**6, "cpu_units": 150.0},
        same | {"name": big, "evaluations": 10**7, "cpu_units": 600.0},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    speed.write_page(path, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "| file 1,000,000 D=6 | 1,000,000 | 150.0 | 0.10 | +0.0100 | 0.2 |" in text
    assert "a million take 50.0 units more, and the rest 100 units" in text
    assert "| 100,000,000 | 25.5 min | 3.6 min | 0.9 min |" in text
    assert "999" not in text
    assert "old" not in text
