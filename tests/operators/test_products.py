"""Operators that are known by their products: every member, and every linear estimator."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from dualpca import PCA, PrincipalComponentPursuit, RobustPCA, SparsePCA, as_operator
from dualpca.operators import (
    Blocks,
    Centered,
    Kernel,
    Operator,
    RowBlocked,
    Weighted,
    as_rows,
    block_ops,
    centered,
)


class TwoMethods(Operator):
    """An operator as a user writes it."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype

    def matmul(self, W):
        return self.A @ W

    def rmatmul(self, H):
        return self.A.T @ H


class Pieces(RowBlocked):
    """Row blocks as a user writes them."""

    def __init__(self, A):
        super().__init__(A.shape, A.dtype)
        self.A = A

    def blocks(self, factor=1):
        for i in range(0, len(self.A), 7):
            yield slice(i, min(i + 7, len(self.A))), self.A[i : i + 7]


def data(N=80, d=12, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((N, d)) * 0.6 ** np.arange(d)
    return scores @ np.linalg.qr(rng.standard_normal((d, d)))[0] * 3 + 0.1


def centre(A):
    return np.linspace(-0.5, 0.5, A.shape[1])[:, None]


def weights(A):
    return np.linspace(0.5, 2.0, A.shape[0])


#: An operator of A, and the dense matrix that it is.
KINDS = {
    "two methods": lambda A: (TwoMethods(A), A),
    "row blocks": lambda A: (Pieces(A), A),
    "LinearOperator": lambda A: (as_operator(aslinearoperator(A)), A),
    "transposed": lambda A: (TwoMethods(A.T).T, A),
    "centred": lambda A: (Centered(as_operator(A), centre(A)), A - centre(A).T),
    "centred products": lambda A: (Centered(TwoMethods(A), centre(A)), A - centre(A).T),
    "centred sparse": lambda A: (
        Centered(as_operator(sp.csr_array(A)), centre(A)),
        A - centre(A).T,
    ),
    "weighted": lambda A: (Weighted(as_operator(A), weights(A)), weights(A)[:, None] * A),
    "weighted products": lambda A: (Weighted(TwoMethods(A), weights(A)), weights(A)[:, None] * A),
    "weighted sparse": lambda A: (
        Weighted(as_operator(sp.csr_array(A)), weights(A)),
        weights(A)[:, None] * A,
    ),
    "weighted centred": lambda A: (
        Weighted(Centered(Blocks([A[:30], A[30:]]), centre(A)), weights(A)),
        weights(A)[:, None] * (A - centre(A).T),
    ),
    "columns": lambda A: (TwoMethods(np.hstack([A, A])).take_columns(np.arange(A.shape[1])), A),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("block_bytes", [1, block_ops.BLOCK_BYTES])
@pytest.mark.parametrize("shape", [(80, 12), (12, 80)], ids=str)
@pytest.mark.parametrize("rows", [False, True], ids=["operator", "rows"])
@every_kind
def test_every_member_is_that_of_the_dense_matrix(kind, rows, shape, block_bytes, monkeypatch):
    monkeypatch.setattr(block_ops, "BLOCK_BYTES", block_bytes)
    X, A = KINDS[kind](data(*shape))
    X = as_rows(X) if rows else X
    N, d = A.shape
    rng = np.random.default_rng(1)
    W, H, w = rng.standard_normal((d, 3)), rng.standard_normal((N, 3)), rng.random(N)
    some = np.array([0, 3, 3, 9])
    part = X.take_columns(some)
    assert X.shape == (N, d)
    assert X.T.T is X
    near = {"rtol": 1e-10, "atol": 1e-10}
    for got, want in (
        (X @ W, A @ W),
        (X.T @ H, A.T @ H),
        (X.sweep(W), A.T @ A @ W),
        (X.T.sweep(H), A @ A.T @ H),
        (X.sweep(W, lambda Y, rows: (Y**3, Y.sum()))[0], A.T @ (A @ W) ** 3),
        (X.sweep(W, lambda Y, rows: (Y**3, Y.sum()))[1], (A @ W).sum()),
        (X.gram(), A.T @ A),
        (X.gram(w), A.T @ (w[:, None] * A)),
        (X.kernel(), A @ A.T),
        (X.row_norms(), np.linalg.norm(A, axis=1)),
        (X.T.row_norms(), np.linalg.norm(A, axis=0)),
        (X.column_squares(), (A**2).sum(axis=0)),
        (X.column_squares(w), w @ A**2),
        (X.energy(), (A**2).sum()),
        (X.todense(), A),
        (part @ W[: len(some)], A[:, some] @ W[: len(some)]),
        (part.T @ H, A[:, some].T @ H),
        (part.gram(), A[:, some].T @ A[:, some]),
        (X.row_vector(w), w),
    ):
        assert_allclose(got, want, **near)
    for chosen in (some, np.arange(N), np.array([N - 1])):
        taken = X.take(chosen)
        assert_allclose(taken.toarray() if sp.issparse(taken) else taken, A[chosen], **near)
    assert X.entries <= N * d
    assert X.like.shape == (0, 0)
    with pytest.raises(ValueError, match=r"has shape \(3,\); give one weight for each of the"):
        X.row_vector(np.ones(3))
    if rows:
        total, energy = X.column_sums(w)
        assert_allclose(total, A.T @ w, **near)
        assert energy == pytest.approx(float(w @ (A**2).sum(axis=1)))
        stacked = [(r, b.toarray() if sp.issparse(b) else b) for r, b in X.blocks()]
        assert_allclose(np.concatenate([b for _, b in stacked]), A, **near)
        assert [r.start for r, _ in stacked] == [0, *(r.stop for r, _ in stacked[:-1])]


@pytest.mark.parametrize("make", [TwoMethods, lambda A: as_operator(aslinearoperator(A))])
def test_products_are_counted(make):
    A = data()
    X = make(A)
    W, H = np.ones((12, 2)), np.ones((80, 2))
    for view in (X, Centered(X, centre(A)), Weighted(X, weights(A)), as_rows(X), X.T.T):
        before = X.passes
        view @ W
        assert view.passes == X.passes == before + 1
        view.T @ H
        view.sweep(W)
        assert view.T.passes == X.passes == before + 4


def test_a_linear_operator_needs_real_numbers():
    with pytest.raises(ValueError, match="complex128; real numbers are needed"):
        as_operator(aslinearoperator(np.ones((3, 2)) * 1j))
    single = as_operator(aslinearoperator(np.ones((3, 2), dtype=np.float32)))
    assert single.dtype == np.float32
    assert (single @ np.ones((2, 1), dtype=np.float32)).dtype == np.float32
    assert as_operator(aslinearoperator(np.ones((3, 2), dtype=int))).dtype == np.float64


MODELS = {
    "pca": lambda: PCA(3, tol=1e-10, random_state=0),
    "pca krylov": lambda: PCA(3, solver="krylov", tol=1e-10, random_state=0),
    "pca gram": lambda: PCA(3, solver="gram", random_state=0),
    "pca dca": lambda: PCA(3, solver="dca", tol=1e-10, max_iter=2000, random_state=0),
    "pca share": lambda: PCA(0.9, random_state=0),
    "pca not centred": lambda: PCA(3, center=False, tol=1e-10, random_state=0),
    "robust": lambda: RobustPCA(3, tol=1e-8, random_state=0),
    "robust mean": lambda: RobustPCA(3, center="mean", tol=1e-8, random_state=0),
    "robust median": lambda: RobustPCA(3, center="median", tol=1e-8, random_state=0),
    "sparse": lambda: SparsePCA(3, n_nonzero=4, random_state=0),
    "sparse l1": lambda: SparsePCA(3, penalty="l1", alpha=0.1, random_state=0),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* of the rows are flagged:UserWarning")  # of 20
@pytest.mark.parametrize("name", MODELS)
@every_kind
def test_fits_are_those_of_the_dense_matrix(kind, name):
    near = {"rtol": 1e-4, "atol": 1e-5}
    for shape, weighted in itertools.product([(80, 12), (20, 30)], [False, True]):
        X, A = KINDS[kind](data(*shape))
        given = np.repeat([1.0, 2.0], [len(A) - 10, 10]) if weighted else None
        want = MODELS[name]().fit(A, sample_weight=given)
        got = MODELS[name]().fit(X, sample_weight=given)
        assert_allclose(got.explained_variance_, want.explained_variance_, **near)
        assert_allclose(np.abs(got.components_), np.abs(want.components_), **near)
        assert_allclose(got.mean_, want.mean_, **near)
        assert got.n_passes_ > 0
        assert_allclose(np.abs(got.transform(X)), np.abs(want.transform(A)), **near)
        assert_allclose(got.transform(A), got.transform(X), **near)
        if hasattr(got, "orthogonal_distances_"):
            assert_allclose(got.orthogonal_distances_, want.orthogonal_distances_, **near)


def test_a_scipy_operator_is_fitted_and_scored():
    A = data()
    X = LinearOperator(A.shape, matvec=lambda w: A @ w, rmatvec=lambda h: A.T @ h, dtype=float)
    want = PCA(3, tol=1e-10, random_state=0).fit(A)
    got = PCA(3, tol=1e-10, random_state=0)
    assert_allclose(np.abs(got.fit_transform(X)), np.abs(want.transform(A)), atol=1e-6)
    assert_allclose(got.score_samples(X), want.score_samples(A), rtol=1e-6)
    assert_allclose(
        got.inverse_transform(got.transform(X)), got.inverse_transform(got.transform(A))
    )
    assert got.n_features_in_ == 12
    with pytest.raises(ValueError, match="X has 5 features, but PCA is expecting 12"):
        got.transform(aslinearoperator(A[:, :5]))
    with pytest.raises(ValueError, match="minimum of"):
        PCA(1).fit(aslinearoperator(A[:1]))


def test_operators_with_nan_are_refused():
    A = data()
    A[3, 4] = np.nan
    for X in (TwoMethods(A), aslinearoperator(A), Centered(as_operator(A), centre(A))):
        with pytest.raises(ValueError, match="contains NaN or infinity"):
            PCA(2).fit(X)


def test_a_large_mean_is_centred_with_a_rank_one_correction():
    A = data() + 1e3
    for X in (TwoMethods(A), aslinearoperator(A)):
        want, got = PCA(2, tol=1e-8).fit(A), PCA(2, tol=1e-8).fit(X)
        assert_allclose(got.explained_variance_, want.explained_variance_, rtol=1e-6)
        assert_allclose(np.abs(got.transform(X)), np.abs(want.transform(A)), atol=1e-5)


def test_what_cannot_be_fitted_is_told():
    A = data()
    K = Kernel.from_matrix(A @ A.T)
    with pytest.raises(
        TypeError, match=r"X is a Kernel, whose columns are implicit, and PCA needs"
    ):
        PCA(2).fit(K)
    with pytest.raises(TypeError, match=r"X is a Centered, whose columns are implicit"):
        RobustPCA(2).fit(centered(K))
    for X in (TwoMethods(A), aslinearoperator(A), Centered(as_operator(A), centre(A))):
        with pytest.raises(TypeError, match="needs all of X at once; give a dense array"):
            PrincipalComponentPursuit().fit(X)


# Wrappers pass everything on.


@pytest.mark.parametrize("far", [False, True], ids=["implicit", "explicit"])
def test_products_with_wide_dask_data_are_arrays_of_this_process(far):
    """Behind explicit centring they were lazy, and Krylov iterated on those."""
    da = pytest.importorskip("dask.array")
    A = data(20, 50) + (1e5 if far else 0.0)
    X = as_operator(da.from_array(A, chunks=(7, 50)))
    Xc = centered(X)
    H, exact = np.random.default_rng(0).standard_normal((20, 3)), A - A.mean(axis=0)
    for got, want in ((Xc.T.sweep(H), exact @ exact.T @ H), (Xc.T.rmatmul(exact.T @ H), None)):
        assert type(got) is np.ndarray
        if want is not None:
            assert_allclose(got, want, atol=1e-6 * np.abs(want).max())


def stored(N=300, d=40):
    return sp.random_array((N, d), density=0.02, rng=0).tocsr()


def pieces(A):
    return [A[:100], A[100:]]


SPARSE = {
    "blocks": lambda A: Blocks(pieces(A)),
    "functions": lambda A: Blocks(
        [lambda part=part: part for part in pieces(A)],
        shapes=[part.shape for part in pieces(A)],
        dtype=float,
    ),
    "dask": lambda A: as_operator(
        pytest.importorskip("dask.array").from_array(A, chunks=(100, 40), asarray=False)
    ),
}


@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_rows_are_priced_by_their_entries(kind):
    """They were priced as dense ones."""
    A = stored()
    X = SPARSE[kind](A)
    Xc = centered(X)
    assert X.entries == Xc.entries == A.nnz
    assert X.take_columns(np.arange(20)).entries == A.nnz // 2


@pytest.mark.parametrize("lazy", [False, True])
def test_rows_are_selected_or_weigh_nothing(lazy):
    A = data()
    keep, w = A[:, 0] > 0, weights(A)
    X = as_operator(pytest.importorskip("dask.array").from_array(A, chunks=(30, 12)) if lazy else A)
    chosen, none = X.select(keep)
    own, of_own = X.select(keep, w)
    # Rows that are not copied weigh nothing: those of a cluster, and those that C kernels can leave out.
    assert (none is None) == (not lazy and not X.grams_by_kernels)
    for part, mass, want in ((chosen, none, keep * 1.0), (own, of_own, keep * w)):
        assert_allclose(part.gram(mass), A.T @ (want[:, None] * A))


def test_the_cores_are_left_to_threads_behind_row_maps_too(monkeypatch):
    A = stored(3000, 200)
    X = as_operator(A)
    entered = []
    monkeypatch.setattr(X, "blas_limited", lambda: entered.append(1))
    X.take_columns(np.arange(3)).blas_limited()
    Weighted(X, np.ones(3000)).blas_limited()
    assert entered == [1, 1]
