"""The sweep by weights of rows is the same through every view of the data."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.loops import at

from dualpca import as_operator, native
from dualpca.functions import RowLoss
from dualpca.losses import Cauchy, Huber
from dualpca.operators import Blocks, Centered, Kernel, Shifted, Weighted
from dualpca.operators.centering import moved
from dualpca.operators.sweep_maps import Reweighting

N, D, S = 500, 300, 20


def rows(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, D)) + 0.2, rng.random((D, 1)), rng.random(N) + 0.5


#: Views of rows A with a centre c and scales b, and the rows that they are.
VIEWS = {
    "matrix": lambda A, c, b: (as_operator(A), A),
    "columns": lambda A, c, b: (as_operator(np.asfortranarray(A)), A),
    "centred": lambda A, c, b: (Centered(as_operator(A), c), A - c.T),
    "shifted": lambda A, c, b: (Shifted(as_operator(A), c), A - c.T),
    "weighted": lambda A, c, b: (Weighted(as_operator(A), b), b[:, None] * A),
    "weighted, centred": lambda A, c, b: (
        Weighted(Centered(as_operator(A), c), b),
        b[:, None] * (A - c.T),
    ),
    "weighted, shifted": lambda A, c, b: (
        Weighted(Shifted(as_operator(A), c), b),
        b[:, None] * (A - c.T),
    ),
    "weighted, centred twice": lambda A, c, b: (
        Weighted(Centered(Centered(as_operator(A), c), 2 * c), b),
        b[:, None] * (A - 3 * c.T),
    ),
    "weighted, moved": lambda A, c, b: (
        Weighted(moved(Centered(as_operator(A), c), 2 * c), b),
        b[:, None] * (A - 3 * c.T),
    ),
    "centred, weighted": lambda A, c, b: (
        Centered(Weighted(as_operator(A), b), c),
        b[:, None] * A - c.T,
    ),
    "weighted twice": lambda A, c, b: (
        Weighted(Weighted(as_operator(A), b), b),
        (b * b)[:, None] * A,
    ),
    "blocks": lambda A, c, b: (
        Weighted(Centered(Blocks([A[:123], A[123:]]), c), b),
        b[:, None] * (A - c.T),
    ),
    "sparse": lambda A, c, b: (
        Weighted(Centered(as_operator(sp.csr_array(np.where(A > 1, A, 0))), c), b),
        b[:, None] * (np.where(A > 1, A, 0) - c.T),
    ),
    "float32 rows of float64": lambda A, c, b: (
        Centered(as_operator(A), c).in_float32(0.5),
        (0.5 * (A - c.T)).astype(np.float32),
    ),
}


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("kind", VIEWS)
def test_sweeps_by_weights_through_views(kind, kernels, monkeypatch):
    A, c, b = rows()
    if not kernels:
        monkeypatch.setattr(native, "kernels", None)
    elif not native.native_available():
        pytest.skip("built without kernels")
    X, dense = VIEWS[kind](A, c, b)
    if X is None:
        pytest.skip("rows are rounded by the kernels alone")
    rng = np.random.default_rng(1)
    W = X.asarray(np.linalg.qr(rng.standard_normal((D, S)))[0])
    alpha = X.asarray(1.1 * np.linalg.norm(dense, axis=1))
    beside, mass = (X.asarray(rng.random(N)) for _ in range(2))
    for loss in (Cauchy(3.0), Huber(20.0)):
        F, before = RowLoss(alpha, loss, mass), X.passes
        Y = dense.astype(float) @ W.astype(float)
        w = F.weights(Y)
        expected = dense.T.astype(float) @ (w[:, None] * np.column_stack([Y, beside]))
        with at(loss=loss):
            Z, value, squares = X.sweep(W, Reweighting(F, beside))
            unit = 50 * float(np.finfo(X.dtype).eps)
            assert np.abs(Z - expected).max() <= unit * np.abs(expected).max()
            assert float(value) == pytest.approx(F(Y), rel=unit)
            assert float(squares) == pytest.approx(float(w @ beside**2), rel=unit)
            assert X.passes - before == 1
            value, Z = F.pullback(X, W)
            assert np.abs(Z - expected[:, :-1]).max() <= unit * np.abs(expected).max()


def test_rows_of_a_kernel():
    A = rows()[0][:60, :30]
    K = Kernel.from_matrix(A @ A.T)
    K = Centered(K, K.rmatmul(np.full((60, 1), 1 / 60)))
    coefficients = np.random.default_rng(2).standard_normal((60, 4)) / 60
    W = K.X.rmatmul(coefficients)
    dense = A - A.mean(axis=0)
    Y = dense @ (A.T @ coefficients)
    F, beside = RowLoss(np.full(60, 50.0), Cauchy(3.0)), np.arange(60.0)
    Z, value, squares = K.sweep(W, Reweighting(F, beside))
    w = F.weights(Y)
    expected = dense.T @ (w[:, None] * np.column_stack([Y, beside]))
    np.testing.assert_allclose(A.T @ Z.coefficients, expected, atol=1e-9)
    assert value == pytest.approx(F(Y))
    assert squares == pytest.approx(w @ beside**2)
