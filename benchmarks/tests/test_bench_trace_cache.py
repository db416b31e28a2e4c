from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vsbq_bench import trace_cache
from vsbq_bench.problems import rosenbrock_gaussian, two_moons
from vsbq_bench.trace_cache import OPTIMISERS, cached_trace
from vsbq_bench.traces import cma_trace

pytest.importorskip("cma")


@pytest.fixture
def calls(monkeypatch):
    """How often each optimiser was at work."""
    made = []

    def counted(name, optimise):
        return lambda *args, **options: made.append(name) or optimise(*args, **options)

    optimisers = {name: counted(name, optimise) for name, optimise in OPTIMISERS.items()}
    monkeypatch.setattr(trace_cache, "OPTIMISERS", optimisers)
    return made


def small(folder, problem=None, optimiser="cma", **changes):
    return cached_trace(folder, problem or two_moons(), optimiser, **{"seed": 3, "evaluations": 200, **changes})


def assert_same(a, b):
    assert_array_equal(a.points, b.points)
    assert_array_equal(a.log_density, b.log_density)
    assert_array_equal(a.run, b.run)
    assert (a.log_density_sd is None) == (b.log_density_sd is None)
    if a.log_density_sd is not None:
        assert_array_equal(a.log_density_sd, b.log_density_sd)


@pytest.mark.parametrize("noise_sd", [0.0, 2.0])
def test_trace_is_made_once_and_is_the_one_of_the_optimiser(tmp_path, calls, noise_sd):
    folder = tmp_path / "not" / "yet"
    first, again = (small(folder, noise_sd=noise_sd) for _ in range(2))
    assert calls == ["cma"]
    direct = cma_trace(two_moons(), np.random.default_rng([3, 1]), evaluations=200, noise_sd=noise_sd)
    assert_same(first, direct)
    assert_same(again, direct)
    assert again.points.dtype == again.log_density.dtype == np.float64


def test_bads_is_kept_too(tmp_path, calls):
    pytest.importorskip("pybads")
    first, again = (small(tmp_path, optimiser="bads", evaluations=60) for _ in range(2))
    assert calls == ["bads"]
    assert_same(first, again)
    assert not np.array_equal(first.points, small(tmp_path, evaluations=60).points)


def test_default_budget_has_one_name(tmp_path, calls):
    small(tmp_path, evaluations=None)
    assert len(small(tmp_path, evaluations=6000).points) == 6000
    assert calls == ["cma"]


def with_prior():
    return replace(two_moons(), draw_prior=lambda n, rng: rng.standard_normal((n, 2)))


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 4},
        {"evaluations": 201},
        {"noise_sd": 1.0},
        {"problem": replace(two_moons(), name="moons")},
        {"problem": replace(two_moons(), bounds=np.array([[-2.0, 2.0], [-2.0, np.inf]]))},
        {"problem": replace(two_moons(), plausible_bounds=np.array([[-1.0, 1.0], [-1.0, 1.5]]))},
        {"problem": replace(two_moons(), log_density=lambda x: two_moons().log_density(x) + 1e-6)},
        {"problem": replace(two_moons(), log_density=lambda x: np.full(len(x), -np.inf))},
        {"problem": with_prior()},
        {"problem": rosenbrock_gaussian(4)},
    ],
)
def test_whatever_decides_the_trace_makes_a_new_one(tmp_path, calls, changes):
    small(tmp_path)
    small(tmp_path, **changes)
    assert calls == ["cma", "cma"]
    assert len(list(tmp_path.iterdir())) == 2
    small(tmp_path)
    small(tmp_path, **changes)
    assert calls == ["cma", "cma"]


@pytest.mark.parametrize("name", ["CANDIDATES_PER_DIMENSION", "TOLERANCE", "INITIAL_STEP"])
def test_settings_are_part_of_the_key(tmp_path, calls, monkeypatch, name):
    small(tmp_path)
    monkeypatch.setattr(f"vsbq_bench.traces.{name}", 2 * getattr(trace_cache.traces, name))
    small(tmp_path)
    assert calls == ["cma", "cma"]


def test_version_is_part_of_the_key(tmp_path, calls, monkeypatch):
    small(tmp_path)
    monkeypatch.setattr(trace_cache, "version", lambda package: "0.0")
    small(tmp_path)
    assert calls == ["cma", "cma"]


def flip_a_byte(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [lambda c: b"", lambda c: c[:-100], lambda c: b"no archive", flip_a_byte])
def test_damaged_file_is_made_anew(tmp_path, calls, damage):
    whole = small(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert_same(small(tmp_path), whole)
    assert_same(small(tmp_path), whole)
    assert calls == ["cma", "cma"]


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.pop("run"),
        lambda f: f.update(points=f["points"][:, :1]),
        lambda f: f.update(log_density=f["log_density"][:-1]),
        lambda f: f.update(points=f["points"].astype(np.float32)),
        lambda f: f.update(description=np.array("another trace")),
    ],
)
def test_file_of_another_content_is_not_trusted(tmp_path, calls, change):
    whole = small(tmp_path)
    (path,) = tmp_path.iterdir()
    with np.load(path) as file:
        content = dict(file)
    change(content)
    np.savez(path, **content)
    assert_same(small(tmp_path), whole)
    assert calls == ["cma", "cma"]


def test_single_array_under_the_name_is_not_trusted(tmp_path, calls):
    whole = small(tmp_path)
    (path,) = tmp_path.iterdir()
    with path.open("wb") as file:
        np.save(file, whole.points)
    assert_same(small(tmp_path), whole)
    assert calls == ["cma", "cma"]


def test_racing_callers_agree_and_leave_one_file(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: small(tmp_path), range(8)))
    for trace in made[1:]:
        assert_same(trace, made[0])
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


def test_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space left"):
        small(tmp_path)
    assert not list(tmp_path.iterdir())


def test_unknown_optimiser_is_refused(tmp_path):
    with pytest.raises(ValueError, match="one of cma, bads, got 'newton'"):
        small(tmp_path, optimiser="newton")
