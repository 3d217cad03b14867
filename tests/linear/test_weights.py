"""Around the solver: row weights, fractions of the variance, paths, batches."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn import decomposition
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from tests.loops import over

from dualpca import PCA
from dualpca.operators import Blocks

SOLVERS = ["lapack", "gram", "krylov", "dca", "zerofpr"]


def data(N=300, d=40, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((N, d)) * 0.85 ** np.arange(d) + rng.standard_normal(d)
    return rows.astype(dtype)


def same(one, other, tol, variance_tol=None):
    scale = float(other.explained_variance_[0])
    np.testing.assert_allclose(one.components_, other.components_, atol=tol)
    np.testing.assert_allclose(
        one.explained_variance_, other.explained_variance_, atol=(variance_tol or tol) * scale
    )
    np.testing.assert_allclose(one.mean_, other.mean_, atol=tol)
    assert one.noise_variance_ == pytest.approx(other.noise_variance_, rel=100 * tol)


@pytest.mark.parametrize(
    ("solver", "kind"),
    [
        (solver, kind)
        for solver in SOLVERS
        for kind in ("dense", "csr", "csc", "blocks")
        if kind == "dense" or solver != "lapack"  # which takes dense arrays
    ],
)
@over("center", [True, False])
def test_a_weight_of_two_is_the_row_twice(solver, kind, center):
    X = data()
    weights = np.random.default_rng(1).integers(0, 4, len(X))
    kinds = {"csr": sp.csr_array, "csc": sp.csc_array, "blocks": lambda A: Blocks([A[:99], A[99:]])}
    given = kinds.get(kind, np.asarray)(X)
    options = {"solver": solver, "center": center, "tol": 1e-9, "max_iter": 5000, "random_state": 0}
    weighted = PCA(4, **options).fit(given, sample_weight=weights)
    repeated = PCA(4, **options).fit(np.repeat(X, weights, axis=0))
    same(weighted, repeated, 1e-6)
    assert weighted.residual_ <= 1e-9


@pytest.mark.parametrize("solver", ["gram", "krylov"])
@pytest.mark.parametrize("shape", [(300, 40), (60, 200)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_against_numpy(solver, shape, dtype):
    X = data(*shape, dtype=dtype)
    w = np.random.default_rng(2).uniform(0, 3, len(X))
    model = PCA(3, solver=solver, random_state=0).fit(X, sample_weight=w.tolist())
    mean = np.average(X.astype(float), axis=0, weights=w)
    C = ((X - mean) * w[:, None]).T @ (X - mean) / (w.sum() - 1)
    lam = np.linalg.eigvalsh(C)[::-1]
    np.testing.assert_allclose(model.mean_, mean, atol=1e-5)
    np.testing.assert_allclose(model.explained_variance_, lam[:3], rtol=1e-5)
    np.testing.assert_allclose(model.explained_variance_ratio_, lam[:3] / lam.sum(), rtol=1e-5)
    assert model.components_.dtype == dtype


def test_weights_are_checked_before_any_work():
    X = data(20, 5)
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\).*20 rows"):
        PCA(2).fit(X, sample_weight=[1, 2, 3])
    with pytest.raises(ValueError, match="not negative"):
        PCA(2).fit(X, sample_weight=np.full(20, -1.0))
    with pytest.raises(ValueError, match="finite"):
        PCA(2).fit(X, sample_weight=np.full(20, np.nan))
    with pytest.raises(ValueError, match="zero or small"):
        PCA(2).fit(X, sample_weight=np.full(20, 0.01))
    one, two = PCA(2).fit(X, sample_weight=2), PCA(2).fit(np.repeat(X, 2, axis=0))
    same(one, two, 1e-9)


def test_weights_are_routed():
    X = data(60, 6)
    w = np.arange(60.0)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(PCA(2).set_fit_request(sample_weight=True))
        pipe.fit(X, sample_weight=w)
    same(pipe[0], PCA(2).fit(X, sample_weight=w), 1e-12)
    np.testing.assert_allclose(
        PCA(2).fit_transform(X, sample_weight=w), pipe[0].transform(X), atol=1e-12
    )


@pytest.mark.parametrize("fraction", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("solver", ["auto", "krylov", "gram", "lapack"])
def test_a_fraction_asks_for_as_many_components_as_lapack_counts(fraction, solver):
    X = data(900, 600, seed=3)
    oracle = decomposition.PCA(fraction, svd_solver="full").fit(X)
    model = PCA(fraction, solver=solver, random_state=0).fit(X)
    assert model.n_components_ == oracle.n_components_
    np.testing.assert_allclose(
        model.explained_variance_ratio_, oracle.explained_variance_ratio_, atol=1e-6
    )


def test_a_fraction_needs_no_full_decomposition():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2500), dtype=np.float32) * (0.8 ** np.arange(2500)).astype("f")
    model = PCA(0.95, random_state=0).fit(X)
    assert model.solver_.startswith("krylov")
    assert model.components_.shape[0] == model.n_components_ < 20
    total = np.sum(X.astype(float).var(axis=0, ddof=1))
    assert model.explained_variance_ratio_.sum() > 0.95
    assert model.explained_variance_ratio_[:-1].sum() <= 0.95
    assert model.explained_variance_.sum() / total == pytest.approx(
        model.explained_variance_ratio_.sum(), rel=1e-4
    )


@pytest.mark.parametrize("solver", ["auto", "krylov", "gram", "zerofpr"])
def test_a_path_is_the_fits_for_one_price(solver):
    X = load_digits().data
    base = PCA(solver=solver, tol=1e-8, max_iter=3000, random_state=0)
    sizes = [10, 3, 20]
    models = base.path(X, sizes)
    assert not hasattr(base, "components_")
    for n, model in zip(sizes, models, strict=True):
        assert model.get_params()["n_components"] == n == model.n_components_
        same(model, PCA(n, solver="lapack").fit(X), 1e-5)
        assert model.residual_ <= 1e-8
        best = decomposition.PCA(n, svd_solver="full").fit(X).explained_variance_.sum()
        shortfall = 1 - model.explained_variance_.sum() / best
        assert shortfall <= model.variance_shortfall_ + 1e-13
    assert len({m.n_passes_ for m in models}) == 1
    with pytest.raises(ValueError, match="sequence of integers"):
        base.path(X, [0.5])
    with pytest.raises(ValueError, match=r"n_components=100 must be between"):
        base.path(X, [3, 100])


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_batches_are_exact_through_the_gram_matrix(center, kind, dtype):
    X = data(500, 30, seed=5, dtype=dtype) + 3
    whole = PCA(4, center=center, solver="gram").fit(X)
    model = PCA(4, center=center)
    for batch in np.array_split(X, [20, 21, 300]):
        model.partial_fit(sp.csr_array(batch) if kind == "csr" else batch)
    same(model, whole, 1e-9 if dtype == np.float64 else 2e-5)
    assert model.n_samples_ == 500
    assert model.components_.dtype == dtype
    np.testing.assert_allclose(
        model.explained_variance_ratio_, whole.explained_variance_ratio_, rtol=1e-5
    )


@pytest.mark.parametrize("n_components", [None, 0.8, "mle"])
def test_batches_with_every_way_to_choose_the_number(n_components):
    X = data(300, 12)
    model = PCA(n_components)
    for batch in np.array_split(X, 4):
        model.partial_fit(batch)
    oracle = PCA(n_components, solver="lapack").fit(X)
    assert model.n_components_ == oracle.n_components_
    np.testing.assert_allclose(model.explained_variance_, oracle.explained_variance_, rtol=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("decay", [1.0, 0.95])
@pytest.mark.parametrize("center", [True, False])
def test_many_features_leave_a_bound(monkeypatch, seed, decay, center):
    monkeypatch.setattr("dualpca.linear.incremental.GRAM_FEATURES", 50)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((600, 200)) * decay ** np.arange(200) + rng.standard_normal(200)
    model = PCA(3, center=center)
    for batch in np.array_split(X, 6):
        model.partial_fit(batch)
    Xc = X - X.mean(axis=0) if center else X
    best = np.sum(np.linalg.svd(Xc, compute_uv=False)[:3] ** 2)
    captured = np.linalg.norm(Xc @ model.components_.T) ** 2
    shortfall = 1 - captured / best
    assert -1e-12 <= shortfall <= model.variance_shortfall_
    assert model.variance_shortfall_ < (1.5 if decay == 1 else 0.1)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0) if center else 0, atol=1e-12)
    with pytest.raises(ValueError, match=r"sparse batches up to 50 features"):
        PCA(3).partial_fit(sp.csr_array(X))
    with pytest.raises(ValueError, match=r"n_components=0.5 with more than 50"):
        PCA(0.5).partial_fit(X)


def test_batches_after_fit_go_on_from_its_components():
    X = data(400, 20)
    model = PCA(20, solver="lapack").fit(X[:250]).partial_fit(X[250:])
    same(model, PCA(20, solver="lapack").fit(X), 1e-8)
    few = PCA(3, solver="lapack").fit(X[:250]).partial_fit(X[250:])
    best = PCA(3, solver="lapack").fit(X).explained_variance_.sum()
    Xc = X - X.mean(axis=0)
    captured = np.linalg.norm(Xc @ few.components_.T) ** 2 / 399
    assert 1 - captured / best <= few.variance_shortfall_
    with pytest.raises(ValueError, match="features"):
        few.partial_fit(X[:, :5])


def test_fit_forgets_batches():
    X = data(100, 10)
    model = PCA(2).partial_fit(X[:50]).fit(X)
    same(model, PCA(2).fit(X), 1e-12)
