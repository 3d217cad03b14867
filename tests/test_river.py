"""The adapters for river, by river's own checks, in its pipelines, and beside ``partial_fit``."""

import random

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dualpca

river = pytest.importorskip("river")
from river import anomaly, checks, linear_model, preprocessing  # noqa: E402

from dualpca.river import PCA, RobustPCA  # noqa: E402

CLASSES = [PCA, RobustPCA]


def dicts(X):
    return [{f"s{j}": float(value) for j, value in enumerate(row)} for row in X]


def rows(n, seed=0, bad=0.0):
    """Rows near a plane, and which of them are bad."""
    plane = np.random.default_rng(5).standard_normal((2, 6))
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ plane + 0.1 * rng.standard_normal((n, 6))
    is_bad = rng.random(n) < bad
    X[is_bad] += 4 * rng.standard_normal((int(is_bad.sum()), 6))
    return X, is_bad


def labelled(model, scale=1):
    """River's own data for detectors is not in its package."""
    X, is_bad = rows(200 * scale, bad=0.05)
    yield list(zip(dicts(X), map(int, is_bad), strict=True))


@pytest.mark.filterwarnings("ignore")  # checks take cells away, and fits say that they are poor
@pytest.mark.parametrize("kind", CLASSES)
def test_checks_of_river(kind, monkeypatch):
    random.seed(0)  # by which the checks choose keys
    monkeypatch.setattr(checks, "_yield_datasets", labelled)
    done = set()
    for check in checks.yield_checks(kind()):
        check(kind())
        done.add(check.__name__)
    assert {"check_emerging_features", "check_roc_auc", "check_bounded_memory_growth"} <= done


@pytest.mark.parametrize("kind", CLASSES)
def test_the_model_is_that_of_partial_fit(kind):
    X, _ = rows(330, bad=0.1)
    model = kind(n_components=2, forget=100)
    for x in dicts(X):
        model.learn_one(x)
    batch = getattr(dualpca, kind.__name__)(2, forget=100, missing="em", random_state=0)
    batch.partial_fit(X[:50])
    learned = 330 if kind is PCA else 300  # a robust model is renewed every 50 rows
    for row in X[50:learned]:
        batch.partial_fit(row[None, :])
    assert_allclose(model.model.components_, batch.components_, atol=1e-9)
    for x, scores in zip(dicts(X[:20]), batch.transform(X[:20]), strict=True):
        assert_allclose(list(model.transform_one(x).values()), scores, atol=1e-9)
        assert list(model.transform_one(x)) == ["pc1", "pc2"]
    if kind is RobustPCA:
        flagged = [model.score_one(x) > 1 for x in dicts(X)]
        assert flagged == (batch.predict(X) < 0).tolist()


@pytest.mark.parametrize("kind", CLASSES)
def test_in_pipelines(kind):
    X, is_bad = rows(600, bad=0.02)
    detector = preprocessing.StandardScaler() | kind(n_components=2)
    scores = []
    for x in dicts(X * [1, 10, 0.1, 1, 1, 1] + 5):
        scores.append(detector.score_one(x))
        detector.learn_one(x)
    late = np.arange(600) >= 200
    assert np.array(scores)[late & is_bad].min() > np.median(np.array(scores)[late])
    assert np.mean(np.array(scores)[late & ~is_bad] > 1) < 0.1
    regression = kind(n_components=2) | linear_model.LinearRegression()
    for x, row in zip(dicts(X), X, strict=True):
        regression.learn_one(x, float(row[0]))
    assert regression[kind.__name__].model is not None
    assert np.isfinite(regression.predict_one(dicts(X)[0]))
    filtered = anomaly.ThresholdFilter(kind(n_components=2), threshold=1)
    for x in dicts(X):
        filtered.learn_one(x)
    assert not filtered.classify(filtered.score_one(dicts(X[~is_bad])[0]))


@pytest.mark.parametrize("kind", CLASSES)
def test_keys_come_and_go(kind):
    X, _ = rows(300)
    model, whole = kind(n_components=2), kind(n_components=2)
    rng = np.random.default_rng(0)
    for x in dicts(X):
        whole.learn_one(x)
        gone = f"s{rng.integers(6)}"
        model.learn_one({**x, gone: None, "new" if model.model else gone: 1.0})
    assert model.features == whole.features == [f"s{j}" for j in range(6)]
    angles = angles_between(model.model.components_, whole.model.components_)
    assert angles.max() < 5
    x = dicts(X)[7]
    near = [
        abs(model.transform_one(y)["pc1"] - whole.transform_one(x)["pc1"]) for y in without_one(x)
    ]
    assert max(near) < 0.5  # a missing cell is what the others make of it
    assert model.transform_one({**x, "unheard": 9.0}) == model.transform_one(x)
    assert model.transform_one({}) == {"pc1": 0.0, "pc2": 0.0}
    assert model.score_one({"unheard": 9.0}) == 0.0
    seen = model.model.n_samples_
    for _ in range(100):
        model.learn_one({})
        model.learn_one({"unheard": 9.0})
    assert model.model.n_samples_ == seen


def without_one(x):
    return [{key: value for key, value in x.items() if key != gone} for gone in x]


def angles_between(V, W):
    return np.rad2deg(np.arccos(np.clip(np.linalg.svd(V @ W.T, compute_uv=False), 0, 1)))


@pytest.mark.parametrize("kind", CLASSES)
def test_before_the_first_model(kind):
    model = kind(n_components=3)
    assert model.model is None
    assert model.transform_one({"a": 1}) == {"pc1": 0.0, "pc2": 0.0, "pc3": 0.0}
    assert model.score_one({"a": 1}) == 0.0


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(("value", "words"), [("high", "SelectType"), (np.inf, "infinite")])
def test_what_is_no_number_is_refused(kind, value, words):
    for method in ("learn_one", "transform_one", "score_one"):
        with pytest.raises(ValueError, match=words):
            getattr(kind(), method)({"a": value})
