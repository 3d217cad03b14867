"""KernelPCA at scale: fractions, weights, features in place of K, blocks of rows, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist
from sklearn.datasets import load_iris
from sklearn.decomposition import KernelPCA as Oracle
from sklearn.kernel_approximation import Nystroem as OracleNystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualpca import KernelPCA, as_operator, load, save
from dualpca.io.onnx import to_onnx
from dualpca.kernels.features import feature_operator
from dualpca.operators.row_blocks import Mapped

#: Positive semidefinite kernels on these rows, with their parameters.
KERNELS = {
    "rbf": {"gamma": 0.1},
    "poly": {"gamma": 0.05, "degree": 3, "coef0": 1},
    "linear": {},
    "laplacian": {"gamma": 0.1},
    "cosine": {},
}


def rows(N=60, d=5, seed=0, dtype=np.float64):
    """Rows whose kernels have well separated leading eigenvalues."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((N, d)) * np.geomspace(2, 0.3, d) + 1).astype(dtype)


def curve(N=200, noise=0.1, seed=0):
    """Noisy rows around the unit circle."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, N)
    return np.c_[np.cos(angle), np.sin(angle)] + noise * rng.standard_normal((N, 2))


def off_the_circle(X):
    return np.abs(np.linalg.norm(X, axis=1) - 1)


def precise(n=3, **options):
    defaults = {"kernel": "rbf", "gamma": 0.1, "tol": 1e-11, "max_iter": 5000, "random_state": 0}
    return KernelPCA(n, **{**defaults, **options})


def near(n=3, **options):
    return precise(n, approximation="nystroem", **options)


def aligned(A, reference):
    """The columns of A with the signs of the reference's."""
    return A * np.where(np.sum(A * reference, axis=0) < 0, -1, 1)


def assert_same(model, other, new, atol=1e-6, other_new=None):
    """Equal eigenvalues, and equal scores of new rows up to signs."""
    top = other.eigenvalues_[0]
    assert_allclose(model.eigenvalues_, other.eigenvalues_, rtol=0, atol=atol * top)
    expected = other.transform(new if other_new is None else other_new)
    atol = atol * max(np.abs(expected).max(), np.sqrt(top))
    assert_allclose(aligned(model.transform(new), expected), expected, rtol=0, atol=atol)


def doubly_centred(K, share=None):
    share = np.full(len(K), 1 / len(K)) if share is None else share
    J = np.eye(len(K)) - np.outer(np.ones(len(K)), share)
    return J @ K @ J.T


def spectrum(K):
    return np.linalg.eigvalsh(K)[::-1].clip(0)


def spy(model, name):
    """The sizes of the blocks of rows that a method is called with."""
    sizes, method = [], getattr(model, name)

    def seen(X, *rest):
        sizes.append(X.shape[0])
        return method(X, *rest)

    setattr(model, name, seen)
    return sizes


# A fraction of the variance.


def count(theta, fraction):
    """The fewest of the eigenvalues that sum to more than the fraction."""
    return int((np.cumsum(theta) <= fraction * theta.sum()).sum()) + 1


@pytest.mark.parametrize("solver", ["auto", "krylov", "lapack"])
@pytest.mark.parametrize("fraction", [0.02, 0.5, 0.8, 0.97, 0.9999])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian"])
def test_a_fraction_asks_for_as_many_components_as_numpy_counts(kernel, fraction, solver):
    X = rows(300)
    theta = spectrum(doubly_centred(pairwise_kernels(X, metric=kernel, **KERNELS[kernel])))
    model = precise(fraction, kernel=kernel, solver=solver, **KERNELS[kernel]).fit(X)
    n = count(theta, fraction)
    assert len(model.eigenvalues_) == n
    assert model.transform(X).shape == model.eigenvectors_.shape == (300, n)
    assert_allclose(model.explained_variance_ratio_, theta[:n] / theta.sum(), atol=1e-8)
    assert model.explained_variance_ratio_.sum() > fraction
    assert model.explained_variance_ratio_[:-1].sum() <= fraction
    if solver != "auto":
        assert model.solver_.startswith(solver)


@pytest.mark.parametrize(
    "solver",
    [
        "auto",
        "krylov",
        pytest.param("lapack"),
    ],
)
@pytest.mark.parametrize("fraction", [0.3, 0.9, 0.99])
def test_a_fraction_of_the_variance_of_nystroem_features(fraction, solver):
    X = rows(300)
    model = near(fraction, landmarks=X[:40], solver=solver).fit(X)
    phi = OracleNystroem(kernel="rbf", gamma=0.1, n_components=40, random_state=0).fit(X[:40])
    Phi = phi.transform(X)
    theta = spectrum(doubly_centred(Phi @ Phi.T))
    n = count(theta, fraction)
    assert len(model.eigenvalues_) == n
    assert_allclose(model.eigenvalues_, theta[:n], rtol=1e-6)
    assert_allclose(model.explained_variance_ratio_, theta[:n] / theta.sum(), rtol=1e-6)
    assert_allclose(model.explained_variance_, theta[:n] / 299, rtol=1e-6)


@pytest.mark.parametrize("center", [True, False])
def test_a_fraction_with_weights_and_without_a_centre(center):
    X = rows(80)
    weights = np.random.default_rng(0).uniform(0, 3, 80)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    K = doubly_centred(K, weights / weights.sum()) if center else K
    theta = spectrum(np.sqrt(np.outer(weights, weights)) * K)
    model = precise(0.9, center=center).fit(X, sample_weight=weights)
    assert len(model.eigenvalues_) == count(theta, 0.9)
    assert_allclose(model.eigenvalues_, theta[: len(model.eigenvalues_)], rtol=1e-8)


# Weights.


@pytest.mark.parametrize("solver", ["lapack", "krylov", "dca"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "precomputed"])
@pytest.mark.parametrize("center", [True, False])
def test_a_weight_of_two_is_the_row_twice(kernel, center, solver):
    X, new = rows(), rows(20, seed=1)
    weights = np.random.default_rng(2).integers(0, 4, len(X))
    assert (weights == 0).any()
    twice, other_new = np.repeat(X, weights, axis=0), new
    if kernel == "precomputed":
        X, twice, new, other_new = (
            pairwise_kernels(A, B, metric="rbf", gamma=0.1)
            for A, B in ((X, X), (twice, twice), (new, X), (new, twice))
        )
    options = {"kernel": kernel, "center": center, "solver": solver, **KERNELS.get(kernel, {})}
    model = precise(**options).fit(X, sample_weight=weights)
    repeated = precise(**options).fit(twice)
    assert_same(model, repeated, new, other_new=other_new)
    assert_allclose(model.explained_variance_, repeated.explained_variance_, rtol=1e-6)
    assert_allclose(model.explained_variance_ratio_, repeated.explained_variance_ratio_, rtol=1e-6)
    assert model.residual_ <= 1e-10


@pytest.mark.parametrize("approximation", ["nystroem", "rff", "orf"])
def test_a_weight_of_two_is_the_row_twice_in_features(approximation):
    X, new = rows(), rows(20, seed=1)
    weights = np.random.default_rng(2).integers(0, 4, len(X))
    options = {"approximation": approximation, "landmarks": X[:20], "n_random_features": 100}
    model = precise(**options).fit(X, sample_weight=weights)
    repeated = precise(**options).fit(np.repeat(X, weights, axis=0))
    assert_same(model, repeated, new)
    assert_allclose(model.explained_variance_, repeated.explained_variance_, rtol=1e-6)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_variances_are_those_of_the_scores(approximation):
    X = rows()
    weights = np.random.default_rng(2).uniform(0, 3, len(X))
    model = precise(approximation=approximation, landmarks=X[:20])
    scores = model.fit_transform(X, sample_weight=weights)
    mean = np.average(scores, axis=0, weights=weights)
    assert_allclose(mean, 0, atol=1e-8)
    variances = np.average(scores**2, axis=0, weights=weights)
    assert_allclose(model.eigenvalues_, weights.sum() * variances, rtol=1e-6)
    counted = weights.sum() - 1  # as in PCA
    assert_allclose(model.explained_variance_, model.eigenvalues_ / counted, rtol=1e-6)
    assert_allclose(scores, model.transform(X), atol=1e-10)


def test_equal_weights_are_none():
    X, new = rows(), rows(20, seed=1)
    for weights in (1, np.ones(60), [1] * 60):
        assert_same(precise().fit(X, sample_weight=weights), precise().fit(X), new, 1e-9)


def test_rows_of_weight_0_say_nothing():
    X, new = rows(), rows(20, seed=1)
    spoilt = np.vstack([X, 1e3 + rows(15, seed=3)])
    weights = np.r_[np.ones(60), np.zeros(15)]
    assert_same(precise().fit(spoilt, sample_weight=weights), precise().fit(X), new, 1e-9)


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_bad_weights(approximation):
    model = precise(approximation=approximation, n_landmarks=20)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\).*60 rows"):
        model.fit(rows(), sample_weight=[1, 2, 3])
    with pytest.raises(ValueError, match=r"(?s)sample_weight.*not negative"):
        model.fit(rows(), sample_weight=np.full(60, -1.0))
    with pytest.raises(ValueError, match=r"sample_weight sums to 0.*scale them"):
        model.fit(rows(), sample_weight=np.zeros(60))


# Landmarks.


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "laplacian"])
@pytest.mark.parametrize("center", [True, False])
def test_all_rows_as_landmarks_are_the_kernel_itself(kernel, center):
    X, new = rows(), rows(20, seed=1)
    options = {"kernel": kernel, "center": center, **KERNELS[kernel]}
    exact = precise(**options).fit(X)
    for landmarks in ("uniform", "kmeans++", "leverage", X, X[::-1]):
        model = near(n_landmarks=60, landmarks=landmarks, **options).fit(X)
        assert_same(model, exact, new)
        assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=1e-6)
        assert_allclose(model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "cosine"])
def test_given_landmarks_agree_with_scikit_learn(kernel):
    """PCA of scikit-learn's features, which need not be rows of X at all."""
    X, new, landmarks = rows(), rows(20, seed=1), rows(12, seed=5)
    model = near(kernel=kernel, landmarks=landmarks, **KERNELS[kernel]).fit(X)
    phi = OracleNystroem(kernel=kernel, n_components=12, random_state=0, **KERNELS[kernel])
    features, fresh = (phi.fit(landmarks).transform(A) for A in (X, new))
    mean = features.mean(axis=0)
    _, sigma, Vt = np.linalg.svd(features - mean, full_matrices=False)
    assert_allclose(model.eigenvalues_, sigma[:3] ** 2, rtol=1e-6)
    expected = (fresh - mean) @ Vt[:3].T
    assert_allclose(aligned(model.transform(new), expected), expected, atol=1e-6)
    assert_allclose(model.features_.landmarks, landmarks)


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans++", "leverage"])
def test_landmarks_are_rows_and_go_by_the_seed(landmarks):
    X, new = rows(200), rows(20, seed=1)
    one, two = (near(n_landmarks=30, landmarks=landmarks).fit(X) for _ in range(2))
    assert_array_equal(one.transform(new), two.transform(new))
    assert_array_equal(one.features_.landmarks, two.features_.landmarks)
    distances = np.abs(one.features_.landmarks[:, None] - X).sum(axis=2)
    assert_array_equal(distances.min(axis=1), 0)
    assert one.features_.dimension == 30
    other = near(n_landmarks=30, landmarks=landmarks, random_state=1).fit(X)
    assert not np.array_equal(one.features_.landmarks, other.features_.landmarks)
    exact = precise().fit(X)
    assert_allclose(one.eigenvalues_, exact.eigenvalues_, rtol=0.15)
    assert np.all(one.eigenvalues_ <= exact.eigenvalues_ * (1 + 1e-9))


def test_more_landmarks_never_lose_variance():
    """K minus its Nystroem approximation is positive semidefinite, and falls with the landmarks."""
    X = rows(150)
    totals = [near(5, landmarks=X[:m]).fit(X).eigenvalues_ for m in (10, 20, 50, 150)]
    assert np.all(np.diff(totals, axis=0) >= -1e-8)


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans++", "leverage"])
def test_too_many_landmarks(landmarks):
    with pytest.raises(ValueError, match=r"n_landmarks=61 exceeds the 60 rows.*at most 60"):
        near(n_landmarks=61, landmarks=landmarks).fit(rows())


@pytest.mark.parametrize("bad", [np.ones((4, 3)), np.ones(5), np.full((4, 5), np.nan)])
def test_bad_landmarks(bad):
    with pytest.raises(ValueError, match=r"landmarks has shape .* 5 features.*'uniform'"):
        near(landmarks=bad).fit(rows())


def test_an_approximation_needs_rows():
    for approximation in ("nystroem", "rff"):
        with pytest.raises(ValueError, match=r"approximation=.*give the rows.*'precomputed'"):
            precise(kernel="precomputed", approximation=approximation).fit(np.eye(30))


def test_as_many_components_as_there_are_features():
    X = rows()
    assert near(50, n_landmarks=20).fit(X).transform(X).shape == (60, 20)
    assert near(None, n_landmarks=20, center=False).fit(X).transform(X).shape == (60, 20)


@pytest.mark.parametrize("options", [{"n_components": None}, {"remove_zero_eig": True}])
@pytest.mark.parametrize(
    "approximation",
    [
        None,
        pytest.param("nystroem"),
    ],
)
def test_components_without_variance_are_left_out(approximation, options):
    """Five different rows have four directions about their mean."""
    X = np.repeat(rows(5), 8, axis=0)
    model = precise(7, approximation=approximation, n_landmarks=20)
    assert model.set_params(**options).fit_transform(X).shape == (40, 4)
    assert len(model.eigenvalues_) == 4


@pytest.mark.parametrize("approximation", ["nystroem", "rff", "orf"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_features_beyond_the_limit_are_computed_in_each_pass(monkeypatch, approximation, kind):
    X, new = kind(rows(200)), kind(rows(20, seed=1))
    options = {"approximation": approximation, "n_landmarks": 30, "n_random_features": 30}
    stored = precise(**options).fit(X)

    def recomputed(phi, rows):
        operator = feature_operator(phi, rows, limit=0)
        assert isinstance(operator, Mapped)
        return operator

    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    monkeypatch.setattr("dualpca.kernels.features.feature_operator", recomputed)
    model = precise(**options).fit(X)
    assert_same(model, stored, new)
    assert_allclose(model.explained_variance_ratio_, stored.explained_variance_ratio_, rtol=1e-6)


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans++", "leverage", "given"])
@pytest.mark.parametrize("kind", ["memmap", "csr", "csc"])
def test_other_kinds_of_rows_are_as_the_array(tmp_path, kind, landmarks):
    X, new = rows(120), rows(20, seed=1)
    X[np.random.default_rng(0).random(X.shape) < 0.3] = 0
    landmarks = X[:30] if landmarks == "given" else landmarks
    plain = near(n_landmarks=30, landmarks=landmarks).fit(X)
    np.save(tmp_path / "x.npy", X)
    other = {
        "memmap": lambda: np.load(tmp_path / "x.npy", mmap_mode="r"),
        "csr": lambda: sp.csr_array(X),
        "csc": lambda: sp.csc_array(X),
    }[kind]()
    model = near(n_landmarks=30, landmarks=landmarks).fit(other)
    assert_same(model, plain, new, 1e-7)
    assert_allclose(model.transform(other), model.transform(X), atol=1e-8)


def test_landmarks_between_the_rows_of_an_integer_memory_map(tmp_path):
    X = (10 * rows()).astype(np.int16)
    np.save(tmp_path / "x.npy", X)
    landmarks = X[:15] + 0.5
    plain = near(gamma=1e-3, landmarks=landmarks).fit(X)
    model = near(gamma=1e-3, landmarks=landmarks).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("approximation", [None, "nystroem", "rff", "orf"])
def test_float32_stays_float32(approximation):
    X, new = rows(dtype=np.float32), rows(20, seed=1, dtype=np.float32)
    options = {"approximation": approximation, "landmarks": X[:25], "n_random_features": 200}
    narrow = precise(tol=1e-5, **options).fit(X)
    wide = precise(tol=1e-5, **options).fit(X.astype(float))
    scores = narrow.transform(new)
    weighted = narrow.fit_transform(X, sample_weight=np.arange(60))
    for array in (scores, weighted, narrow.eigenvalues_, narrow.explained_variance_ratio_):
        assert array.dtype == np.float32
    expected = wide.transform(new.astype(float))
    assert_allclose(aligned(scores, expected), expected, atol=2e-3)


# Random Fourier features.


@pytest.mark.parametrize("approximation", ["rff", "orf"])
@pytest.mark.parametrize("kernel", ["poly", "linear", "laplacian"])
def test_fourier_features_are_of_the_rbf_kernel(approximation, kernel):
    message = (
        rf"approximation='{approximation}' is for kernel='rbf', not '{kernel}'; use .*nystroem"
    )
    with pytest.raises(ValueError, match=message):
        precise(kernel=kernel, approximation=approximation).fit(rows())


@pytest.mark.parametrize("approximation", ["rff", "orf"])
def test_more_fourier_features_come_nearer(approximation):
    X = rows(100)
    exact = precise(5).fit(X).eigenvalues_
    errors = [
        np.median(
            [
                np.abs(
                    precise(5, approximation=approximation, n_random_features=D, random_state=seed)
                    .fit(X)
                    .eigenvalues_
                    - exact
                ).sum()
                for seed in range(15)
            ]
        )
        for D in (50, 500, 5000)
    ]
    assert errors[2] < errors[1] < errors[0]
    # Monte Carlo: a hundred times as many features, about a tenth of the error.
    assert errors[2] < 0.4 * errors[0]
    assert errors[2] < 0.05 * exact.sum()


def test_fourier_features_go_by_the_seed():
    X = rows()
    one, two, other = (
        precise(approximation="rff", n_random_features=50, random_state=seed).fit_transform(X)
        for seed in (0, 0, 1)
    )
    assert_array_equal(one, two)
    assert not np.array_equal(one, other)


# gamma.


@pytest.mark.parametrize("approximation", [None, "nystroem", "rff"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_gamma_by_brute_force(approximation, kind):
    X = rows()
    options = {"approximation": approximation, "n_landmarks": 20, "n_random_features": 20}
    for name, gamma in {
        "median": 1 / np.median(pdist(X, "sqeuclidean")),
        "scale": 1 / (5 * X.var()),
    }.items():
        model = precise(gamma=name, **options).fit(kind(X))
        assert model.gamma_ == pytest.approx(gamma, rel=1e-9)
    model = precise(gamma=None, **options).fit(kind(X))
    assert model.gamma_ == 1 / 5


@pytest.mark.parametrize("name", ["median", "scale"])
def test_gamma_by_name_is_the_number(name):
    X, new = rows(), rows(20, seed=1)
    model = precise(gamma=name).fit(X)
    assert_same(model, Oracle(3, kernel="rbf", gamma=model.gamma_).fit(X), new)
    assert model.gamma == name


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_grid_search_over_gamma(approximation):
    X, y = load_iris(return_X_y=True)
    kpca = KernelPCA(3, kernel="rbf", approximation=approximation, n_landmarks=40, random_state=0)
    pipe = make_pipeline(StandardScaler(), kpca, LogisticRegression(C=100))
    gammas = ["median", "scale", None, 1e-2, 1e-1]
    search = GridSearchCV(pipe, {"kernelpca__gamma": gammas}, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_["kernelpca"]
    assert best.gamma == search.best_params_["kernelpca__gamma"]
    assert 0 < best.gamma_ < 10


# New rows, by blocks.


@pytest.mark.filterwarnings("ignore:kernel='sigmoid' is not positive semidefinite")
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine", "sigmoid", "precomputed"])
@pytest.mark.parametrize("center", [True, False])
def test_new_rows_in_small_blocks(monkeypatch, kernel, center):
    X, new = rows(), rows(25, seed=1)
    options = {"gamma": 0.01, "coef0": 0.1} if kernel == "sigmoid" else KERNELS.get(kernel, {})
    if kernel == "precomputed":
        X, new = X @ X.T, new @ X.T
    model = precise(2, kernel=kernel, center=center, **options).fit(X)
    whole = model.transform(new)
    if center:
        expected = Oracle(2, kernel=kernel, eigen_solver="dense", **options).fit(X).transform(new)
        assert_allclose(aligned(whole, expected), expected, atol=1e-6 * np.abs(expected).max())
    for size in (1, 8 * 60 * 7):
        monkeypatch.setattr("dualpca.estimators._kernels.CHUNK_BYTES", size)
        sizes = spy(model, "_scores_of")
        scores = model.transform(new)
        assert sizes == ([1] * 25 if size == 1 else [7, 7, 7, 4])
        assert_allclose(scores, whole, atol=1e-10 * np.abs(whole).max())


def test_new_sparse_and_mapped_rows_in_small_blocks(monkeypatch, tmp_path):
    X, new = rows(), rows(25, seed=1)
    np.save(tmp_path / "new.npy", new)
    mapped = np.load(tmp_path / "new.npy", mmap_mode="r")
    monkeypatch.setattr("dualpca.estimators._kernels.CHUNK_BYTES", 1)
    model = precise().fit(X)
    for other in (sp.csr_array(new), sp.csc_array(new), mapped):
        assert_allclose(model.transform(other), model.transform(new), atol=1e-9)


# The way back.


@pytest.mark.parametrize("alpha", [1.0, 1e-3])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine"])
def test_ridge_is_that_of_scikit_learn(kernel, alpha):
    X, new = rows(), rows(20, seed=1)
    options = {"kernel": kernel, "alpha": alpha, "fit_inverse_transform": True, **KERNELS[kernel]}
    model = precise(**options).fit(X)
    oracle = Oracle(3, eigen_solver="dense", **options).fit(X)
    for A in (X, new):
        expected = oracle.inverse_transform(oracle.transform(A))
        assert_allclose(model.inverse_transform(model.transform(A)), expected, atol=1e-6)


@pytest.mark.parametrize("approximation", ["nystroem", "rff"])
def test_ridge_from_features(approximation):
    X = rows()
    options = {"fit_inverse_transform": True, "alpha": 1e-6, "n_random_features": 100}
    model = precise(20, approximation=approximation, landmarks=X[:40], **options).fit(X)
    back = model.inverse_transform(model.transform(X))
    assert np.linalg.norm(back - X) < 0.2 * np.linalg.norm(X - X.mean(axis=0))


@pytest.mark.parametrize("inverse", ["ridge", "fixed_point"])
def test_the_way_back_is_learnt_from_some_of_many_rows(monkeypatch, inverse):
    X = curve(300, noise=0.02)
    options = {"gamma": 1.0, "fit_inverse_transform": True, "inverse": inverse, "alpha": 1e-3}
    whole = precise(6, **options).fit(X)
    monkeypatch.setattr("dualpca.estimators.kernel_pca.RIDGE_ROWS", 150)
    model = precise(6, **options).fit(X)
    assert model.X_transformed_fit_.shape == (150, 6)
    scores = whole.transform(X)
    gap = np.linalg.norm(model.inverse_transform(scores) - whole.inverse_transform(scores), axis=1)
    assert np.median(gap) < 0.02


def projected(X, new, s, gamma, center, landmarks=None):
    """Coefficients, over the landmarks, of the projections of new rows, by numpy.

    Each column g says ``P phi(x) = sum_i g_i phi(z_i)``, from an eigendecomposition of its own.
    """
    if landmarks is None:
        K = pairwise_kernels(X, metric="rbf", gamma=gamma)
        k = pairwise_kernels(X, new, metric="rbf", gamma=gamma)
        share = np.full((len(X), 1), 1 / len(X) if center else 0.0)
        J = np.eye(len(X)) - share @ np.ones((1, len(X)))
        theta, U = (A[..., ::-1][..., :s] for A in np.linalg.eigh(J.T @ K @ J))
        A = J @ (U / np.sqrt(theta))  # axes, as coefficients
        return A @ (A.T @ (k - K @ share)) + share
    phi = OracleNystroem(
        kernel="rbf", gamma=gamma, n_components=len(landmarks), random_state=0
    ).fit(landmarks)
    features, fresh = phi.transform(X), phi.transform(new)
    mean = features.mean(axis=0) if center else 0 * features[0]
    V = np.linalg.svd(features - mean, full_matrices=False)[2][:s].T
    points = mean + (fresh - mean) @ V @ V.T
    G = np.empty((len(landmarks), len(new)))
    G[phi.component_indices_] = phi.normalization_.T @ points.T
    return G


@pytest.mark.parametrize("approximation", [None, "nystroem"])
@pytest.mark.parametrize("center", [True, False])
def test_a_fixed_point_stays(approximation, center):
    """One more step of the iteration, from coefficients by numpy, moves no row."""
    X, new = curve(), curve(40, seed=1)
    landmarks = X[:60]
    model = precise(
        5,
        gamma=1.0,
        center=center,
        approximation=approximation,
        landmarks=landmarks,
        fit_inverse_transform=True,
        inverse="fixed_point",
    ).fit(X)
    Z = model.inverse_transform(model.transform(new))
    among = X if approximation is None else landmarks
    G = projected(X, new, 5, 1.0, center, None if approximation is None else landmarks)
    weights = pairwise_kernels(Z, among, metric="rbf", gamma=1.0) * G.T
    step = weights @ among / weights.sum(axis=1)[:, None]
    assert np.linalg.norm(step - Z, axis=1).max() < 1e-4
    # It comes nearer, in feature space, to the projection than the row itself was.
    k = [pairwise_kernels(A, among, metric="rbf", gamma=1.0) for A in (Z, new)]
    closer = np.sum(k[0] * G.T, axis=1) - np.sum(k[1] * G.T, axis=1)
    assert closer.min() > -1e-3


@pytest.mark.parametrize("approximation", [None, "nystroem"])
@pytest.mark.parametrize("noise", [0.1, 0.15])
def test_the_fixed_point_takes_noise_away(approximation, noise):
    X, new = curve(300, noise), curve(100, noise, seed=1)
    model = precise(
        6,
        gamma=1.0,
        approximation=approximation,
        n_landmarks=80,
        fit_inverse_transform=True,
        inverse="fixed_point",
    ).fit(X)
    for A in (X, new):
        back = model.inverse_transform(model.transform(A))
        assert off_the_circle(back).mean() < 0.5 * off_the_circle(A).mean()
        assert np.linalg.norm(back - A, axis=1).mean() < noise


def test_all_components_lead_back_to_the_rows():
    """Where nothing is projected away, a row is the fixed point of its own scores."""
    X = rows(40)
    model = precise(None, fit_inverse_transform=True, inverse="fixed_point").fit(X)
    assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-4)


@pytest.mark.parametrize("inverse", ["ridge", "fixed_point"])
@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_the_way_back_of_float32_is_float32(inverse, approximation):
    X = curve(100).astype(np.float32)
    options = {"gamma": 1.0, "fit_inverse_transform": True, "inverse": inverse, "tol": 1e-5}
    options |= {"approximation": approximation, "landmarks": X[:40]}
    narrow, wide = (precise(4, **options).fit(A) for A in (X, X.astype(float)))
    back = narrow.inverse_transform(narrow.transform(X))
    assert back.dtype == np.float32
    expected = wide.inverse_transform(wide.transform(X.astype(float)))
    assert np.median(np.abs(back - expected)) < 1e-3


@pytest.mark.parametrize(
    "inverse",
    [
        "ridge",
        pytest.param("fixed_point"),
    ],
)
def test_the_way_back_to_an_integer_memory_map(tmp_path, inverse):
    X = (20 * curve(100)).astype(np.int16)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    options = {"gamma": 2.5e-3, "fit_inverse_transform": True, "inverse": inverse}
    model, plain = precise(4, **options).fit(mapped), precise(4, **options).fit(X)
    scores = plain.transform(X)
    assert_allclose(model.inverse_transform(scores), plain.inverse_transform(scores), atol=1e-6)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "nystroem"),
        pytest.param("nystroem", None),
    ],
)
def test_a_second_fit_forgets_the_first(before, after):
    X = curve(100)
    options = {"gamma": 1.0, "n_landmarks": 30}
    options |= {"fit_inverse_transform": True, "inverse": "fixed_point"}
    model = precise(4, approximation=before, **options).fit(X[:80])
    model.set_params(approximation=after).fit(X)
    fresh = precise(4, approximation=after, **options).fit(X)
    scores = fresh.transform(X)
    assert_array_equal(model.transform(X), scores)
    assert_array_equal(model.inverse_transform(scores), fresh.inverse_transform(scores))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "poly"}, r"inverse='fixed_point' is for kernel='rbf'.*'ridge'.*'poly'"),
        ({"kernel": "laplacian"}, r"inverse='fixed_point'.*'ridge'.*'laplacian'"),
        ({"approximation": "rff"}, r"inverse='fixed_point'.*'ridge'.*approximation='rff'"),
        ({"inverse": "gradient"}, r"inverse.*'fixed_point'.*'gradient'"),
        ({"alpha": -1.0}, r"alpha.*-1\.0"),
    ],
)
def test_a_way_back_that_does_not_exist(options, message):
    options = {"fit_inverse_transform": True, "inverse": "fixed_point", **options}
    with pytest.raises(ValueError, match=f"(?s){message}"):
        precise(**options).fit(rows())


@pytest.mark.parametrize("inverse", ["ridge", "fixed_point"])
def test_the_way_back_needs_dense_rows(inverse):
    options = {"fit_inverse_transform": True, "inverse": inverse}
    with pytest.raises(ValueError, match=r"fit_inverse_transform=True.*dense rows.*precomputed"):
        precise(kernel="precomputed", **options).fit(np.eye(5))
    with pytest.raises(ValueError, match=r"fit_inverse_transform=True.*dense rows.*sparse"):
        precise(**options).fit(sp.csr_array(rows()))


def test_the_way_back_takes_scores_of_the_right_shape():
    model = precise(fit_inverse_transform=True).fit(rows())
    with pytest.raises(ValueError, match=r"X has shape \(4, 2\).*3 columns"):
        model.inverse_transform(np.ones((4, 2)))
    assert not hasattr(precise().fit(rows()), "inverse_transform")


# A kernel matrix of the wrong shape.


def test_a_kernel_matrix_must_be_square_and_new_kernels_as_wide():
    X, new = rows(), rows(20, seed=1)
    with pytest.raises(ValueError, match=r"kernel='precomputed'.*square.*\(60, 20\)"):
        precise(kernel="precomputed").fit(X @ new.T)
    model = precise(kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match=r"X has 20 features.*KernelPCA.*60 features"):
        model.transform(new @ new.T)
    assert model.transform(new @ X.T).shape == (20, 3)


# Rows far from zero


def gaussian(N=60, d=20, seed=0):
    return np.random.default_rng(seed).standard_normal((N, d))


def in_form(X, form):
    if form == "sparse":
        return sp.csr_array(X)
    return X if form == "dense" else as_operator([X[:20], X[20:]])


@pytest.mark.parametrize("form", ["dense", "sparse", "blocked"])
@pytest.mark.parametrize(("dtype", "offset"), [("f4", 1e4), ("f8", 1e8)])
@pytest.mark.parametrize(
    "options",
    [
        {"approximation": "nystroem", "n_landmarks": 20},
        {"approximation": "nystroem", "n_landmarks": 20, "landmarks": "kmeans++"},
        {"approximation": "nystroem", "n_landmarks": 20, "landmarks": "leverage"},
        {"approximation": "nystroem", "n_landmarks": 60, "kernel": "linear"},
        {"approximation": "rff", "n_random_features": 101},
        {"approximation": "orf", "n_random_features": 100},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
def test_features_of_rows_far_from_zero_are_those_of_rows_near_it(options, dtype, offset, form):
    far = (gaussian() + offset).astype(dtype)
    near = (far.astype(float) - offset).astype(dtype)  # what the rows far away have in digits
    odd = options.get("n_random_features", 0) % 2
    options = {"gamma": 0.02, "tol": 1e-6, **options}
    a, b = (precise(3, **options).fit(in_form(A, form)) for A in (near, far))
    # The last of an odd number of cosines has a phase, which a shift of the rows changes.
    rtol = 2e-2 if odd else 1e-4 if dtype == "f4" else 1e-6
    assert_allclose(b.eigenvalues_, a.eigenvalues_, rtol=rtol)
    T = b.transform(in_form(far, form))
    assert_allclose(np.sum(T.astype(float) ** 2, axis=0), b.eigenvalues_, rtol=1e-4)


@pytest.mark.parametrize("form", ["dense", "sparse", "blocked"])
@pytest.mark.parametrize("gamma", ["median", "scale"])
@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_gamma_of_rows_far_from_zero(offset, gamma, form):
    X = gaussian() + offset
    kpca = KernelPCA(2, kernel="rbf", gamma=gamma, approximation="nystroem", n_landmarks=30)
    kpca.fit(in_form(X, form))
    want = 1 / np.median(pdist(X, "sqeuclidean")) if gamma == "median" else 1 / X.var() / 20
    assert kpca.gamma_ == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_one_huge_row_does_not_hide_the_distances_of_the_others(form):
    X = gaussian()
    X[7] *= 1e12
    gamma = KernelPCA(2, kernel="rbf", gamma="median").fit(in_form(X, form)).gamma_
    assert gamma == pytest.approx(1 / np.median(pdist(X, "sqeuclidean")), rel=1e-9)


def test_a_saved_model_of_rows_far_from_zero(tmp_path):
    X = gaussian() + 1e8
    for options in ({}, {"approximation": "nystroem", "n_landmarks": 20}, {"approximation": "rff"}):
        kpca = precise(3, **options).fit(X)
        save(kpca, tmp_path / "model.dualpca", overwrite=True)
        again = load(tmp_path / "model.dualpca")
        assert_array_equal(again.transform(X), kpca.transform(X))


@pytest.mark.parametrize("approximation", [None, "nystroem", "rff"])
def test_onnx_of_rows_far_from_zero(approximation):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    X = gaussian() + 1e8
    kernel = "rbf" if approximation == "rff" else "linear"
    kpca = precise(3, kernel=kernel, approximation=approximation, n_landmarks=20).fit(X)
    graph = to_onnx(kpca).SerializeToString()
    scores = onnxruntime.InferenceSession(graph).run(None, {"X": X})[0]
    assert_allclose(scores, kpca.transform(X), rtol=0, atol=1e-9 * np.abs(scores).max())
