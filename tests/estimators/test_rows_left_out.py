"""A weight of 0 leaves a row out: kernel models are those of the other rows, whatever it holds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import pairwise_kernels

from dualpca import KernelPCA, RobustKernelPCA, RobustPCA
from dualpca.operators import Blocks, Kernel, Matrix, Selected

pytestmark = pytest.mark.filterwarnings("ignore:two starts found", "ignore:.* of the rows are fl")


def good_rows(N=70, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 1.5, (N, 2)) @ rng.uniform(0, 1, (2, d)) + 0.1 * rng.uniform(
        0, 1, (N, d)
    )


def spoilt(X, bad=30, seed=3):
    """The rows of X in order among far ones, and the weights that leave these out."""
    rng = np.random.default_rng(seed)
    whole = 1e3 * rng.uniform(0, 1, (len(X) + bad, X.shape[1]))
    present = np.sort(rng.permutation(len(whole))[bad:])
    whole[present] = X
    weights = np.zeros(len(whole))
    weights[present] = 1
    return whole, weights


def forms(X, tmp_path):
    name = tmp_path / f"{len(X)}.npy"
    np.save(name, X)
    return {
        "dense": X,
        "csr": sp.csr_array(X),
        "csc": sp.csc_array(X),
        "map": np.load(name, mmap_mode="r"),
        "blocks": Blocks([X[:33], X[33:]]),
    }


def aligned(A, B):
    return A * np.where((A * B).sum(axis=0) < 0, -1, 1)


def assert_same_kernel_pca(model, plain, weights, new, rtol=1e-9):
    assert model.gamma_ == pytest.approx(plain.gamma_, rel=1e-12)
    assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=rtol)
    assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=rtol)
    assert_allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=rtol)
    if model.approximation is None:
        assert model.eigenvectors_.shape[0] == len(weights)
        present = aligned(model.eigenvectors_[weights > 0], plain.eigenvectors_)
        assert_allclose(present, plain.eigenvectors_, atol=1e-7)
        assert not model.eigenvectors_[weights == 0].any()
    expected = plain.transform(new)
    assert_allclose(
        aligned(model.transform(new), expected), expected, atol=1e-7 * np.abs(expected).max()
    )


KERNELS = [
    {"kernel": "rbf", "gamma": "median"},
    {"kernel": "rbf", "gamma": "scale"},
    {"kernel": "rbf", "gamma": 0.5},
    {"kernel": "linear"},
    {"kernel": "poly", "gamma": "scale", "degree": 2},
    {"kernel": "laplacian", "gamma": 0.1},
    {"kernel": "cosine"},
]
FEATURES = [
    *(
        {"approximation": "nystroem", "n_landmarks": 20, "landmarks": how}
        for how in ("uniform", "kmeans++", "leverage")
    ),
    {"approximation": "rff", "n_random_features": 40},
    {"approximation": "orf", "n_random_features": 40},
]


@pytest.mark.parametrize("form", ["dense", "csc", "map"])
@pytest.mark.parametrize("options", KERNELS, ids=str)
@pytest.mark.parametrize("center", [True, False])
def test_exact_kernels(tmp_path, options, form, center):
    X, new = good_rows(), good_rows(9, seed=1)
    whole, weights = spoilt(X)
    fresh = KernelPCA(3, center=center, random_state=0, tol=1e-10, **options)
    plain = KernelPCA(**fresh.get_params()).fit(forms(X, tmp_path)[form])
    model = fresh.fit(forms(whole, tmp_path)[form], sample_weight=weights)
    assert_same_kernel_pca(model, plain, weights, new)


@pytest.mark.parametrize(
    ("solver", "n_components"),
    [*itertools.product(["lapack", "krylov"], [3, 65, None, 0.9]), ("dca", 3)],
)
def test_a_kernel_matrix(solver, n_components):
    X, new = good_rows(), good_rows(9, seed=1)
    whole, weights = spoilt(X)
    K, k, few, some = (
        pairwise_kernels(A, B, metric="laplacian", gamma=1.0)
        for A, B in ((whole, whole), (new, whole), (X, X), (new, X))
    )
    options = {"kernel": "precomputed", "solver": solver, "tol": 1e-10, "random_state": 0}
    model = KernelPCA(n_components, **options).fit(K, sample_weight=weights)
    plain = KernelPCA(n_components, **options).fit(few)
    assert model.eigenvalues_.shape == plain.eigenvalues_.shape
    assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-6, atol=1e-9)
    assert_allclose(
        model.transform(k)[:, :3],
        aligned(plain.transform(some), model.transform(k))[:, :3],
        atol=1e-7,
    )
    assert_allclose(model.fit_transform(K, sample_weight=weights), model.transform(K))


@pytest.mark.parametrize("form", ["dense", "csr", "map", "blocks"])
@pytest.mark.parametrize("options", FEATURES, ids=str)
@pytest.mark.parametrize("gamma", ["median", "scale"])
def test_features(tmp_path, options, form, gamma):
    X, new = good_rows(), good_rows(9, seed=1)
    whole, weights = spoilt(X)
    fresh = KernelPCA(3, kernel="rbf", gamma=gamma, random_state=0, tol=1e-10, **options)
    plain = KernelPCA(**fresh.get_params()).fit(forms(X, tmp_path)[form])
    model = fresh.fit(forms(whole, tmp_path)[form], sample_weight=weights)
    if options["approximation"] == "nystroem":
        here, there = (sp.csr_array(m.features_.landmarks).toarray() for m in (model, plain))
        assert_array_equal(here, there)
    else:
        assert_array_equal(model.features_.frequencies, plain.features_.frequencies)
    assert_same_kernel_pca(model, plain, weights, new, 1e-7)


@pytest.mark.parametrize("how", ["uniform", "kmeans++"])
def test_rows_on_a_cluster(how):
    da = pytest.importorskip("dask.array")
    X, new = good_rows(), good_rows(9, seed=1)
    whole, weights = spoilt(X)
    options = {"kernel": "rbf", "gamma": "median", "random_state": 0, "tol": 1e-10}
    options |= {"approximation": "nystroem", "n_landmarks": 20, "landmarks": how}
    plain = KernelPCA(3, **options).fit(da.from_array(X, chunks=(30, 5)))
    there = da.from_array(whole, chunks=(30, 5))
    for given in (weights, da.from_array(weights, chunks=30)):
        model = KernelPCA(3, **options).fit(there, sample_weight=given)
        assert_array_equal(model.features_.landmarks, plain.features_.landmarks)
        assert_same_kernel_pca(model, plain, weights, new, 1e-7)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
@pytest.mark.parametrize("inverse", ["ridge", "fixed_point"])
def test_the_way_back(approximation, inverse):
    X, new = good_rows(), good_rows(9, seed=1)
    whole, weights = spoilt(X)
    fresh = KernelPCA(3, kernel="rbf", gamma="median", approximation=approximation, n_landmarks=20)
    fresh.set_params(fit_inverse_transform=True, inverse=inverse, random_state=0, tol=1e-10)
    plain = KernelPCA(**fresh.get_params()).fit(X)
    model = fresh.fit(whole, sample_weight=weights)
    back, expected = (m.inverse_transform(m.transform(new)) for m in (model, plain))
    assert_allclose(back, expected, atol=1e-6)


def test_a_constant_beside_wild_rows_is_a_constant():
    whole, weights = spoilt(np.ones((70, 5)))
    model = KernelPCA(2, kernel="rbf", gamma=1.0).fit(whole, sample_weight=weights)
    assert_array_equal(model.eigenvalues_, 0)


ROBUST = [
    *(options for options in KERNELS if options["kernel"] != "cosine"),
    *({"kernel": "rbf", "gamma": "median", **options} for options in FEATURES),
]


def bad_rows():
    X = good_rows()
    X[:7] += np.random.default_rng(5).uniform(0, 3, (7, X.shape[1]))
    return X


def assert_same_robust(model, plain, weights, new, atol=1e-6):
    present = weights > 0
    for name in ("explained_variance_", "orthogonal_cutoff_", "offset_"):
        assert_allclose(getattr(model, name), getattr(plain, name), rtol=1e-5, atol=1e-12)
    for name in ("outliers_", "orthogonal_distances_", "score_distances_", "weights_"):
        assert_allclose(getattr(model, name)[present], getattr(plain, name), rtol=1e-5, atol=atol)
    assert not model.weights_[~present].any()
    expected = plain.transform(new)
    assert_allclose(aligned(model.transform(new), expected), expected, atol=atol)
    assert_array_equal(model.predict(new), plain.predict(new))


@pytest.mark.parametrize("contamination", ["auto", 0.1])
@pytest.mark.parametrize("options", ROBUST, ids=str)
def test_robust_kernels(options, contamination):
    X, new = bad_rows(), good_rows(9, seed=1)
    whole, weights = spoilt(X)
    given = {"tol": 1e-8, "max_iter": 5000, "contamination": contamination, **options}
    fresh = RobustKernelPCA(2, random_state=0, **given)
    plain = RobustKernelPCA(**fresh.get_params()).fit(X)
    model = fresh.fit(whole, sample_weight=weights)
    assert model.gamma_ == pytest.approx(plain.gamma_, rel=1e-12)
    assert_same_robust(model, plain, weights, new)


def test_a_share_of_outliers_is_one_of_the_rows_that_count():
    X = bad_rows()
    whole, weights = spoilt(X)
    model = RobustPCA(2, random_state=0, contamination=0.1).fit(whole, sample_weight=weights)
    assert model.outliers_[weights > 0].sum() == 7
    assert model.outliers_[weights == 0].all()


def test_selected_rows_are_taken_by_their_own_numbers():
    X = good_rows()
    keep = np.arange(len(X)) % 3 > 0
    few = np.array([0, 5, 11])
    assert_array_equal(Selected(Matrix(X), keep).take(few), X[keep][few])


def test_a_kernel_among_some_rows():
    X = good_rows()
    K, keep = X @ X.T, np.arange(len(X)) % 3 > 0
    some = Kernel.from_matrix(K).among(keep)
    part = K[np.ix_(keep, keep)]
    H = np.random.default_rng(0).standard_normal((keep.sum(), 2))
    assert_allclose(some.T.sweep(H), part @ H, atol=1e-10)
    assert_array_equal(some.kernel(), part)
    assert some.energy() == pytest.approx(np.trace(part))
    assert some.passes == 2
