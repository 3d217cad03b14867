"""Fits that overlap leave the process as they found it."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dualpca.operators import as_operator
from dualpca.operators import block_ops as _blocks
from dualpca.operators.block_ops import one_blas_thread


def blas():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def three_threads():
    before = threadpool_limits(3, user_api="blas")
    if set(blas()) != {3}:
        pytest.skip("BLAS takes no number of threads")
    # Where only one thread may set it, that is free for others.
    for kind in {type(lib) for lib in _blocks._controller().lib_controllers}:
        getattr(kind, "clear_controlling_thread", lambda **_: None)(force=True)
    yield
    before.restore_original_limits()


def test_overlapping_fits_do_not_leave_blas_with_one_thread(three_threads):
    """The first to begin ended first, and the last restored the limit that it had found."""
    inside, ended = threading.Event(), threading.Event()
    found = []

    def first():
        with one_blas_thread():
            inside.set()
            ended.wait()

    def second():
        inside.wait()
        with one_blas_thread():
            found.append(blas())
            ended.set()
            threads[0].join()
        found.append(blas())

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found[0]) == {1}
    assert set(found[1]) == set(blas()) == {3}


def test_one_blas_thread_within_itself(three_threads):
    with one_blas_thread():
        with one_blas_thread():
            assert set(blas()) == {1}
        assert set(blas()) == {1}
    assert set(blas()) == {3}


def test_what_another_thread_forgets_is_not_returned_as_none():
    X = as_operator(np.arange(12.0).reshape(4, 3))

    class Forgetful(type(X)):
        """Between two looks at what is kept, another thread has dropped it."""

        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            if name in ("_norms", "_moments"):
                super().__setattr__(name, None)
            return value

    norms, (sums, energy) = X.row_norms(), X.column_sums(keep=True)
    X.__class__ = Forgetful
    np.testing.assert_array_equal(X.row_norms(), norms)
    np.testing.assert_array_equal(X.column_sums()[0], sums)
    X._moments = sums, energy, True
    assert X.energy() == energy
