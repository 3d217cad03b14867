"""RobustKernelPCA: RobustPCA where the kernel is linear, laws of feature space, rings and blocks."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles
from scipy.spatial.distance import pdist
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels

from dualpca import RobustKernelPCA, RobustPCA, plots
from dualpca.losses import LOSSES, Huber
from dualpca.robust.distances import row_distances
from dualpca.robust.limits import distance_limit
from dualpca.robust.scale import bulk
from dualpca.robust.scatter import robust_scatter
from dualpca.solvers import Anderson

pytestmark = pytest.mark.filterwarnings(
    "ignore:(two starts found|.* of the rows are flagged):UserWarning"
)

KERNELS = {
    "rbf": {"gamma": 0.02},
    "poly": {"gamma": 0.05, "degree": 2, "coef0": 1},
    "linear": {},
    "laplacian": {"gamma": 0.02},
    "cosine": {},
}
CENTERS = ["joint", "geometric_median", "mean", None]
NEW = np.s_[150:]
EXACT = {"tol": 1e-10, "max_iter": 5000}


def bad_rows(N=150, d=10, s=3, bad=30, noise=0.05, seed=0):
    """Rows near a subspace, the first ones thrown out of it."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((d, s)))[0].T
    X = 3 * rng.standard_normal((N, s)) @ V + noise * rng.standard_normal((N, d))
    X[:bad] += 3 * rng.standard_normal((bad, d))
    return X


def new_rows(seed=1):
    """Good and bad rows beside those of :func:`bad_rows`, which the model has not seen."""
    X = bad_rows(200)[NEW].copy()
    X[:20] += 2 * np.random.default_rng(seed).standard_normal((20, 10))
    return X


def ring(N=200, bad=10, seed=0, noise=0.1):
    """Rows around the unit circle, the first ones at its centre."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, N)
    X = np.c_[np.cos(angle), np.sin(angle)] + noise * rng.standard_normal((N, 2))
    X[:bad] = 0.1 * rng.standard_normal((bad, 2))
    return X


def fitted(X, n=3, *, sample_weight=None, **options):
    options = {"random_state": 0, **options}
    return RobustKernelPCA(n, **options).fit(X, sample_weight=sample_weight)


def of_ring(X, n=4, **options):
    return fitted(X, n, **{"gamma": 2.0, **options})


def sine(V, W):
    """The sine of the largest angle between the spans of the columns."""
    return float(np.sin(subspace_angles(V, W).max()))


def aligned(A, reference):
    """The columns of A with the signs of the reference's."""
    return A * np.where(np.sum(A * reference, axis=0) < 0, -1, 1)


def kernel_of(A, B, kernel, **options):
    return pairwise_kernels(A, B, metric=kernel, **options)


def by_numpy(model, K, k, diagonal):
    """Scores and distances of rows with kernels k, by the textbook, from K and the coefficients."""
    A, a = model.axes_coef_.astype(float), model.center_coef_.astype(float)
    scores = (k - a @ K) @ A
    size2 = diagonal - 2 * k @ a + a @ K @ a
    orthogonal = np.sqrt(np.clip(size2 - (scores**2).sum(axis=1), 0, None))
    score = np.sqrt((scores**2 / model.explained_variance_).sum(axis=1))
    return scores, score, orthogonal


# The linear kernel.


def accuracy(center):
    """The geometric median is found by an iteration of its own, to a tolerance of its own."""
    return 1e-6 if center == "geometric_median" else 1e-8


def assert_as_linear(X, new, atol, *, sample_weight=None, scores=True, n=3, **options):
    """The same subspace, flags, predictions and distances as RobustPCA, up to atol."""
    options = {"random_state": 0, **options}
    model = RobustKernelPCA(n, kernel="linear", **options).fit(X, sample_weight=sample_weight)
    plain = RobustPCA(n, **options).fit(X, sample_weight=sample_weight)
    assert sine(X.T @ model.axes_coef_, plain.components_.T) < atol
    assert_array_equal(model.outliers_, plain.outliers_)
    assert_array_equal(model.predict(new), plain.predict(new))
    loose = 100 * atol
    assert_allclose(model.score_samples(new), plain.score_samples(new), rtol=atol, atol=loose)
    assert_allclose(model.orthogonal_distances_, plain.orthogonal_distances_, atol=loose)
    assert model.offset_ == pytest.approx(plain.offset_, abs=loose)
    assert model.orthogonal_cutoff_ == pytest.approx(plain.orthogonal_cutoff_, abs=loose)
    for name in ("refitted_", "flags_by_", "score_cutoff_", "n_components_", "n_samples_"):
        assert getattr(model, name) == getattr(plain, name), name
    if scores:
        expected = plain.transform(new)
        assert_allclose(aligned(model.transform(new), expected), expected, atol=loose)
        assert_allclose(model.explained_variance_, plain.explained_variance_, rtol=loose)
        ratio = plain.explained_variance_ratio_
        assert_allclose(model.explained_variance_ratio_, ratio, rtol=loose)
        assert_allclose(model.score_distances_, plain.score_distances_, rtol=loose)
        assert_allclose(X.T @ model.center_coef_, plain.mean_, atol=loose)
    return model, plain


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_a_linear_kernel_is_robust_pca(center, offset):
    X, new = bad_rows() + offset, new_rows() + offset
    n = 4 if center is None and offset else 3
    model, _ = assert_as_linear(X, new, accuracy(center), center=center, n=n, **EXACT)
    assert model.refitted_
    assert model.outliers_[:30].all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("normalize", [True, False])
def test_a_linear_kernel_is_robust_pca_for_every_loss(loss, normalize):
    X = bad_rows()
    model, plain = assert_as_linear(X, new_rows(), 1e-8, loss=loss, normalize=normalize, **EXACT)
    assert type(model.loss_) is type(plain.loss_)
    assert model.loss_.c == pytest.approx(plain.loss_.c, rel=0.2)


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("loss", ["geman_mcclure", "l1", "huber", "tukey"])
def test_without_a_refit_the_same_to_what_the_scale_of_the_loss_differs(center, loss):
    assert_as_linear(
        bad_rows(), new_rows(), 1e-3, center=center, loss=loss, refit=False, scores=False, **EXACT
    )


@pytest.mark.parametrize("center", CENTERS)
def test_weights_with_a_linear_kernel(center):
    X = bad_rows()
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    model, plain = assert_as_linear(
        X, new_rows(), accuracy(center), sample_weight=weights, center=center, **EXACT
    )
    assert_array_equal(model.weights_ == 0, weights == 0)
    assert_array_equal(plain.weights_ == 0, weights == 0)
    assert model.weights_.max() == 1


@pytest.mark.parametrize("solver", ["anderson", "dca", Anderson(memory=2)])
@pytest.mark.parametrize("init", ["auto", "stahel_donoho", "spherical", ["pca", "spherical"]])
def test_solvers_and_starts_with_a_linear_kernel(solver, init):
    X = bad_rows()
    model, plain = assert_as_linear(X, new_rows(), 1e-8, solver=solver, init=init, **EXACT)
    assert model.start_ == plain.start_


def test_a_sample_of_the_rows_is_enough_to_start(monkeypatch):
    monkeypatch.setattr("dualpca.robust.sample.KERNEL_ROWS", 60)
    for center in CENTERS:
        assert_as_linear(bad_rows(), new_rows(), accuracy(center), center=center, **EXACT)


def test_sparse_rows_with_a_linear_kernel():
    X = bad_rows()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = 0
    for kernel in ("linear", "rbf"):
        plain = fitted(X, kernel=kernel, gamma=0.02)
        for kind in (sp.csr_array, sp.csc_array):
            model = fitted(kind(X), kernel=kernel, gamma=0.02)
            assert_array_equal(model.outliers_, plain.outliers_)
            assert_allclose(model.score_samples(kind(X)), plain.score_samples(X), atol=1e-6)


@pytest.mark.parametrize(
    "size",
    [
        3,
        pytest.param(20),
    ],
)
def test_a_subspace_that_is_everything_flags_by_score_distance(size):
    found = []
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((200, 3))
        X[:10] += size
        model, plain = fitted(X, kernel="linear"), RobustPCA(3, random_state=0).fit(X)
        assert model.flags_by_ == plain.flags_by_ == "score"
        found.append(model.outliers_[:10].mean())
        assert model.outliers_[10:].mean() < 0.03
        assert_allclose(model.score_samples(X), -model.distances(X)[0])
        assert_array_equal(model.predict(X) == -1, model.outliers_)
    assert np.mean(found) > 0.7


@pytest.mark.parametrize("n", [None, 0.5, 0.9, 0.999])
def test_the_robust_scree_chooses_as_for_rows(n):
    X = bad_rows(noise=0.3)
    chosen = fitted(X, n, kernel="linear").n_components_
    assert chosen == RobustPCA(n, random_state=0).fit(X).n_components_


# Feature space.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("refit", [True, False])
def test_axes_scores_and_distances_by_numpy(kernel, center, refit):
    X, new = bad_rows() + 1, new_rows() + 1
    model = fitted(X, 4, kernel=kernel, center=center, refit=refit, **KERNELS[kernel])
    K, k, own = (
        kernel_of(*pair, kernel, **KERNELS[kernel]) for pair in ((X, X), (new, X), (new, new))
    )
    A = model.axes_coef_
    assert_allclose(A.T @ K @ A, np.eye(4), atol=1e-8)
    assert model.center_coef_.sum() == pytest.approx(0 if center is None else 1, abs=1e-8)
    for rows, kernels, diagonal in ((X, K, np.diagonal(K)), (new, k, np.diagonal(own))):
        scores, score, orthogonal = by_numpy(model, K, kernels, diagonal)
        scale = np.sqrt(np.diagonal(K).max())
        assert_allclose(model.transform(rows), scores, atol=1e-9 * scale)
        found = model.distances(rows)
        assert_allclose(found[0], score, rtol=1e-7)
        assert_allclose(found[1], orthogonal, atol=1e-6 * scale)
        assert_allclose(model.score_samples(rows), model.normality(*found), rtol=1e-6)
        told = model.normality(*found)
        assert_allclose(model.decision_function(rows), told - model.offset_, rtol=1e-6, atol=1e-6)
        assert_array_equal(model.predict(rows) == -1, told < model.offset_)
    assert_allclose(model.score_distances_, model.distances(X)[0], rtol=1e-6)
    assert_allclose(model.orthogonal_distances_, model.distances(X)[1], atol=1e-6 * scale)
    assert_array_equal(model.predict(X) == -1, model.outliers_)
    assert model.score_cutoff_ == pytest.approx(np.sqrt(chi2.ppf(0.975, 4)))
    assert (np.diff(model.explained_variance_) <= 0).all()


def test_a_fixed_centre_is_where_it_should_be():
    X = bad_rows()
    K = kernel_of(X, X, "rbf", gamma=0.02)
    mean = fitted(X, kernel="rbf", gamma=0.02, center="mean").center_coef_
    assert_allclose(mean, 1 / 150, atol=1e-12)
    none = fitted(X, kernel="rbf", gamma=0.02, center=None).center_coef_
    assert_allclose(none, 0, atol=1e-12)
    a = fitted(X, kernel="rbf", gamma=0.02, center="geometric_median").center_coef_
    size = np.sqrt(np.diagonal(K) - 2 * K @ a + a @ K @ a)
    stationary = (1 / size) / (1 / size).sum()  # the geometric median is a mean by 1/distance
    gap = a - stationary
    assert np.sqrt(gap @ K @ gap) < 1e-4


def test_a_refit_is_kernel_pca_of_the_good_rows():
    """After the refit, centre and axes are those of scikit-learn's KernelPCA of the rows kept."""
    from sklearn.decomposition import KernelPCA as Oracle

    X = bad_rows()
    options = {"kernel": "rbf", "gamma": 0.005, **EXACT}
    first, model = (fitted(X, 5, refit=refit, **options) for refit in (False, True))
    assert model.refitted_
    distances, scores = first.orthogonal_distances_, first.transform(X)
    df = first._noise_directions
    good = distances <= distance_limit(distances, *bulk(distances, scores, df), 0.999, None)
    oracle = Oracle(5, kernel="rbf", gamma=0.005, eigen_solver="dense").fit(X[good])
    scores = oracle.transform(X)
    centred = model.transform(X) - model.transform(X[good]).mean(axis=0)
    # Axes are rotated within the subspace, by the robust variances.
    assert_allclose(centred @ centred.T, scores @ scores.T, atol=1e-6)


def test_a_refit_that_raises_the_loss_is_refused(monkeypatch):
    X = bad_rows()
    K = X @ X.T
    A = np.zeros((150, 3))
    A[[0, 1, 2], [0, 1, 2]] = 1
    A = A @ np.linalg.inv(np.linalg.cholesky(A.T @ K @ A)).T
    center = np.full(150, 1 / 150)
    name = "dualpca.robust.fit.refit"
    monkeypatch.setattr(name, lambda X, *a: row_distances(X, center, A, None, 1.0, 10))
    model = fitted(X, kernel="linear")
    assert not model.refitted_
    assert sine(X.T @ model.axes_coef_, X.T @ A) > 0.5
    assert model.outliers_[:30].all()


def test_weights_are_largest_where_residuals_are_smallest():
    X = bad_rows()
    model = fitted(X, kernel="rbf", gamma=0.02, normalize=False, refit=False, **EXACT)
    order = np.argsort(model.orthogonal_distances_)
    assert (np.diff(model.weights_[order]) <= 1e-2).all()
    assert model.weights_.max() == pytest.approx(1)


@pytest.mark.parametrize("kernel", ["linear", "laplacian"])
def test_a_weight_of_two_is_the_row_twice(kernel):
    X = bad_rows()
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    options = {"kernel": kernel, **KERNELS[kernel], **EXACT}
    model = fitted(X, sample_weight=weights, **options)
    twice = fitted(np.repeat(X, weights, axis=0), **options)
    new = new_rows()
    assert model.refitted_
    assert_allclose(model.score_samples(new), twice.score_samples(new), atol=1e-5)
    assert_allclose(model.explained_variance_, twice.explained_variance_, rtol=1e-4)
    assert model.offset_ == pytest.approx(twice.offset_, rel=1e-4)
    assert_array_equal(model.predict(new), twice.predict(new))
    assert len(model.outliers_) == 150


@pytest.mark.parametrize("approximation", [None, "nystroem", "rff"])
def test_weights_that_are_all_one_are_none(approximation):
    X = ring()
    options = {"approximation": approximation, "n_landmarks": 50, "n_random_features": 50}
    model = of_ring(X, sample_weight=np.ones(200), **options)
    assert_array_equal(model.outliers_, of_ring(X, **options).outliers_)


@pytest.mark.parametrize(
    "approximation",
    [
        None,
        *(pytest.param(name) for name in ("nystroem", "rff")),
    ],
)
def test_one_weight_for_all_rows(approximation):
    X = ring()
    options = {"approximation": approximation, "n_landmarks": 50, "n_random_features": 50}
    one, two = (of_ring(X, sample_weight=w, **options) for w in (2, np.full(200, 2.0)))
    assert_array_equal(one.outliers_, two.outliers_)


def test_robust_variances_do_not_depend_on_the_basis_of_the_subspace():
    T = np.random.default_rng(1).standard_normal((120, 3)) * [3, 2, 1]
    location, covariance = robust_scatter(T, None, False)
    for seed in range(4):
        Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
        turned = robust_scatter(T @ Q, None, False)
        assert_allclose(turned[0], location @ Q, atol=1e-8)
        assert_allclose(turned[1], Q.T @ covariance @ Q, atol=1e-8)


def test_a_constant_added_to_the_kernel_moves_the_origin_alone():
    X = bad_rows()
    K = kernel_of(X, X, "rbf", gamma=0.02)
    for center in ("joint", "mean"):
        one, two = (
            fitted(K + c, kernel="precomputed", center=center, gamma=1.0) for c in (0.0, 3.0)
        )
        assert_array_equal(one.outliers_, two.outliers_)
        assert_allclose(one.orthogonal_distances_, two.orthogonal_distances_, atol=1e-6)


def test_moving_all_rows_moves_nothing_in_feature_space():
    X = ring()
    one, two = of_ring(X), of_ring(X + 3)
    assert_array_equal(one.outliers_, two.outliers_)
    assert_allclose(one.score_samples(X), two.score_samples(X + 3), atol=1e-6)


@pytest.mark.parametrize("loss", [*LOSSES, Huber(scale=0.1)])
def test_every_loss_sees_the_bad_rows(loss):
    model = fitted(bad_rows(), kernel="linear", loss=loss)
    assert_array_equal(np.nonzero(model.outliers_)[0], np.arange(30))


# A ring.


@pytest.mark.parametrize("seed", range(4))
def test_a_ring_with_rows_at_its_centre(seed):
    X, new = ring(seed=seed), ring(seed=seed + 100)
    model = of_ring(X)
    for flags in (model.outliers_, model.predict(X) == -1, model.predict(new) == -1):
        assert flags[:10].all()
        assert flags[10:].mean() < 0.1
    linear = RobustPCA(1, random_state=0).fit(X)
    assert linear.outliers_[:10].sum() < 5  # rows alone do not show them


@pytest.mark.parametrize("seed", range(3))
def test_all_rows_as_landmarks_flag_as_the_kernel_itself(seed):
    X, new = ring(seed=seed), ring(seed=seed + 100)
    exact = of_ring(X)
    model = of_ring(X, approximation="nystroem", landmarks=X)
    assert_array_equal(model.outliers_, exact.outliers_)
    assert_array_equal(model.predict(new), exact.predict(new))
    # Beside the landmarks' span there is nothing left but rounding.
    assert_allclose(model.orthogonal_distances_, exact.orthogonal_distances_, atol=1e-3)
    told = model.normality(model.score_distances_, model.orthogonal_distances_)
    assert_allclose(model.score_samples(X), told, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("approximation", "size"), [("nystroem", 50), ("rff", 1000), ("orf", 1000)]
)
def test_features_flag_most_of_the_rows_at_the_centre(approximation, size):
    X, new = ring(), ring(seed=100)
    options = {"n_landmarks": size, "n_random_features": size, "approximation": approximation}
    flags = []
    for state in range(3):
        model = of_ring(X, random_state=state, **options)
        flags += [model.outliers_, model.predict(new) == -1]
        assert_array_equal(model.predict(X) == -1, model.outliers_)
        assert model.transform(new).shape == (200, 4)
        told = model.normality(model.score_distances_, model.orthogonal_distances_)
    assert_allclose(model.score_samples(X), told, rtol=1e-6, atol=1e-6)
    flags = np.array(flags)
    assert flags[:, :10].mean() > 0.8
    assert flags[:, 10:].mean() < 0.1


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
def test_a_row_far_from_all_landmarks_is_far(kernel):
    """What the landmarks do not span counts as distance: k(x, x) is not lost."""
    X = bad_rows()
    model = fitted(X, kernel=kernel, approximation="nystroem", n_landmarks=40, **KERNELS[kernel])
    new = np.vstack([X, new_rows(), X[:5] + 100])
    own = np.diagonal(kernel_of(new, new, kernel, **KERNELS[kernel]))
    phi = model.features_(new)
    inside = phi - model.pca_.mean_
    scores = inside @ model.pca_.components_.T
    rest = inside - scores @ model.pca_.components_
    orthogonal = np.sqrt((rest**2).sum(axis=1) + (own - (phi**2).sum(axis=1)).clip(0))
    assert_allclose(model.distances(new)[1], orthogonal, rtol=1e-6)
    assert_allclose(model.transform(new), scores, atol=1e-8 * np.abs(scores).max())
    assert_allclose(model.orthogonal_distances_, orthogonal[:150], rtol=1e-6)


def test_new_rows_that_are_like_no_other_are_flagged():
    X = ring()
    far = 5 + ring(30, seed=100)
    for approximation in (None, "nystroem"):
        model = of_ring(X, approximation=approximation, n_landmarks=50)
        assert_array_equal(model.predict(far), -1)


def test_the_example_of_the_class_for_many_seeds():
    X = ring(noise=0.1)
    for state in range(6):
        model = fitted(X, 4, kernel="rbf", gamma=2.0, random_state=state)
        assert model.outliers_[:10].all()
        assert model.outliers_[10:].mean() < 0.05


# A kernel matrix.


@pytest.mark.parametrize("center", CENTERS)
def test_a_kernel_matrix_is_as_good_as_rows(center):
    X, new = bad_rows(), new_rows()
    K, k = (kernel_of(A, X, "rbf", gamma=0.02) for A in (X, new))
    model = fitted(K, kernel="precomputed", gamma=1.0, center=center)
    plain = fitted(X, kernel="rbf", gamma=0.02, center=center)
    assert_array_equal(model.outliers_, plain.outliers_)
    assert_allclose(model.axes_coef_, plain.axes_coef_, atol=1e-9)
    assert_allclose(model.transform(k), plain.transform(new), atol=1e-9)
    assert_allclose(model.orthogonal_distances_, plain.orthogonal_distances_, atol=1e-9)
    assert_allclose(model.weights_, plain.weights_, atol=1e-9)
    assert model.n_features_in_ == 150


def test_distances_need_more_than_a_kernel_matrix():
    X, message = bad_rows(), r"k\(x, x\).*precomputed.*outliers_.*give rows"
    model = fitted(X @ X.T, kernel="precomputed")
    with pytest.raises(ValueError, match=message):
        model.distances(new_rows() @ X.T)
    for method in ("predict", "score_samples", "decision_function"):
        assert hasattr(fitted(X), method)
        with pytest.raises(AttributeError, match=f"no attribute '{method}'") as told:
            getattr(model, method)
        assert re.search(message, str(told.value.__cause__))
    assert_array_equal(model.fit_predict(X @ X.T) == -1, model.outliers_)


@pytest.mark.parametrize("approximation", ["nystroem", "rff", "orf"])
def test_an_approximation_needs_rows(approximation):
    X = bad_rows()
    with pytest.raises(ValueError, match=rf"approximation='{approximation}'.*give the rows"):
        fitted(X @ X.T, kernel="precomputed", approximation=approximation)


def test_a_kernel_matrix_of_the_wrong_shape():
    X = bad_rows()
    with pytest.raises(ValueError, match=r"kernel='precomputed'.*square.*\(150, 10\)"):
        fitted(X, kernel="precomputed")
    with pytest.raises(ValueError, match=r"X has 10 features.*RobustKernelPCA.*150 features"):
        fitted(X @ X.T, kernel="precomputed").transform(X)


# Shares, seeds, precision, blocks, parameters.


@pytest.mark.parametrize("approximation", [None, "nystroem"])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_contamination_is_the_share_of_flags(share, approximation):
    X = ring()
    model = of_ring(X, contamination=share, approximation=approximation, n_landmarks=50)
    assert model.outliers_.mean() == pytest.approx(share, abs=1 / 200)
    assert_array_equal(model.predict(X) == -1, model.outliers_)
    distances = model.score_distances_, model.orthogonal_distances_
    far = np.argsort(model.normality(*distances))[: model.outliers_.sum()]
    assert model.outliers_[far].all()


def test_contamination_flags_training_rows_as_new_ones_where_the_limit_is_a_row():
    """A tenth of 101 rows: the percentile is the eleventh row itself."""
    for seed in range(20):
        X = ring(101, seed=seed)
        model = of_ring(X, contamination=0.1)
        assert_array_equal(model.predict(X) == -1, model.outliers_)


@pytest.mark.parametrize("approximation", [None, "nystroem", "rff", "orf"])
def test_the_same_seed_gives_the_same_model(approximation):
    X = ring()
    options = {"approximation": approximation, "n_landmarks": 50, "n_random_features": 100}
    one, two = (of_ring(X, random_state=3, **options) for _ in range(2))
    assert_array_equal(one.transform(X), two.transform(X))
    assert_array_equal(one.orthogonal_distances_, two.orthogonal_distances_)
    assert one.offset_ == two.offset_
    assert_array_equal(RobustKernelPCA(**two.get_params()).fit_predict(X), two.predict(X))


@pytest.mark.parametrize(
    ("kernel", "approximation"),
    [
        *((kernel, None) for kernel in ("rbf", "linear", "poly", "precomputed")),
        *((kernel, "nystroem") for kernel in ("rbf", "linear", "poly")),
        ("rbf", "rff"),
    ],
)
def test_float32_stays_float32(kernel, approximation):
    X = bad_rows().astype(np.float32)
    options = {"kernel": kernel, "approximation": approximation, "n_landmarks": 80}
    options |= KERNELS.get(kernel, {})
    X = X @ X.T if kernel == "precomputed" else X
    narrow, wide = fitted(X, **options), fitted(X.astype(float), **options)
    found = [narrow.transform(X), narrow.explained_variance_, narrow.explained_variance_ratio_]
    found += [narrow.score_distances_, narrow.orthogonal_distances_]
    if kernel != "precomputed":
        found += [*narrow.distances(X), narrow.score_samples(X), narrow.decision_function(X)]
        assert_array_equal(narrow.predict(X) == -1, narrow.outliers_)
    if approximation is None:
        found += [narrow.axes_coef_, narrow.center_coef_]
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    assert (narrow.outliers_ != wide.outliers_).mean() <= 0.02


def test_weights_of_float32_rows_are_float32():
    X = bad_rows().astype(np.float32)
    assert RobustPCA(3, random_state=0).fit(X).weights_.dtype == np.float32
    assert fitted(X, approximation="nystroem", n_landmarks=50).weights_.dtype == np.float32
    assert fitted(X).weights_.dtype == np.float32


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("center", ["joint", "geometric_median"])
def test_blocks_of_the_kernel_are_as_the_kernel_in_memory(monkeypatch, kernel, center):
    X, new = bad_rows(), new_rows()
    options = {"kernel": kernel, "center": center, **KERNELS[kernel]}
    held = fitted(X, **options)
    monkeypatch.setattr("dualpca.estimators._kernels.KERNEL_BYTES", 0)
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    monkeypatch.setattr("dualpca.estimators._kernels.CHUNK_BYTES", 1)
    computed = fitted(X, **options)
    assert_array_equal(computed.outliers_, held.outliers_)
    # Not by axis: their robust variances turn with the basis, which rounding may choose.
    assert_allclose(pdist(computed.transform(new)), pdist(held.transform(new)), atol=1e-6)
    assert_allclose(computed.score_samples(new), held.score_samples(new), atol=1e-6)
    assert_array_equal(computed.predict(new), held.predict(new))
    assert computed.n_passes_ == held.n_passes_


def test_memory_maps_are_as_arrays(tmp_path):
    X = ring()
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for approximation in (None, "nystroem", "rff"):
        options = {"approximation": approximation, "n_landmarks": 50, "n_random_features": 50}
        model, plain = of_ring(mapped, **options), of_ring(X, **options)
        assert_array_equal(model.outliers_, plain.outliers_)
        assert_array_equal(model.predict(mapped), plain.predict(X))


@pytest.mark.parametrize("approximation", ["nystroem", "rff"])
def test_features_beyond_the_limit_are_computed_in_each_pass(monkeypatch, approximation):
    from dualpca.kernels.features import feature_operator

    X = ring()
    options = {"approximation": approximation, "n_landmarks": 50, "n_random_features": 50}
    held = of_ring(X, **options)
    monkeypatch.setattr(
        "dualpca.kernels.features.feature_operator",
        lambda phi, rows: feature_operator(phi, rows, limit=0),
    )
    monkeypatch.setattr("dualpca.operators.block_ops.BLOCK_BYTES", 1)
    computed = of_ring(X, **options)
    assert_array_equal(computed.outliers_, held.outliers_)
    assert_allclose(computed.score_samples(X), held.score_samples(X), atol=1e-6)


def test_changing_the_data_afterwards_changes_no_model():
    X = ring()
    model = of_ring(X)
    before = model.predict(ring(seed=100))
    X *= 0
    assert_array_equal(model.predict(ring(seed=100)), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 1500}, r"n_components=1500 must be between 1 and \d+.*fewer components"),
        ({"n_components": True}, r"n_components=True is a bool; give a number"),
        ({"n_components": 0}, r"'n_components' .* \[1, inf\).*Got 0"),
        ({"kernel": "gaussian"}, r"'kernel' .*'rbf'.*Got 'gaussian'"),
        ({"gamma": -1.0}, r"'gamma' .*'median'.*Got -1\.0"),
        ({"gamma": "mean"}, r"'gamma' .*'scale'.*Got 'mean'"),
        ({"loss": "l3"}, r"'loss' .*'l1'.*Got 'l3'"),
        ({"center": "median"}, r"'center' .*'geometric_median'.*Got 'median'"),
        ({"init": "best"}, r"'init' .*'stahel_donoho'.*Got 'best'"),
        ({"init": ["pca", "best"]}, r"init='best' is unknown; choose among stahel_donoho"),
        ({"solver": "irls"}, r"'solver' .*'anderson'.*Got 'irls'"),
        ({"quantile": 1.0}, r"'quantile' .*Got 1\.0"),
        ({"contamination": 0.7}, r"'contamination' .*\(0\.0, 0\.5\].*Got 0\.7"),
        ({"tol": -1.0}, r"'tol' .*Got -1\.0"),
        ({"approximation": "fft"}, r"'approximation' .*'nystroem'.*Got 'fft'"),
        (
            {"approximation": "rff", "kernel": "poly"},
            r"approximation='rff' is for kernel='rbf', not 'poly'; use approximation='nystroem'",
        ),
        (
            {"approximation": "nystroem", "n_landmarks": 151},
            r"n_landmarks=151 exceeds the 150 rows of X; ask for at most 150",
        ),
        (
            {"approximation": "nystroem", "landmarks": np.ones((4, 3))},
            r"landmarks has shape \(4, 3\); give finite rows with 10 features",
        ),
    ],
    ids=lambda p: str(p)[:40],
)
def test_bad_parameters(options, message):
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        RobustKernelPCA(**{"n_components": 3, **options}).fit(bad_rows())


def test_bad_data_and_bad_weights():
    X = bad_rows()
    with pytest.raises(NotFittedError, match="fit"):
        RobustKernelPCA(3).predict(X)
    with pytest.raises(ValueError, match=r"X has 9 features.*RobustKernelPCA.*10 features"):
        fitted(X).predict(X[:, :9])
    with pytest.raises(ValueError, match=r"1 sample.*minimum of 2"):
        fitted(X[:1], 1)
    with pytest.raises(ValueError, match=r"(?s)NaN.*imputer"):
        fitted(np.where(X > 5, np.nan, X))
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\).*150 rows"):
        fitted(X, sample_weight=[1, 2, 3])
    with pytest.raises(ValueError, match=r"(?s)sample_weight.*not negative"):
        fitted(X, sample_weight=np.full(150, -1.0))


def test_too_few_iterations_tell_what_was_reached():
    with pytest.warns(ConvergenceWarning, match=r"RobustKernelPCA reached .*max_iter=2") as caught:
        fitted(bad_rows(), kernel="rbf", gamma=0.02, tol=1e-9, max_iter=2)
    assert caught[0].filename == __file__


# Work.


@pytest.mark.parametrize("kernel", ["rbf", "poly", "precomputed"])
@pytest.mark.parametrize("loss", ["geman_mcclure", "l1"])
def test_an_iteration_is_one_product_with_the_kernel(kernel, loss):
    X = bad_rows(noise=0.5)
    options = {"kernel": kernel, "loss": loss, **KERNELS.get(kernel, {})}
    X = X @ X.T if kernel == "precomputed" else X
    options |= {"center": None, "refit": False, "solver": "dca", "max_iter": 5000}
    few, some, many = (fitted(X, tol=tol, **options) for tol in (1e-2, 1e-5, 1e-9))
    assert many.n_iter_ > some.n_iter_ > few.n_iter_
    # Another two where the start is measured again, as DCA has left it.
    assert abs(many.n_passes_ - some.n_passes_ - (many.n_iter_ - some.n_iter_)) in (0, 2)
    assert abs(some.n_passes_ - few.n_passes_ - (some.n_iter_ - few.n_iter_)) in (0, 2)
    assert few.n_passes_ <= few.n_iter_ + 14


# Pictures.


@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_pictures(approximation):
    pytest.importorskip("matplotlib")
    X, new = ring(), ring(60, seed=100)
    model = of_ring(X, approximation=approximation, n_landmarks=100)
    count = int(model.outliers_.sum())
    ax = plots.OutlierMapDisplay.from_estimator(model, annotate=2).ax_
    told = [text.get_text() for text in ax.get_legend().get_texts()]
    assert told[:2] == [f"not flagged ({200 - count})", f"flagged ({count})"]
    assert_allclose(
        np.vstack([rows.get_offsets() for rows in ax.collections]),
        np.vstack(
            [
                np.c_[model.score_distances_, model.orthogonal_distances_][rows]
                for rows in (~model.outliers_, model.outliers_)
            ]
        ),
    )
    ax = plots.OutlierMapDisplay.from_estimator(model, new).ax_
    flagged = int((model.predict(new) == -1).sum())
    assert ax.get_legend().get_texts()[1].get_text() == f"flagged ({flagged})"
    display = plots.WeightsDisplay.from_estimator(model)
    assert sum(len(rows.get_offsets()) for rows in display.points_) == 200


def test_pictures_of_a_kernel_matrix():
    pytest.importorskip("matplotlib")
    X = ring()
    model = fitted(kernel_of(X, X, "rbf", gamma=2.0), 4, kernel="precomputed", gamma=1.0)
    assert len(plots.OutlierMapDisplay.from_estimator(model).points_) == 2
    assert len(plots.WeightsDisplay.from_estimator(model).points_) == 2
    assert len(plots.OutlierMapDisplay.from_estimator(model, model.X_fit_).points_) == 2
    with pytest.raises(ValueError, match=r"give the matrix of the fit"):
        plots.OutlierMapDisplay.from_estimator(model, 2 * model.X_fit_)


# Hard rows.


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("center", ["joint", None])
@pytest.mark.parametrize("kind", ["duplicated", "zeros", "constant columns", "few", "a far row"])
def test_hard_rows(kind, kernel, center):
    """No NaN and no warning from the arithmetic (warnings are errors here)."""
    X = bad_rows()
    X = {
        "duplicated": lambda: np.repeat(X, 3, axis=0),
        "zeros": lambda: np.vstack([X, np.zeros((60, 10))]),
        "constant columns": lambda: np.hstack([X, np.full((150, 2), 7.0)]),
        "few": lambda: X[:7],
        "a far row": lambda: np.vstack([1e2 * X[:1], X]),
    }[kind]()
    model = fitted(X, kernel=kernel, center=center, **KERNELS[kernel])
    for name in ("axes_coef_", "explained_variance_", "weights_", "orthogonal_distances_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert np.isfinite(model.transform(X)).all()
    assert set(np.unique(model.predict(X))) <= {-1, 1}


@pytest.mark.parametrize(
    "size",
    [
        1e3,
        1e7,
    ],
)
def test_one_huge_row_moves_nothing(size):
    """Up to where the others are rounding in K, which holds squares: 1e8 in float64."""
    X = bad_rows()
    X[0] *= size / np.linalg.norm(X[0])
    model = fitted(X, kernel="linear")
    plain = RobustPCA(3, random_state=0).fit(X)
    assert sine(X.T @ model.axes_coef_, plain.components_.T) < 1e-6
    assert_array_equal(model.outliers_, plain.outliers_)


@pytest.mark.parametrize("n", [1, None])
def test_rows_that_are_all_equal(n):
    X = np.ones((30, 3))
    assert not RobustPCA(n, random_state=0).fit(X).outliers_.any()
    with pytest.raises(ValueError, match="all equal in feature space"):
        fitted(X, n, kernel="rbf")


def test_axes_are_orthonormal_where_good_rows_have_fewer_dimensions():
    X = bad_rows(noise=0.0)
    V = RobustPCA(4, random_state=0).fit(X).components_
    assert_allclose(V @ V.T, np.eye(4), atol=1e-6)
    # Good rows span three dimensions, and from K no more axes are known.
    model = fitted(X, 4, kernel="linear")
    A = X.T @ model.axes_coef_
    assert model.n_components_ == 3
    assert_allclose(A.T @ A, np.eye(3), atol=1e-6)


@pytest.mark.parametrize(
    "columns",
    [
        2,
        7,
    ],
)
def test_the_scatter_of_scores_leaves_out_rows_of_weight_0(columns):
    T = np.random.default_rng(0).standard_normal((60, columns))
    weights = np.r_[np.ones(30), np.zeros(30)]
    found, alone = robust_scatter(T, weights, False), robust_scatter(T[:30], np.ones(30), False)
    assert_allclose(found[0], alone[0], atol=1e-12)
    assert_allclose(found[1], alone[1], atol=1e-12)


def test_rows_of_weight_0_do_not_decide_which_distance_flags():
    """Rows that count lie in a subspace, so that they have no distance from it; the others do not."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 6))
    X[40:] += rng.standard_normal((20, 6))
    weights = np.r_[np.ones(40), np.zeros(20)]
    alone = fitted(X[:40], kernel="linear")
    plain = RobustPCA(3, random_state=0).fit(X, sample_weight=weights)
    assert plain.flags_by_ == alone.flags_by_ == "score"
    assert fitted(X, kernel="linear", sample_weight=weights).flags_by_ == "score"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("few", [1, 30])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_that_are_mostly_zero(kernel, few, dtype, seed):
    rng = np.random.default_rng(seed)
    X = np.zeros((80, 40), dtype=dtype)
    X[rng.integers(0, 80, few), rng.integers(0, 40, few)] = rng.standard_normal(few)
    model = RobustKernelPCA(3, kernel=kernel, random_state=0).fit(X)
    assert np.isfinite(model.transform(X)).all()
    assert np.isfinite(model.orthogonal_distances_).all()
    zero = ~X.any(axis=1)
    assert not model.outliers_[zero].any()
    assert np.isfinite(model.score_samples(X)).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("dtype", "offset"), [("f4", 1e4), ("f8", 1e8)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_far_from_zero_are_flagged_as_near_it(kernel, dtype, offset, form):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 8)) * np.geomspace(3, 0.1, 8)
    X[:10] += 20 * rng.standard_normal((10, 8))
    far = (X + offset).astype(dtype)
    near = (far.astype(float) - offset).astype(dtype)
    a, b = (RobustKernelPCA(3, kernel=kernel, random_state=0).fit(form(A)) for A in (near, far))
    assert_array_equal(a.outliers_, b.outliers_)
    assert b.outliers_[:10].all()
    assert_allclose(b.explained_variance_, a.explained_variance_, rtol=1e-3)
    assert_array_equal(b.predict(form(far)), a.predict(form(near)))


def test_one_huge_row_leaves_gamma_to_the_others():
    X = np.random.default_rng(0).standard_normal((60, 20))
    X[7] *= 1e12
    model = RobustKernelPCA(2, random_state=0).fit(X)
    assert model.gamma_ == pytest.approx(1 / np.median(pdist(X, "sqeuclidean")), rel=1e-9)


@pytest.mark.parametrize(
    ("size", "what"), [(1e200, "large that their squares overflow"), (1e-200, "underflow")]
)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_squares_outside_the_range_are_refused(kernel, size, what):
    X = np.random.default_rng(0).standard_normal((60, 20)) * size
    with pytest.raises(ValueError, match=what):
        RobustKernelPCA(2, kernel=kernel, random_state=0).fit(X)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_at_one_distance_are_predicted_as_they_were_fitted(dtype):
    rng = np.random.default_rng(1)
    X = np.zeros((80, 40), dtype=dtype)
    X[rng.integers(0, 80, 30), rng.integers(0, 40, 30)] = rng.standard_normal(30)
    model = RobustKernelPCA(3, random_state=0).fit(X)
    assert_array_equal(model.predict(X) == -1, model.outliers_)
