"""Dask arrays with graphs that others compute too, and with chunks of unknown size."""

import logging

import numpy as np
import pytest

from dualpca import PCA, KernelPCA, RobustKernelPCA, RobustPCA, SparsePCA, as_operator

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

from dualpca.operators.dask.row_arrays import own_names  # noqa: E402 (needs dask)

BLOCKS, N, D, S = 6, 50, 6, 2

ESTIMATORS = [
    PCA(S),
    PCA(S, solver="gram"),
    PCA(S, formulation="o"),
    RobustPCA(S, refit=False, tol=0.1),
    SparsePCA(S),
    KernelPCA(S, approximation="nystroem", n_landmarks=10),
    RobustKernelPCA(S, approximation="nystroem", n_landmarks=10, refit=False, tol=0.1),
]


def make(i):
    rng = np.random.default_rng(i)
    return rng.standard_normal((N, D)) * 2.0 ** -np.arange(D) + (i % 3)


def whole():
    return np.concatenate([make(i) for i in range(BLOCKS)])


def from_delayed():
    def block(i):  # within a function, so that it is pickled whole: workers do not have this file
        rng = np.random.default_rng(i)
        return rng.standard_normal((N, D)) * 2.0 ** -np.arange(D) + (i % 3)

    parts = [dask.delayed(block)(i) for i in range(BLOCKS)]
    return da.concatenate([da.from_delayed(part, (N, D), float) for part in parts])


def positive(X):
    return X[X[:, 0] > 0]


def times(block, factor, block_info=None):
    return block * factor


def arrays():
    """Graphs of many kinds, by the operation at their end."""
    X = from_delayed()
    A = da.from_array(np.random.default_rng(0).standard_normal((60, 8)), chunks=(20, 3))
    nested = dask.delayed(lambda parts: parts["a"] + parts["b"][0])
    a, b = (dask.delayed(make)(i) for i in (1, 2))
    return {
        "delayed": X,
        "filtered": positive(X),
        "rechunked": X.rechunk((70, 2)),
        "strided": X[::3],
        "permuted": X[np.random.default_rng(0).permutation(len(X))],
        "array": A,
        "transposed": A.T,
        "product": A @ A.T,
        "tensordot": da.tensordot(A, A, axes=((1,), (1,))),
        "qr": da.linalg.qr(X)[0],
        "keywords": A.map_blocks(times, factor=3.0, dtype=float),
        "random": da.random.default_rng(0).standard_normal((50, 4), chunks=(10, 4)),
        "standardised": (A - A.mean(0)) / A.std(0),
        "stacked": da.stack([A[:, 0], A[:, 1]], axis=1),
        "overlap": da.overlap.overlap(A, depth=1, boundary="reflect"),
        "cumulated": da.cumsum(A, axis=0),
        "constant": da.ones((30, 3), chunks=(10, 3)),
        "in memory": A.persist(scheduler="synchronous").rechunk((15, 8)),
        "nested": da.from_delayed(nested({"a": a, "b": [b]}), (N, D), float),
        "squared": X**2,
    }


@pytest.mark.parametrize("kind", arrays())
def test_own_names(kind):
    """The same numbers from a graph that has no name in common with the array's."""
    X = arrays()[kind]
    Y = own_names(X)
    with dask.config.set(scheduler="synchronous"):
        expected = np.asarray(X)
        for optimised in (True, False):
            (found,) = dask.compute(Y, optimize_graph=optimised)
            assert np.array_equal(found, expected)
    assert not set(dict(Y.dask)) & set(dict(X.dask))


class Seen(distributed.SchedulerPlugin):
    """The keys of all tasks that the scheduler was told of."""

    name = "seen"

    def __init__(self):
        self.keys = set()

    def transition(self, key, start, finish, *args, **kwargs):
        self.keys.add(key)


@pytest.fixture
def seen(cluster, client):
    plugin = Seen()
    cluster.scheduler.add_plugin(plugin)
    yield plugin.keys
    cluster.scheduler.remove_plugin(name=Seen.name)


@pytest.mark.parametrize(
    ("estimator", "rows"),
    [*((estimator, positive) for estimator in ESTIMATORS), (PCA(S), lambda X: X)],
)
def test_no_name_of_the_array_reaches_the_scheduler(estimator, rows, seen):
    """A name that has other tasks in Dask's optimised graph would break the scheduler."""
    X = rows(from_delayed())
    scores = np.asarray(estimator.set_params(random_state=0).fit(X).transform(X))
    assert scores.shape == (len(rows(whole())), S)
    assert seen
    assert not seen & set(dict(X.dask))


def test_blocks_reach_the_scheduler_under_their_own_names(seen):
    X = positive(from_delayed())
    found = np.concatenate([block for _, block in as_operator(X).blocks()])
    assert np.array_equal(found, positive(whole()))
    assert not seen & set(dict(X.dask))


def test_fits_among_other_computations(client, caplog):
    """Of filtered rows, again and again, on a cluster that computes on them and keeps some."""
    A = whole()
    expected = np.linalg.svd(positive(A) - positive(A).mean(0), compute_uv=False)[:S]
    with caplog.at_level(logging.WARNING, logger="distributed.scheduler"):
        X = from_delayed()
        kept = X.persist()
        for _ in range(4):
            found = PCA(S, tol=1e-9, random_state=0).fit(positive(X)).singular_values_
            assert found == pytest.approx(expected, rel=1e-6)
            assert X.sum().compute() == pytest.approx(A.sum())
            assert PCA(S, random_state=0).fit(X).n_samples_ == len(A)
        assert np.array_equal(kept.compute(), A)
    assert caplog.text == ""


def held(client):
    """Arrays of the same numbers, made in different ways of what a cluster holds."""
    X = from_delayed().persist()
    futures = client.scatter([make(i) for i in range(BLOCKS)])
    twice = [dask.delayed(np.multiply)(future, 2) for future in futures]  # futures within tasks
    return {
        "persisted": positive(X),
        "cut columns": positive(X.rechunk((N, 4))),
        "futures": positive(
            da.concatenate([da.from_delayed(part, (N, D), float) for part in futures])
        ),
        "futures in tasks": positive(
            da.concatenate([da.from_delayed(part, (N, D), float) for part in twice])
        )
        / 2,
    }


@pytest.mark.parametrize("kind", ["persisted", "cut columns", "futures", "futures in tasks"])
def test_made_of_what_is_held(kind, client, seen):
    X, A = held(client)[kind], positive(whole())
    made = set(dict(X.dask)) - {future.key for future in distributed.futures_of(X)}
    distributed.wait(distributed.futures_of(X))
    seen.clear()
    model = PCA(S, tol=1e-9, random_state=0).fit(X)
    assert np.asarray(model.transform(X)).shape == (len(A), S)
    assert not seen & made
    expected = np.linalg.svd(A - A.mean(0), compute_uv=False)[:S]
    assert model.singular_values_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "cluster"])
@pytest.mark.parametrize("kind", ["rows", "columns", "both"])
def test_unknown_chunks(kind, scheduler, request):
    """Rows, columns and weights that are chosen by what is in them."""
    A = whole()
    X = from_delayed().rechunk((N, 4))
    weights = np.random.default_rng(0).uniform(1, 2, len(A))
    w = da.from_array(weights, chunks=N)
    some, wide = X[:, 0] > 0, X.std(axis=0) > 0.8
    here, these = A[:, 0] > 0, A.std(0) > 0.8
    if kind != "columns":
        A, X, weights, w = A[here], X[some], weights[here], w[some]
    if kind != "rows":
        A, X = A[:, these], X[:, wide]
    assert np.isnan(X.shape).any()
    before = X.chunks
    if scheduler == "cluster":
        request.getfixturevalue("client")
    with dask.config.set({} if scheduler == "cluster" else {"scheduler": scheduler}):
        found = PCA(S, tol=1e-9, random_state=0).fit(X, sample_weight=w)
    expected = PCA(S, tol=1e-9, random_state=0).fit(A, sample_weight=weights)
    assert found.explained_variance_ == pytest.approx(expected.explained_variance_, rel=1e-6)
    assert repr(X.chunks) == repr(before)  # the user's array is left as it is


@pytest.mark.filterwarnings("ignore:.*good rows may be in groups")
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_another_number_of_rows(kernel):
    """Arrays that a fit keeps for its rows do not go with later ones."""
    model = RobustKernelPCA(
        S, kernel=kernel, approximation="nystroem", n_landmarks=10, refit=False, tol=0.1
    )
    with dask.config.set(scheduler="synchronous"):
        for X in (from_delayed(), positive(from_delayed())):
            model.set_params(random_state=0).fit(X)
            assert np.asarray(model.predict(from_delayed()[:70])).shape == (70,)
            assert len(np.asarray(model.weights_)) == model.n_samples_
