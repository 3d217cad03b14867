"""`partial_fit`: the weighted PCA of all rows seen, what it says of its accuracy, and of drift."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import subspace_angles
from sklearn.exceptions import NotFittedError

from dualpca import PCA

D, S = 120, 3


@pytest.fixture(params=[False, True], ids=["sums", "sketch"])
def sketched(request, monkeypatch):
    """Whether there are more features than a Gram matrix is held of."""
    monkeypatch.setattr("dualpca.linear.incremental.GRAM_FEATURES", 20 if request.param else 8192)
    return request.param


def data(spectrum, N=400, seed=0):
    rng = np.random.default_rng(seed)
    scale = {
        "decay": 0.8 ** np.arange(D),
        "slow": 1 / np.sqrt(1 + np.arange(D)),
        "flat": np.ones(D),
        "exact": (np.arange(D) < S) * (1.0 + np.arange(D)[::-1]),  # rank S
    }[spectrum]
    V = np.linalg.qr(rng.standard_normal((D, D)))[0]
    drift = np.linspace(0, 1, N)[:, None] * scale * rng.standard_normal(D)  # batches differ
    return (rng.standard_normal((N, D)) * scale + drift) @ V.T


def truth(model, X, center):
    """The relative residual and the relative shortfall of the components, from all of the rows."""
    wide = np.asarray(X, dtype=np.longdouble)
    Xc = wide - wide.mean(axis=0) if center else wide
    V = np.asarray(model.components_, dtype=np.longdouble).T
    Z = Xc.T @ (Xc @ V)
    given = np.asarray(model.singular_values_, dtype=np.longdouble) ** 2
    theta = [np.sum(V * Z, axis=0), given]  # the Rayleigh quotients, and what the model says
    residual = max(float(np.sqrt(np.sum((Z - V * t) ** 2) / np.sum(Z**2))) for t in theta)
    best = np.sum(np.linalg.svd(Xc.astype(float), compute_uv=False)[: V.shape[1]] ** 2)
    return residual, float(1 - np.sum((Xc @ V) ** 2) / best)


def fitted(X, cuts, first_fit, tol=1e-4, center=True):
    model = PCA(S, tol=tol, center=center, random_state=0)
    first, *batches = np.split(X, cuts)
    model = model.fit(first) if first_fit else model.partial_fit(first)
    for batch in batches:
        model.partial_fit(batch)
    return model


CUTS = [[100], [300], [10, 11, 40, 350]]


@pytest.mark.slow
@pytest.mark.parametrize("spectrum", ["decay", "slow", "flat", "exact"])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e4, 1e9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("first_fit", [False, True], ids=["batches", "after fit"])
@pytest.mark.parametrize("center", [True, False])
def test_certificates_hold_of_all_rows(sketched, spectrum, offset, dtype, first_fit, center):
    if dtype == np.float32:
        offset = min(offset, 1e4)  # more leaves none of its digits
    eps = np.finfo(dtype).eps
    shift = offset * np.random.default_rng(1).standard_normal(D)
    for seed, cuts in enumerate(CUTS):
        X = (data(spectrum, seed=seed) + shift).astype(dtype)
        model = fitted(X, cuts, first_fit, center=center)
        residual, shortfall = truth(model, X, center)
        assert residual <= model.residual_ + eps
        assert shortfall <= model.variance_shortfall_ + 4 * eps
        assert model.residual_ <= 1


@pytest.mark.parametrize("spectrum", ["decay", "slow", "flat", "exact"])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e4, 1e9])
def test_what_is_exact_is_told_to_be(sketched, spectrum, offset):
    """Sums lose nothing, and few rows nothing of data of low rank: also far from 0."""
    if sketched and spectrum != "exact":
        spectrum = "decay"
    for seed, cuts in enumerate(CUTS):
        X = data(spectrum, seed=seed) + offset * np.random.default_rng(1).standard_normal(D)
        model = fitted(X, cuts, first_fit=False)
        assert model.residual_ <= (1e-4 if sketched and spectrum == "decay" else 1e-11)
        assert model.variance_shortfall_ <= (1e-3 if sketched and spectrum == "decay" else 1e-11)
        single = (
            fitted(X.astype(np.float32), cuts, first_fit=False).residual_ if offset < 1e5 else 0
        )
        assert single <= (1e-4 if sketched else 1e-6)


def test_a_fit_that_saw_everything_loses_nothing(sketched):
    X = data("exact") + 5
    model = fitted(X, [100], first_fit=True)
    assert model.residual_ <= 1e-11
    np.testing.assert_allclose(
        model.explained_variance_, PCA(S, solver="lapack").fit(X).explained_variance_, rtol=1e-10
    )


def test_rows_like_those_of_the_fit_add_little_doubt():
    """What the fit left out is orthogonal to its components, so that it shows as far as they turn."""
    X = data("decay", N=4000)[np.random.default_rng(0).permutation(4000)]
    few = fitted(X, [3990], first_fit=True)
    many = fitted(X, [100], first_fit=True)
    assert few.residual_ < 1e-2
    assert few.residual_ < many.residual_ / 5


@pytest.mark.parametrize("first_fit", [False, True])
def test_sparse_batches(first_fit):
    X = data("decay") * (np.random.default_rng(2).random((400, D)) < 0.3)
    model = PCA(S)
    parts = [sp.csr_array(part) for part in np.split(X, [150, 160])]
    model = model.fit(parts[0]) if first_fit else model.partial_fit(parts[0])
    for part in parts[1:]:
        model.partial_fit(part)
    residual, shortfall = truth(model, X, True)
    assert residual <= model.residual_
    assert shortfall <= model.variance_shortfall_ + 1e-15


def test_dense_then_sparse_far_from_zero():
    """Origins are subtracted from dense rows only."""
    X = data("decay") + 1e6
    model = PCA(S).partial_fit(X[:200]).partial_fit(sp.csr_array(X[200:]))
    residual, shortfall = truth(model, X, True)
    assert residual <= model.residual_ <= 1e-6
    assert shortfall <= model.variance_shortfall_ <= 1e-6
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), rtol=1e-14)


def test_sums_that_do_not_tell_what_was_lost_count_all_of_it(monkeypatch):
    """A file of an earlier release holds fewer numbers."""
    monkeypatch.setattr("dualpca.linear.incremental.GRAM_FEATURES", 20)
    X = data("slow")
    model = fitted(X[:300], [150], first_fit=False)
    known = vars(model._state)
    old = ("rows", "mean", "energy", "S", "R", "discarded")
    model._state = type(model._state)(**{name: known[name] for name in old})
    model.partial_fit(X[300:])
    residual, shortfall = truth(model, X, True)
    assert residual <= model.residual_
    assert shortfall <= model.variance_shortfall_


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9])
def test_constant_rows(value):
    model = PCA(1).partial_fit(np.full((7, 3), value)).partial_fit(np.full((6, 3), value))
    assert model.explained_variance_[0] == 0
    assert model.residual_ == 0
    assert model.variance_shortfall_ == 0


SPLITS = {"one": [], "some": [1, 2, 7, 200], "rows": list(range(1, 400))}


def weights_left(forget, cuts, N=400):
    """What forgetting leaves of each row, by its definition."""
    if forget is None:
        return np.ones(N)
    if forget > 1:
        return 0.5 ** (np.arange(N)[::-1] / forget)
    batch = np.searchsorted(cuts, np.arange(N), side="right")
    return forget ** (batch[-1] - batch)


def streamed(X, cuts, counts=None, **options):
    model = PCA(S, **options)
    parts = [None] * (len(cuts) + 1) if counts is None else np.split(counts, cuts)
    for batch, count in zip(np.split(X, cuts), parts, strict=True):
        model.partial_fit(batch, sample_weight=count)
    return model


def assert_same(model, oracle, rtol):
    for name in ("explained_variance_", "singular_values_", "noise_variance_", "mean_"):
        given, expected = getattr(model, name), getattr(oracle, name)
        np.testing.assert_allclose(given, expected, rtol=rtol, atol=rtol, err_msg=name)
    np.testing.assert_allclose(model.components_, oracle.components_, atol=rtol)


@pytest.mark.parametrize("forget", [None, 3.5, 40, 1000, 0.6, 0.999])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("center", [True, False])
def test_batches_are_the_weighted_pca_of_all_rows(forget, split, counted, center):
    X, cuts = data("decay", seed=3)[:, :30] + 2, SPLITS[split]
    rng = np.random.default_rng(4)
    counts = 0.5 + 3 * rng.random(400) if counted else None
    if counted and forget not in (3.5, 0.6):  # these would leave less than a row
        counts[rng.random(400) < 0.2] = 0
    weights = weights_left(forget, cuts) * (1 if counts is None else counts)
    oracle = PCA(S, center=center, solver="lapack").fit(X, sample_weight=weights)
    model = streamed(X, cuts, counts, forget=forget, center=center)
    assert_same(model, oracle, 1e-8)
    assert model.n_samples_ == 400


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_certificates_hold_of_what_is_remembered(sketched, offset, dtype):
    offset = min(offset, 1e3) if dtype == np.float32 else offset
    for forget, spectrum in ((60, "slow"), (0.5, "decay"), (500, "flat")):
        for cuts in CUTS:
            X = (data(spectrum) + offset).astype(dtype)
            model = streamed(X, cuts, forget=forget)
            root = np.sqrt(weights_left(forget, cuts))[:, None]
            wide = np.asarray(X, dtype=np.longdouble)
            Xw = root * (wide - (root**2 * wide).sum(axis=0) / (root**2).sum())
            residual, shortfall = truth(model, Xw, center=False)
            eps = np.finfo(dtype).eps
            assert residual <= model.residual_ + eps
            assert shortfall <= model.variance_shortfall_ + 4 * eps
            if not sketched:
                assert model.variance_shortfall_ < 1e-5


def test_float32_rows_have_float64_sums():
    X = data("decay", N=400)[:, :20].astype(np.float32) + 100
    model = streamed(X, SPLITS["rows"], forget=100)
    oracle = PCA(S, solver="lapack").fit(
        X.astype(float), sample_weight=weights_left(100, SPLITS["rows"])
    )
    assert model.components_.dtype == np.float32
    assert model._state.S.dtype == np.float64
    assert_same(model, oracle, 2e-5)


@pytest.mark.parametrize("bad", [1, 1.0, 0, -3, True, np.inf, np.nan, "10"])
def test_forget_is_a_half_life_or_a_factor(bad):
    words = "forget=.* is neither" if bad == 1 else "'forget' parameter of PCA must be None or"
    with pytest.raises(ValueError, match=words):
        PCA(2, forget=bad).partial_fit(np.eye(5))


def test_nothing_is_left_after_many_half_lives():
    X = data("decay")[:, :6]
    model = PCA(2, forget=2).partial_fit(X[:50] + 1e6).partial_fit(np.tile(X, (10, 1)))
    weights = weights_left(2, [], 4000)
    oracle = PCA(2, solver="lapack").fit(np.tile(X, (10, 1)), sample_weight=weights)
    np.testing.assert_allclose(model.components_, oracle.components_, atol=1e-8)
    assert model.n_samples_ == 4050
    assert 0 <= model.drift_.significance <= 1


def test_too_few_rows_wait():
    X = data("decay")[:, :10]
    model = PCA(4).partial_fit(X[:1]).partial_fit(X[1:3])
    with pytest.raises(NotFittedError, match="too few rows for components; give it more rows bef"):
        model.transform(X)
    with pytest.raises(AttributeError, match="drift_ is known after"):
        _ = model.drift_
    with pytest.raises(ValueError, match="n_components=11 must be between 1 and"):
        PCA(11).partial_fit(X[:1])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:1, :5])
    model.partial_fit(X[3:4])
    np.testing.assert_allclose(
        model.explained_variance_, PCA(4).fit(X[:4]).explained_variance_, atol=1e-12
    )


def test_weights_may_be_small_in_a_batch_and_not_in_all():
    X = data("decay")[:, :10]
    model = PCA(2).partial_fit(X[:4], sample_weight=np.full(4, 0.2))
    assert not hasattr(model, "components_")
    model.partial_fit(X[4:8], sample_weight=np.full(4, 0.2))
    oracle = PCA(2, solver="lapack").fit(X[:8], sample_weight=np.full(8, 0.2))
    np.testing.assert_allclose(model.explained_variance_, oracle.explained_variance_, rtol=1e-10)
    before = model.components_.copy()
    forgetful = PCA(2, forget=3).partial_fit(X[:20])
    with pytest.raises(ValueError, match=r"the rows that forget=3 and sample_weight leave weigh"):
        forgetful.partial_fit(X[:30], sample_weight=np.zeros(30))
    with pytest.raises(ValueError, match="must be finite and not negative"):
        model.partial_fit(X[:2], sample_weight=[-1, 1])
    np.testing.assert_array_equal(model.components_, before)
    assert forgetful.n_samples_ == 20


def test_rows_with_holes_are_completed_by_the_model_before_them():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3)) * [5, 4, 3] @ np.linalg.qr(rng.standard_normal((12, 3)))[0].T
    X += 0.3 * rng.standard_normal(X.shape) + 2
    holes = X.copy()
    holes[rng.random(X.shape) < 0.15] = np.nan
    for missing in ("em", "shrink"):
        model = PCA(3, missing=missing)
        for batch in np.split(holes, [1, 2, 40, 41, 300]):
            twin = copy.deepcopy(model)
            model.partial_fit(batch)
            if hasattr(twin, "components_"):  # the same as a batch that was completed beforehand
                twin.partial_fit(twin.impute(batch))
                np.testing.assert_allclose(twin.components_, model.components_, atol=1e-12)
        oracle = PCA(3, missing=missing, tol=1e-8).fit(holes)
        cosines = np.linalg.svd(model.components_ @ oracle.components_.T, compute_uv=False)
        assert cosines.min() > 0.9995
        assert abs(model.noise_variance_ / oracle.noise_variance_ - 1) < 0.1
    whole = PCA(3, missing="shrink")
    for batch in np.split(X, [1, 40]):
        whole.partial_fit(batch)
    np.testing.assert_allclose(
        whole.components_, PCA(3, solver="lapack").fit(X).components_, atol=1e-8
    )


def test_the_first_rows_with_holes_are_refused_in_time():
    X = np.full((200, 4), np.nan)
    X[:, 0] = np.arange(200)
    with pytest.raises(ValueError, match="3 columns of X have no value"):
        PCA(1, missing="em").partial_fit(X)
    with pytest.raises(ValueError, match="gathers the first rows of a stream"):
        PCA(1, missing="em").partial_fit(sp.csr_array(np.eye(4)))


def test_angles_are_those_of_scipy():
    X = data("slow")[:, :15]
    model = PCA(S).partial_fit(X[:150]).checkpoint()
    before = model.components_.T
    model.partial_fit(X[150:])
    expected = np.rad2deg(subspace_angles(before, model.components_.T))
    np.testing.assert_allclose(model.drift_.angles, expected, atol=1e-9)
    assert model.drift_.rows == 250
    assert model.checkpoint().drift_.angles.max() < 1e-6
    assert model.drift_.significance == 1


def significances(forget, turn, runs=150, d=12):
    """P-values of streams whose axes turn by so many degrees after the checkpoint."""
    rng, angle = np.random.default_rng(7), np.deg2rad(turn)
    scale, turned = np.array([4.0, 3.0] + [1.0] * (d - 2)), np.eye(d)
    turned[:2, :4] = np.c_[np.cos(angle) * np.eye(2), np.sin(angle) * np.eye(2)]
    turned[2:4, :4] = np.c_[-np.sin(angle) * np.eye(2), np.cos(angle) * np.eye(2)]
    found = []
    for _ in range(runs):
        first, then = (rng.standard_normal((200, d)) * scale for _ in range(2))
        model = PCA(2, forget=forget).partial_fit(first).checkpoint()
        for batch in np.split(then @ turned, 2):
            model.partial_fit(batch)
        found.append(model.drift_.significance)
    return np.array(found)


@pytest.mark.parametrize("forget", [None, 80, 0.5])
def test_significance_is_one_under_no_drift(forget):
    """A p-value: at most a share a of the streams has one below a, within three standard errors."""
    found = significances(forget, 0)
    for a in (0.02, 0.05, 0.1, 0.3):
        assert (found <= a).mean() <= a + 3 * np.sqrt(a * (1 - a) / len(found))
    assert (found <= 0.5).mean() >= 0.25  # nor is it always 1
    assert (significances(forget, 15, runs=30) < 0.01).mean() > 0.9


def test_many_features_need_few_eigenvalues(monkeypatch):
    """The spectrum beside the axes by two moments: exact where it is flat."""
    X = np.random.default_rng(0).standard_normal((3000, 20)) * ([6.0, 5.0] + [1.0] * 18)
    model = PCA(2).partial_fit(X[:1500]).partial_fit(X[1500:])
    exact = model.drift_.significance
    monkeypatch.setattr("dualpca.linear.incremental.WHOLE", 10)
    assert abs(model.drift_.significance - exact) < 0.02


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    X = data("decay")[:, :10]
    counts = np.linspace(0.5, 2, 400)
    model, oracle = PCA(2, forget=50), PCA(2, forget=50)
    for part in np.split(np.arange(400), [1, 2, 30]):
        weight = torch.asarray(counts[part])
        model.partial_fit(torch.asarray(X[part]), sample_weight=weight)
        oracle.partial_fit(X[part], sample_weight=counts[part])
    assert isinstance(model.components_, torch.Tensor)
    assert isinstance(model._state.S, torch.Tensor)
    np.testing.assert_allclose(np.asarray(model.components_), oracle.components_, atol=1e-10)
    np.testing.assert_allclose(model.drift_.angles, oracle.drift_.angles, atol=1e-6)
    with pytest.raises(ValueError, match="same namespace"):
        model.partial_fit(X[:3])
