"""Kernels with negative eigenvalues are refused or told of; looking costs nothing where none can be."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.decomposition import KernelPCA as Oracle
from sklearn.exceptions import ConvergenceWarning, PositiveSpectrumWarning
from sklearn.metrics.pairwise import pairwise_kernels

from dualpca import PCA, KernelPCA, RobustKernelPCA
from dualpca.kernels import eigen as _kernel_eigenpairs
from dualpca.operators import Kernel

DIRECT = ["auto", "lapack", "krylov"]
FIRST_ORDER = ["dca", "anderson", "zerofpr", "simultaneous", "proximal_gradient"]


def symmetric(N, seed=0):
    A = np.random.default_rng(seed).standard_normal((N, N))
    return A + A.T


def with_spectrum(theta, seed=0, dtype=float):
    N = len(theta)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((N, N)))
    K = (Q * theta) @ Q.T
    return ((K + K.T) / 2).astype(dtype)


def centred(K):
    K = K - K.mean(axis=0)
    return K - K.mean(axis=1)[:, None]


def size_told(message):
    return float(re.search(r"has the eigenvalue (\S+?),", str(message)).group(1))


def precomputed(s=3, **options):
    return KernelPCA(s, kernel="precomputed", random_state=0, **options)


@pytest.mark.parametrize("solver", DIRECT + FIRST_ORDER)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("N", [30, 300])
def test_a_symmetric_gaussian_matrix_is_no_kernel(N, center, solver):
    K = symmetric(N)
    least = np.linalg.eigvalsh(centred(K) if center else K)[0]
    with pytest.raises(ValueError, match=r"kernel='precomputed' is not positive semidef") as told:
        precomputed(10, solver=solver, center=center).fit(K)
    assert 0.9 * least >= size_told(told.value) >= 1.01 * least


@pytest.mark.parametrize("center", ["joint", "mean", None])
def test_a_symmetric_gaussian_matrix_is_no_robust_kernel(center):
    with pytest.raises(ValueError, match=r"kernel='precomputed' is not positive semidef") as told:
        RobustKernelPCA(10, kernel="precomputed", center=center).fit(symmetric(60))
    least = np.linalg.eigvalsh(centred(symmetric(60)) if center else symmetric(60))[0]
    assert size_told(told.value) == pytest.approx(least, rel=0.01)


@pytest.mark.parametrize("model", [precomputed(3), RobustKernelPCA(3, kernel="precomputed")])
def test_a_matrix_without_any_positive_eigenvalue(model):
    with pytest.raises(ValueError, match=r"has the eigenvalue -1, .*use other parameters"):
        model.fit(-np.eye(9))


def tailed(least, N=60):
    """Eigenvalues 10 to 1, then small ones from 0.1 down to ``least``."""
    return np.r_[np.geomspace(10, 1, 5), np.linspace(0.1, min(least, 0.1), N - 5)]


@pytest.mark.parametrize("solver", DIRECT + FIRST_ORDER)
@pytest.mark.parametrize("least", [-0.5, -0.01])
def test_a_negative_eigenvalue_below_the_components_is_told_of(solver, least):
    theta = tailed(least)
    with pytest.warns(PositiveSpectrumWarning, match="precomputed") as told:
        model = precomputed(4, solver=solver, center=False, tol=1e-6).fit(with_spectrum(theta))
    assert len(told) == 1
    assert size_told(told[0].message) == pytest.approx(least, rel=0.1)
    assert told[0].filename == __file__
    assert_allclose(
        model.eigenvalues_, theta[:4], rtol=1e-6
    )  # those of the nearest with none below 0
    assert model.residual_ <= 1e-6


@pytest.mark.parametrize("formulation", ["l", "n", "o", "k"])
def test_formulations_are_refused_before_they_run_on_a_negative_eigenvalue(formulation):
    with pytest.raises(ValueError, match="is not positive semidefinite"):
        precomputed(4, formulation=formulation, center=False).fit(with_spectrum(tailed(-8.0)))


@pytest.mark.parametrize("solver", ["auto", "krylov", "dca"])
def test_the_remedy_of_the_error_is_one(solver):
    K = with_spectrum(tailed(-2.0))
    with pytest.raises(ValueError, match="ask for n_components=") as told:
        precomputed(5, solver=solver, center=False).fit(K)
    fewer = int(re.search(r"n_components=(\d+)", str(told.value)).group(1))
    assert fewer == (tailed(-2.0) > 2).sum()
    with pytest.warns(PositiveSpectrumWarning):
        model = precomputed(fewer, solver=solver, center=False).fit(K)
    assert_allclose(model.eigenvalues_, tailed(-2.0)[:fewer], rtol=1e-6)


@pytest.mark.parametrize(("dtype", "share"), [("f8", 1e-6), ("f4", 1e-3)])
@pytest.mark.parametrize("solver", ["auto", "krylov", "dca"])
def test_what_may_be_rounding_counts_as_zero_without_a_word(dtype, share, solver):
    theta = np.r_[10.0, 7.0, 5.0, np.zeros(40), np.full(7, -10 * share)]
    model = precomputed(3, solver=solver, center=False).fit(with_spectrum(theta, dtype=dtype))
    assert_allclose(model.eigenvalues_, [10, 7, 5], rtol=1e-5)


@pytest.mark.parametrize("solver", ["lapack", "krylov"])
def test_components_that_may_be_rounding_are_zero_and_told_of_where_tol_is_finer(solver):
    theta = np.r_[10.0, 7.0, 5.0, np.zeros(4), np.full(3, -2e-5)]
    K = with_spectrum(theta)
    assert_allclose(precomputed(10, center=False, solver=solver).fit(K).eigenvalues_[3:], 0)
    with pytest.warns(ConvergenceWarning, match="small negative eigenvalues.*fewer n_components"):
        model = precomputed(10, center=False, solver=solver, tol=1e-8).fit(K)
    assert_allclose(model.eigenvalues_[:3], theta[:3], rtol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_a_negative_eigenvalue_hides_behind_no_spectrum(seed):
    """One of twice the size of the last component, far below the first."""
    theta = 1 / np.arange(1.0, 401) ** 2
    theta[-1] = -2 * theta[29]
    with pytest.raises(ValueError, match="is not positive semidefinite"):
        precomputed(30, solver="krylov", center=False).fit(with_spectrum(theta, seed))


@pytest.mark.parametrize("N", [5, 40, 200])
@pytest.mark.parametrize("s", [0, 1, 5])
def test_ends_of_a_spectrum(N, s):
    theta = np.sort(np.random.default_rng(N).standard_normal(N))[::-1]
    K = with_spectrum(theta)
    V = np.linalg.eigh(K)[1][:, ::-1][:, :s]
    ends = _kernel_eigenpairs.ends_of_spectrum(Kernel.from_matrix(K).T, V, 0)
    assert theta[-1] - 1e-12 <= ends.least <= 0.97 * theta[-1]
    assert 0.9 * theta[0] <= ends.largest <= theta[0] + 1e-12
    assert ends.of_components == pytest.approx(theta[s - 1] if s else 0)


# Kernels by name.


def positive_rows(N=50, d=4):
    return np.random.default_rng(0).uniform(0.1, 2, (N, d))


NAMED = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "laplacian"},
    {"kernel": "cosine"},
    {"kernel": "chi2"},
    {"kernel": "additive_chi2"},
    {"kernel": "poly"},
    {"kernel": "poly", "coef0": 0, "degree": 2},
    {"kernel": "polynomial", "coef0": 0.5, "degree": 5.0},
]


@pytest.mark.filterwarnings("ignore:two starts found")
@pytest.mark.parametrize("options", NAMED, ids=str)
@pytest.mark.parametrize("Model", [KernelPCA, RobustKernelPCA])
def test_kernels_that_are_positive_semidefinite_are_not_looked_at(monkeypatch, options, Model):
    X = positive_rows()
    K = pairwise_kernels(X, metric=options["kernel"], filter_params=True, **{"coef0": 1, **options})
    theta = np.linalg.eigvalsh(centred(K))
    assert theta[0] >= -1e-12 * theta[-1]

    def looked(*args, **kwargs):
        raise AssertionError("K was looked at")

    monkeypatch.setattr(_kernel_eigenpairs, "ends_of_spectrum", looked)
    monkeypatch.setattr("dualpca.robust.sample._spectrum", looked)
    Model(2, random_state=0, **options).fit(X)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "sigmoid"},
        {"kernel": "poly", "coef0": -1},
        {"kernel": "poly", "degree": 2.5},
        {"kernel": "additive_chi2", "center": False},
        {"kernel": "precomputed"},
        {"kernel": lambda x, y: x @ y},
    ],
    ids=["sigmoid", "negative shift", "broken degree", "not centred", "precomputed", "function"],
)
def test_other_kernels_are_looked_at(options):
    assert not KernelPCA(**options)._is_definite


def test_looking_takes_eight_products_with_the_kernel_matrix():
    X = positive_rows(300)
    for solver in ("krylov", "lapack"):
        options = {"solver": solver, "random_state": 0}
        plain = KernelPCA(3, kernel="rbf", **options).fit(X)
        looked = KernelPCA(3, kernel="precomputed", **options)
        looked.fit(pairwise_kernels(X, metric="rbf", gamma=plain.gamma_))
        assert looked.n_passes_ == plain.n_passes_ + 8


@pytest.mark.parametrize("n_components", [2, 3, 8, None])
def test_sigmoid_is_told_of_and_refused_where_scikit_learn_refuses_it(n_components):
    X = positive_rows() - 1
    options = {"kernel": "sigmoid", "gamma": 0.25}
    oracle = Oracle(n_components, eigen_solver="dense", **options)
    model = KernelPCA(n_components, **options)
    if n_components is None:
        with pytest.raises(ValueError, match="negative eigenvalues"):
            oracle.fit(X)
        with pytest.raises(ValueError, match=r"'sigmoid' is not positive .* ask for n_components"):
            model.fit(X)
        return
    with pytest.warns(PositiveSpectrumWarning, match="kernel='sigmoid' is not positive"):
        model.fit(X)
    assert_allclose(model.eigenvalues_, oracle.fit(X).eigenvalues_, rtol=1e-8)
    assert_allclose(np.abs(model.transform(X)), np.abs(oracle.transform(X)), atol=1e-8)


@pytest.mark.parametrize("s", [35, 39, 40])
@pytest.mark.parametrize("solver", [*DIRECT, *FIRST_ORDER, "chebyshev"])
def test_sigmoid_with_nearly_all_components_is_refused_whatever_the_solver(monkeypatch, solver, s):
    monkeypatch.setattr(KernelPCA, "_validate_params", lambda self: None)  # does not know the last
    X = np.random.default_rng(0).standard_normal((40, 6))
    with pytest.raises(ValueError, match="kernel='sigmoid' is not positive semidefinite"):
        KernelPCA(s, kernel="sigmoid", solver=solver, random_state=0).fit(X)


@pytest.mark.filterwarnings("ignore:two starts found:UserWarning")
def test_robust_sigmoid_is_told_of():
    X = positive_rows() - 1
    with pytest.warns(PositiveSpectrumWarning, match="kernel='sigmoid' is not positive"):
        RobustKernelPCA(2, kernel="sigmoid", gamma=0.25, random_state=0).fit(X)


def test_minus_squared_distances_are_a_kernel_when_centred():
    X = positive_rows()
    K = -0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)
    model = precomputed(3).fit(K)
    assert_allclose(model.eigenvalues_, PCA(3).fit(X).singular_values_ ** 2, rtol=1e-8)
    with pytest.raises(ValueError, match="its matrix has the eigenvalue"):
        precomputed(3, center=False).fit(K)
