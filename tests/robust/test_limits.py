"""Limits of distances: tails, rows left out of the fit, rows with scales of their own."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import f, norm

from dualpca import RobustPCA
from dualpca.robust.limits import left_out, limits_of_good, scale_freedom, tail_quantile


def factor_rows(seed, n, d, s, level=0.3):
    """Gaussian rows of s factors and noise."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((s, d))
    return rng.standard_normal((n, s)) @ A + level * rng.standard_normal((n, d))


def with_scales(X, nu, seed):
    """Rows of a multivariate t."""
    rng = np.random.default_rng(seed)
    return X / np.sqrt(rng.chisquare(nu, (len(X), 1)) / nu)


def test_the_tail_quantile_of_normal_and_of_heavier_tails():
    rng = np.random.default_rng(0)
    z = rng.standard_normal(20000)
    assert tail_quantile(z, 0.999) == pytest.approx(norm.ppf(0.999), abs=0.25)
    assert tail_quantile(z - 3, 0.999) == norm.ppf(0.999)  # nothing in the tail
    heavy = rng.standard_t(4, 20000)
    assert 1e-4 < (heavy > tail_quantile(heavy, 0.999)).mean() < 6e-3
    far = np.concatenate([z, np.full(8000, 50.0)])  # outliers are not in the tail
    assert tail_quantile(far, 0.999) == pytest.approx(norm.ppf(0.999), abs=0.3)


def distances_of(X, row, s):
    """Both distances of a row from PCA of X, with the covariance of all scores."""
    center = X.mean(axis=0)
    _, sigma, Vt = np.linalg.svd(X - center, full_matrices=False)
    y = Vt[:s] @ (row - center)
    orthogonal = np.linalg.norm(row - center - Vt[:s].T @ y)
    return np.sqrt(np.sum((y / sigma[:s]) ** 2) * (len(X) - 1)), orthogonal


@pytest.mark.parametrize("shape", [(60, 8), (60, 400)])
def test_rows_left_out_are_as_far_as_from_fits_without_them(shape):
    s, X = 3, factor_rows(0, *shape, 3)
    inside = np.array([distances_of(X, row, s) for row in X]).T
    without = np.array([distances_of(np.delete(X, i, 0), X[i], s) for i in range(len(X))]).T
    score, orthogonal = left_out(*inside, s)
    assert_allclose(score, without[0], rtol=0.05)
    # Far out rows move the axes by more than noise does.
    assert np.abs(np.log(orthogonal / without[1])).mean() < 0.02
    assert np.log(without[1] / inside[1]).mean() > 0.05
    assert np.corrcoef(inside[0], orthogonal / inside[1])[0, 1] > 0.9
    weighted = left_out(*inside, s, np.full(len(X), 2.0))
    repeated = left_out(*np.tile(inside, 2), s)
    assert_allclose(weighted, np.array(repeated)[:, : len(X)])


@pytest.mark.parametrize("nu", [4, 5, 10])
def test_the_degrees_of_freedom_of_rows_with_scales_of_their_own(nu):
    rng = np.random.default_rng(nu)
    n, s, m = 20000, 4, 30
    scale = np.sqrt(nu / rng.chisquare(nu, n))
    score, orthogonal = (scale * np.sqrt(rng.chisquare(k, n)) for k in (s, m))
    found, beside = scale_freedom(score, orthogonal, s)
    # The correlation is that of a normal copula, and spreads are those of the bulk.
    assert found == pytest.approx(nu, rel=0.2)
    assert beside > m / 2
    counts = rng.integers(0, 3, n)
    assert_allclose(
        scale_freedom(score, orthogonal, s, counts.astype(float)),
        scale_freedom(np.repeat(score, counts), np.repeat(orthogonal, counts), s),
    )
    limits = limits_of_good(score, orthogonal, 1.0, s, 0.999, None)
    for limit, k in zip(limits, (s, m, s + m), strict=True):
        assert limit == pytest.approx(math.sqrt(k * f.ppf(0.999, k, nu)), rel=0.2)


def test_distances_that_are_independent_have_no_scale_in_common():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(100):
        score, orthogonal = (np.sqrt(rng.chisquare(k, 300)) for k in (4, 30))
        found.append(scale_freedom(score, orthogonal * rng.uniform(0.9, 1.1), 4)[0])
    assert np.mean(np.isinf(found)) > 0.75  # one standard error
    assert np.min(found) > 15
    assert scale_freedom(np.zeros(9), np.ones(9), 2) == (math.inf, math.inf)
    assert scale_freedom(np.ones(9), np.zeros(9), 2) == (math.inf, math.inf)


@pytest.mark.parametrize("flag", ["density", "orthogonal", "score"])
@pytest.mark.parametrize("size", [(80, 300, 4), (200, 20, 4), (1000, 30, 5)])
def test_few_new_rows_with_scales_of_their_own_are_flagged(size, flag):
    N, d, s = size
    shares = []
    for seed in range(5):
        X = with_scales(factor_rows(seed, N + 2000, d, s), 5, seed)
        model = RobustPCA(s, flag=flag, random_state=0).fit(X[:N])
        shares.append((model.predict(X[N:]) == -1).mean())
    assert np.mean(shares) <= 0.015


def test_scales_of_rows_do_not_hide_outliers():
    """Where rows are normal, a tenth of outliers within the subspace or beside it stays visible."""
    for kind in ("within", "beside", "both"):
        X = factor_rows(0, 300, 20, 4)
        rng = np.random.default_rng(1)
        if kind != "beside":
            X[:30] *= 8
        if kind != "within":
            X[:30] += 3 * rng.standard_normal((30, 20))
        model = RobustPCA(4, random_state=0).fit(X)
        assert model.outliers_[:30].mean() > 0.9
        assert model.outliers_[30:].mean() < 0.01
