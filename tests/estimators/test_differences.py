"""Each row of docs/differences.md, and what is the same: scikit-learn beside ours."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn import decomposition
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import KernelCenterer

from dualpca import PCA, KernelPCA, PrincipalComponentPursuit

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6)) * [6, 4, 3, 2, 1, 0.5] + RNG.standard_normal(6)
NEW = RNG.standard_normal((9, 6))
SOLVERS = ["auto", "lapack", "gram", "krylov"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_whitening_changes_scores_and_not_the_model(solver):
    plain, white = (PCA(3, whiten=w, solver=solver, tol=1e-10).fit(X) for w in (False, True))
    theirs = decomposition.PCA(3).fit(X)
    assert_allclose(plain.score(NEW), theirs.score(NEW))
    assert_allclose(white.score(NEW), theirs.score(NEW))
    assert_allclose(white.get_covariance(), theirs.get_covariance(), atol=1e-8)
    assert not np.isclose(decomposition.PCA(3, whiten=True).fit(X).score(NEW), theirs.score(NEW))


def test_whitened_axes_without_variance():
    flat = np.c_[X, X[:, 0] + X[:, 1]]
    assert np.abs(PCA(whiten=True).fit_transform(flat)[:, -1]).max() < 1e-12
    assert np.abs(decomposition.PCA(whiten=True).fit_transform(flat)[:, -1]).max() > 0.1


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_takes_every_number_of_components(solver):
    full = decomposition.PCA(svd_solver="full")
    assert PCA(solver=solver).fit(X).n_components_ == 6
    assert decomposition.PCA(svd_solver="arpack").fit(X).n_components_ == 5
    for n in ("mle", 0.8):
        expected = full.set_params(n_components=n).fit(X).n_components_
        assert PCA(n, solver=solver, tol=1e-10).fit(X).n_components_ == expected


def test_no_components_are_refused():
    assert decomposition.PCA(0).fit(X).components_.shape == (0, 6)
    with pytest.raises(ValueError, match="n_components"):
        PCA(0).fit(X)


@pytest.mark.parametrize("options", [{}, {"n_components": 2, "remove_zero_eig": True}])
def test_kernels_of_equal_rows_leave_a_column(options):
    equal = np.ones((5, 2))
    assert decomposition.KernelPCA(**options).fit_transform(equal).shape == (5, 0)
    scores = KernelPCA(**options).fit_transform(equal)
    assert scores.shape == (5, 1)
    assert not scores.any()


def test_zero_eigenvalues_are_dropped_as_there():
    rank = X[:, :2] @ RNG.standard_normal((2, 6))
    for options in ({}, {"n_components": 9, "remove_zero_eig": True}):
        ours, theirs = (kind(**options).fit(rank) for kind in (KernelPCA, decomposition.KernelPCA))
        assert ours.eigenvalues_.shape == theirs.eigenvalues_.shape == (2,)
    assert KernelPCA(9).fit(rank).eigenvalues_.shape == (9,)


def test_a_kernel_that_is_symmetric_once_it_is_centred():
    K = X @ X.T
    skew = K + RNG.standard_normal(60)[:, None]
    with pytest.raises(ValueError, match=r"symmetric.*\(X \+ X.T\) / 2"):
        KernelPCA(2, kernel="precomputed").fit(skew)
    mended = (skew + skew.T) / 2
    center = KernelCenterer()
    assert_allclose(center.fit_transform(mended), center.fit_transform(K), atol=1e-10)
    ours = KernelPCA(2, kernel="precomputed", tol=1e-10).fit(mended)
    theirs = decomposition.KernelPCA(2, kernel="precomputed").fit(skew)
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_)


def test_kernels_of_new_rows_need_no_symmetry():
    K, order = X @ X.T, RNG.permutation(60)
    ours = KernelPCA(2, kernel="precomputed", tol=1e-10).fit(K)
    theirs = decomposition.KernelPCA(2, kernel="precomputed").fit(K)
    for new in (K[order], NEW @ X.T):
        assert_allclose(ours.transform(new), theirs.transform(new), atol=1e-7)


def test_no_way_back_that_was_not_asked_for():
    for rows in (X, sp.csr_array(X)):
        ours, theirs = (kind(2).fit(rows) for kind in (KernelPCA, decomposition.KernelPCA))
        for model in (ours, theirs):
            with pytest.raises(NotFittedError, match="fit_inverse_transform"):
                model.inverse_transform(model.transform(rows))
        assert not hasattr(ours, "inverse_transform")


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.coo_array])
def test_sparse_scores_have_a_way_back(kind):
    sparse = kind(np.where(NEW[:, :2] > 0, NEW[:, :2], 0))
    for model in (
        PCA(2, whiten=True).fit(X),
        KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(X),
        PrincipalComponentPursuit(lam=0.2).fit(X[:, :2] @ NEW[:2]),
    ):
        rows = model.inverse_transform(sparse)
        assert type(rows) is np.ndarray
        assert_allclose(rows, model.inverse_transform(sparse.toarray()), atol=1e-12)
