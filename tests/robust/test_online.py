"""RobustPCA.partial_fit: streams with bad rows, that turn, and that jump."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from dualpca import PCA, RobustPCA, load
from dualpca.operators import Blocks
from dualpca.progress import Listener, listening
from dualpca.robust.followed import LEVERAGE, shrinkage
from dualpca.robust.online import BLOCK

pytestmark = pytest.mark.filterwarnings("ignore:two starts found", "ignore:.* of the rows are fl")

D, S = 15, 3
SCALE = np.array([5.0, 4.0, 3.0])


def sine(components, V):
    return np.linalg.norm(V - components.T @ (components @ V), 2)


def good_rows(rng, N, V, noise=0.5):
    return rng.standard_normal((N, S)) * SCALE @ V.T + noise * rng.standard_normal((N, D)) + 1


def spoil(rng, X, share, kind="spread"):
    bad = rng.random(len(X)) < share
    far = 8 * rng.standard_normal((int(bad.sum()), D))
    X[bad] = X[bad] + far if kind == "spread" else 12 + 0.1 * far
    return bad


def basis(rng, k=S):
    return np.linalg.qr(rng.standard_normal((D, k)))[0]


def followed(X, cuts, **options):
    model = RobustPCA(S, **{"random_state": 0, **options})
    for batch in np.split(X, cuts):
        model.partial_fit(batch)
    return model


@pytest.mark.parametrize("kind", ["spread", "cluster"])
@pytest.mark.parametrize("options", [{}, {"refit": False}, {"center": [1.0] * D}])
def test_a_stationary_stream_is_fitted_as_well_as_at_once(kind, options):
    """The issue's bound, 10 %, of the mean over seeds."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        V = basis(rng)
        X = good_rows(rng, 2000, V)
        spoil(rng, X, 0.2, kind)
        model = followed(X, range(200, 2000, 300), **options)
        batch = RobustPCA(S, random_state=0, **options).fit(X)
        errors.append([sine(m.components_, V) for m in (model, batch)])
        assert model.drift_.regime == 0
        np.testing.assert_allclose(model.explained_variance_, batch.explained_variance_, rtol=0.15)
        assert abs(model.noise_variance_ / batch.noise_variance_ - 1) < 0.05
        assert abs(model.limits_[1] / batch.limits_[1] - 1) < 0.15
    online, at_once = np.mean(errors, axis=0)
    assert online <= 1.1 * at_once


def test_flags_are_those_of_the_model_before_the_row():
    rng = np.random.default_rng(0)
    X = good_rows(rng, 1000, basis(rng))
    bad = spoil(rng, X, 0.2)
    model = followed(X[:500], [200])
    twin = copy.deepcopy(model)
    part = X[500:530]  # fewer rows than the model stays for
    flags, distances = twin.predict(part) < 0, twin.distances(part)
    model.partial_fit(part)
    np.testing.assert_array_equal(model.outliers_, flags)
    np.testing.assert_allclose(model.score_distances_, distances[0], rtol=1e-10)
    np.testing.assert_allclose(model.orthogonal_distances_, distances[1], rtol=1e-8)
    assert (model.outliers_ == bad[500:530]).mean() > 0.9
    assert model.weights_[model.outliers_].max() < 1
    assert model.row_kinds_.shape == (30,)


def test_a_batch_at_once_is_measured_by_the_model_before_it():
    rng = np.random.default_rng(0)
    X = good_rows(rng, 1000, basis(rng))
    spoil(rng, X, 0.2)
    model = followed(X[:520], [200])
    assert model.until_renewal_ == BLOCK - (520 - 200) % BLOCK
    twin, renewed = copy.deepcopy(model), copy.deepcopy(model)
    distances = twin.distances(X[520:])
    model.partial_fit(X[520:], at_once=True)
    np.testing.assert_allclose(model.orthogonal_distances_, distances[1], rtol=1e-8)
    assert model.until_renewal_ == BLOCK
    # Blocks of an operator are one batch too.
    blocks = copy.deepcopy(twin).partial_fit(Blocks([X[520:700], X[700:]]), at_once=True)
    np.testing.assert_allclose(blocks.components_, model.components_, atol=1e-12)
    assert not np.allclose(renewed.partial_fit(X[520:]).orthogonal_distances_, distances[1])
    assert sine(model.components_, renewed.components_.T) < 0.02
    # Up to the next renewal it is the same, and no longer.
    part = X[520 : 520 + twin.until_renewal_]
    once, usual = (copy.deepcopy(twin).partial_fit(part, at_once=at) for at in (True, False))
    np.testing.assert_array_equal(once.components_, usual.components_)


def test_what_is_remembered_of_a_fit():
    rng = np.random.default_rng(0)
    X = good_rows(rng, 500, basis(rng))
    bad = spoil(rng, X, 0.2)
    model = RobustPCA(S, random_state=0)
    assert not hasattr(model, "memory_")
    assert not hasattr(model, "until_renewal_")
    before = set(vars(model.fit(X)))
    assert model.memory_ == pytest.approx(500 * (1 - model.outliers_.mean()))
    assert abs(model.memory_ - (~bad).sum()) < 15
    assert model.until_renewal_ == BLOCK
    assert set(vars(model)) == before


@pytest.mark.parametrize("forget", [None, 300, 0.9])
def test_the_split_does_not_matter(forget):
    rng = np.random.default_rng(1)
    X = good_rows(rng, 700, basis(rng))
    spoil(rng, X, 0.2)
    first = [200]
    models = [
        followed(X, cuts, forget=forget)
        for cuts in (first, [200, 201, 350, 699], list(range(200, 700)))
    ]
    if forget == 0.9:  # a factor goes by batches
        assert models[0].drift_.rows == models[2].drift_.rows == 500
        return
    for other in models[1:]:
        np.testing.assert_allclose(models[0].components_, other.components_, atol=1e-12)
        np.testing.assert_allclose(models[0].offset_, other.offset_, rtol=1e-12)
        assert models[0].n_samples_ == other.n_samples_ == 700


def test_good_rows_alone_are_the_weighted_pca():
    """Where no row is rejected or far out, components are those of PCA with the weights left."""
    rng = np.random.default_rng(2)
    U, E = rng.uniform(-1, 1, (800, S)), rng.uniform(-1, 1, (800, D))  # no row is far out
    X = U * SCALE @ basis(rng).T + 0.3 * E
    model = followed(X, [200, 350], forget=400)
    weights = 0.5 ** (np.arange(800)[::-1] / 400)
    oracle = PCA(S, solver="lapack").fit(X, sample_weight=weights)
    np.testing.assert_allclose(
        np.abs(model.components_ @ oracle.components_.T), np.eye(S), atol=1e-7
    )
    np.testing.assert_allclose(model.mean_, oracle.mean_, atol=1e-9)


def test_a_turning_subspace_is_followed():
    """1 degree in 1,000 rows: at most twice the error of PCA of the good rows in the best window."""
    worst = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        Q, N = basis(rng, 2 * S), 6000
        angle = np.deg2rad(np.arange(N) / 1000)[:, None]
        scores = rng.standard_normal((N, S)) * SCALE
        X = (np.cos(angle) * scores) @ Q[:, :S].T + (np.sin(angle) * scores) @ Q[:, S:].T
        X += 0.5 * rng.standard_normal((N, D))
        bad = spoil(rng, X, 0.1)
        model, errors, oracle = RobustPCA(S, forget=700, random_state=0), [], {}
        for t in range(500, N + 1, 500):
            model.partial_fit(X[t - 500 : t])
            V = np.cos(angle[t - 1]) * Q[:, :S] + np.sin(angle[t - 1]) * Q[:, S:]
            if t >= 3000:
                errors.append(sine(model.components_, V))
                for L in (500, 1000, 1500, 2000, 3000):
                    good = X[t - L : t][~bad[t - L : t]]
                    oracle.setdefault(L, []).append(sine(PCA(S).fit(good).components_, V))
        assert model.drift_.regime == 0
        worst.append(np.mean(errors) / min(np.mean(e) for e in oracle.values()))
    assert np.mean(worst) <= 2


def test_a_wrong_first_fit_is_corrected():
    """The first rows are of another kind, and bad rows hide it."""
    rng = np.random.default_rng(0)
    Q = basis(rng, S + 1)
    X = good_rows(rng, 2500, Q[:, :S])
    wrong = RobustPCA(S, random_state=0).partial_fit(good_rows(rng, 100, basis(rng)) * 3)
    assert sine(wrong.components_, Q[:, :S]) > 0.5
    spoil(rng, X, 0.2)
    for batch in np.split(X, 25):
        wrong.partial_fit(batch)
    assert wrong.drift_.regime >= 1
    assert sine(wrong.components_, Q[:, :S]) < 0.05


class Heard(Listener):
    def __init__(self):
        self.drifts = []

    def regime(self, drift):
        self.drifts.append(drift)


@pytest.mark.parametrize("change", ["jump", "one axis", "centre", "inside"])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_jump_that_persists_is_a_new_regime(change, share):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        Q = basis(rng, 2 * S)
        V = W = Q[:, :S]
        if change == "jump":
            W = Q[:, S:]
        elif change == "one axis":
            W = np.c_[Q[:, 1:S], Q[:, S : S + 1]]
        X = np.concatenate([good_rows(rng, 900, V), good_rows(rng, 800, W)])
        X[900:] += {"centre": 6 * Q[:, -1], "inside": 40 * Q[:, 0]}.get(change, 0.0)
        spoil(rng, X, share)
        model, when, heard = RobustPCA(S, forget=1000, random_state=0), [], Heard()
        with listening(heard):
            for t in range(0, 1700, 100):
                model.partial_fit(X[t : t + 100])
                if model.drift_.changed:
                    when.append(t)
        assert len(when) == 1
        assert 900 <= when[0] <= 1200
        assert model.drift_.regime == 1
        assert [drift.regime for drift in heard.drifts] == [1]
        assert heard.drifts[0].changed
        assert sine(model.components_, W) < 0.15
        if W is not V:
            assert model.drift_.angles[0] > 60
            assert model.drift_.significance < 1e-6


@pytest.mark.parametrize("kind", ["spread", "cluster", "subspace"])
def test_a_burst_changes_nothing(kind):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        V = basis(rng)
        X = good_rows(rng, 1200, V)
        spoil(rng, X, 0.1)
        burst = slice(700 + 17 * seed, 760 + 17 * seed)
        if kind == "subspace":
            X[burst] = good_rows(rng, 60, basis(rng))
        else:
            spoil(rng, X[burst], 1.0, kind)
        model = followed(X, range(200, 1200, 100), forget=300)
        assert model.drift_.regime == 0
        assert sine(model.components_, V) < 0.1


def test_bad_rows_do_not_age_the_memory():
    rng = np.random.default_rng(0)
    X = good_rows(rng, 600, basis(rng))
    model = followed(X, [200], forget=50)
    mass = model.memory_
    model.partial_fit(X[:BLOCK] + 100 * rng.standard_normal((BLOCK, D)))
    assert model.memory_ == pytest.approx(mass)


def test_variances_are_consistent_for_normal_scores():
    """The mean of w x / s over that of w, w = min(1, c / x), x chi-squared."""
    for s in (1, 2, 3, 10):
        x = np.random.default_rng(s).chisquare(s, 10**6)
        w = np.minimum(1, np.quantile(x, LEVERAGE) / x)
        assert shrinkage(s) == pytest.approx((w * x).mean() / s / w.mean(), abs=5e-3)


def test_few_rows_wait_for_the_first_fit():
    rng = np.random.default_rng(0)
    X = good_rows(rng, 60, basis(rng))
    model = RobustPCA(S, random_state=0)
    for row in X[:49]:
        model.partial_fit(row[None, :])
    with pytest.raises(NotFittedError, match="too few rows"):
        model.predict(X)
    model.partial_fit(X[49:50])
    same = RobustPCA(S, random_state=0).fit(X[:50])
    np.testing.assert_array_equal(model.components_, same.components_)
    np.testing.assert_array_equal(model.outliers_, same.outliers_)


def test_a_stream_goes_on_after_a_fit():
    rng = np.random.default_rng(0)
    V = basis(rng)
    X = good_rows(rng, 3000, V)
    spoil(rng, X, 0.2)
    model = RobustPCA(S, random_state=0).fit(X[:1000])
    for batch in np.split(X[1000:], 10):
        model.partial_fit(batch)
    batch = RobustPCA(S, random_state=0).fit(X)
    assert sine(model.components_, V) <= 1.2 * sine(batch.components_, V)
    assert model.n_samples_ == 3000
    assert model.fit(X[:500]).n_samples_ == 500
    with pytest.raises(AttributeError, match="drift_ is known"):
        _ = model.drift_


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("at", [30, 230, 430])
def test_a_saved_stream_goes_on(at, dtype, tmp_path):
    """Also while rows are gathered, and in the middle of a block."""
    rng = np.random.default_rng(0)
    X = good_rows(rng, 700, basis(rng)).astype(dtype)
    spoil(rng, X, 0.2)
    model = RobustPCA(S, forget=200, rotation="varimax", random_state=0)
    for batch in np.split(X[:at], range(40, at, 40)):
        model.partial_fit(batch)
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    for one in (model, other):
        one.partial_fit(X[at:])
    new = good_rows(rng, 20, basis(rng)).astype(dtype)
    for name in ("transform", "predict", "score_samples", "contributions", "expected"):
        np.testing.assert_array_equal(getattr(model, name)(new), getattr(other, name)(new))
    assert other.drift_.significance == model.drift_.significance
    assert model.components_.dtype == dtype
    assert model.n_samples_ == other.n_samples_ == 700


def test_rows_with_holes():
    rng = np.random.default_rng(0)
    V = basis(rng)
    X = good_rows(rng, 1000, V)
    spoil(rng, X, 0.1)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = followed(X, [150, 151, 600], missing="shrink")
    assert sine(model.components_, V) < 0.08
    assert np.isfinite(model.transform(X)).all()


def test_many_features_are_sketched(monkeypatch):
    monkeypatch.setattr("dualpca.linear.incremental.GRAM_FEATURES", 10)
    monkeypatch.setattr("dualpca.robust.online.GRAM_FEATURES", 10)
    rng = np.random.default_rng(0)
    V = basis(rng)
    X = good_rows(rng, 1500, V)
    spoil(rng, X, 0.2)
    for model in (followed(X, [200]), RobustPCA(S, random_state=0).fit(X[:500])):
        model.partial_fit(X[500:])
        assert model._stream.sums.R is not None
        assert sine(model.components_, V) < 0.06


def test_weights_count_rows():
    rng = np.random.default_rng(0)
    X = good_rows(rng, 500, basis(rng))
    model = RobustPCA(S, random_state=0).partial_fit(X[:200])
    twin = copy.deepcopy(model)
    model.partial_fit(X[200:400], sample_weight=np.repeat([1.0, 0.0], 100))
    twin.partial_fit(X[200:300])
    np.testing.assert_allclose(model._stream.sums.S, twin._stream.sums.S, rtol=1e-9)


def test_tensors_come_back_as_tensors():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = good_rows(rng, 400, basis(rng))
    spoil(rng, X, 0.2)
    tensors, arrays = (RobustPCA(S, random_state=0) for _ in range(2))
    for part in np.split(X, [150, 220]):
        tensors.partial_fit(torch.asarray(part))
        arrays.partial_fit(part)
    for name in ("components_", "mean_", "outliers_", "weights_", "score_distances_"):
        value = getattr(tensors, name)
        assert isinstance(value, torch.Tensor)
        np.testing.assert_allclose(np.asarray(value), getattr(arrays, name), atol=1e-8)


def test_what_is_refused():
    X = np.random.default_rng(0).standard_normal((60, 5))
    with pytest.raises(ValueError, match="cells=True needs all rows at once"):
        RobustPCA(2, cells=True).partial_fit(X)
    with pytest.raises(ValueError, match="keeps rows as they are"):
        RobustPCA(2).partial_fit(sp.csr_array(X))
    with pytest.raises(ValueError, match="forget=1 is neither a factor"):
        RobustPCA(2, forget=1).partial_fit(X)
    model = RobustPCA(2, random_state=0).partial_fit(X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :3])
