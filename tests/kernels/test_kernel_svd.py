"""KernelSVD: the shifted eigenvalue problem, LAPACK, PLSSVD and KernelPCA as oracles, new rows."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cross_decomposition import PLSSVD
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels
from tests.loops import over

from dualpca import DCProblem, KernelPCA, KernelSVD, as_operator, load
from dualpca.functions import Ball, Lp, Spectral

DIGITS = load_digits().data / 16
X, Z, NEW = DIGITS[:90], DIGITS[90:150], DIGITS[150:170]
W_Q, W_K = np.random.default_rng(0).standard_normal((2, 64, 5)) / 8


def shifted_product(x, z, power=2):
    return (x[:-1] @ z[1:]) ** power  # not symmetric


KERNELS = {
    "linear": lambda A, B: A @ B.T,
    "exp": lambda A, B: np.exp(A @ B.T / 8),
    "rbf": lambda A, B: pairwise_kernels(A, B, metric="rbf", gamma=1 / 64),
    "poly": lambda A, B: (A @ B.T / 64 + 1) ** 3,
    "sigmoid": lambda A, B: np.tanh(A @ B.T / 64 + 1),
    "laplacian": lambda A, B: pairwise_kernels(A, B, metric="laplacian", gamma=1 / 64),
}


def centred(K):
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1, keepdims=True)


def stationary(model, K, tol=1e-6):
    """``K A = B Sigma`` and ``K^T B = A Sigma`` with orthonormal A and B."""
    A, B, sigma = model.right_vectors_, model.left_vectors_, model.singular_values_
    size = np.linalg.norm(sigma)
    assert np.linalg.norm(K @ A - B * sigma) <= tol * size
    assert np.linalg.norm(K.T @ B - A * sigma) <= tol * size
    for V in (A, B):
        assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-9)
    assert_allclose(sigma, np.linalg.svd(K)[1][: len(sigma)], rtol=1e-6, atol=1e-9 * sigma[0])
    assert (B.max(axis=0) >= -B.min(axis=0)).all()


@pytest.mark.parametrize("solver", ["auto", "krylov", "gram"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_shifted_eigenvalue_problem_holds(kernel, center, solver):
    model = KernelSVD(6, kernel=kernel, center=center, solver=solver, random_state=0).fit(X, Z=Z)
    K = KERNELS[kernel](X, Z)
    stationary(model, centred(K) if center else K)
    assert model.residual_ <= 1e-6
    energy = np.sum((centred(K) if center else K) ** 2)
    assert_allclose(model.energy_ratio_, model.singular_values_**2 / energy, rtol=1e-9)


@over("kernel", KERNELS)
def test_blocks_that_are_never_held_give_the_same(kernel):
    held = KernelSVD(4, kernel=kernel, random_state=0).fit(X, Z=Z)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dualpca.estimators.kernel_svd.KERNEL_BYTES", 0)
        patch.setattr("dualpca.kernels.asymmetric.block_rows", lambda *sizes: 13)
        patch.setattr("dualpca.estimators.kernel_svd.CHUNK_BYTES", 8 * 60 * 7)
        parts = KernelSVD(4, kernel=kernel, random_state=0).fit(X, Z=Z)
        stationary(parts, centred(KERNELS[kernel](X, Z)))
        assert_allclose(parts.transform(NEW), held.transform(NEW), atol=1e-5)
        assert_allclose(parts.transform_right(NEW), held.transform_right(NEW), atol=1e-5)
        assert_allclose(parts.energy_ratio_, held.energy_ratio_, rtol=1e-8)


def test_the_linear_kernel_with_units_is_the_svd():
    M = np.random.default_rng(1).standard_normal((30, 20))
    model = KernelSVD(center=False).fit(M, Z=np.eye(20))
    U, sigma, Vt = np.linalg.svd(M, full_matrices=False)
    assert_allclose(model.singular_values_, sigma, rtol=1e-10)
    assert_allclose(np.abs(np.sum(model.left_vectors_ * U, axis=0)), 1, atol=1e-9)
    assert_allclose(np.abs(np.sum(model.right_vectors_ * Vt.T, axis=0)), 1, atol=1e-9)
    near = model.fit_transform(M, Z=np.eye(20)) @ model.transform_right(np.eye(20)).T
    assert_allclose(near, M, atol=1e-9)


def test_columns_as_rows_are_plssvd():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((50, 7))
    B = A[:, :4] + 0.3 * rng.standard_normal((50, 4))
    A, B = A - A.mean(axis=0), B - B.mean(axis=0)
    oracle = PLSSVD(3, scale=False).fit(A, B)
    model = KernelSVD(3, center=False).fit(A.T, Z=B.T)
    assert_allclose(np.abs(np.sum(model.left_vectors_ * oracle.x_weights_, axis=0)), 1, atol=1e-9)
    assert_allclose(np.abs(np.sum(model.right_vectors_ * oracle.y_weights_, axis=0)), 1, atol=1e-9)


@over("kernel", ["linear", "rbf", "laplacian", "poly"])
def test_one_set_of_rows_and_a_symmetric_kernel_are_kernel_pca(kernel):
    model = KernelSVD(4, kernel=kernel, random_state=0)
    pca = KernelPCA(4, kernel=kernel, tol=1e-8, random_state=0).fit(X)
    scores = model.fit_transform(X)
    assert_allclose(model.singular_values_, pca.eigenvalues_, rtol=1e-8)
    assert_allclose(scores, pca.transform(X), atol=1e-5)
    assert_allclose(model.transform(NEW), pca.transform(NEW), atol=1e-5)
    assert_allclose(model.transform_right(NEW), pca.transform(NEW), atol=1e-5)


@over(("kernel", "center"), [(kernel, center) for kernel in KERNELS for center in (True, False)])
def test_rows_of_the_fit_come_out_as_they_were_and_new_ones_by_the_definition(kernel, center):
    model = KernelSVD(5, kernel=kernel, center=center, random_state=0)
    left = model.fit_transform(X, Z=Z)
    root = np.sqrt(model.singular_values_)
    right = model.right_vectors_ * root
    size = np.abs(left).max()
    assert_allclose(model.transform(X), left, atol=1e-6 * size)
    assert_allclose(model.transform_right(Z), right, atol=1e-6 * size)
    k, K = KERNELS[kernel], KERNELS[kernel](X, Z)
    c, r, m = (K.mean(axis=0), K.mean(axis=1), K.mean()) if center else (0.0, 0.0, 0.0)
    row = k(NEW, Z)
    row = row - c - row.mean(axis=1, keepdims=True) + m if center else row
    assert_allclose(model.transform(NEW), row @ model.right_vectors_ / root, atol=1e-6 * size)
    column = k(X, NEW).T
    column = column - r - column.mean(axis=1, keepdims=True) + m if center else column
    assert_allclose(
        model.transform_right(NEW), column @ model.left_vectors_ / root, atol=1e-6 * size
    )


def test_sides_are_exchanged_by_transposing_and_are_dual_to_each_other():
    K = KERNELS["exp"](X, Z)
    model = KernelSVD(3, kernel="precomputed", center=False).fit(K)
    other = KernelSVD(3, kernel="precomputed", center=False).fit(K.T)
    assert_allclose(other.singular_values_, model.singular_values_, rtol=1e-10)
    signs = np.sign(np.sum(other.right_vectors_ * model.left_vectors_, axis=0))
    assert_allclose(other.right_vectors_ * signs, model.left_vectors_, atol=1e-6)
    problem = DCProblem(Spectral(Ball(Lp(np.inf))), Spectral(Lp(1)), as_operator(K))
    assert_allclose(problem.objective(model.right_vectors_), -model.singular_values_.sum())
    assert_allclose(problem.to_dual(model.right_vectors_), model.left_vectors_, atol=1e-6)
    assert_allclose(problem.dual.objective(model.left_vectors_), -model.singular_values_.sum())


def test_attention_with_its_maps():
    options = {"kernel": "exp", "left_map": W_Q, "right_map": W_K, "center": False}
    model = KernelSVD(5, **options).fit(X)
    assert model.gamma_ == pytest.approx(1 / np.sqrt(5))
    K = np.exp((X @ W_Q) @ (X @ W_K).T / np.sqrt(5))
    assert np.abs(K - K.T).max() > 0.01
    stationary(model, K)
    mapped = KernelSVD(5, kernel="exp", center=False).fit(X @ W_Q, Z=X @ W_K)
    assert_allclose(mapped.transform(NEW @ W_Q), model.transform(NEW), atol=1e-9)
    assert_allclose(mapped.transform_right(NEW @ W_K), model.transform_right(NEW), atol=1e-9)
    near = model.transform(X) @ model.transform_right(X).T
    rest = np.linalg.svd(K)[1][5:]
    assert_allclose(np.linalg.norm(K - near), np.linalg.norm(rest), rtol=1e-6)
    sparse = KernelSVD(5, **options).fit(sp.csr_array(X))
    assert_allclose(sparse.transform(sp.csr_array(NEW)), model.transform(NEW), atol=1e-8)


def test_a_function_of_two_rows_is_not_taken_to_be_symmetric():
    model = KernelSVD(3, kernel=shifted_product, kernel_params={"power": 3}, center=False).fit(X)
    K = (X[:, :-1] @ X[:, 1:].T) ** 3
    assert np.abs(K - K.T).max() > 1
    stationary(model, K)
    assert_allclose(
        model.transform(X), model.left_vectors_ * np.sqrt(model.singular_values_), atol=1e-5
    )


def test_precomputed_kernels_of_new_rows():
    K, center = KERNELS["sigmoid"], True
    given = KernelSVD(3, kernel="precomputed", center=center).fit(K(X, Z))
    model = KernelSVD(3, kernel="sigmoid", center=center).fit(X, Z=Z)
    assert_allclose(given.transform(K(NEW, Z)), model.transform(NEW), atol=1e-8)
    assert_allclose(given.transform_right(K(X, NEW).T), model.transform_right(NEW), atol=1e-8)


def test_float32_and_constant_kernels():
    model = KernelSVD(3, kernel="rbf").fit(X.astype(np.float32), Z=Z.astype(np.float32))
    assert model.transform(NEW.astype(np.float32)).dtype == np.float32
    assert model.left_vectors_.dtype == np.float32
    double = KernelSVD(3, kernel="rbf").fit(X, Z=Z)
    assert_allclose(model.singular_values_, double.singular_values_, rtol=1e-4)
    zero = KernelSVD(2).fit(np.zeros((5, 3)), Z=np.zeros((4, 3)))
    assert_array_equal(zero.singular_values_, 0)
    assert_array_equal(zero.transform(np.ones((2, 3))), 0)


def test_models_are_saved_and_named(tmp_path):
    model = KernelSVD(3, kernel="exp", left_map=W_Q, right_map=W_K).fit(X, Z=Z)
    model.save(tmp_path / "model")
    copy = load(tmp_path / "model")
    assert_array_equal(copy.transform(NEW), model.transform(NEW))
    assert_array_equal(copy.transform_right(NEW), model.transform_right(NEW))
    assert list(model.get_feature_names_out()) == ["kernelsvd0", "kernelsvd1", "kernelsvd2"]
    assert clone(model).get_params().keys() == model.get_params().keys()
    with pytest.raises(TypeError, match="KernelSVD"):
        model.report(tmp_path / "never.html", X)
    with pytest.raises(TypeError, match="see singular_values_ and energy_ratio_"):
        model.summary()
    with pytest.raises(ValueError, match=r"KernelSVD.*no loadings"):
        model.loadings()


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (
            {"n_components": 70},
            {"Z": Z},
            "n_components=70 must be between 1 and min(n_left, n_right)=60",
        ),
        ({}, {"Z": Z[:, :5]}, "left rows with 64 columns and right rows with 5"),
        ({"left_map": W_Q}, {}, "left rows with 5 columns and right rows with 64"),
        ({"left_map": W_Q[:9]}, {}, "left_map has shape (9, 5)"),
        ({"kernel": "precomputed"}, {"Z": Z}, "kernel='precomputed' takes K as X"),
        ({"kernel": "exp", "gamma": 1e3}, {}, "kernel='exp' overflows"),
        ({"kernel": "expp"}, {}, "'kernel' parameter of KernelSVD"),
        ({"solver": "dca"}, {}, "'solver' parameter of KernelSVD"),
        ({}, {"Z": np.full((3, 64), np.nan)}, "Input Z contains NaN"),
    ],
)
def test_errors_name_what_is_wrong(options, given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        KernelSVD(**options).fit(X, **given)


def test_errors_of_new_rows():
    model = KernelSVD(2)
    with pytest.raises(NotFittedError):
        model.transform_right(Z)
    model.fit(X, Z=Z)
    with pytest.raises(ValueError, match="5 columns for a kernel with rows of 64"):
        model.transform_right(Z[:, :5])
    given = KernelSVD(2, kernel="precomputed").fit(X @ Z.T)
    with pytest.raises(ValueError, match="Z has 5 columns; give the kernels with the 90 left rows"):
        given.transform_right(Z[:, :5])
