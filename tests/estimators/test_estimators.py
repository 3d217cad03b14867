"""What PCA and KernelPCA do beyond scikit-learn's, and at the edges."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import decomposition
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from dualpca import PCA, KernelPCA, as_operator
from dualpca.operators import Blocks, Weighted


def data(N=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N, d)) * 0.9 ** np.arange(d) + 1.0


def measured(A, V):
    """The relative residual of the covariance, in float64."""
    A = np.asarray(A, dtype=np.float64)
    A, V = A - A.mean(axis=0), np.asarray(V, dtype=np.float64).T
    Z = A.T @ (A @ V)
    return np.linalg.norm(Z - V @ (V.T @ Z)) / np.linalg.norm(Z)


@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "dca"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_row_blocks_are_data(solver, kind):
    A = data()
    parts = [A[:100], A[100:180], A[180:]]
    blocks = Blocks([sp.csr_array(p) for p in parts] if kind == "sparse" else parts)
    model = PCA(3, solver=solver, tol=1e-9, random_state=0).fit(blocks)
    oracle = decomposition.PCA(3, svd_solver="full").fit(A)
    np.testing.assert_allclose(
        np.abs(model.transform(blocks)), np.abs(oracle.transform(A)), atol=1e-6
    )
    np.testing.assert_allclose(model.transform(A), model.transform(blocks), atol=1e-9)
    bad = A.copy()
    bad[250, 3] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinity.*imputer"):
        PCA(3).fit(Blocks([bad[:100], bad[100:]]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_the_residual_of_krylov_is_measured_not_estimated(dtype, tol):
    A = data(1200, 300).astype(dtype)
    model = PCA(8, solver="krylov", tol=tol, random_state=0).fit(A)
    true = measured(A, model.components_)
    assert true == pytest.approx(model.residual_, rel=0.05, abs=20 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("solver", ["lapack", "gram", "krylov", "dca", "zerofpr"])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_variance_shortfall_is_an_upper_bound(solver, tol):
    A = data(400, 120, seed=2)
    model = PCA(6, solver=solver, tol=tol, random_state=0).fit(A)
    best = decomposition.PCA(6, svd_solver="full").fit(A).explained_variance_.sum()
    centred = A - A.mean(axis=0)
    captured = np.linalg.norm(centred @ model.components_.T) ** 2 / (len(A) - 1)
    assert (best - captured) / best <= model.variance_shortfall_ + 1e-14
    assert model.variance_shortfall_ <= max(20 * model.residual_, 1e-12)


def test_auto_is_gram_on_tall_data_and_krylov_on_large():
    assert PCA(3).fit(data(5000, 40)).solver_.split()[0].rstrip(":") == "gram"
    assert PCA(3).fit(data(100, 40)).solver_.split()[0].rstrip(":") == "lapack"
    assert PCA(3, random_state=0).fit(data(1700, 1600)).solver_.split()[0].rstrip(":") == "krylov"


def test_krylov_takes_no_formulation():
    with pytest.raises(ValueError, match=r"solver='krylov'.*drop formulation='n'"):
        PCA(2, solver="krylov", formulation="n").fit(data())


@pytest.mark.parametrize("letter", ["robust", "robust_dual", "robustT"])
@pytest.mark.parametrize("estimator", [PCA, KernelPCA])
def test_robust_letters_are_another_problem(estimator, letter):
    with pytest.raises(
        ValueError, match=f"formulation='{letter}' has other solutions than PCA; use"
    ):
        estimator(2, formulation=letter).fit(data())


def test_a_singular_model_has_no_likelihood():
    X = load_digits().data  # three pixels are constant
    assert PCA().fit(X).score(X) == -np.inf
    assert np.isfinite(PCA(30).fit(X).score(X))
    wide = data(10, 40)
    assert PCA(9).fit(wide).score(wide) == -np.inf


@pytest.mark.parametrize(
    ("value", "remedy"), [(np.inf, "Replace infinite values"), ("a", "encode those")]
)
@pytest.mark.parametrize("estimator", [PCA(2), KernelPCA(2)])
def test_bad_values_come_with_a_remedy(estimator, value, remedy):
    rows = data(10, 4).tolist()
    rows[3][1] = value
    with pytest.raises(ValueError, match=remedy):
        estimator.fit(rows)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_inverse_transform_of_kernel_pca(kernel, alpha):
    A, new = data(60, 5), data(8, 5, seed=1)
    options = {"kernel": kernel, "gamma": 0.1, "alpha": alpha, "fit_inverse_transform": True}
    ours = KernelPCA(3, **options).fit(A)
    theirs = decomposition.KernelPCA(3, eigen_solver="dense", **options).fit(A)
    back = ours.inverse_transform(ours.transform(new))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(new)), atol=1e-6)
    with pytest.raises(ValueError, match="expects scores with 3 columns"):
        ours.inverse_transform(np.ones((2, 4)))
    assert not hasattr(KernelPCA(3), "inverse_transform")
    with pytest.raises(NotFittedError, match=r"fit_inverse_transform=False.*set"):
        KernelPCA(3).fit(A).inverse_transform(A[:, :3])
    for X, name in ((sp.csr_array(A), kernel), (A @ A.T, "precomputed")):
        with pytest.raises(ValueError, match="fit_inverse_transform=True needs dense rows"):
            KernelPCA(3, kernel=name, fit_inverse_transform=True).fit(X)


def test_a_solver_class_is_no_solver():
    from dualpca.solvers import ZeroFPR

    with pytest.raises(TypeError, match="is no solver; give a name"):
        PCA(2, solver=ZeroFPR).fit(data())


def test_weighted_rows_equal_repeated_rows():
    A = data(50, 8)
    weights = np.random.default_rng(0).integers(1, 4, 50)
    twice = as_operator(np.repeat(A, weights, axis=0))
    np.testing.assert_allclose(Weighted(as_operator(A), np.sqrt(weights)).gram(), twice.gram())


@pytest.mark.parametrize("center", [True, False])
def test_entries_whose_squares_overflow_are_refused(center):
    with pytest.raises(ValueError, match="squares overflow float64; divide X"):
        PCA(2, center=center).fit(data(30, 5) * 1e200)


@pytest.mark.parametrize("solver", ["lapack", "gram"])
def test_accuracy_is_told_of_the_components_that_are_kept(solver):
    A = data(120, 15)
    model = PCA(0.5, solver=solver).fit(A)
    n = model.n_components_
    assert 1 < n < 15
    true = measured(A, model.components_)
    assert model.residual_ == pytest.approx(true, rel=1e-3, abs=1e-12)
    centred = A - A.mean(axis=0)
    best = np.sum(np.linalg.svd(centred, compute_uv=False)[:n] ** 2)
    captured = np.linalg.norm(centred @ model.components_.T) ** 2
    assert (best - captured) / best <= model.variance_shortfall_ + 1e-14
