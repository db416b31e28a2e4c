"""Calls of an improvement on a Dask cluster of two processes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from improve_cases import FAST, NOISE, log_normal, noisy
from vsbq.errors import EvaluationsError, VsbqWarning
from vsbq.io.record import read_store

distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("default")  # Dask and what it is made of warn in their own ways


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from dask_case import two_workers

    with two_workers(tmp_path_factory.mktemp("dask")) as client:
        yield client


def quietly(post, f, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VsbqWarning)
        return post.improve(f, 6, batch=3, settings=FAST, rng=2, progress=False, **options)


def test_a_cluster_calls_what_one_process_calls(client, tmp_path):
    def model(x):
        if x[1] > 1.0:
            raise ArithmeticError("too high")
        return log_normal(x), NOISE

    post = noisy()
    there = quietly(post, model, executor=client, record=tmp_path / "calls.db")
    here = quietly(post, model)
    stored = read_store(tmp_path / "calls.db")
    assert len(stored) == 6
    new = slice(len(post.evaluations), None)
    np.testing.assert_array_equal(
        sorted(there.evaluations.points[new].tolist()), sorted(here.evaluations.points[new].tolist())
    )
    failed = here.improvement.steps[-1].failed
    assert [words for words in stored.failures if words] == ["ArithmeticError: too high"] * failed


def test_an_asynchronous_client_is_refused(client):
    post = noisy()

    async def refused():
        async with distributed.Client(client.scheduler.address, asynchronous=True) as other:
            with pytest.raises(EvaluationsError, match="not asynchronous"):
                post.improve(log_normal, 5, executor=other)

    client.sync(refused)
