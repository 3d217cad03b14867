"""The C kernels: the same products as NumPy's, for every layout, type, instruction set and thread."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from tests.loops import at
from threadpoolctl import threadpool_limits

import dualpca
from dualpca import PCA, as_operator, native
from dualpca.operators import Shifted, centered
from dualpca.operators.block_ops import one_blas_thread, one_thread, threads
from dualpca.operators.sweep_maps import Shift

KINDS = (native.SWEEP, native.MATMUL, native.RMATMUL)
SIDES = (1, 2, 11, 12, 13, 260)
WIDTHS = (1, 2, 3, 4, 7, 8, 16, 17, 40, 64, 128)
TYPES = (np.float32, np.float64)

needs_kernels = pytest.mark.skipif(not native.native_available(), reason="built without kernels")


def factor_of(kind, X, width, rng, dtype):
    rows = X.shape[0] if kind == native.RMATMUL else X.shape[1]
    return rng.standard_normal((rows, width)).astype(dtype)


def exact(kind, X, W):
    """The product in extended precision, and the size that rounding is relative to."""
    X = (X.toarray() if sp.issparse(X) else X).astype(np.longdouble)
    W = W.astype(np.longdouble)
    if kind == native.MATMUL:
        return X @ W, np.abs(X) @ np.abs(W)
    if kind == native.RMATMUL:
        return X.T @ W, np.abs(X).T @ np.abs(W)
    if kind == native.COSWEEP:
        return exact(native.SWEEP, X.T, W)
    return X.T @ (X @ W), np.abs(X).T @ (np.abs(X) @ np.abs(W))


def close(found, kind, X, W, dtype):
    expected, size = exact(kind, X, W)
    # Sums run over at most 256 terms, or 256 panels, before they are added to the next level.
    assert np.all(np.abs(found - expected) <= 40 * np.finfo(dtype).eps * size)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_dense_products(instructions, dtype):
    rng = np.random.default_rng(0)
    for N, d, kind in itertools.product(SIDES, SIDES, KINDS):
        X = rng.standard_normal((N, d)).astype(dtype)
        for width, count in zip(rng.choice(WIDTHS, 3), (1, 2, 5), strict=True):
            W = factor_of(kind, X, width, rng, dtype)
            with at(N=N, d=d, kind=kind, width=width, count=count):
                close(native.multiply(kind, X, W, count), kind, X, W, dtype)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_exponentials_are_right_to_the_last_digit(instructions, dtype):
    least = float(np.log(np.finfo(dtype).tiny))
    x = -np.r_[0.0, np.geomspace(1e-30, 1e-6, 499), np.geomspace(1e-6, -least - 1, 99_500)]
    X = x.astype(dtype).reshape(-1, 50)
    for width in (1, 5, 50):
        out = np.empty((len(X), width + 3), dtype=dtype)[:, :width]
        native.exponential(X, np.eye(50, width, dtype=dtype), out)
        true = np.exp(X[:, :width].astype(np.longdouble))
        assert np.all(np.abs(out - true) <= np.finfo(dtype).eps * true)
    ends = np.array([[0.0, 3.0, 2 * least, -np.finfo(dtype).max]], dtype=dtype)
    out = np.empty_like(ends)
    native.exponential(ends, np.eye(4, dtype=dtype), out)
    assert out.tolist() == [[1.0, 1.0, 0.0, 0.0]]


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_strips_of_columns_are_read_for_both_products(instructions, dtype):
    """``X (X^T W)``, also of more rows than a strip of the least width has room for."""
    rng = np.random.default_rng(14)
    shapes = [*itertools.product(SIDES, SIDES), (40_000, 40), (64, 1024), (700, 3000)]
    for (N, d), count in zip(shapes, itertools.cycle((1, 2, 5)), strict=False):
        X = rng.standard_normal((N, d)).astype(dtype)
        W = rng.standard_normal((N, int(rng.choice(WIDTHS)))).astype(dtype)
        with at(N=N, d=d, width=W.shape[1], count=count):
            close(native.multiply(native.COSWEEP, X, W, count), native.COSWEEP, X, W, dtype)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_the_sweep_of_a_transpose_is_one_reading(dtype):
    rng = np.random.default_rng(15)
    X = (rng.standard_normal((300, 4000)) + 0.3).astype(dtype)
    W = rng.standard_normal((300, 16)).astype(dtype)
    tol = 200 * np.finfo(dtype).eps
    for operator, rows, readings in (
        (as_operator(X), X.astype(float), 2),
        (centered(as_operator(X)), X - X.mean(axis=0, dtype=float), 3),  # one for its centre
        (Shifted(as_operator(X), np.full((4000, 1), 0.3)), X - 0.3, 2),
    ):
        expected, before = rows @ (rows.T @ W), operator.passes
        first, again = operator.T.sweep(W), operator.T.sweep(W)
        assert operator.passes - before == readings
        assert np.array_equal(first, again)
        np.testing.assert_allclose(first, expected, atol=tol * np.abs(expected).max())
    transposed = as_operator(np.asfortranarray(X.T))
    before = transposed.passes
    expected = X.astype(float) @ (X.T.astype(float) @ W)
    np.testing.assert_allclose(transposed.sweep(W), expected, atol=tol * np.abs(expected).max())
    assert transposed.passes - before == 1


@needs_kernels
def test_layouts_of_the_factors_and_of_rows(monkeypatch):
    monkeypatch.setattr(native, "LEAST", 0)
    rng = np.random.default_rng(1)
    whole = rng.standard_normal((50, 90))
    for X in (whole[:, 3:40], whole[::2, :37], whole[:, :1], np.broadcast_to(whole[:1], (20, 90))):
        for kind in KINDS:
            W = factor_of(kind, X, 10, rng, float)
            for layout in (W, np.asfortranarray(W), np.repeat(W, 3, axis=1)[:, ::3], W[::-1]):
                close(native.multiply(kind, X, layout, 2), kind, X, layout, float)
    W = np.ones((90, 10))
    assert native.takes(native.MATMUL, whole, W)
    assert not native.takes(native.MATMUL, whole[:, ::2], W[::2])
    assert not native.takes(native.MATMUL, whole.astype(">f8"), W)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_many_columns_are_multiplied_some_at_a_time(monkeypatch, dtype):
    monkeypatch.setattr(native, "MANY", 30)
    monkeypatch.setattr(native, "COLUMNS", 16)
    monkeypatch.setattr(native, "LEAST", 0)
    monkeypatch.setattr(native, "SUMS", 0)
    rng = np.random.default_rng(4)
    X, H = rng.standard_normal((25, 90)).astype(dtype), rng.standard_normal((25, 9)).astype(dtype)
    c = rng.standard_normal(90)
    assert native.takes(native.RMATMUL, X, H)
    assert not native.takes(native.SWEEP, X, X[:9].T)
    for count in (1, 3):
        close(native.multiply(native.RMATMUL, X, H, count), native.RMATMUL, X, H, dtype)
        rounded = (0.5 * (X.astype(float) - c)).astype(dtype)
        found = native.multiply(native.RMATMUL, X, H, count, center=c, scale=0.5)
        close(found, native.RMATMUL, rounded, H, dtype)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_products(instructions, dtype, index):
    rng = np.random.default_rng(2)
    for N, d, kind in itertools.product((1, 13, 270), (1, 40, 90), KINDS):
        S = sp.random_array((N, d), density=0.1, rng=rng, format="csr").astype(dtype)
        S.indices, S.indptr = S.indices.astype(index), S.indptr.astype(index)
        for width in WIDTHS:
            W = factor_of(kind, S, width, rng, dtype)
            with at(N=N, d=d, kind=kind, width=width):
                close(native.multiply(kind, S, W, 2), kind, S, W, dtype)


@needs_kernels
def test_float64_rows_in_float32_arithmetic():
    """``scale (X - 1 c^T)`` is rounded once, after it was computed in float64."""
    rng = np.random.default_rng(3)
    X = 1e6 + rng.standard_normal((500, 60))
    c = X.mean(axis=0)
    rounded = (0.25 * (X - c)).astype(np.float32)
    for kind in KINDS:
        W = factor_of(kind, X, 9, rng, np.float32)
        close(native.multiply(kind, X, W, 2, center=c, scale=0.25), kind, rounded, W, np.float32)


@needs_kernels
@pytest.mark.parametrize("X", [np.eye(40) + 1, sp.csr_array(np.eye(40) + 1)], ids=["dense", "csr"])
def test_a_shifted_sweep(X):
    W = np.random.default_rng(4).standard_normal((40, 5))
    shift = W.sum(axis=0, keepdims=True)
    Z, total = native.multiply(native.SWEEP, X, W, 2, shift=shift)
    H, sums = Shift(shift)(X @ W, slice(0, 40))
    np.testing.assert_allclose(Z, X.T @ H, atol=1e-12)
    np.testing.assert_allclose(total, sums, atol=1e-12)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_moments(dtype, instructions):
    for N, d in itertools.product((1, 5, 999), (1, 8, 33, 1000)):
        X = np.random.default_rng(5).standard_normal((N, d)).astype(dtype)
        sums, energy = native.moments(X, 3)
        np.testing.assert_allclose(sums, X.astype(float).sum(axis=0), atol=1e-12 * N)
        assert energy == pytest.approx(np.sum(X.astype(float) ** 2), rel=1e-13)
        weights = np.arange(N) % 3 / 2
        sums, energy = native.moments(X, 2, weights)
        np.testing.assert_allclose(sums, weights @ X.astype(float), atol=1e-12 * N)
        assert energy == pytest.approx(weights @ (X.astype(float) ** 2).sum(axis=1), rel=1e-13)
    for bad in (np.nan, np.inf, -np.inf):
        X[-1, -1] = bad
        assert not np.isfinite(native.moments(X, 2)[1])


@needs_kernels
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES)
def test_gram_matrices(dtype, order, instructions):
    """Symmetric to the last bit; rounding grows with the few rows of a panel, not with all rows."""
    rng = np.random.default_rng(10)
    for N, d in itertools.product((1, 13, 400), (1, 2, 7, 8, 9, 17, 25, 31, 50, 65, 128, 197)):
        A = (rng.standard_normal((2 * N, d + 3)) + 1).astype(dtype)
        X = A[::2, 2 : d + 2] if order == "C" else np.asfortranarray(A)[2 : N + 2, 1:-1:2]
        expected, size = exact(native.RMATMUL, X, X)
        for single, count in ((True, 1), (False, 2), (True, 3)):
            unit = np.finfo(np.float32 if single else float).eps
            with at(N=N, d=d, single=single, count=count):
                assert native.takes_gram(X, count)
                S = native.gram(X, count, single=single)
                assert np.all(np.abs(S - expected) <= 20 * unit * size)
                assert np.array_equal(S, S.T)
                assert np.array_equal(S, native.gram(X, count, single=single))
    X[-1, -1] = np.nan
    assert np.isnan(native.gram(X, 2, single=True)[-1]).all()


@needs_kernels
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES)
def test_gram_matrices_of_weighted_rows(dtype, order, instructions):
    """Rows of weight 0 are not read."""
    rng = np.random.default_rng(16)
    for N, d in itertools.product((1, 13, 1300), (1, 8, 31, 65)):
        X = np.asarray(rng.standard_normal((N, d)) + 1, dtype=dtype, order=order)
        weights = rng.random(N) * (rng.random(N) < 0.5)
        exact_rows = np.where(weights[:, None] > 0, X, 0).astype(np.longdouble)
        X[weights == 0] = np.nan
        for center, count, single in ((None, 1, True), (rng.random(d), 3, False), (None, 2, False)):
            A = exact_rows - (0 if center is None else center)
            S = native.gram(X, count, single=single, center=center, weights=weights)
            unit = np.finfo(np.float32 if single else float).eps
            with at(N=N, d=d, single=single, count=count):
                size = (np.abs(A).T * weights) @ np.abs(A)
                assert np.all(np.abs(S - (A.T * weights) @ A) <= 30 * unit * size)
                assert np.array_equal(S, S.T)


@needs_kernels
@pytest.mark.parametrize("dtype", TYPES)
def test_norms_of_rows(dtype, instructions):
    rng = np.random.default_rng(17)
    for N, d in itertools.product((1, 13, 300), (1, 8, 33, 100)):
        X, c = (rng.standard_normal((N, d)) + 2).astype(dtype), rng.standard_normal(d)
        for center, scale in ((None, 1.0), (c, 1.0), (c, 0.25)):
            wide = scale * (X.astype(np.longdouble) - (0 if center is None else center))
            norms = native.row_norms(X, 2, center, scale)
            true = np.sqrt((wide * wide).sum(axis=1))
            np.testing.assert_allclose(norms, true.astype(dtype), rtol=2 * np.finfo(dtype).eps)
    for size in (1e-30, 1e30) if dtype == np.float32 else (1e-160, 1e160):
        X = np.full((300, 900), size, dtype=dtype)
        if dtype == np.float64:
            assert native.row_norms(X, 1) is None
        np.testing.assert_allclose(as_operator(X).row_norms(), 30 * size, rtol=1e-6)


@needs_kernels
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", TYPES)
def test_gram_matrices_of_centered_and_scaled_rows(dtype, order, instructions):
    """Rows lose a centre, and columns a number each, in float64 before they are rounded."""
    rng = np.random.default_rng(13)
    X = np.asarray(1000 + rng.standard_normal((300, 41)), dtype=dtype, order=order)
    for by_row in (False, True):
        center = X.astype(float).mean(axis=1 if by_row else 0)
        exact_rows = (X - (center[:, None] if by_row else center)) * 2.0**-3
        for single, given in ((True, center), (False, center), (True, None)):
            A = exact_rows if given is not None else X * 2.0**-3
            unit = np.finfo(np.float32 if single else float).eps
            S = native.gram(X, 2, single=single, center=given, by_row=by_row, scale=2.0**-3)
            assert np.all(np.abs(S - A.T @ A) <= 20 * unit * (np.abs(A.T) @ np.abs(A)))


@needs_kernels
@pytest.mark.parametrize("count", [1, 2, 5])
def test_threads_share_the_columns_of_large_gram_matrices(count, instructions):
    """With many columns the sums of a thread are strips of columns, a part of which it adds at a time."""
    X = np.random.default_rng(12).standard_normal((40, 1811)) + 0.5
    for single in (True, False):
        S = native.gram(X, count, single=single)
        unit = np.finfo(np.float32 if single else float).eps
        assert np.all(np.abs(S - X.T @ X) <= 20 * unit * (np.abs(X.T) @ np.abs(X)))
        assert np.array_equal(S, S.T)


@needs_kernels
def test_gram_matrices_of_arrays_are_those_of_the_kernels(monkeypatch):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((5000, 20)) + 0.1
    assert native.takes_gram(X, 1)
    assert native.takes_gram(np.asfortranarray(X), 1)
    assert not native.takes_gram(X[:, ::2], 1)
    assert not native.takes_gram(np.broadcast_to(X[:, :1], (5000, 2**14)), 2)
    for one in (X[:, ::2][:, :1], X[:, :1], np.asfortranarray(X)[:, 3:4]):
        np.testing.assert_allclose(native.gram(one, 2, single=False), one.T @ one, rtol=1e-12)
    operator, kernels = centered(as_operator(X)), native.kernels
    before = operator.passes
    S, weighted = operator.gram(), operator.gram(np.full(5000, 2.0))
    assert operator.passes - before == 2
    monkeypatch.setattr(native, "kernels", None)
    np.testing.assert_allclose(S, operator.gram(), atol=1e-9)
    np.testing.assert_allclose(weighted, 2 * S, atol=1e-9)
    with pytest.raises(ValueError, match="fit"):
        kernels.gram(X, np.empty((28, 48)), np.zeros(19), False, 1.0, None, False, 1)
    with pytest.raises(ValueError, match="fit"):
        kernels.gram(X, np.empty((28, 48)), None, False, 1.0, np.ones(4999), False, 1)
    with pytest.raises(ValueError, match="fit"):  # columns that lose a number each have no weights
        kernels.gram(X, np.empty((28, 48)), np.zeros(5000), True, 1.0, np.ones(5000), False, 1)
    for out in (np.empty((20, 32)), np.empty((28, 31)), np.empty((28, 64))[:, ::2]):
        with pytest.raises(ValueError, match="fit"):
            kernels.gram(X, out, None, False, 1.0, None, False, 1)


@needs_kernels
def test_one_number_of_threads_gives_one_answer():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((3000, 200))
    for kind, count in itertools.product(KINDS, (1, 2, 3)):
        F = factor_of(kind, X, 16, np.random.default_rng(7), float)
        first = native.multiply(kind, X, F, count)
        assert all(np.array_equal(first, native.multiply(kind, X, F, count)) for _ in range(3))


@needs_kernels
def test_sparse_rows_have_no_exponentials():
    X = sp.csr_array(np.eye(4))
    with pytest.raises(ValueError, match="do not fit"):
        native.multiply(native.MATEXP, X, np.eye(4), 1)


@needs_kernels
def test_wrong_shapes_and_types_are_refused_before_memory_is_read():
    X, W = np.ones((4, 3)), np.ones((3, 2))
    wrong = [
        (X, np.ones((4, 2)), np.ones((3, 2))),
        (X, W, np.ones((3, 1))),
        (X, W, np.ones((3, 2), np.float32)),
        (X[:, ::2], np.ones((2, 2)), np.ones((2, 2))),
        (X.astype(int), W, np.ones((3, 2))),
        (X[0], W, np.ones((3, 2))),
    ]
    for matrix, factor, out in wrong:
        with pytest.raises((TypeError, ValueError)):
            native.kernels.product(
                native.SWEEP, matrix, factor, out, None, 1.0, None, None, None, 1
            )
    out = np.ones((3, 2))
    with pytest.raises(ValueError, match="center"):
        native.kernels.product(native.SWEEP, X, W, out, np.ones(4), 1.0, None, None, None, 1)
    out.setflags(write=False)
    with pytest.raises(ValueError, match=r"writ|read-only"):
        native.kernels.product(native.SWEEP, X, W, out, None, 1.0, None, None, None, 1)
    S = sp.csr_array(X)
    parts = (S.data, S.indices, S.indptr.astype(float), 3)
    with pytest.raises(TypeError):
        native.kernels.csr_product(native.MATMUL, *parts, W, np.ones((4, 2)), None, None, 1)


def test_threads_follow_the_limits_of_the_user(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threadpool_limits(1, user_api="blas"):
        assert threads() == 1
    before = threads()
    with one_blas_thread():
        assert threads() == before
    with one_thread():
        assert threads() == 1
    assert threads() == before
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads() == 1


@needs_kernels
def test_operators_multiply_alike_with_and_without_kernels(monkeypatch):
    monkeypatch.setattr(native, "LEAST", 0)
    rng = np.random.default_rng(8)
    A = rng.standard_normal((80, 30)) + 3
    S = sp.random_array((80, 30), density=0.3, rng=rng)
    c = A.mean(axis=0)[:, None]
    made = {
        "dense": as_operator(A),
        "by columns": as_operator(np.asfortranarray(A)),
        "transposed": as_operator(A).T,
        "csr": as_operator(S.tocsr()),
        "csc": as_operator(S.tocsc()),
        "centred": centered(as_operator(A)),
        "centred csr": centered(as_operator(S.tocsr())),
        "shifted": Shifted(as_operator(A), c),
        "in float32": Shifted(as_operator(A), c).in_float32(0.5),
    }

    def products(X):
        W, H = (np.cos(np.arange(n * 4.0)).reshape(n, 4).astype(X.dtype) for n in X.shape[::-1])
        rows = X.sweep(W, lambda Y, rows: (np.tanh(Y), np.sum(Y)))
        return [X.matmul(W), X.rmatmul(H), X.sweep(W), *rows]

    begun = {name: X.passes for name, X in made.items()}
    found = {name: products(X) for name, X in made.items()}
    passes = {name: X.passes - begun[name] for name, X in made.items()}
    monkeypatch.setattr(native, "kernels", None)
    for name, X in made.items():
        before, unit = X.passes, 1e-4 if "32" in name else 1e-10
        with at(name=name):
            for one, other in zip(found[name], products(X), strict=True):
                np.testing.assert_allclose(one, other, rtol=unit, atol=unit)
            assert X.passes - before == passes[name]


def test_models_are_the_same_with_and_without_kernels(monkeypatch):
    X = np.random.default_rng(9).standard_normal((900, 400)) * np.linspace(3, 1, 400)
    options = {"solver": "krylov", "tol": 1e-6, "random_state": 0}
    one = PCA(5, **options).fit(X)
    assert ("kernels" in one.solver_) == dualpca.native_available()
    monkeypatch.setattr(native, "kernels", None)
    other = PCA(5, **options).fit(X)
    assert "kernels" not in other.solver_
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-5)
    np.testing.assert_allclose(one.explained_variance_, other.explained_variance_, rtol=1e-9)


def test_the_environment_turns_the_kernels_off():
    code = "import dualpca; assert not dualpca.native_available()"
    subprocess.run([sys.executable, "-c", code], check=True, env={"DUALPCA_NATIVE": "0"})
