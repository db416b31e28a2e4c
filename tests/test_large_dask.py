"""One large fit on a Dask cluster of two processes, one of which is killed while it sums."""

from __future__ import annotations

import os

import numpy as np
import pytest

import vsbq
from large_cases import KilledOnceTable, trace
from vsbq.errors import VsbqError
from vsbq.large import run, sums
from vsbq.large.tables import Opened

pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("default")  # Dask and what it is made of warn in their own ways


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from dask_case import two_workers

    with two_workers(tmp_path_factory.mktemp("dask")) as client:
        yield client


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    points, values = trace(6 * sums.BLOCK + 100)
    np.save(folder / "points.npy", points)
    np.save(folder / "values.npy", values)
    return str(folder / "points.npy"), str(folder / "values.npy")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Seven parts in place of one."""
    monkeypatch.setattr(sums, "PART", sums.BLOCK)


def fit_large(*given, **options):
    return vsbq.fit_large(*given, **{"sample": 600, "rng": 3, "progress": False} | options)


def same(a, b):
    return a.log_evidence == b.log_evidence and np.array_equal(a.sample(20, rng=1), b.sample(20, rng=1))


def test_a_cluster_gives_the_bits_of_one_process(client, files):
    alone = fit_large(*files)
    assert same(fit_large(*files, client=client), alone)
    assert same(fit_large(*trace(6 * sums.BLOCK + 100), client=client), alone)
    assert not same(fit_large(*files, client=client, rng=4), alone)


def test_a_killed_worker_costs_nothing(client, files, tmp_path, monkeypatch):
    flag = tmp_path / "killed"
    table = KilledOnceTable(*files, flag=str(flag), parent=os.getpid())
    alone = fit_large(*files)
    monkeypatch.setattr(run, "open_table", lambda *given: Opened(table))
    before = set(client.run(os.getpid).values())
    assert same(fit_large(*files, client=client), alone)
    assert flag.exists()
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != before


def test_what_is_no_client_is_refused(files):
    with pytest.raises(VsbqError, match=r"client is a str. Pass a distributed.Client"):
        fit_large(*files, client="tcp://nowhere:1")
