"""A fit has one BLAS thread, gives the same bits whatever the process had before, and puts that back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import vsbq
from many_cases import QUICK
from vsbq.errors import VsbqError
from vsbq.numerics.threads import one_blas_thread


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(params=[1, 2])
def threads(request):
    with threadpool_limits(limits=request.param, user_api="blas"):
        yield request.param


def test_inside_there_is_one_and_afterwards_what_was_before(threads):
    assert blas_threads() == {threads}
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {threads}


def test_it_is_put_back_after_an_error(threads):
    with pytest.raises(VsbqError):
        vsbq.fit(np.zeros((5, 2)), np.zeros(5), progress=False)
    assert blas_threads() == {threads}


def test_threads_of_the_process_share_it():
    def inside(number):
        with one_blas_thread():
            together.wait(timeout=30)
            found = blas_threads()
            together.wait(timeout=30)
        return found

    together = Barrier(3)
    with threadpool_limits(limits=2, user_api="blas"):
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(inside, range(3))) == [{1}] * 3
        assert blas_threads() == {2}


def test_the_last_to_leave_may_be_another_than_the_first_to_come():
    """Threads that come and leave in turn, so that neither of them is there from the beginning to the end."""

    def first():
        with one_blas_thread():
            both.wait(timeout=30)
        left.set()

    def last():
        with one_blas_thread():
            both.wait(timeout=30)
            assert left.wait(timeout=30)
            found.append(blas_threads())

    both, left, found = Barrier(2), Event(), []
    with threadpool_limits(limits=2, user_api="blas"):
        threads = [Thread(target=first), Thread(target=last)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        assert found == [{1}]
        assert blas_threads() == {2}


def test_a_fit_gives_the_same_bits_whatever_the_number_of_threads():
    points = np.random.default_rng(3).standard_normal((400, 3))
    given = vsbq.Evaluations(points, -0.5 * (points**2).sum(axis=1) - 0.1 * np.cos(3 * points[:, 0]))
    found = []
    for count in (1, 2):
        with threadpool_limits(limits=count, user_api="blas"):
            found.append(vsbq.fit(given, settings=QUICK, rng=1, progress=False))
    assert found[0].log_evidence == found[1].log_evidence
    assert np.array_equal(found[0].sample(50, rng=1), found[1].sample(50, rng=1))
    other = vsbq.fit(given, settings=QUICK, rng=2, progress=False)
    assert other.log_evidence != found[0].log_evidence
