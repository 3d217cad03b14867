"""Views of some columns, and the sums of squares of all: against numpy on dense copies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dualpca import as_operator
from dualpca.linalg import to_numpy
from dualpca.operators import Blocks, Weighted, centered
from dualpca.operators.centering import Shifted

KINDS = ["dense", "fortran", "csr", "csc", "blocks", "sparse blocks", "torch", "shifted"]
FEATURES = [np.array([4]), np.array([0, 3, 7]), np.array([7, 2, 5]), np.arange(8), np.array([1, 1])]


def data(N=30, d=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * (rng.random((N, d)) < 0.7) * np.arange(1, d + 1)


def operator(kind, X):
    """X as an operator, and X as it is dense."""
    if kind == "fortran":
        return as_operator(np.asfortranarray(X)), X
    if kind in ("csr", "csc"):
        return as_operator(sp.csr_array(X).asformat(kind)), X
    if kind == "blocks":
        return Blocks([X[:7], X[7:8], X[8:]]), X
    if kind == "sparse blocks":
        return Blocks([sp.csr_array(X[:11]), sp.csc_array(X[11:])]), X
    if kind == "torch":
        return as_operator(pytest.importorskip("torch").asarray(X)), X
    if kind == "shifted":
        return Shifted(as_operator(X), np.full((X.shape[1], 1), 100.0)), X - 100.0
    return as_operator(X), X


VIEWS = ["plain", "centred", "weighted", "both"]


def viewed(view, X, dense):
    """The operator and its dense copy as they are, centred, with weighted rows, or both."""
    N = X.shape[0]
    weights = np.random.default_rng(5).uniform(0, 2, N)
    own = X.asarray(weights)
    if view == "plain":
        return X, dense
    if view == "centred":
        return centered(X), dense - dense.mean(axis=0)
    if view == "weighted":
        return Weighted(X, own), weights[:, None] * dense
    mean = np.average(dense, axis=0, weights=weights)
    return Weighted(centered(X, own), own**0.5), (dense - mean) * weights[:, None] ** 0.5


@pytest.mark.parametrize("features", FEATURES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_multiply_as_the_dense_ones(kind, view, features):
    X, dense = viewed(view, *operator(kind, data()))
    part, expected = X.take_columns(features), dense[:, features]
    rng = np.random.default_rng(1)
    W, H = rng.standard_normal((len(features), 2)), rng.standard_normal((30, 2))
    own = X.asarray
    assert part.shape == expected.shape
    assert part.dtype == X.dtype
    near = {"rtol": 1e-10, "atol": 1e-9}
    assert_allclose(to_numpy(part @ own(W)), expected @ W, **near)
    assert_allclose(to_numpy(part.T @ own(H)), expected.T @ H, **near)
    assert_allclose(to_numpy(part.sweep(own(W))), expected.T @ (expected @ W), **near)
    assert_allclose(to_numpy(part.gram()), expected.T @ expected, **near)
    assert_allclose(to_numpy(part.kernel()), expected @ expected.T, **near)
    assert_allclose(to_numpy(part.row_norms()), np.linalg.norm(expected, axis=1), **near)
    assert part.energy() == pytest.approx((expected**2).sum(), rel=1e-10)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_squares(kind, view):
    X, dense = viewed(view, *operator(kind, data()))
    squares = X.column_squares()
    assert squares.dtype == np.float64
    assert_allclose(squares, (dense**2).sum(axis=0), rtol=1e-11)
    assert_allclose(squares, np.diag(to_numpy(X.gram())), rtol=1e-11)


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "blocks", "torch"])
def test_passes_are_counted_on_the_data(kind):
    X, _ = operator(kind, data())
    part = X.take_columns(np.array([2, 4]))
    before = X.passes
    part.gram()
    part.sweep(X.asarray(np.ones((2, 1))))
    assert part.passes == X.passes == before + 2
    X.column_squares()
    assert X.passes == before + 3


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "blocks", "torch"])
def test_float32_stays_and_is_summed_in_float64(kind):
    X = data(4000, 6, seed=2).astype(np.float32)
    operand, _ = operator(kind, X)
    part = operand.take_columns(np.array([0, 5]))
    assert "float32" in str(part.dtype)
    assert "float32" in str((part @ operand.asarray(np.ones((2, 1)))).dtype)
    exact = (X.astype(float) ** 2).sum(axis=0)
    assert_allclose(operand.column_squares(), exact, rtol=1e-6)
    assert_allclose(as_operator(1e25 * X).column_squares(), 1e50 * exact, rtol=1e-5)
    assert_allclose(np.diag(to_numpy(part.gram())), exact[[0, 5]], rtol=1e-12)


def test_a_large_mean_costs_no_digits():
    X = data(50) + 1e7
    exact = ((X - X.mean(axis=0)) ** 2).sum(axis=0)
    Xc = centered(as_operator(X))
    assert_allclose(Xc.column_squares(), exact, rtol=1e-8)
    assert_allclose(np.diag(Xc.take_columns(np.array([3, 1])).gram()), exact[[3, 1]], rtol=1e-8)


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_sparse_columns_stay_sparse(format):
    X = sp.random_array((10**5, 10**6), density=1e-7, rng=0).asformat(format)
    features = np.unique(X.tocoo().coords[1])[::100]
    operand = centered(as_operator(X))
    part = operand.take_columns(features)
    assert part.X.sparse
    assert all(sp.issparse(block) for _, block in part.X.blocks())
    expected = X.tocsc()[:, features]
    mean = expected.sum(axis=0) / 10**5
    gram = (expected.T @ expected).toarray() - 10**5 * np.outer(mean, mean)
    assert_allclose(part.gram(), gram, atol=1e-12)
    assert_allclose(operand.column_squares()[features], np.diag(gram), rtol=1e-12)
    assert_array_equal(operand.column_squares() > 0, np.asarray((X * X).sum(axis=0)) > 0)
