"""What `partial_fit` says of its accuracy holds of all rows seen, in extended precision."""

import numpy as np
import pytest
import scipy.sparse as sp

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
