"""KernelPCA against scikit-learn and LAPACK, over kernels, solvers and formulations."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import KernelPCA as Oracle
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import (
    additive_chi2_kernel,
    chi2_kernel,
    laplacian_kernel,
    pairwise_kernels,
)
from tests.loops import over

from dualpca import PCA, DCProblem, KernelPCA, RobustKernelPCA
from dualpca.formulations import formulation
from dualpca.functions import Ball, HalfSquare, Lp, Power, Spectral
from dualpca.kernels import pairwise as _pairwise
from dualpca.solvers import DCA, ZeroFPR

ITERATIVE = ["dca", "proximal_gradient", "zerofpr", "simultaneous"]
SOLVERS = ["auto", "lapack", "krylov", *ITERATIVE]
LETTERS = ["d", "l", "g", "m", "n", "o", "p", "q", "k", "holder_dual"]
WAYS = [(solver, None) for solver in SOLVERS] + [
    (solver, letter) for solver in ITERATIVE for letter in ("g", "n", "o", "k")
]


def rows(N=40, d=6, seed=0, dtype=np.float64):
    """Positive rows, so that the chi2 kernels take them too, of three unequal clusters."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).uniform(1, 4, (3, d))
    spread = np.geomspace(1.0, 0.1, d)
    X = centres[rng.integers(0, 3, N)] + spread * rng.uniform(-1, 1, (N, d))
    return X.astype(dtype)


def precise(s=None, **options):
    return KernelPCA(s, **{"tol": 1e-10, "max_iter": 5000, "random_state": 0, **options})


def aligned(A, reference):
    """The columns of A with the signs of the reference's."""
    return A * np.where(np.sum(A * reference, axis=0) < 0, -1, 1)


def assert_same_model(kpca, oracle, X, fresh, rtol=1e-6):
    scale = oracle.eigenvalues_[0]
    assert kpca.eigenvalues_.shape == oracle.eigenvalues_.shape
    assert_allclose(kpca.eigenvalues_, oracle.eigenvalues_, rtol=0, atol=rtol * scale)
    expected = oracle.eigenvectors_
    assert_allclose(aligned(kpca.eigenvectors_, expected), expected, rtol=0, atol=rtol)
    top = np.sqrt(scale)
    for new in (X, fresh):
        expected = oracle.transform(new)
        scores = kpca.transform(new)
        assert_allclose(aligned(scores, expected), expected, rtol=0, atol=rtol * top)


def squared_product(x, y, power=2):
    """A kernel of two rows, with a parameter."""
    return float(x @ y) ** power


KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.1, "degree": 3, "coef0": 1},
    "poly of other parameters": {"kernel": "poly", "degree": 2, "coef0": 0.5},
    "rbf": {"kernel": "rbf"},
    "rbf with gamma": {"kernel": "rbf", "gamma": 0.5},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.1},
    "cosine": {"kernel": "cosine"},
    "function": {"kernel": squared_product},
    "function with parameters": {"kernel": squared_product, "kernel_params": {"power": 3}},
}


@pytest.mark.filterwarnings("ignore:kernel='sigmoid' is not positive semidefinite")
@pytest.mark.parametrize("case", KERNELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_agrees_with_scikit_learn(case, solver):
    X, fresh = rows(), rows(15, seed=1)
    kpca = precise(3, solver=solver, **KERNELS[case])
    scores = kpca.fit_transform(X)
    oracle = Oracle(3, eigen_solver="dense", **KERNELS[case]).fit(X)
    assert_same_model(kpca, oracle, X, fresh)
    assert_allclose(scores, kpca.transform(X), rtol=0, atol=1e-8 * np.abs(scores).max())
    assert kpca.residual_ <= 1.01e-10
    assert kpca.n_features_in_ == 6


def test_polynomial_is_poly():
    X = rows()
    assert_array_equal(*(KernelPCA(2, kernel=k).fit_transform(X) for k in ("poly", "polynomial")))


@pytest.mark.parametrize("kernel", [chi2_kernel, additive_chi2_kernel, laplacian_kernel])
@pytest.mark.parametrize("solver", SOLVERS)
def test_kernels_that_scikit_learn_has_elsewhere(kernel, solver):
    X, fresh = rows(), rows(15, seed=1)
    name = kernel.__name__.removesuffix("_kernel")
    kpca = precise(3, kernel=name, solver=solver).fit(X)
    gamma = {} if name == "additive_chi2" else {"gamma": 1 / 6}
    oracle = Oracle(3, kernel="precomputed", eigen_solver="dense").fit(kernel(X, **gamma))
    expected = oracle.transform(kernel(fresh, X, **gamma))
    assert_allclose(kpca.eigenvalues_, oracle.eigenvalues_, rtol=1e-6)
    assert_allclose(aligned(kpca.transform(fresh), expected), expected, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_precomputed(solver):
    X, fresh = rows(), rows(15, seed=1)
    K, new = (pairwise_kernels(A, X, metric="rbf", gamma=0.2) for A in (X, fresh))
    kpca = precise(3, kernel="precomputed", solver=solver).fit(K)
    assert_same_model(kpca, Oracle(3, kernel="precomputed", eigen_solver="dense").fit(K), K, new)
    direct = precise(3, kernel="rbf", gamma=0.2, solver=solver).fit(X)
    expected = direct.transform(fresh)
    assert_allclose(aligned(kpca.transform(new), expected), expected, atol=1e-7)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine"])
@pytest.mark.parametrize("remove_zero_eig", [False, True])
def test_all_components(kernel, remove_zero_eig):
    X, fresh = rows(25), rows(10, seed=1)
    kpca = KernelPCA(kernel=kernel, remove_zero_eig=remove_zero_eig).fit(X)
    oracle = Oracle(kernel=kernel, eigen_solver="dense").fit(X)
    assert_allclose(kpca.eigenvalues_, oracle.eigenvalues_, atol=1e-6 * oracle.eigenvalues_[0])
    assert np.all(kpca.eigenvalues_ > 0)
    assert_allclose(kpca.explained_variance_ratio_.sum(), 1, rtol=1e-6)
    # Distances in feature space need no choice of signs or of axes within near ties.
    ours, theirs = (A @ A.T for A in (kpca.transform(fresh), oracle.transform(fresh)))
    assert_allclose(ours, theirs, atol=1e-6 * np.abs(theirs).max())


@pytest.mark.parametrize("solver", ["auto", *ITERATIVE])
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_every_formulation_gives_the_same_components(letter, solver, kernel):
    X, fresh = rows(), rows(15, seed=1)
    options = {"kernel": kernel, "gamma": None if kernel == "linear" else 0.1}
    # Quasi-Newton steps on an implicit W, known by its Gram matrix alone, end in noise at about 1e-9.
    tol = 1e-8 if solver == "zerofpr" and letter in ("d", "l", "n", "p", "k") else 1e-10
    kpca = precise(3, formulation=letter, solver=solver, **options).set_params(tol=tol).fit(X)
    oracle = Oracle(3, eigen_solver="dense", **options).fit(X)
    assert_same_model(kpca, oracle, X, fresh)
    assert kpca.residual_ <= 1.01 * tol
    assert kpca.solver_.split()[0].rstrip(":") == ("dca" if solver == "auto" else solver)


@pytest.mark.parametrize(
    "chosen",
    [
        lambda X: formulation("k", X),
        lambda X: DCProblem(Spectral(Power(3)), HalfSquare(Lp(2)), X),
        lambda X: DCProblem(Spectral(Power(3)), HalfSquare(Lp(2)), X).dual,
    ],
    ids=["k", "Schatten 3", "its dual"],
)
def test_formulation_of_your_own(chosen):
    X, fresh = rows(), rows(15, seed=1)
    kpca = precise(3, kernel="rbf", formulation=chosen).fit(X)
    assert_same_model(kpca, Oracle(3, kernel="rbf", eigen_solver="dense").fit(X), X, fresh)


@pytest.mark.parametrize("solver", [DCA(), ZeroFPR(memory=3)], ids=lambda s: type(s).__name__)
def test_solver_objects(solver):
    X, fresh = rows(), rows(15, seed=1)
    kpca = precise(3, kernel="rbf", solver=solver).fit(X)
    assert_same_model(kpca, Oracle(3, kernel="rbf", eigen_solver="dense").fit(X), X, fresh)
    assert kpca.solver_.split()[0].rstrip(":") == type(solver).__name__


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_uncentred_agrees_with_eigh(solver, kernel):
    X, fresh = rows(), rows(15, seed=1)
    kpca = precise(2, kernel=kernel, gamma=0.1, center=False, solver=solver)
    scores = kpca.fit_transform(X)
    parameters = {} if kernel == "linear" else {"gamma": 0.1}
    K = pairwise_kernels(X, metric=kernel, **parameters)
    theta, U = (A[..., ::-1][..., :2] for A in np.linalg.eigh(K))
    assert_allclose(kpca.eigenvalues_, theta, rtol=1e-6)
    assert_allclose(aligned(kpca.eigenvectors_, U), U, atol=1e-6)
    assert_allclose(aligned(scores, U), U * np.sqrt(theta), atol=1e-6 * np.sqrt(theta[0]))
    new = pairwise_kernels(fresh, X, metric=kernel, **parameters) @ U / np.sqrt(theta)
    assert_allclose(aligned(kpca.transform(fresh), new), new, atol=1e-6 * np.sqrt(theta[0]))
    assert_allclose(kpca.explained_variance_ratio_, theta / np.trace(K), rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(40, 6), (8, 30)], ids=["tall", "wide"])
@pytest.mark.parametrize("center", [True, False])
def test_linear_kernel_is_pca(solver, shape, center):
    X, fresh = rows(*shape), rows(15, shape[1], seed=1)
    kpca = precise(2, kernel="linear", solver=solver, center=center).fit(X)
    pca = PCA(2, center=center, solver="lapack").fit(X)
    for A in (X, fresh):
        expected = pca.transform(A)
        assert_allclose(aligned(kpca.transform(A), expected), expected, atol=1e-6)
    assert_allclose(kpca.eigenvalues_, pca.singular_values_**2, rtol=1e-6)
    assert_allclose(kpca.explained_variance_, pca.explained_variance_, rtol=1e-6)
    assert_allclose(kpca.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-6)
    for name in ("n_components_", "n_samples_", "n_features_in_"):
        assert getattr(kpca, name) == getattr(pca, name), name


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("solver", ["lapack", "dca", "zerofpr"])
def test_sparse_agrees_with_dense(kind, kernel, solver):
    rng = np.random.default_rng(0)
    X, fresh = (A * (rng.random(A.shape) < 0.5) for A in (rows(), rows(15, seed=1)))
    kpca = precise(2, kernel=kernel, solver=solver).fit(kind(X))
    oracle = Oracle(2, kernel=kernel, eigen_solver="dense").fit(X)
    assert_same_model(kpca, oracle, kind(X), fresh)
    assert_allclose(kpca.transform(kind(fresh)), kpca.transform(fresh), atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "precomputed"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_stays_float32_and_close(kernel, solver):
    X, fresh = rows(dtype=np.float32), rows(15, seed=1, dtype=np.float32)
    if kernel == "precomputed":
        X, fresh = X @ X.T, fresh @ X.T
    kpca = KernelPCA(2, kernel=kernel, solver=solver, tol=2e-5, max_iter=10_000, random_state=0)
    scores = kpca.fit_transform(X)
    oracle = Oracle(2, kernel=kernel, eigen_solver="dense").fit(X.astype(np.float64))
    assert_same_model(kpca, oracle, X, fresh, rtol=2e-4)
    for array in (scores, kpca.transform(fresh), kpca.eigenvalues_, kpca.eigenvectors_):
        assert array.dtype == np.float32


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_arrays_of_other_namespaces_become_numpy(library):
    xp = pytest.importorskip(library)
    X, fresh = rows(), rows(15, seed=1)
    for kernel in ("linear", "rbf"):
        here = KernelPCA(2, kernel=kernel).fit(X)
        there = KernelPCA(2, kernel=kernel).fit(xp.asarray(X))
        scores = there.transform(xp.asarray(fresh))
        assert isinstance(scores, np.ndarray)
        assert_allclose(scores, here.transform(fresh), atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_memory_map(tmp_path, dtype, kernel):
    X = (5 * rows()).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    oracle = Oracle(2, kernel=kernel, gamma=0.01, eigen_solver="dense").fit(X.astype(float))
    for solver in ("lapack", "dca"):
        kpca = KernelPCA(2, kernel=kernel, gamma=0.01, solver=solver, tol=1e-5, random_state=0)
        assert_same_model(kpca.fit(mapped), oracle, mapped, mapped[:5], rtol=1e-3)


@pytest.mark.filterwarnings("ignore:.*good rows may be in groups")
@pytest.mark.parametrize("Model", [KernelPCA, RobustKernelPCA])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_an_array_on_a_memory_map_is_that_map(tmp_path, kernel, Model):
    X = rows() @ rows().T if kernel == "precomputed" else rows()
    np.save(tmp_path / "X.npy", X)
    mapped = np.asarray(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert type(mapped) is np.ndarray
    model, plain = (Model(2, kernel=kernel, gamma=0.1, random_state=0).fit(A) for A in (mapped, X))
    assert_array_equal(model.transform(mapped), plain.transform(X))
    assert np.shares_memory(model.X_fit_, mapped)


@pytest.mark.parametrize(("solver", "letter"), WAYS)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_blocks_of_the_kernel_equal_the_kernel_in_memory(monkeypatch, solver, letter, kernel):
    X, fresh = rows(150), rows(15, seed=1)
    options = {"kernel": kernel, "gamma": 0.1, "solver": solver, "formulation": letter}
    held = precise(2, **options).fit(X)
    monkeypatch.setattr("dualpca.estimators._kernels.KERNEL_BYTES", 0)
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    computed = precise(2, **options).fit(X)
    assert_allclose(computed.eigenvalues_, held.eigenvalues_, rtol=1e-8)
    assert_allclose(computed.transform(fresh), held.transform(fresh), atol=1e-6)


def test_blocks_of_a_function_of_two_rows(monkeypatch):
    X = rows(100)
    held = precise(2, kernel=squared_product).fit(X)
    monkeypatch.setattr("dualpca.estimators._kernels.KERNEL_BYTES", 0)
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    computed = precise(2, kernel=squared_product, solver="lapack").fit(X)
    assert_allclose(computed.eigenvalues_, held.eigenvalues_, rtol=1e-10)
    assert_allclose(computed.eigenvectors_, held.eigenvectors_, atol=1e-9)


def test_blocks_are_computed_where_memory_is_short(monkeypatch):
    shapes = []

    def spy(X, Y, metric, **options):
        shapes.append((X.shape[0], Y.shape[0]))
        return pairwise_kernels(X, Y, metric=metric, filter_params=True, **options)

    monkeypatch.setattr("dualpca.estimators._kernels.KERNEL_BYTES", 0)
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    monkeypatch.setattr("dualpca.kernels.pairwise.pairwise", spy)
    kpca = KernelPCA(2, kernel="rbf", solver="dca", random_state=0).fit(rows(300))
    assert max(n for n, _ in shapes) <= 64
    assert kpca.n_iter_ <= kpca.n_passes_ <= kpca.n_iter_ + 12


@pytest.mark.parametrize("letter", ["l", "n", "p", "k", "g", "m", "o", "q"])
def test_a_step_of_dca_is_one_product_with_the_kernel(letter):
    kpca = KernelPCA(
        3, kernel="rbf", solver="dca", formulation=letter, tol=1e-8, random_state=0
    ).fit(rows())
    assert kpca.n_iter_ > 10
    assert kpca.n_iter_ <= kpca.n_passes_ <= kpca.n_iter_ + 12


def with_duplicates():
    """Five different rows, eight times each: the centred kernel has rank 4."""
    return np.repeat(rows(5), 8, axis=0)


@pytest.mark.parametrize(("solver", "letter"), WAYS)
def test_more_components_than_the_rank(solver, letter):
    X, fresh = with_duplicates(), rows(10, seed=1)
    kpca = KernelPCA(
        7,
        kernel="rbf",
        solver=solver,
        formulation=letter,
        tol=1e-8,
        max_iter=5000,
        random_state=0,
    )
    scores = kpca.fit_transform(X)
    new = kpca.transform(fresh)
    assert scores.shape == (40, 7)
    assert new.shape == (10, 7)
    oracle = Oracle(4, kernel="rbf", eigen_solver="dense").fit(X)
    assert_allclose(kpca.eigenvalues_[:4], oracle.eigenvalues_, rtol=1e-6)
    assert_allclose(kpca.eigenvalues_[4:], 0, atol=1e-9 * oracle.eigenvalues_[0])
    assert_allclose(scores[:, 4:], 0, atol=1e-4)
    assert_allclose(
        aligned(new[:, :4], oracle.transform(fresh)), oracle.transform(fresh), atol=1e-5
    )
    assert np.all(np.isfinite(new))
    V = kpca.eigenvectors_
    assert_allclose(V.T @ V, np.eye(7), atol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_zero_eigenvalues_of_a_direct_solver_give_zero_scores(kernel):
    X = with_duplicates()
    kpca = KernelPCA(7, kernel=kernel)
    scores = kpca.fit_transform(X)
    assert_array_equal(kpca.eigenvalues_[4:], 0)
    assert_array_equal(scores[:, 4:], 0)
    assert_array_equal(kpca.transform(rows(10, seed=1))[:, 4:], 0)
    assert_allclose(kpca.explained_variance_ratio_.sum(), 1, rtol=1e-6)


def test_zero_eigenvalues_are_removed_where_asked():
    X = with_duplicates()
    assert KernelPCA(7, kernel="rbf", remove_zero_eig=True).fit_transform(X).shape == (40, 4)
    assert KernelPCA(kernel="rbf").fit_transform(X).shape == (40, 4)
    names = KernelPCA(kernel="rbf").fit(X).get_feature_names_out()
    assert list(names) == [f"kernelpca{i}" for i in range(4)]


@pytest.mark.parametrize(("solver", "letter"), WAYS)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "cosine"])
def test_equal_rows_have_no_variance(solver, letter, kernel):
    X = np.full((12, 4), 0.3)
    kpca = KernelPCA(2, kernel=kernel, solver=solver, formulation=letter, random_state=0)
    assert_array_equal(kpca.fit_transform(X), np.zeros((12, 2)))
    assert_array_equal(kpca.transform(rows(5, 4)), np.zeros((5, 2)))
    assert kpca.residual_ == 0
    assert np.all(np.isfinite(kpca.explained_variance_ratio_))


def test_one_row():
    kpca = KernelPCA(kernel="rbf").fit(rows(1))
    assert_array_equal(kpca.transform(rows(3)), np.zeros((3, 1)))


def test_more_components_than_rows_are_as_many_as_rows():
    X = rows(6)
    assert KernelPCA(50, kernel="rbf").fit_transform(X).shape == (6, 6)
    assert Oracle(50, kernel="rbf").fit_transform(X).shape == (6, 6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_signs_make_the_largest_entry_positive(solver):
    for seed in range(5):
        V = precise(3, kernel="rbf", solver=solver).fit(rows(seed=seed)).eigenvectors_
        assert np.all(V[np.argmax(np.abs(V), axis=0), np.arange(3)] > 0)


def independent_residual(kpca, X, **kernel):
    K = pairwise_kernels(X, **kernel)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    V = kpca.eigenvectors_
    Z = K @ V
    return np.linalg.norm(Z - V * np.sum(V * Z, axis=0)) / np.linalg.norm(Z)


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_residual_is_what_it_says_and_within_tol(solver, letter, tol):
    X = rows()
    kpca = KernelPCA(
        3, kernel="rbf", solver=solver, formulation=letter, tol=tol, max_iter=5000, random_state=0
    ).fit(X)
    expected = independent_residual(kpca, X, metric="rbf", gamma=1 / 6)
    assert kpca.residual_ <= 1.01 * tol
    assert_allclose(kpca.residual_, expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("letter", ["g", "n", "o"])
def test_too_few_iterations_warn_of_the_residual_reached(letter):
    X = rows()
    kpca = KernelPCA(
        3, kernel="rbf", solver="dca", formulation=letter, tol=1e-9, max_iter=2, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="max_iter=2") as caught:
        kpca.fit(X)
    (warning,) = caught
    assert f"{kpca.residual_:.1e}" in str(warning.message)
    assert warning.filename == __file__
    assert kpca.residual_ > 1e-9
    assert kpca.n_iter_ == 2
    assert_allclose(
        kpca.residual_, independent_residual(kpca, X, metric="rbf", gamma=1 / 6), rtol=1e-5
    )


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("letter", ["g", "n"])
def test_random_state_decides_the_iterates(solver, letter):
    def fit(seed):
        return KernelPCA(
            3, kernel="rbf", solver=solver, formulation=letter, tol=1e-2, random_state=seed
        ).fit_transform(rows())

    assert_array_equal(fit(3), fit(3))
    assert not np.array_equal(fit(3), fit(4))


def test_gamma_is_one_over_the_number_of_features_unless_given():
    X = rows()
    assert KernelPCA(2, kernel="rbf").fit(X).gamma_ == 1 / 6
    assert KernelPCA(2, kernel="rbf", gamma=0.7).fit(X).gamma_ == 0.7


@pytest.mark.parametrize("s", [2, 200])
def test_auto_on_many_rows(s):
    X, fresh = rows(600), rows(15, seed=1)
    kpca = precise(s, kernel="rbf").fit(X)
    oracle = Oracle(s, kernel="rbf", eigen_solver="dense").fit(X)
    assert_allclose(kpca.eigenvalues_, oracle.eigenvalues_, atol=1e-6 * oracle.eigenvalues_[0])
    expected = oracle.transform(fresh)[:, :2]
    assert_allclose(aligned(kpca.transform(fresh)[:, :2], expected), expected, atol=1e-6)


def test_auto_is_direct_for_few_rows_and_dca_for_a_formulation():
    X = rows(100)
    assert KernelPCA(2, kernel="rbf").fit(X).solver_.split()[0].rstrip(":") == "lapack"
    assert (
        KernelPCA(2, kernel="rbf", formulation="n", random_state=0)
        .fit(X)
        .solver_.split()[0]
        .rstrip(":")
        == "dca"
    )


def test_data_are_left_alone():
    X = rows()
    for kernel in ("linear", "rbf", "precomputed"):
        A = X @ X.T if kernel == "precomputed" else X.copy()
        before = A.copy()
        for solver in ("lapack", "dca", "zerofpr"):
            KernelPCA(2, kernel=kernel, solver=solver, tol=1e-2, random_state=0).fit(A).transform(A)
        assert_array_equal(A, before)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_changing_the_data_afterwards_changes_no_model(kernel):
    X, fresh = rows(), rows(15, seed=1)
    for data in (X, sp.csr_array(X)):
        kpca = KernelPCA(2, kernel=kernel).fit(data)
        before = kpca.transform(fresh)
        data *= 0
        assert_array_equal(kpca.transform(fresh), before)
        X = rows()


BAD_PARAMETERS = [
    ({"n_components": 0}, "n_components.*0"),
    ({"n_components": 1.5}, r"n_components.*1\.5"),
    ({"n_components": "mle"}, "n_components.*'mle'"),
    ({"n_components": True}, "n_components=True"),
    ({"kernel": "gaussian"}, "kernel.*'rbf'.*'gaussian'"),
    ({"kernel": 3}, "kernel.*3"),
    ({"gamma": -1.0}, r"gamma.*-1\.0"),
    ({"degree": -1}, "degree.*-1"),
    ({"coef0": "one"}, "coef0.*'one'"),
    ({"kernel_params": [1]}, r"kernel_params.*\[1\]"),
    ({"center": 1}, "center.*1"),
    ({"solver": "gram"}, "solver.*'lapack'.*'gram'"),
    ({"solver": "irls"}, "solver.*'dca'.*'irls'"),
    ({"formulation": "z"}, "formulation='z'.*choose one of d, l, g"),
    ({"formulation": lambda X: None}, "formulation.*returned None.*DCProblem"),
    ({"solver": "lapack", "formulation": "n"}, "solver='lapack'.*drop formulation='n'.*dca"),
    ({"tol": -1.0}, r"tol.*-1\.0"),
    ({"max_iter": 0}, "max_iter.*0"),
    ({"random_state": "seed"}, "random_state.*'seed'"),
    ({"remove_zero_eig": "yes"}, "remove_zero_eig.*'yes'"),
    ({"n_jobs": 1.5}, r"n_jobs.*1\.5"),
]


@pytest.mark.parametrize(("options", "message"), BAD_PARAMETERS, ids=lambda p: str(p)[:40])
def test_bad_parameters(options, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        KernelPCA(**options).fit(rows())


@pytest.mark.parametrize(
    "chosen",
    [
        lambda X: DCProblem(Ball(Lp(1)), HalfSquare(Lp(2)), X),
        lambda X: DCProblem(Power(4), HalfSquare(Lp(2)), X),
        lambda X: DCProblem(Ball(Lp(np.inf)), Lp(2), X).dual,
    ],
    ids=["l1 ball", "power", "dual of the box"],
)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_formulations_that_are_not_unitarily_invariant_are_refused(chosen, kernel):
    with pytest.raises(ValueError, match=r"not unitarily invariant.*Proposition 3\.5"):
        KernelPCA(2, kernel=kernel, formulation=chosen).fit(rows())


def with_entry(value):
    A = rows()
    A[3, 2] = value
    return A


BAD_DATA = {
    "nan": (with_entry(np.nan), "NaN.*imputer"),
    "inf": (with_entry(np.inf), "infinity"),
    "sparse nan": (sp.csr_array(with_entry(np.nan)), "NaN.*imputer"),
    "empty": (np.empty((0, 6)), r"0 sample.*minimum of 1"),
    "no features": (np.empty((6, 0)), r"0 feature.*minimum of 1"),
    "vector": (rows()[0], "Expected 2D array, got 1D"),
    "strings": (np.array([["a", "b"], ["c", "d"]]), "convert string"),
    "complex": (rows() * 1j, "Complex data not supported"),
}


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_bad_data(case, kernel):
    data, message = BAD_DATA[case]
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        KernelPCA(1, kernel=kernel).fit(data)


def test_precomputed_must_be_square_and_dense():
    with pytest.raises(ValueError, match=r"kernel='precomputed'.*square.*\(40, 6\)"):
        KernelPCA(2, kernel="precomputed").fit(rows())
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        KernelPCA(2, kernel="precomputed").fit(sp.csr_array(np.eye(5)))
    kpca = KernelPCA(2, kernel="precomputed").fit(np.eye(5))
    with pytest.raises(ValueError, match=r"X has 4 features.*KernelPCA.*5 features"):
        kpca.transform(np.ones((3, 4)))


def test_negative_rows_are_refused_by_chi2():
    with pytest.raises(ValueError, match="negative"):
        KernelPCA(2, kernel="chi2").fit(-rows())


def test_wrong_number_of_features():
    kpca = KernelPCA(2, kernel="rbf").fit(rows())
    with pytest.raises(ValueError, match=r"X has 5 features.*KernelPCA.*6 features"):
        kpca.transform(np.ones((3, 5)))
    with pytest.raises(ValueError, match=r"(?s)NaN.*imputer"):
        kpca.transform(with_entry(np.nan))


def test_unfitted():
    with pytest.raises(NotFittedError, match="fit"):
        KernelPCA(2).transform(rows())
    kpca = KernelPCA(2, kernel="precomputed")
    with pytest.raises(ValueError, match="square"):
        kpca.fit(rows())
    with pytest.raises(NotFittedError, match="fit"):
        kpca.transform(rows())


# Rows far from zero, huge rows, and numbers at the ends of their range


def centred_kernel(X, kernel, gamma):
    """The centred K from differences of rows, in extended precision."""
    A = X.astype(np.longdouble)
    A = A - A[0]
    if kernel == "rbf":
        K = np.exp(-np.longdouble(gamma) * ((A[:, None] - A[None]) ** 2).sum(axis=2))
    else:
        K = A @ A.T
    K = K - K.mean(axis=0)
    return (K - K.mean(axis=1)[:, None]).astype(float)


def forms(X):
    return {"dense": X, "sparse": sp.csr_array(X), "csc": sp.csc_array(X)}


def gaussian(N=60, d=20, seed=0):
    return np.random.default_rng(seed).standard_normal((N, d))


FAR = [("f4", 1e3), ("f4", 1e4), ("f4", 1e7), ("f8", 1e3), ("f8", 1e8), ("f8", 1e12)]


@pytest.mark.parametrize("solver", ["lapack", "krylov", "dca"])
@pytest.mark.parametrize("form", ["dense", "sparse", "csc"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("dtype", "offset"), FAR)
def test_a_mean_far_from_zero_costs_no_digits(dtype, offset, kernel, form, solver):
    X = (gaussian() * np.linspace(3, 1, 20) + offset).astype(dtype)
    data = forms(X)[form]
    kpca = precise(3, kernel=kernel, solver=solver, tol=1e-6).fit(data)
    K = centred_kernel(X, kernel, kpca.gamma_)
    H, eps = kpca.eigenvectors_.astype(float), np.finfo(dtype).eps
    Z = K @ H
    assert np.linalg.norm(Z - H @ (H.T @ Z)) <= (1.05e-6 + 100 * eps) * np.linalg.norm(Z)
    theta = np.linalg.eigvalsh(K)[::-1][:3]
    assert_allclose(kpca.eigenvalues_, theta, rtol=2e-6)
    scores = H * np.sqrt(theta)
    assert_allclose(kpca.transform(data), scores, rtol=0, atol=1e-5 * np.sqrt(theta[0]))
    assert_allclose(kpca.transform(data[:7]), scores[:7], rtol=0, atol=1e-5 * np.sqrt(theta[0]))


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_halves_far_apart_keep_the_distances_within_each(monkeypatch, form, blocks):
    if blocks:
        monkeypatch.setattr("dualpca.estimators._kernels.KERNEL_BYTES", 0)
    X = gaussian() + 1e6 * np.sign(np.arange(60) - 29.5)[:, None]
    kpca = precise(5, kernel="rbf", gamma=0.02, solver="lapack").fit(forms(X)[form])
    theta = np.linalg.eigvalsh(centred_kernel(X, "rbf", 0.02))[::-1][:5]
    assert_allclose(kpca.eigenvalues_, theta, rtol=1e-12)


def test_one_huge_row_leaves_the_kernels_of_the_others():
    X = gaussian()
    X[7] *= 1e12
    kpca = precise(3, kernel="rbf", gamma="median", solver="lapack").fit(X)
    theta = np.linalg.eigvalsh(centred_kernel(X, "rbf", kpca.gamma_))[::-1][:3]
    assert_allclose(kpca.eigenvalues_, theta, rtol=1e-12)


def test_sparse_columns_with_zeros_stay_sparse_beside_a_column_far_away(monkeypatch):
    X = sp.random_array((300, 400), density=0.01, random_state=0, format="lil")
    X[:, [3]] = 1e8 + gaussian(300, 1)
    X = X.tocsr()
    dense = X.toarray()
    sizes = []
    monkeypatch.setattr(
        "dualpca.kernels.distances.shifted_rows",
        lambda A, origin, before=_pairwise.shifted_rows: (
            sizes.append(before(A, origin)) or sizes[-1]
        ),
    )
    kpca = precise(3, kernel="rbf", solver="lapack", tol=1e-6).fit(X)
    assert sizes
    assert all(sp.issparse(A) and A.nnz < 3 * X.nnz for A in sizes)
    theta = np.linalg.eigvalsh(centred_kernel(dense, "rbf", kpca.gamma_))[::-1][:3]
    assert_allclose(kpca.eigenvalues_, theta, rtol=1e-10)


def test_memory_maps_far_from_zero_are_not_copied(tmp_path):
    X = (gaussian(200, 8) + 1e8).astype("f8")
    path = tmp_path / "rows.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    for kernel in ("linear", "rbf"):
        kpca = precise(3, kernel=kernel).fit(mapped)
        assert_array_equal(kpca.eigenvalues_, precise(3, kernel=kernel).fit(X).eigenvalues_)
        assert np.shares_memory(kpca.X_fit_, mapped)


def test_the_fixed_point_of_rows_far_from_zero():
    X = gaussian(80, 4)
    options = {"kernel": "rbf", "fit_inverse_transform": True, "inverse": "fixed_point"}
    near, far = (precise(20, **options).fit(A) for A in (X, X + 1e6))
    back = far.inverse_transform(far.transform(X + 1e6))
    assert_allclose(back - 1e6, near.inverse_transform(near.transform(X)), atol=1e-5)


def test_the_ridge_goes_back_from_scores_whatever_the_origin_of_the_rows():
    X = rows() + 100
    ours = precise(5, kernel="rbf", fit_inverse_transform=True).fit(X)
    theirs = Oracle(5, kernel="rbf", fit_inverse_transform=True).fit(X)
    want = theirs.inverse_transform(theirs.transform(X))
    assert_allclose(ours.inverse_transform(ours.transform(X)), want, rtol=1e-6)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("dtype", "size", "kernel"),
    [
        ("f8", 1e200, "linear"),
        ("f8", 1e200, "rbf"),
        ("f8", 1e200, "poly"),
        ("f8", 1e120, "poly"),
        ("f8", 1e200, "sigmoid"),
        ("f4", 1e19, "linear"),
        ("f4", 1e15, "poly"),
    ],
)
def test_squares_that_overflow_are_refused(dtype, size, kernel, form):
    X = (gaussian() * size).astype(dtype)
    with pytest.raises(ValueError, match=r"X .*overflow.* divide X by its\s+largest magnitude"):
        KernelPCA(2, kernel=kernel).fit(forms(X)[form])


@pytest.mark.parametrize(("dtype", "size"), [("f8", 1e-200), ("f4", 1e-30)])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_squares_that_underflow_are_no_rows_of_zeros(dtype, size, form):
    X = forms((gaussian() * size).astype(dtype))[form]
    with pytest.raises(ValueError, match="X has entries so small"):
        KernelPCA(2, kernel="linear").fit(X)


def test_gamma_by_the_median_of_distances_whose_squares_underflow():
    with pytest.raises(ValueError, match=r"gamma='median'.*underflow.*give gamma"):
        KernelPCA(2, kernel="rbf", gamma="median").fit(gaussian() * 1e-200)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_rbf_of_float32_rows_has_the_range_of_float64(size):
    X = gaussian().astype("f4")
    near, far = (
        precise(3, kernel="rbf", gamma="median", tol=1e-5).fit(A) for A in (X, X * np.float32(size))
    )
    assert far.gamma_ * size**2 == pytest.approx(near.gamma_, rel=1e-6)
    assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("dtype", "size"), [("f8", 2.0**490), ("f8", 2.0**-490), ("f4", 2.0**50), ("f4", 2.0**-50)]
)
def test_eigenvalues_at_the_ends_of_the_range(dtype, size, solver):
    X = (gaussian() * np.linspace(3, 1, 20)).astype(dtype)
    options = {"solver": solver, "tol": 1e-5}
    plain, far = (precise(3, **options).fit(A) for A in (X, X * np.dtype(dtype).type(size)))
    assert_allclose(far.eigenvalues_ / size**2, plain.eigenvalues_, rtol=1e-4)
    assert far.residual_ <= 1e-5


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_cosine_of_rows_whose_squares_overflow_or_vanish(dtype, form):
    X = gaussian().astype(dtype)
    X[4] = 0
    ends = X.copy()
    ends[1] *= np.finfo(dtype).max / 10
    ends[2] /= np.finfo(dtype).max / 10
    plain, far = (
        precise(3, kernel="cosine", solver="lapack", tol=1e-5).fit(forms(A)[form])
        for A in (X, ends)
    )
    assert_allclose(far.eigenvalues_, plain.eigenvalues_, rtol=1e-5)
    assert_allclose(
        far.transform(forms(ends)[form])[4], plain.transform(forms(X)[form])[4], atol=1e-5
    )


@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
@pytest.mark.parametrize(("dtype", "size"), [("f4", 1e-6), ("f8", 1e-10)])
def test_kernels_that_rounding_makes_equal_are_told_of(dtype, size, kernel):
    X = (gaussian() * size).astype(dtype)
    with pytest.warns(
        ConvergenceWarning, match=r"rounding of float\d\d leaves a residual of 1.0e\+00"
    ):
        kpca = KernelPCA(2, kernel=kernel).fit(X)
    assert kpca.residual_ == 1
    assert (kpca.eigenvalues_ == 0).all()


@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine"])
def test_digits_that_centring_the_kernel_takes_are_in_the_residual(kernel):
    X = gaussian() * 1e-5 if kernel != "cosine" else gaussian() + 1e4
    kpca = precise(3, kernel=kernel, solver="lapack", tol=1e-4).fit(X)
    A = X.astype(np.longdouble)
    if kernel == "rbf":
        K = np.exp(-((A[:, None] - A[None]) ** 2).sum(axis=2) / 20)
    elif kernel == "poly":
        K = (A @ A.T / 20 + 1) ** 3
    else:
        A /= np.sqrt((A**2).sum(axis=1))[:, None]
        K = A @ A.T
    K = K - K.mean(axis=0)
    K = (K - K.mean(axis=1)[:, None]).astype(float)
    Z = K @ kpca.eigenvectors_
    missed = Z - kpca.eigenvectors_ @ (kpca.eigenvectors_.T @ Z)
    assert 1e-12 < np.linalg.norm(missed) / np.linalg.norm(Z) <= kpca.residual_ < 1e-4


def test_a_direct_solver_tells_of_a_residual_above_tol():
    U, _ = np.linalg.qr(gaussian(60, 20))
    V, _ = np.linalg.qr(gaussian(20, 20, seed=1))
    X = ((U * np.r_[1.0, [1e-12] * 19]) @ V.T).astype("f4")
    kpca = KernelPCA(3, kernel="rbf", gamma=1e-3, solver="lapack", tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="residual of") as told:
        kpca.fit(X)
    assert len(told) == 1
    assert f"residual of {kpca.residual_:.1e}" in str(told[0].message)


def test_a_kernel_matrix_that_is_not_symmetric_is_refused():
    K = np.eye(6)
    K[1, 4] = 0.5
    with pytest.raises(ValueError, match=r"kernel='precomputed'.*symmetric.*5\.0e-01.*X\.T"):
        KernelPCA(2, kernel="precomputed").fit(K)
    K[1, 4] = 1e-14  # rounding
    KernelPCA(2, kernel="precomputed").fit(K)


def test_a_function_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match=r"kernel=.*not a number"):
        KernelPCA(2, kernel=lambda x, y: np.nan).fit(rows())


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rbf_is_symmetric_and_that_of_scikit_learn_whatever_the_threads(n_jobs):
    X = rows(300)
    K = _pairwise.pairwise(X, X, "rbf", gamma=0.3, n_jobs=n_jobs)
    assert_array_equal(K, K.T)
    assert_allclose(K, pairwise_kernels(X, X, metric="rbf", gamma=0.3), rtol=1e-13)
    assert_allclose(_pairwise.pairwise(X[:9], X, "rbf", gamma=0.3), K[:9], rtol=1e-13)


def many_rows(dtype=np.float64):
    """So many rows that kernels are in float32 where ``tol`` is loose."""
    return rows(1000, seed=3).astype(dtype)


@cache
def spectrum(dtype):
    """Their centred kernel matrix in float64, and its leading eigenvalues."""
    K = centred_kernel(many_rows(dtype).astype(float), "rbf", 1 / 6)
    return K, np.linalg.eigvalsh(K)[::-1][:8]


@over("dtype", [np.float32, np.float64])
@over("tol", [1e-1, 1e-2, 1e-3])
@over("s", [2, 8])
def test_kernels_in_float32_serve_a_loose_tol(dtype, tol, s):
    X, fresh = many_rows(dtype), rows(20, seed=4, dtype=dtype)
    kpca = KernelPCA(s, kernel="rbf", tol=tol, solver="krylov", random_state=0).fit(X)
    assert kpca.solver_.startswith("krylov (float32)")
    V, theta = kpca.eigenvectors_, kpca.eigenvalues_
    assert V.dtype == theta.dtype == kpca.transform(fresh).dtype == dtype
    assert_allclose(V.T @ V, np.eye(s), atol=1e-5 if dtype == np.float32 else 1e-12)
    (K, best), wide = spectrum(dtype), np.linalg.qr(V.astype(float))[0]
    captured = float(np.sum(wide * (K @ wide)))
    assert 1 - captured / best[:s].sum() <= kpca.variance_shortfall_
    assert_allclose(theta.sum(), captured, rtol=2e-6)
    residual = independent_residual(kpca, X.astype(float), metric="rbf", gamma=1 / 6)
    assert residual <= 1.01 * kpca.residual_ + 1e-6 * (dtype == np.float32)
    assert kpca.residual_ <= 1.01 * tol


@over(["tol", "gamma"], [(1e-4, 1 / 6), (1e-2, 1e-3), (1e-2, 50.0)])
def test_kernels_of_float64_rows_are_in_float64_where_float32_would_show(tol, gamma):
    kpca = KernelPCA(3, kernel="rbf", gamma=gamma, tol=tol, solver="krylov", random_state=0)
    assert kpca.fit(many_rows()).solver_.startswith("krylov (float64)")
    theta = np.linalg.eigvalsh(centred_kernel(many_rows(), "rbf", gamma))[::-1][:3]
    assert_allclose(kpca.eigenvalues_.sum(), theta.sum(), rtol=tol)
