"""Rotations: R's values and algorithms, stationary points, and models that stay the same models."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.utils._param_validation import InvalidParameterError
from tests.loops import over

from dualpca import PCA, RobustPCA, SparsePCA, load
from dualpca.linear.rotation import ROTATIONS, rotated, rotation

# tests/data/reference.R: varimax(L), varimax(L, normalize = FALSE) and promax(L) of R 4.2.2.
REFERENCE = json.loads((Path(__file__).parents[1] / "data/reference.json").read_text())


def r_varimax(x, normalize=True, eps=1e-5):
    """``stats::varimax``, line by line."""
    nc = x.shape[1]
    if normalize:
        sc = np.sqrt(np.apply_along_axis(lambda row: np.sum(row**2), 1, x))
        x = x / sc[:, None]
    p = x.shape[0]
    TT = np.diag(np.ones(nc))
    d = 0
    for _ in range(1000):
        z = x @ TT
        B = x.T @ (z**3 - z @ np.diag(np.ones(p) @ z**2) / p)
        u, s, vt = np.linalg.svd(B)
        TT = u @ vt
        dpast = d
        d = np.sum(s)
        if d < dpast * (1 + eps):
            break
    z = x @ TT
    return (z * sc[:, None] if normalize else z), TT


def r_promax(x, m=4):
    """``stats::promax``, line by line."""
    x, rotmat = r_varimax(x)
    Q = x * np.abs(x) ** (m - 1)
    U = np.linalg.solve(x.T @ x, x.T @ Q)
    d = np.diag(np.linalg.inv(U.T @ U))
    U = U @ np.diag(np.sqrt(d))
    return x @ U, rotmat @ U


def random_loadings(seed, d=12, s=4):
    rng = np.random.default_rng(seed)
    simple = np.kron(np.eye(s), np.ones((d // s, 1))) * rng.uniform(0.4, 1.0, (d, s))
    return (simple + 0.15 * rng.standard_normal((d, s))) @ np.linalg.qr(
        rng.standard_normal((s, s))
    )[0]


def wine():
    X = load_wine().data
    return (X - X.mean(axis=0)) / X.std(axis=0)


@over("seed", range(20))
def test_equal_to_r(seed):
    A = random_loadings(seed, 6 + 6 * (seed % 3), 2 + seed % 2)
    for method, oracle in (("varimax", r_varimax), ("promax", r_promax)):
        loadings, T = oracle(A)
        assert_allclose(rotation(A, method), T, atol=1e-9)
        assert_allclose(A @ rotation(A, method), loadings, atol=1e-9)


@over("name", REFERENCE["rotations"])
def test_values_of_r(name):
    known = {key: np.array(value) for key, value in REFERENCE["rotations"][name].items()}
    A = known["loadings"]
    for method in ("varimax", "promax"):
        assert_allclose(rotation(A, method), known[f"{method}_rotmat"], atol=1e-6)
        assert_allclose(A @ rotation(A, method), known[method], atol=1e-6)
    assert_allclose(r_varimax(A, normalize=False)[1], known["raw_varimax_rotmat"], atol=1e-6)


def test_factanal_of_r():
    """``factanal(factors = 2, covmat = ability.cov)``, by varimax and by promax."""
    A = np.array(REFERENCE["rotations"]["ability"]["loadings"])
    for method, name in (("varimax", "factanal"), ("promax", "factanal_promax")):
        assert_allclose(A @ rotation(A, method), REFERENCE[name], atol=1e-6)


def test_a_model_has_the_loadings_of_r():
    """``varimax`` and ``promax`` of the principal loadings of ``cor(mtcars)``, up to order and signs."""
    X, known = np.array(REFERENCE["cars"]["data"]), REFERENCE["rotations"]["cars"]
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    for method in ("varimax", "promax"):
        model, expected = PCA(3, rotation=method, tol=1e-9).fit(X), np.array(known[method])
        found = model.components_.T * np.sqrt(model.explained_variance_)
        order = np.argsort(-np.linalg.norm(expected, axis=0))
        assert_allclose(np.abs(found), np.abs(expected[:, order]), atol=1e-6)


@over("seed", range(5))
@over(("method", "weight"), [("varimax", 1.0), ("quartimax", 0.0)])
def test_orthogonal_rotations_are_maxima(seed, method, weight):
    """No turn in a plane, by any angle, is better."""
    A = random_loadings(seed)
    rows = A / np.linalg.norm(A, axis=1, keepdims=True) if weight else A

    def criterion(z):
        return (z**4).sum() - weight / len(z) * ((z**2).sum(axis=0) ** 2).sum()

    T = rotation(A, method, tol=1e-13)
    assert_allclose(T.T @ T, np.eye(4), atol=1e-12)
    best = criterion(rows @ T)
    for angle in np.linspace(-np.pi / 4, np.pi / 4, 41):
        c, s = np.cos(angle), np.sin(angle)
        for i, j in combinations(range(4), 2):
            turn = np.eye(4)
            turn[np.ix_([i, j], [i, j])] = [[c, -s], [s, c]]
            assert criterion(rows @ T @ turn) <= best * (1 + 1e-9)


def test_directions_without_variance_stay():
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 3)))[0]
    M, T, length = rotated(V, np.array([2.0, 1.0, 0.0]), "varimax")
    assert_allclose((V @ M)[:, 2], V[:, 2] * np.sign(V[np.abs(V[:, 2]).argmax(), 2]))
    assert_allclose(length**2 @ [1, 1, 1], 3.0)
    assert_array_equal(T[2, :2], 0.0)
    assert_array_equal(rotation(V[:, :1], "promax"), [[1.0]])


@pytest.mark.parametrize("method", ROTATIONS)
@pytest.mark.parametrize("whiten", [False, True])
def test_a_rotated_pca_is_the_same_model(method, whiten):
    X = wine()
    plain = PCA(4, whiten=whiten).fit(X)
    model = PCA(4, whiten=whiten, rotation=method).fit(X)
    scores, T = model.transform(X), model.rotation_
    A = plain.components_.T * np.sqrt(plain.explained_variance_)
    deviations = np.sqrt(model.explained_variance_)
    assert_allclose(model.components_.T * deviations, A @ T, atol=1e-12)
    assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)
    assert (np.diff(model.explained_variance_) <= 0).all()
    assert_allclose(np.corrcoef(scores.T), np.linalg.inv(T.T @ T), atol=1e-8)
    expected = np.ones(4) if whiten else model.explained_variance_
    assert_allclose(scores.var(axis=0, ddof=1), expected, rtol=1e-6)
    norms = np.linalg.norm(scores * (deviations if whiten else 1.0), axis=0)
    assert_allclose(model.singular_values_, norms, rtol=1e-6)
    kept = plain.inverse_transform(plain.transform(X))
    assert_allclose(model.inverse_transform(scores), kept, atol=1e-10)
    assert_allclose(model.fit_transform(X), scores, atol=1e-10)
    assert_allclose(model.score_samples(X), plain.score_samples(X), rtol=1e-12)
    assert_allclose(model.get_covariance(), plain.get_covariance(), rtol=1e-12)
    ratio = plain.explained_variance_ratio_.sum()
    assert_allclose(model.cumulative_variance_ratio_[-1], ratio)
    if method != "promax":
        assert_allclose(model.explained_variance_ratio_.sum(), ratio)
        assert_allclose(
            model.cumulative_variance_ratio_, np.cumsum(model.explained_variance_ratio_)
        )


def test_what_the_first_scores_explain():
    """``cumulative_variance_ratio_`` is the share of X that regression on the first scores explains."""
    X = wine()
    model = PCA(3, rotation="promax").fit(X)
    scores, total = model.transform(X), (X**2).sum()
    for k in (1, 2, 3):
        fit = scores[:, :k] @ np.linalg.lstsq(scores[:, :k], X, rcond=None)[0]
        assert_allclose(model.cumulative_variance_ratio_[k - 1], (fit**2).sum() / total, rtol=1e-6)
    assert_allclose(model.summary()["cumulative"], model.cumulative_variance_ratio_)


@pytest.mark.parametrize("method", ROTATIONS)
def test_flags_do_not_depend_on_a_rotation(method, tmp_path):
    X = wine()
    X[:15] *= 6
    plain, model = (RobustPCA(3, rotation=name, random_state=0).fit(X) for name in (None, method))
    assert not np.allclose(plain.components_, model.components_)
    assert_array_equal(model.outliers_, plain.outliers_)
    model.save(tmp_path / "model")
    for again in (model, load(tmp_path / "model")):
        assert_allclose(again.distances(X), plain.distances(X))
        assert_allclose(again.score_samples(X), plain.score_samples(X))
        assert_allclose(again.contributions(X[:9]), plain.contributions(X[:9]))
        assert_allclose(again.transform(X), model.transform(X))
    kept = plain.inverse_transform(plain.transform(X))
    assert_allclose(model.inverse_transform(model.transform(X)), kept, atol=1e-10)


@pytest.mark.parametrize("method", ROTATIONS)
def test_rotated_sparse_components(method):
    X = wine()
    options = {"n_nonzero": 4, "method": "block", "random_state": 0}
    plain = SparsePCA(3, **options).fit(X)
    model = SparsePCA(3, rotation=method, **options).fit(X)
    kept = plain.inverse_transform(plain.transform(X))
    assert_allclose(model.inverse_transform(model.transform(X)), kept, atol=1e-10)
    assert_allclose(
        model.cumulative_variance_ratio_[-1], plain.cumulative_variance_ratio_[-1], rtol=1e-9
    )
    unused = (plain.components_ == 0).all(axis=0)
    assert_array_equal(model.components_[:, unused], 0.0)
    assert_array_equal(model.n_nonzero_, (model.components_ != 0).sum(axis=1))


def test_batches_and_fits_one_after_the_other():
    X = wine()
    whole = PCA(3, rotation="varimax").fit(X)
    model = PCA(3, rotation="varimax")
    for batch in np.array_split(X, 4):
        model.partial_fit(batch)
    assert_allclose(model.components_, whole.components_, atol=1e-8)
    assert_allclose(model.explained_variance_, whole.explained_variance_)
    after = PCA(3, rotation="varimax").fit(X[:100]).partial_fit(X[100:])
    plain = PCA(3).fit(X[:100]).partial_fit(X[100:])
    assert_allclose(after.score_samples(X), plain.score_samples(X))
    model.set_params(rotation=None).fit(X)
    assert_allclose(model.components_, PCA(3).fit(X).components_)
    assert not hasattr(model, "rotation_")
    assert not hasattr(model, "cumulative_variance_ratio_")


def test_unknown_rotations_are_refused():
    with pytest.raises(InvalidParameterError, match=r"rotation.*'oblimin'"):
        PCA(2, rotation="oblimin").fit(wine())


def test_precision_is_kept():
    X = wine().astype(np.float32)
    model = PCA(3, rotation="promax").fit(X)
    for name in ("components_", "explained_variance_", "rotation_", "cumulative_variance_ratio_"):
        assert getattr(model, name).dtype == np.float32
    assert model.transform(X).dtype == np.float32
