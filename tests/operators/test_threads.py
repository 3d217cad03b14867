"""Fits that overlap leave the process as they found it."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dualpca import native
from dualpca.operators import as_operator, matrix
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


@pytest.mark.skipif(not native.native_available(), reason="BLAS has threads of its own")
@pytest.mark.parametrize("rows", [50, 1000])
def test_threads_return_what_one_thread_returns(monkeypatch, rows):
    A = np.random.default_rng(0).standard_normal((rows, 40))
    W, w = A[:5].T.copy(), np.arange(1.0, rows + 1)

    def results():
        X = as_operator(A)
        yield from X.column_sums()
        yield X.row_norms()
        yield X.gram(w)
        yield X.map_rows(lambda part, block: block @ W + w[part, None], 5)
        used.clear()
        yield X.map_rows(watched)
        assert X.passes == 5

    used = set()

    def watched(part, block):
        used.add(threading.get_ident())
        return block.sum(axis=1)

    alone = list(results())
    assert used == {threading.get_ident()}

    monkeypatch.setattr(matrix, "threads", lambda: 3)
    monkeypatch.setattr(matrix, "THREADED_ARRAY", 1)
    monkeypatch.setattr(matrix, "THREADED_PRODUCTS", 1)
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 2**14)
    for expected, found in zip(alone, results(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert used
    assert threading.get_ident() not in used


@pytest.mark.skipif(not native.native_available(), reason="BLAS has threads of its own")
def test_threads_ignore_what_numpy_was_told_to_ignore(monkeypatch):
    monkeypatch.setattr(matrix, "threads", lambda: 2)
    monkeypatch.setattr(matrix, "THREADED_ARRAY", 1)
    X = as_operator(np.full((10, 2), 1e300))
    with np.errstate(over="ignore"):
        assert np.isinf(X.map_rows(lambda rows, block: (block * block).sum(axis=1))).all()
    with pytest.raises(RuntimeWarning, match="overflow"):
        X.map_rows(lambda rows, block: (block * block).sum(axis=1))
