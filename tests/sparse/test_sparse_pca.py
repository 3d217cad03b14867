"""SparsePCA: brute force over supports, explicit deflation, DCA by hand, and laws of the estimator."""

from __future__ import annotations

import itertools
import pickle
import warnings
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks import sparse as comparison
from experiments import pitprops
from experiments.robust_data import data_folder
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import ArpackNoConvergence
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import MiniBatchSparsePCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualpca import PCA, SparsePCA, as_operator
from dualpca.formulations import block_sparse, gpower, sparse
from dualpca.operators import Blocks
from dualpca.solvers import DCA
from dualpca.sparse import active as _active
from dualpca.sparse.components import sparse_components
from dualpca.sparse.deflation import DeflatedGram, adjusted_variances, unit
from dualpca.sparse.options import SparseOptions

METHODS = ["deflation", "block", "reconstruction"]
DEFLATIONS = ["projection", "orthogonal", "schur"]
EVERY = [
    *(
        {"deflation": rule, "penalty": p}
        for rule in DEFLATIONS
        for p in ("cardinality", "l0", "l1")
    ),
    *({"method": "block", "penalty": penalty} for penalty in ("cardinality", "l0", "l1")),
    {"method": "reconstruction"},
]
BOUNDED = [kind for kind in EVERY if kind.get("penalty", "cardinality") == "cardinality"]
PENALISED = [kind for kind in EVERY if kind not in BOUNDED]


def name_of(kind):
    return " ".join(map(str, kind.values())) if isinstance(kind, dict) else repr(kind)


every = pytest.mark.parametrize("kind", EVERY, ids=name_of)
bounded = pytest.mark.parametrize("kind", BOUNDED, ids=name_of)
deflations = pytest.mark.parametrize("deflation", DEFLATIONS)
seeds = pytest.mark.parametrize("seed", range(4))


def data(N=40, d=9, seed=0, ratio=0.85):
    """Rows with a decreasing spectrum in random directions, and a mean."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((N, d)) * ratio ** np.arange(d)) @ V + rng.standard_normal(d)


def planted(seed, N=120, d=2000, s=3, k=15, noise=0.5):
    """Scores of decreasing variance on s disjoint supports of k features, and noise."""
    rng = np.random.default_rng(seed)
    W, order = np.zeros((d, s)), rng.permutation(d)
    for j in range(s):
        W[order[j * k : (j + 1) * k], j] = rng.choice([-1, 1], k) * rng.uniform(0.7, 1.3, k)
    T = rng.standard_normal((N, s)) * 3 * 0.75 ** np.arange(s)
    return T @ W.T + noise * rng.standard_normal((N, d)), W


def centred(X):
    return X - X.mean(axis=0)


def exact(s=None, **options):
    """SparsePCA that iterates as far as float64 goes in these tests."""
    return SparsePCA(s, **{"tol": 1e-9, "max_iter": 10**5, "random_state": 0, **options})


def quietly(model, X, **options):
    """A fit whose last components may find no variance."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no variance was left", UserWarning)
        return model.fit(X, **options)


def assert_same_model(a, b, atol=1e-7, scale=1.0):
    assert_allclose(np.asarray(a.components_), np.asarray(b.components_), atol=atol)
    assert_allclose(
        np.asarray(a.explained_variance_) / scale, np.asarray(b.explained_variance_), atol=atol
    )
    for name in ("explained_variance_ratio_", "cumulative_variance_ratio_"):
        assert_allclose(np.asarray(getattr(a, name)), np.asarray(getattr(b, name)), atol=atol)
    assert_array_equal(a.n_nonzero_, b.n_nonzero_)


def leading(C, support):
    """The largest eigenvalue and its eigenvector on a support."""
    values, vectors = np.linalg.eigh(C[np.ix_(support, support)])
    return values[-1], vectors[:, -1]


def without(X, w, deflation, taken):
    """X after the component w; ``taken`` collects the directions of orthogonal deflation."""
    if deflation == "schur":
        u = X @ w / np.linalg.norm(X @ w)
        return X - np.outer(u, u @ X)
    if deflation == "orthogonal":
        w = np.linalg.qr(np.column_stack([*taken, w]))[0][:, -1]
        taken.append(w)
    return X - np.outer(X @ w, w)


def found(model, X):
    """What the model finds before it is refitted and scaled: loadings with their lengths."""
    seed = int(np.random.RandomState(model.random_state).randint(np.iinfo(np.int32).max))
    names = [field.name for field in fields(SparseOptions)][1:-1]
    options = {name: getattr(model, name) for name in names}
    options = SparseOptions((model.n_nonzero,) * model.n_components, seed=seed, **options)
    return sparse_components(DeflatedGram(as_operator(centred(X))), options).W


def polar(Y):
    U, _, Vt = np.linalg.svd(Y, full_matrices=False)
    return U @ Vt


def step(problem, W):
    """One step of DCA, by the library's solver."""
    return next(DCA()(problem, W)).point.W


# The ends: all features, one feature, and everything between by brute force.


@every
@pytest.mark.parametrize("center", [True, False])
def test_all_features_are_pca(kind, center):
    X = data()
    pca = PCA(4, center=center).fit(X)
    model = exact(4, n_nonzero=9, alpha=0.0, center=center, **kind).fit(X)
    assert_allclose(np.abs(model.components_ @ pca.components_.T), np.eye(4), atol=1e-7)
    assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-9)
    assert_allclose(model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-9)
    cumulative = np.cumsum(pca.explained_variance_ratio_)
    assert_allclose(model.cumulative_variance_ratio_, cumulative, rtol=1e-9)
    scores, expected = model.transform(X), pca.transform(X)
    assert_allclose(np.abs(scores), np.abs(expected), atol=1e-6)


@bounded
def test_one_feature_each(kind):
    X = data() * 3.0 ** -np.arange(9)[[4, 0, 6, 1, 8, 2, 3, 5, 7]]
    model = exact(3, n_nonzero=1, **kind).fit(X)
    assert model.n_nonzero_.tolist() == [1, 1, 1]
    variances = X.var(axis=0, ddof=1)
    assert model.components_[0].argmax() == variances.argmax()
    assert model.explained_variance_[0] == pytest.approx(variances.max())
    picked = model.components_.argmax(axis=1)
    assert_array_equal(np.sort(model.components_, axis=1)[:, -1], 1.0)
    if kind.get("deflation") in ("projection", "orthogonal"):
        assert_array_equal(picked, np.argsort(-variances)[:3])


@pytest.mark.parametrize("k", [2, 3, 5, 7])
def test_brute_force(k):
    """The best support of all, in nearly all cases, and never better than that."""
    hits = []
    for seed in range(12):
        X = data(seed=seed, ratio=0.95)
        C = centred(X).T @ centred(X) / 39
        best = max(leading(C, S)[0] for S in itertools.combinations(range(9), k))
        model = exact(1, n_nonzero=k, n_starts=30).fit(X)
        assert model.explained_variance_[0] <= best * (1 + 1e-12)
        support = np.flatnonzero(model.components_[0])
        assert model.explained_variance_[0] == pytest.approx(leading(C, support)[0], rel=1e-9)
        hits.append(model.explained_variance_[0] >= best * (1 - 1e-9))
    assert sum(hits) >= 11


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_brute_force_of_nonnegative_loadings(k):
    """A maximum on a face of the orthant is the leading eigenvector of its features, and positive."""
    hits = []
    for seed in range(12):
        X = data(d=6, seed=seed)
        C = centred(X).T @ centred(X) / 39
        best = 0.0
        for size in range(1, k + 1):
            for S in itertools.combinations(range(6), size):
                value, v = leading(C, S)
                best = max(best, value) if (v >= 0).all() or (v <= 0).all() else best
        model = exact(1, n_nonzero=k, positive=True, n_starts=30).fit(X)
        assert model.components_.min() >= 0
        assert model.n_nonzero_.max() <= k
        assert model.explained_variance_[0] <= best * (1 + 1e-9)
        hits.append(model.explained_variance_[0] >= best * (1 - 1e-7))
    assert sum(hits) >= 11


@every
@seeds
def test_nonnegative_loadings(kind, seed):
    X = data(seed=seed)
    model = quietly(SparsePCA(3, n_nonzero=4, positive=True, random_state=0, **kind), X)
    assert model.components_.min() >= 0
    assert model.components_[0].any()
    assert kind in PENALISED or model.n_nonzero_.max() <= 4


# Fixed points of DCA on the formulations, with the data deflated explicitly.


@deflations
@seeds
@pytest.mark.parametrize("positive", [False, True])
def test_components_are_fixed_points_on_deflated_data(deflation, seed, positive):
    X, k = data(seed=seed), (2, 3, 5, 4)
    options = {"deflation": deflation, "positive": positive}
    model = exact(4, n_nonzero=k, **options).fit(X)
    left, taken = centred(X), []
    for w, count in zip(model.components_, k, strict=True):
        problem = sparse(left, count, positive)
        assert np.count_nonzero(w) <= count
        assert problem.G(w[:, None] * (1 - 1e-12)) == 0
        assert_allclose(step(problem, w[:, None])[:, 0], w, atol=1e-7)
        left = without(left, w, deflation, taken)


@deflations
@pytest.mark.parametrize("penalty", ["l0", "l1"])
@seeds
def test_penalised_components_are_fixed_points_before_they_are_refitted(deflation, penalty, seed):
    X = data(seed=seed)
    model = exact(3, penalty=penalty, alpha=0.3, n_nonzero=9, deflation=deflation)
    W = unit(found(model, X))
    fitted = model.fit(X).components_.T
    assert_array_equal(W != 0, fitted != 0)
    left, again, taken, refit = centred(X), centred(X), [], []
    for w, v in zip(W.T, fitted.T, strict=True):
        top = np.linalg.norm(left, axis=0).max()
        gamma = 0.3 * (top if penalty == "l1" else top**2)
        z = gpower(left, gamma, penalty).to_dual((left @ w / np.linalg.norm(left @ w))[:, None])
        assert_allclose(unit(z)[:, 0], w, atol=1e-7)
        # Refitted: the leading eigenvector on the support, of what the refitted ones leave.
        _, best = leading(again.T @ again, np.flatnonzero(v))
        assert_allclose(np.abs(v[v != 0] @ best), 1, atol=1e-9)
        left, again = without(left, w, deflation, taken), without(again, v, deflation, refit)


@seeds
@pytest.mark.parametrize(
    "kind", [{"n_nonzero": 4}, {"penalty": "l1"}, {"penalty": "l0"}], ids=name_of
)
def test_block_loadings_are_a_fixed_point(kind, seed):
    X = data(seed=seed)
    model = exact(3, method="block", alpha=0.2, **{"n_nonzero": 9, **kind})
    W, Xc = found(model, X), centred(X)
    top = np.linalg.norm(Xc, axis=0).max()
    problem = {
        None: lambda: block_sparse(Xc, 4),
        "l1": lambda: gpower(Xc, 0.2 * top, "l1"),
        "l0": lambda: gpower(Xc, 0.2 * top**2, "l0"),
    }[kind.get("penalty")]()
    U = polar(Xc @ W)
    assert_allclose(unit(problem.to_dual(U)), unit(W), atol=1e-7)
    assert_allclose(step(problem, U), U, atol=1e-6)
    fitted = model.fit(X).components_.T
    assert_array_equal(fitted != 0, W != 0)
    if "penalty" not in kind:
        assert_allclose(np.abs(np.sum(unit(W) * fitted, axis=0)), 1, atol=1e-12)


@seeds
def test_reconstruction_is_a_fixed_point_of_alternating_least_squares(seed):
    X = data(seed=seed)
    model = exact(3, n_nonzero=4, method="reconstruction").fit(X)
    W, Xc = model.components_.T, centred(X)
    T = np.linalg.lstsq(W, Xc.T, rcond=None)[0].T
    for j in range(3):
        rest = Xc - np.delete(T, j, axis=1) @ np.delete(W, j, axis=1).T
        z = rest.T @ T[:, j] / (T[:, j] @ T[:, j])
        z[np.argsort(np.abs(z))[:-4]] = 0
        assert_allclose(z, W[:, j], atol=1e-6)


@deflations
@seeds
def test_the_objective_never_falls_along_dca(deflation, seed):
    X = data(N=30, seed=seed)
    model = exact(1, n_nonzero=3, deflation=deflation).fit(X)
    left = without(centred(X), model.components_[0], deflation, [])
    W = np.random.default_rng(seed).standard_normal((9, 1))
    problem = sparse(left, 3)
    values = []
    for _ in range(12):
        W = step(problem, W)
        values.append(-problem.objective(W))
    assert np.all(np.diff(values) >= -1e-12 * values[-1])


@pytest.mark.slow
@seeds
@pytest.mark.parametrize("k", [2, 4, 6])
@pytest.mark.parametrize("positive", [False, True])
def test_reconstruction_keeps_at_least_as_much_as_block_and_deflation(seed, k, positive):
    X = data(seed=seed, ratio=0.95)
    options = {"n_nonzero": k, "positive": positive}
    best = exact(3, method="reconstruction", **{**options, "tol": 1e-4}).fit(X)
    for method in ("block", "deflation"):
        other = exact(3, method=method, **options).fit(X)
        kept = other.cumulative_variance_ratio_[-1]
        assert best.cumulative_variance_ratio_[-1] >= kept - 1e-8


@pytest.mark.parametrize("penalty", ["l0", "l1"])
@pytest.mark.parametrize("n_starts", [None, 1, 4])
@pytest.mark.parametrize("method", ["deflation", "block"])
@pytest.mark.parametrize("positive", [False, True])
def test_a_penalty_below_1_leaves_features(penalty, n_starts, method, positive):
    for seed, alpha in enumerate((0.1, 0.5, 0.9, 0.999)):
        X = np.random.default_rng(seed).standard_normal((300, 40))
        model = SparsePCA(2, penalty=penalty, alpha=alpha, method=method, positive=positive)
        model = quietly(model.set_params(n_starts=n_starts, random_state=0), X)
        assert model.n_nonzero_[0 if method == "deflation" else slice(None)].sum() > 0
        if method == "deflation":
            assert model.n_nonzero_.all()
    alphas = (0.01, 0.2, 0.5, 0.9)
    model = SparsePCA(1, penalty=penalty, method=method, random_state=0)
    sizes = [clone(model).set_params(alpha=a).fit(X).n_nonzero_[0] for a in alphas]
    assert sizes[0] > sizes[-1]


# Variances, scores and rows against numpy.


def adjusted(Y):
    """What each column adds to those before it."""
    values = []
    for j in range(Y.shape[1]):
        fit = np.linalg.lstsq(Y[:, :j], Y[:, j], rcond=None)[0] if j else np.zeros(0)
        values.append(np.sum((Y[:, j] - Y[:, :j] @ fit) ** 2))
    return np.array(values)


@every
@seeds
def test_variances_scores_and_rows(kind, seed):
    X = data(seed=seed)
    model = quietly(SparsePCA(4, n_nonzero=4, alpha=0.05, random_state=0, **kind), X)
    W, Xc, total = model.components_.T, centred(X), np.sum(centred(X) ** 2)
    if model.n_nonzero_.all():
        R = np.linalg.qr(Xc @ W)[1]
        assert_allclose(model.explained_variance_, np.diag(R) ** 2 / 39, rtol=1e-9, atol=1e-12)
    assert_allclose(model.explained_variance_, adjusted(Xc @ W) / 39, rtol=1e-9, atol=1e-12)
    ratio = model.explained_variance_ratio_
    assert_allclose(ratio, model.explained_variance_ * 39 / total, rtol=1e-12)
    pca = np.cumsum(PCA(4).fit(X).explained_variance_ratio_)
    assert np.all(np.cumsum(ratio) <= pca + 1e-12)
    assert np.all(model.cumulative_variance_ratio_ <= pca + 1e-12)
    assert np.all(np.diff(model.cumulative_variance_ratio_) >= -1e-12)
    for j in range(1, 5):
        T = np.linalg.lstsq(W[:, :j], Xc.T, rcond=None)[0].T
        kept = 1 - np.sum((Xc - T @ W[:, :j].T) ** 2) / total
        assert model.cumulative_variance_ratio_[j - 1] == pytest.approx(kept, abs=1e-9)
    scores = model.transform(X)
    assert_allclose(scores, T, atol=1e-9)
    rows = model.inverse_transform(scores)
    assert_allclose(rows, T @ W.T + X.mean(axis=0), atol=1e-9)
    assert model.cumulative_variance_ratio_[-1] == pytest.approx(
        1 - np.sum((X - rows) ** 2) / total, abs=1e-9
    )
    assert_allclose(np.linalg.norm(W, axis=0), (model.n_nonzero_ > 0).astype(float), atol=1e-12)
    assert_array_equal(model.n_nonzero_, np.count_nonzero(W, axis=0))
    peak = W[np.abs(W).argmax(axis=0), range(4)]
    assert np.all((peak > 0) | (model.n_nonzero_ == 0))
    assert not np.signbit(W[W == 0]).any()


@every
def test_fit_transform_is_fit_and_transform(kind):
    X = data()
    options = {"n_nonzero": 3, "random_state": 0, **kind}
    model = quietly(SparsePCA(3, **options), X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "no variance was left", UserWarning)
        scores = SparsePCA(3, **options).fit_transform(X)
    assert_allclose(scores, model.transform(X), atol=1e-12)
    assert_array_equal(model.get_feature_names_out(), [f"sparsepca{j}" for j in range(3)])
    again = quietly(SparsePCA(3, **options), X)
    assert_array_equal(again.components_, model.components_)
    assert again.n_iter_ == model.n_iter_


def test_without_centring_the_origin_stays():
    X = data()
    model = SparsePCA(2, n_nonzero=3, center=False, random_state=0).fit(X)
    assert_array_equal(model.mean_, 0)
    W = model.components_.T
    assert_allclose(model.transform(X), X @ np.linalg.pinv(W).T, atol=1e-10)
    assert_allclose(model.explained_variance_, adjusted(X @ W) / 39, rtol=1e-9)


# Invariances. 30 starts: another order of features or rows changes the random ones.


def fitted(X, kind, s=3, **options):
    slow = {"tol": 1e-4} if kind.get("method") == "reconstruction" else {}
    return quietly(exact(s, **{"n_nonzero": 4, "alpha": 0.1, **slow, **kind}), X, **options)


@every
def test_scale_and_shift(kind):
    X = data()
    model = fitted(X, kind)
    for c in (1e-150, 1e-8, 3.0, 1e10, 1e150):
        other = fitted(centred(X) * c, kind)
        assert_allclose(other.explained_variance_ / c**2, model.explained_variance_, rtol=1e-8)
        other.explained_variance_ = model.explained_variance_
        assert_same_model(other, model)
    shift = np.arange(9.0) * 100
    moved = fitted(X + shift, kind)
    assert_same_model(moved, model)
    assert_allclose(moved.mean_, model.mean_ + shift)
    assert_allclose(moved.transform(X + shift), model.transform(X), atol=1e-7)


@every
def test_rows_in_another_order_or_turned(kind):
    X = centred(data())
    rng = np.random.default_rng(0)
    model = fitted(X, kind)
    order = rng.permutation(40)
    assert_same_model(fitted(X[order], kind), model)
    # Rows and their negatives have the mean 0; so do their rotations.
    X = np.vstack([X, -X])
    turned = np.linalg.qr(rng.standard_normal((80, 80)))[0] @ X
    kind = {**kind, "center": False}
    assert_same_model(fitted(turned, kind), fitted(X, kind))


@every
def test_columns_in_another_order(kind):
    X = data(N=60, seed=3, ratio=0.7)
    order = np.random.default_rng(0).permutation(9)
    kind = {**kind, "n_starts": 30}
    model, other = fitted(X, kind), fitted(X[:, order], kind)
    alike = np.abs(other.components_[:, np.argsort(order)] @ model.components_.T)
    if kind.get("method") == "reconstruction":  # only the span has a meaning, and no order
        assert_allclose(alike.max(axis=1), 1, atol=1e-4)
        last = model.cumulative_variance_ratio_[-1]
        assert other.cumulative_variance_ratio_[-1] == pytest.approx(last, abs=1e-6)
    else:
        assert_allclose(np.diag(alike), (model.n_nonzero_ > 0).astype(float), atol=1e-12)
        assert_allclose(other.explained_variance_, model.explained_variance_, atol=1e-9)


@every
def test_weights_count_rows(kind):
    X = data()
    weights = np.random.default_rng(1).integers(0, 4, 40)
    repeated = fitted(np.repeat(X, weights, axis=0), kind)
    weighted = fitted(X, kind, sample_weight=weights)
    assert_same_model(weighted, repeated)
    assert_allclose(weighted.mean_, repeated.mean_)
    assert_same_model(fitted(X, kind, sample_weight=np.ones(40)), fitted(X, kind))


# Kinds of data.


@every
def test_sparse_data(kind):
    X = data(60, 12) * (np.random.default_rng(4).random((60, 12)) < 0.4)
    model = fitted(X, kind)
    weighted = fitted(X, kind, sample_weight=np.arange(60))
    near = 1e-3 if kind.get("method") == "reconstruction" else 1e-7
    for make in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix):
        other = fitted(make(X), kind)
        assert_same_model(other, model, atol=near)
        assert_allclose(other.transform(make(X)), model.transform(X), atol=10 * near)
        again = fitted(make(X), kind, sample_weight=np.arange(60))
        assert_same_model(again, weighted, atol=near)


@pytest.mark.parametrize("kind", [*BOUNDED, {"penalty": "l1", "alpha": 0.3}], ids=name_of)
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_sparse_data_too_large_to_be_dense(kind, format):
    rng = np.random.default_rng(0)
    N, d = 5000, 200_000
    noise = sp.random_array((N, d), density=1e-5, rng=rng, format="lil")
    support = [7, 1234, 99_999, 150_000, 199_999]
    noise[:, support] = 2 * rng.standard_normal((N, 1)) + 0.1 * rng.standard_normal((N, 5))
    X = noise.asformat(format)
    model = SparsePCA(1, **{"n_nonzero": 5, "random_state": 0, **kind}).fit(X)
    assert np.flatnonzero(model.components_[0]).tolist() == support
    assert model.n_passes_ < 12
    assert model.transform(X[:3]).shape == (3, 1)


@every
def test_other_containers(kind, tmp_path):
    X = data()
    model = fitted(X, kind)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    blocks = Blocks([X[:11], X[11:12], X[12:]])
    torch = pytest.importorskip("torch")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(9)])
    for table in (mapped, blocks, frame, X.tolist(), np.asfortranarray(X)):
        other = fitted(table, kind)
        assert_same_model(other, model)
        assert_allclose(other.transform(table), model.transform(X), atol=1e-7)
    assert fitted(frame, kind).feature_names_in_.tolist() == list(frame.columns)
    other = fitted(torch.asarray(X), kind)
    for name in ("components_", "explained_variance_", "cumulative_variance_ratio_", "mean_"):
        assert isinstance(getattr(other, name), torch.Tensor)
    assert_same_model(other, model)
    scores = other.transform(torch.asarray(X))
    assert isinstance(other.inverse_transform(scores), torch.Tensor)
    assert_allclose(scores.numpy(), model.transform(X), atol=1e-7)
    weights = np.arange(40.0)
    other = fitted(torch.asarray(X), kind, sample_weight=torch.asarray(weights))
    assert_same_model(other, fitted(X, kind, sample_weight=weights))


@every
@pytest.mark.parametrize("way", ["numpy", "csr", "torch"])
@pytest.mark.parametrize("limit", [1500, 5])
def test_float32_stays(kind, way, limit, monkeypatch):
    monkeypatch.setattr(_active, "ALL", limit)
    X = data().astype(np.float32)
    torch = pytest.importorskip("torch")
    table = {"numpy": np.asarray, "csr": sp.csr_array, "torch": torch.asarray}[way](X)
    options = {"n_nonzero": 4, "alpha": 0.1, "random_state": 0, **kind}
    model = quietly(SparsePCA(3, **options), table, sample_weight=np.ones(40, np.float32))
    arrays = [
        model.components_,
        model.explained_variance_,
        model.explained_variance_ratio_,
        model.cumulative_variance_ratio_,
        model.mean_,
        model.transform(table),
        model.inverse_transform(model.transform(table)),
    ]
    assert all("float32" in str(array.dtype) for array in arrays)
    # From about the same start; where DCA is slow, tol=1e-4 leaves more.
    slow = kind.get("method") == "reconstruction"
    assert_same_model(model, fitted(X.astype(float), kind), atol=2e-2 if slow else 2e-3)


# Many features.


WAYS = {"whole": (10**9, 4000), "active": (300, 4000), "passes": (300, 0)}


def by(way, monkeypatch, X, **options):
    """A fit with the whole matrix, on active features, or with a pass for each step."""
    everything, active = WAYS[way]
    monkeypatch.setattr(_active, "ALL", everything)
    monkeypatch.setattr(_active, "ACTIVE", active)
    return quietly(SparsePCA(3, **{"n_nonzero": 15, "random_state": 0, **options}), X)


@every
@pytest.mark.parametrize("positive", [False, True])
def test_active_features_and_passes_give_what_the_whole_matrix_gives(kind, positive, monkeypatch):
    X, W = planted(0, d=1000)
    X = X @ np.diag(np.sign(W.sum(axis=1) + 0.5)) if positive else X
    weights = np.random.default_rng(0).uniform(0.5, 2, 120)
    options = {"positive": positive, "alpha": 0.3 if kind.get("penalty") == "l1" else 0.1, **kind}
    whole = by("whole", monkeypatch, X, **options)
    for way in ("active", "passes"):
        other = by(way, monkeypatch, X, **options)
        assert_same_model(other, whole, atol=1e-3)
        assert_array_equal(other.components_ != 0, whole.components_ != 0)
        assert other.n_passes_ < (15 if way == "active" else 150)
    monkeypatch.setattr(_active, "ACTIVE", 4000)
    few = quietly(SparsePCA(3, n_nonzero=15, random_state=0, **options), X, sample_weight=weights)
    monkeypatch.setattr(_active, "ALL", 10**9)
    all_ = quietly(SparsePCA(3, n_nonzero=15, random_state=0, **options), X, sample_weight=weights)
    assert_same_model(few, all_, atol=1e-3)


@bounded
def test_active_features_without_a_structure_are_fixed_points_of_all(kind, monkeypatch):
    X = np.random.default_rng(0).standard_normal((100, 600))
    model = by("active", monkeypatch, X, tol=1e-7, max_iter=10**4, **kind)
    assert model.residual_ <= 1e-7
    if kind.get("method") is None:
        left, taken = centred(X), []
        for w in model.components_:
            assert_allclose(step(sparse(left, 15), w[:, None])[:, 0], w, atol=1e-5)
            left = without(left, w, kind["deflation"], taken)


@bounded
@seeds
def test_planted_supports_are_recovered(kind, seed):
    X, W = planted(seed)
    model = SparsePCA(3, n_nonzero=15, random_state=0, **kind).fit(X)
    assert_array_equal(model.components_.T != 0, W != 0)
    assert model.n_passes_ < 10


@pytest.mark.parametrize("kind", [{"penalty": "l0"}, {"penalty": "l1", "alpha": 0.3}], ids=name_of)
@seeds
def test_planted_supports_are_recovered_by_penalties(kind, seed):
    X, W = planted(seed)
    model = SparsePCA(3, random_state=0, **kind).fit(X)
    assert_array_equal(model.components_.T != 0, W != 0)


@deflations
@seeds
@pytest.mark.parametrize("k", [1, 20, 99, 100, 150, 250])
def test_components_are_eigenvectors_on_their_supports_at_any_tol(deflation, seed, k):
    X = data(300, 250, seed=seed, ratio=0.98)
    for tol in (1e-3, 2.0):  # the default; and one that every step is within
        model = SparsePCA(3, n_nonzero=k, deflation=deflation, tol=tol, random_state=0).fit(X)
        assert model.residual_ <= tol
        left, taken = centred(X), []
        for w in model.components_:
            support = np.flatnonzero(w)
            _, v = leading(left.T @ left, support)
            assert_allclose(w[support], v * np.sign(v @ w[support]), atol=1e-10)
            if tol < 1:
                assert_allclose(step(sparse(left, k), w[:, None])[:, 0], w, atol=1e-10)
            left = without(left, w, deflation, taken)


@deflations
@pytest.mark.parametrize("k", [3, 15, 19])
def test_tied_features_do_not_cycle(deflation, k):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 1)) + 0.1 * rng.standard_normal((50, 10))
    X = np.hstack([X, X, np.zeros((50, 180))])
    model = SparsePCA(8, n_nonzero=k, deflation=deflation, random_state=0).fit(X)
    assert model.n_iter_ < 8 * 50
    left, taken = centred(X), []
    for w in model.components_:
        problem = sparse(left, k)  # w is as good as the subgradient that a step takes
        z = left.T @ (left @ w) / np.linalg.norm(left @ w)
        assert z @ w == pytest.approx(z @ step(problem, w[:, None])[:, 0], rel=1e-9)
        left = without(left, w, deflation, taken)


def test_without_a_lanczos_vector_dca_goes_on(monkeypatch):
    def fail(*args, **options):
        raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((0, 0)))

    X = data(300, 250, ratio=0.98)
    options = {"n_nonzero": 150, "tol": 1e-8, "max_iter": 10**4, "random_state": 0}
    model = SparsePCA(1, **options).fit(X)
    monkeypatch.setattr("scipy.sparse.linalg.eigsh", fail)
    other = SparsePCA(1, **options).fit(X)
    assert other.n_iter_ > model.n_iter_
    assert_allclose(other.components_, model.components_, atol=1e-5)


# Paths.


@bounded
@pytest.mark.parametrize("grid", [[2, 4, 8], [0.9, 0.5, 0.2], np.array([3, 6]), [(2, 3, 4), 5]])
def test_path(kind, grid):
    X = load_digits().data[::10, 2:22]
    base = SparsePCA(3, random_state=0, **kind)
    before = dict(vars(base))
    models = base.path(X, grid)
    assert vars(base) == before
    assert len(models) == len(grid)
    for model, k in zip(models, grid, strict=True):
        alone = SparsePCA(3, n_nonzero=k, random_state=0, **kind).fit(X)
        assert_array_equal(model.n_nonzero, k)
        assert_array_equal(model.n_nonzero_, alone.n_nonzero_)
        # Deflation keeps the best first component, which may leave less for those after it.
        kept, expected = model.explained_variance_, alone.explained_variance_
        assert kept.sum() >= 0.97 * expected.sum()
        assert model.transform(X).shape == (len(X), 3)
        assert model.n_features_in_ == 20
    assert_same_model(models[0], SparsePCA(3, n_nonzero=grid[0], random_state=0, **kind).fit(X))


@pytest.mark.parametrize("limit", [1500, 5])
@pytest.mark.parametrize("seed", range(8))
def test_a_path_goes_on_from_the_model_before(seed, limit, monkeypatch):
    """So that the first component never falls as more features are allowed, from one start each."""
    monkeypatch.setattr(_active, "ALL", limit)
    X = data(seed=seed, ratio=0.95)
    models = exact(1, n_starts=1).path(X, range(1, 10))
    variances = [model.explained_variance_[0] for model in models]
    assert np.all(np.diff(variances) >= -1e-9)
    assert variances[-1] == pytest.approx(PCA(1).fit(X).explained_variance_[0])
    passes = [model.n_passes_ for model in models]
    assert passes == sorted(passes)  # of all models so far


def test_path_errors():
    X = data()
    for grid in (5, iter([2, 3])):
        with pytest.raises(ValueError, match=r"path\(n_nonzero=.*needs a sequence such as"):
            SparsePCA(2).path(X, grid)
    with pytest.raises(ValueError, match=r"penalty='cardinality', got penalty='l1'"):
        SparsePCA(2, penalty="l1").path(X, [2, 3])
    with pytest.raises(ValueError, match=r"n_nonzero=\[\] is empty"):
        SparsePCA(2).path(X, [])
    with pytest.raises(ValueError, match=r"n_nonzero=20"):
        SparsePCA(2).path(X, [2, 20])
    frame = pytest.importorskip("pandas").DataFrame(X, columns=list("abcdefghi"))
    for model in SparsePCA(2, random_state=0).path(frame, [2, 3]):
        assert model.feature_names_in_.tolist() == list("abcdefghi")


# Edges.


@every
def test_constant_columns_are_left_out(kind):
    X = data(d=6)
    X[:, [1, 4]] = [7.0, 1e6]
    for options in ({"n_nonzero": 3, "alpha": 0.05}, {"n_nonzero": 6, "alpha": 0.0}):
        model = fitted(X, {**options, **kind})
        assert not np.abs(model.components_[:, [1, 4]]).max() > 1e-9
    if kind.get("method") is None:
        rest = fitted(np.delete(X, [1, 4], axis=1), {**kind, "n_nonzero": 3})
        model = fitted(X, {**kind, "n_nonzero": 3})
        assert_allclose(model.explained_variance_[0], rest.explained_variance_[0], rtol=1e-8)


@every
@pytest.mark.parametrize("X", [np.zeros((6, 4)), np.ones((6, 4)) * 3.5, np.ones((2, 1))], ids=str)
def test_no_variance_at_all(kind, X):
    s = min(X.shape[1], 2)
    with pytest.warns(UserWarning, match=rf"no variance was left for {s} of n_components={s}"):
        model = SparsePCA(s, n_nonzero=1, **kind).fit(X)
    assert not model.components_.any()
    assert_array_equal(model.explained_variance_ratio_, 0)
    assert_array_equal(model.transform(X), np.zeros((len(X), s)))
    assert_array_equal(model.inverse_transform(model.transform(X)), X)


@every
def test_more_components_than_the_rank(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8))
    with pytest.warns(UserWarning, match="no variance was left for 3 of n_components=5"):
        model = exact(5, n_nonzero=8, alpha=0.0, **kind).fit(X)
    assert not model.components_[2:].any()
    assert model.cumulative_variance_ratio_[-1] == pytest.approx(1)
    assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-6)
    sparse_model = fitted(X, {**kind, "n_nonzero": 2}, s=5)
    assert np.isfinite(sparse_model.transform(X)).all()
    assert_allclose(sparse_model.explained_variance_[2:], 0, atol=1e-9)


@every
def test_fewer_rows_than_features(kind):
    X = data(6, 30)
    model = fitted(X, kind, s=4)
    assert model.explained_variance_ratio_.sum() <= 1
    assert kind in PENALISED or model.n_nonzero_.max() <= 4
    assert quietly(SparsePCA(random_state=0, **kind), X).components_.shape == (6, 30)


@every
def test_smallest_shapes(kind):
    column = np.array([[1.0], [2.0], [6.0]])
    model = SparsePCA(n_nonzero=1, random_state=0, **kind).fit(column)
    assert_array_equal(model.components_, [[1.0]])
    assert_allclose(model.explained_variance_, column.var(ddof=1))
    assert_allclose(model.transform(column), column - 3)
    X = np.array([[1.0, 2.0, 3.0], [2.0, 0.0, 3.1]])
    model = SparsePCA(1, n_nonzero=2, alpha=0.2, random_state=0, **kind).fit(X)
    assert_allclose(np.abs(model.components_), [np.array([1, 2, 0]) / 5**0.5], atol=1e-12)


@every
def test_tied_and_repeated_columns(kind):
    X = data(d=4)
    twice = np.hstack([X, X])
    kind = {"tol": 1e-5, **kind}
    model = fitted(twice, kind)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.transform(twice)).all()
    assert fitted(twice, {**kind, "n_nonzero": 8, "alpha": 0.0}).explained_variance_[
        0
    ] == pytest.approx(2 * PCA(1).fit(X).explained_variance_[0])
    tied = np.vstack([np.eye(6), -np.eye(6)])  # the covariance is a multiple of the identity
    model = fitted(tied, {**kind, "n_nonzero": 2})
    assert_allclose(model.explained_variance_[model.n_nonzero_ > 0], 2 / 11, rtol=1e-5)


@pytest.mark.parametrize("k", [3, np.int64(3), np.int32(3), 1 / 3, np.float64(1 / 3)])
def test_numbers_of_nonzeros(k):
    assert SparsePCA(2, n_nonzero=k, random_state=0).fit(data()).n_nonzero_.tolist() == [3, 3]


@pytest.mark.parametrize("k", [[2, 5], (2, 5), np.array([2, 5]), [2, 5 / 9], [np.int64(2), 5]])
@pytest.mark.parametrize("method", METHODS)
def test_a_number_of_nonzeros_for_each_component(k, method):
    model = SparsePCA(2, n_nonzero=k, method=method, random_state=0).fit(data())
    assert model.n_nonzero_.tolist() == [2, 5]


@pytest.mark.parametrize("k", [50, [2, 3, 4]])
@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_penalties_use_no_number_of_nonzeros(penalty, k):
    options = {"penalty": penalty, "random_state": 0}
    model = SparsePCA(2, n_nonzero=k, **options).fit(data())
    assert_same_model(model, SparsePCA(2, **options).fit(data()))


def test_fractions_of_the_features():
    assert SparsePCA(1, n_nonzero=1.0).fit(data()).n_nonzero_.tolist() == [9]
    assert SparsePCA(1, n_nonzero=1e-9).fit(data()).n_nonzero_.tolist() == [1]
    assert SparsePCA(1).fit(data()).n_nonzero_.tolist() == [2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_nonzero": 10}, r"n_nonzero=10 has the entry 10; give whole numbers from 1 to"),
        ({"n_nonzero": 0}, r"n_nonzero"),
        ({"n_nonzero": -1}, r"n_nonzero"),
        ({"n_nonzero": 1.5}, r"n_nonzero"),
        ({"n_nonzero": 0.0}, r"n_nonzero"),
        ({"n_nonzero": float("nan")}, r"n_nonzero"),
        ({"n_nonzero": True}, r"n_nonzero=True has the entry True"),
        ({"n_nonzero": "few"}, r"n_nonzero"),
        ({"n_nonzero": None}, r"n_nonzero"),
        ({"n_nonzero": np.array(3)}, r"n_nonzero"),
        ({"n_nonzero": [2, True]}, r"n_nonzero=\[2, True\] has the entry True"),
        ({"n_nonzero": [2, 3.0]}, r"n_nonzero=\[2, 3.0\] has the entry 3.0"),
        ({"n_nonzero": [2, "a"]}, r"n_nonzero=\[2, 'a'\] has the entry 'a'"),
        ({"n_nonzero": [[2], [3]]}, r"n_nonzero=\[\[2\], \[3\]\] has the entry \[2\]"),
        ({"n_nonzero": [2, 3, 4]}, r"n_nonzero=\[2, 3, 4\] has 3 entries for n_components=2"),
        ({"n_nonzero": []}, r"n_nonzero=\[\] has 0 entries"),
        ({"n_components": 10}, r"n_components=10 must be between 1 and .*=9; ask for fewer"),
        ({"n_components": 0}, r"n_components"),
        ({"n_components": 0.5}, r"n_components"),
        ({"method": "reconstruction", "penalty": "l1"}, r"reconstruction.*penalty='l1'.*'block'"),
        ({"method": "reconstruction", "penalty": "l0"}, r"reconstruction.*penalty='l0'"),
        ({"method": "lars"}, r"method"),
        ({"deflation": "hotelling"}, r"deflation"),
        ({"penalty": "l2"}, r"penalty"),
        ({"alpha": 1.0}, r"alpha"),
        ({"alpha": -0.1}, r"alpha"),
        ({"n_starts": 0}, r"n_starts"),
        ({"tol": -1.0}, r"tol"),
        ({"max_iter": 0}, r"max_iter"),
        ({"positive": "yes"}, r"positive"),
    ],
    ids=str,
)
def test_bad_parameters(options, words):
    with pytest.raises(ValueError, match=words):
        SparsePCA(**{"n_components": 2, **options}).fit(data())


def test_bad_data():
    with pytest.raises(TypeError, match="n_components=True is a bool"):
        SparsePCA(True).fit(data())
    for bad in (np.nan, np.inf):
        X = data()
        X[3, 4] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            SparsePCA(2).fit(X)
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            SparsePCA(2).fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="sample_weight has shape"):
        SparsePCA(2).fit(data(), sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="minimum of 2"):
        SparsePCA(1).fit(np.ones((1, 3)))
    with pytest.raises(ValueError, match="8 features"):
        SparsePCA(2).fit(data()).transform(data(d=8))


@pytest.mark.parametrize("limit", [1500, 5])
def test_squares_that_overflow_are_told_at_once(limit, monkeypatch):
    monkeypatch.setattr(_active, "ALL", limit)
    for scale in (1e155, 1e170, 1e300):
        with pytest.raises(ValueError, match="squares overflow"):
            SparsePCA(2).fit(data() * scale)


@every
def test_steps_run_out(kind):
    X = data(200, 60, ratio=0.995)
    model = SparsePCA(2, n_nonzero=20, alpha=0.02, max_iter=1, n_starts=1, random_state=0, **kind)
    with pytest.warns(ConvergenceWarning, match=r"above tol=.*max_iter=1 iterations; raise"):
        model.fit(X)
    assert model.residual_ > model.tol
    assert np.isfinite(model.components_).all()


@every
def test_a_tolerance_of_0_ends(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "no variance was left", UserWarning)
        model = SparsePCA(2, n_nonzero=3, tol=0.0, max_iter=50, random_state=0, **kind)
        model.fit(data())
    assert model.residual_ < 1e-3
    assert model.n_iter_ <= 4 * 56


# The tools of scikit-learn.


@every
def test_clone_and_pickle(kind):
    X = data()
    model = fitted(X, kind)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.transform(X), model.transform(X))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "components_")


def test_determinism():
    X = data(d=30)
    for state in (0, 7, np.random.RandomState(0)):
        pair = [SparsePCA(3, random_state=clone(SparsePCA(random_state=state)).random_state)]
        pair.append(clone(pair[0]))
        a, b = (model.fit(X).components_ for model in pair)
        assert_array_equal(a, b)


def test_grid_search_and_pipeline():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SparsePCA(2, random_state=0), LogisticRegression())
    grid = {"sparsepca__n_nonzero": [1, 2, 0.75], "sparsepca__method": METHODS}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(X, y) > 0.8
    assert search.best_estimator_[:-1].get_feature_names_out().tolist() == [
        "sparsepca0",
        "sparsepca1",
    ]


def test_frames_out():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(data(), index=[f"row {i}" for i in range(40)])
    frame.columns = list("abcdefghi")
    model = SparsePCA(2, random_state=0).set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["sparsepca0", "sparsepca1"]
    assert list(out.index) == list(frame.index)
    assert_allclose(out.to_numpy(), SparsePCA(2, random_state=0).fit_transform(data()))


def test_pit_props_reach_what_is_published():
    """Zou, Hastie and Tibshirani (2006), Table 3; Yuan and Zhang (2013)."""
    folder = data_folder()
    path = None if folder is None else folder / "classic" / "elasticnet_pitprops.csv"
    if path is None or not path.exists():
        pytest.skip("needs the pit props in DUALPCA_DATA")
    X = pitprops.root(path)
    adjusted, span = pitprops.explained(X, (7, 4, 4, 1, 1, 1), method="block")
    assert adjusted >= 75.8
    assert span >= 80.2
    adjusted, span = pitprops.explained(X, (6, 2, 1, 2, 1, 1))
    assert adjusted >= 72.0
    assert span >= 77.0


def test_deflation_adds_at_least_what_scikit_learn_does_with_as_many_nonzeros():
    X = load_digits().data
    peer = MiniBatchSparsePCA(10, alpha=1, random_state=0).fit(X)
    counts = np.count_nonzero(peer.components_, axis=1)
    model = SparsePCA(10, n_nonzero=counts, random_state=0).fit(X)
    assert np.all(model.n_nonzero_ <= counts)
    C = centred(X).T @ centred(X)
    ours, theirs = (
        adjusted_variances(W, C @ W).sum() for W in (model.components_.T, peer.components_.T)
    )
    assert ours >= theirs


def test_comparison_with_scikit_learn_runs():
    X, W = comparison.planted(60, 300, k=5)
    peer = MiniBatchSparsePCA(5, alpha=1.0, max_iter=3, random_state=0)
    rows = list(comparison.compare("planted", X, 5, peer, 1, W))
    assert len(rows) == 4
    for row in rows:
        share, adjusted, support = (float(cell) for cell in row[3:6])
        assert 0 <= adjusted <= share + 1e-4 <= 1
        assert 0 <= support <= 1
