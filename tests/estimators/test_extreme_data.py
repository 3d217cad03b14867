"""Rows far from zero, nearly equal, or at the ends of the range: right, or refused with the remedy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from dualpca import PCA, KernelPCA, RobustKernelPCA, SparsePCA, as_operator
from dualpca.linear.selection import Spectrum, minka
from dualpca.operators import centered
from dualpca.operators.centering import Shifted, subtract_from_sparse

FORMS = {
    "dense": lambda X: X,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "blocks": lambda X: as_operator([X[:20], X[20:]]),
    "sparse blocks": lambda X: as_operator([sp.csr_array(X[:20]), sp.csr_array(X[20:])]),
}


def truth(X):
    """The singular values of X less its mean, in extended precision until the spread is left."""
    A = X.astype(np.longdouble)
    return np.linalg.svd((A - A.mean(axis=0)).astype(float), compute_uv=False)


def gaussian(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("solver", ["gram", "krylov", "dca"])
@pytest.mark.parametrize(
    ("offset", "dtype"), [(1e4, "float32"), (1e6, "float32"), (1e8, "float64"), (1e12, "float64")]
)
def test_the_spread_of_rows_far_from_zero_keeps_its_digits(form, solver, offset, dtype):
    X = (gaussian(60, 8) * np.arange(8, 0, -1) + offset).astype(dtype)
    model = PCA(3, solver=solver, tol=1e-5, random_state=0).fit(FORMS[form](X))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(model.singular_values_, truth(X)[:3], rtol=max(1e-9, 20 * eps))
    np.testing.assert_allclose(model.mean_, X.mean(axis=0, dtype=np.longdouble).astype(float), eps)


@pytest.mark.filterwarnings("ignore:column 3 holds")
@pytest.mark.parametrize("weighted", [False, True])
def test_one_far_column_does_not_blur_the_sparse_others(weighted):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((80, 12)) < 0.2, rng.standard_normal((80, 12)), 0.0)
    X[:, 3] = 1e5 + rng.standard_normal(80)
    X[5, 3] = 0.0  # nearly full
    X[5, 4] = 3.0
    X = X.astype(np.float32)
    weights = rng.integers(1, 4, 80) if weighted else None
    model = PCA(4, tol=1e-5, random_state=0).fit(sp.csr_array(X), sample_weight=weights)
    rows = X if weights is None else np.repeat(X, weights, axis=0)
    np.testing.assert_allclose(model.singular_values_, truth(rows)[:4], rtol=1e-5)


def test_filling_is_subtraction_and_keeps_the_other_columns_sparse():
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 9), density=0.3, rng=rng)
    c = np.where(np.arange(9) % 4 == 0, 2.5, 0.0)
    for block in (X.tocsr(), X.tocsc()):
        found = subtract_from_sparse(block, c)
        np.testing.assert_array_equal(found.toarray(), X.toarray() - c)
        empty = c == 0
        assert found.tocsc()[:, empty].nnz == X.tocsc()[:, empty].nnz
    assert (subtract_from_sparse(X.tocsr(), np.zeros(9)) != X).nnz == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_rows_have_no_variance(form, dtype):
    X = np.tile(gaussian(1, 8).astype(dtype) + 7, (60, 1))
    for model in (PCA(3, random_state=0), PCA(3, solver="gram"), PCA(3, solver="krylov")):
        model.fit(FORMS[form](X))
        assert (model.explained_variance_ == 0).all()
        assert (model.explained_variance_ratio_ == 0).all()
        assert model.residual_ == 0


@pytest.mark.filterwarnings("ignore:column 2 holds")
def test_one_unit_of_rounding_in_one_row_is_the_variance():
    X = np.tile(gaussian(1, 8) + 7, (60, 1))
    X[17, 2] = np.nextafter(X[17, 2], np.inf)
    step = X[17, 2] - X[16, 2]
    for form in ("dense", "blocks"):
        model = PCA(1, random_state=0).fit(FORMS[form](X))
        assert model.explained_variance_[0] == pytest.approx(step**2 / 60, rel=1e-12)
        assert abs(model.components_[0, 2]) == pytest.approx(1)


def test_a_mean_has_more_digits_than_float64():
    X = gaussian(50, 4) + 1e12
    view = centered(as_operator(X))
    assert isinstance(view, Shifted)
    near = X - 1e12  # exact
    exact = near - near.mean(axis=0)
    np.testing.assert_allclose(view.todense(), exact, atol=1e-14)


@pytest.mark.parametrize("form", ["dense", "csr", "blocks"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", ["gram", "krylov", "auto"])
def test_all_components_of_wide_float32_rows_are_orthonormal(form, weighted, solver):
    X = gaussian(12, 40).astype(np.float32)
    weights = np.arange(1, 13) if weighted else None
    model = PCA(12, solver=solver, random_state=0).fit(FORMS[form](X), sample_weight=weights)
    V = model.components_.astype(float)
    np.testing.assert_allclose(V @ V.T, np.eye(12), atol=1e-6)


def test_components_stay_orthonormal_where_singular_values_fall_fast():
    U, _ = np.linalg.qr(gaussian(30, 6))
    V, _ = np.linalg.qr(gaussian(500, 6, seed=1))
    X = ((U * 10.0 ** -np.arange(6)) @ V.T).astype(np.float32)
    for solver in ("gram", "krylov"):
        model = PCA(4, solver=solver, tol=1e-4, center=False, random_state=0).fit(X)
        W = model.components_.astype(float)
        np.testing.assert_allclose(W @ W.T, np.eye(4), atol=1e-5)


def test_long_sums_of_sparse_float32_rows_are_in_float64():
    X = (gaussian(400_000, 3) + np.array([3, 2, 0])).astype(np.float32)
    exact = X.astype(float).T @ X.astype(float)
    for operator in (as_operator(sp.csr_array(X)), as_operator(sp.csc_array(X))):
        np.testing.assert_allclose(operator.gram(single=True), exact, rtol=1e-12)
        np.testing.assert_allclose(operator.T.kernel(single=True), exact, rtol=1e-12)


@pytest.mark.parametrize("estimator", [PCA, SparsePCA])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("scale", "dtype", "word"),
    [
        (1e200, "float64", "overflow"),
        (1e-200, "float64", "underflow"),
        (1e-310, "float64", "underflow"),
        (1e19, "float32", "overflow"),
        (1e-25, "float32", "underflow"),
        (1e-42, "float32", "underflow"),
    ],
)
def test_squares_beyond_the_range_are_refused_with_the_remedy(estimator, form, scale, dtype, word):
    X = (gaussian(60, 8) * scale).astype(dtype)
    assert (X != 0).any()
    with pytest.raises(ValueError, match=rf"X has entries so .*{word} {dtype}; divide X by"):
        estimator(2).fit(FORMS[form](X))


@pytest.mark.parametrize("form", FORMS)
def test_zeros_are_not_taken_for_underflow(form):
    model = PCA(2).fit(FORMS[form](np.zeros((60, 8))))
    assert (model.explained_variance_ == 0).all()


def test_direct_solvers_tell_of_a_residual_above_tol():
    from dualpca.solvers.subspace import warn_above

    with pytest.warns(ConvergenceWarning, match=r"residual of 1\.0e-02, above .*give float64"):
        warn_above(1e-2, 1e-4, "gram", None)


def test_the_number_of_components_by_mle_has_no_unit():
    X = gaussian(200, 8) * [9, 8, 7, 1, 1, 1, 1, 1]
    assert {PCA("mle").fit(X * c).n_components_ for c in (1.0, 1e-9, 1e-60, 1e60)} == {3}
    assert minka(Spectrum(np.zeros(4), 10, 9, 4)).n_components == 1


@pytest.mark.parametrize("estimator", [KernelPCA, RobustKernelPCA])
def test_sparse_rows_whose_shift_overflows_are_refused_without_a_warning(estimator):
    X = np.finfo(np.float32).max * np.sign(np.arange(60, dtype=np.float32) - 44.5)[:, None]
    with pytest.raises(ValueError, match="overflow float32; divide X by its largest magnitude"):
        estimator(1, kernel="linear").fit(sp.csr_array(np.repeat(X, 3, axis=1)))
