"""Many fits on a Dask cluster of two processes, one of which is killed while it works."""

from __future__ import annotations

import sys

import pytest

import vsbq
from many_cases import QUICK, DeadlyFor, KilledOnce, cases, evaluations, quick, same
from vsbq.errors import VsbqError, VsbqWarning
from vsbq.many.pools import LEAST_JOBS

pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("default")  # Dask and what it is made of warn in their own ways


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from dask_case import two_workers

    with two_workers(tmp_path_factory.mktemp("dask")) as client:
        yield client


def fit_many(given, **options):
    return vsbq.fit_many(given, **{"settings": QUICK, "rng": 3, "progress": False} | options)


def test_a_cluster_gives_what_one_process_gives(client, tmp_path):
    given = cases(3) | {"lost": lambda: evaluations(0, n=1)}
    with pytest.warns(VsbqWarning, match="1 fit failed: 'lost'"):
        there = fit_many(given, client=client, folder=tmp_path)
    assert same(there, fit_many(cases(3)))
    assert all(row.read for row in fit_many(cases(3), client=client, folder=tmp_path).rows)
    assert not same(there, fit_many(cases(3), rng=4))


def test_a_killed_worker_costs_no_fit(client, tmp_path):
    before = set(client.run(lambda: __import__("os").getpid()).values())
    settings = quick(KilledOnce(folder=str(tmp_path)))
    fits = fit_many(cases(4), settings=settings, client=client)
    assert (tmp_path / "killed").exists()
    assert not fits.failures
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(lambda: __import__("os").getpid()).values()) != before
    assert same(fits, fit_many(cases(4), settings=settings))


@pytest.mark.slow
def test_a_fit_that_kills_every_worker_has_failed_and_no_other(client):
    given = cases(3) | {"deadly": evaluations(0, n=47)}
    settings = quick(DeadlyFor(count=47))
    with pytest.warns(VsbqWarning, match="'deadly'"):
        fits = fit_many(given, settings=settings, client=client)
    assert "The cluster gave this fit up (KilledWorker" in fits.failures["deadly"].message
    alone = fit_many(cases(3), settings=settings)
    assert all(same({name: fits[name]}, {name: alone[name]}) for name in fits)
    client.wait_for_workers(2, timeout=60)


@pytest.mark.slow
def test_more_fits_than_the_cluster_is_given_at_a_time(client):
    count = LEAST_JOBS + 5
    given = {f"p{i}": evaluations(i) for i in range(count)}
    fits = fit_many(given, client=client)
    assert list(fits) == list(given)
    assert same(fits, fit_many(given))


def test_what_is_no_client_is_refused(client):
    with pytest.raises(VsbqError, match=r"client is a str. Pass a distributed.Client"):
        fit_many(cases(1), client="tcp://nowhere:1")


def test_without_dask_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match="vsbq\\[dask\\]"):
        fit_many(cases(1), client=object())
