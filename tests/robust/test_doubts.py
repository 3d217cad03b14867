"""Warnings where good rows are not as the model has them."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest

from dualpca import RobustPCA
from dualpca.robust.doubts import one_sidedness


def fitted(X, s, **options):
    return RobustPCA(s, random_state=0, **options).fit(X)


SKEWED = "of the others those far out lie on one side"
GOOD_ROWS = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "t5": lambda rng, shape: rng.standard_t(5, shape),
    "elliptic t5": lambda rng, shape: (
        rng.standard_normal(shape) / np.sqrt(rng.chisquare(5, (shape[0], 1)) / 5)
    ),
}


@pytest.mark.parametrize("bad", [0, 40])
@pytest.mark.parametrize("size", [(200, 20, 4), (1000, 30, 5)])
@pytest.mark.parametrize("kind", GOOD_ROWS)
def test_symmetric_rows_are_not_called_skewed(kind, size, bad):
    """Nor do outliers on one side make them so: the test suite has warnings as errors."""
    n, d, s = size
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = GOOD_ROWS[kind](rng, (n, s)) @ rng.standard_normal((s, d))
        X += 0.3 * rng.standard_normal((n, d))
        X[:bad] += 20 * rng.standard_normal(d) * rng.uniform(1, 2, (bad, 1))
        assert fitted(X, s).outliers_[:bad].all()


@pytest.mark.parametrize("size", [(200, 20, 4), (1000, 30, 5)])
def test_skewed_rows_are_warned_of(size):
    n, d, s = size
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.lognormal(size=(n, s)) @ rng.standard_normal((s, d))
        X += 0.1 * rng.standard_normal((n, d))
        with pytest.warns(UserWarning, match=SKEWED):
            fitted(X, s)
        count = np.where(np.arange(n) < n // 2, 2.0, 1.0)
        with pytest.warns(UserWarning, match=SKEWED):
            RobustPCA(s, random_state=0).fit(X, sample_weight=count)
        fitted(X, s, contamination=0.05)
        fitted(X, s, flag="orthogonal")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            fitted(X - X[0], s, center=None)  # rows need not be symmetric about a given point
        assert not any(SKEWED in str(warning.message) for warning in said)


def test_rows_that_follow_on_the_others_are_warned_of():
    """Counts with lognormal rates, and fewer rows than columns: no side, but a tail."""
    rng = np.random.default_rng(0)
    rates = np.exp(1 + 0.3 * rng.standard_normal((80, 4)) @ rng.standard_normal((4, 300)))
    X = rng.poisson(rates).astype(float)
    with pytest.warns(UserWarning, match="they follow on the others without a gap"):
        model = fitted(X, 4)
    assert model.outliers_.mean() > 0.05


@pytest.mark.parametrize("weights", [None, np.arange(400) % 3.0])
def test_one_sidedness_of_directions(weights):
    """Symmetric rows have uniform p-values, whatever their tails; rows on one side the longest mean."""
    rng = np.random.default_rng(0)
    p = []
    for _ in range(300):
        Z = rng.standard_normal((400, 3)) / np.sqrt(rng.chisquare(2, (400, 1)))
        p.append(one_sidedness(Z)[1])
    assert kstest(p, "uniform").pvalue > 0.01
    Z[:, 0] = np.abs(Z[:, 0]) + 10 * np.linalg.norm(Z, axis=1)
    length, least = one_sidedness(Z, weights)
    assert length == pytest.approx(3**0.5, rel=0.05)
    assert least < 1e-9
    if weights is not None:
        repeated_rows = np.repeat(Z, weights.astype(int), axis=0)
        assert_allclose(one_sidedness(repeated_rows)[0], length)
    assert one_sidedness(np.zeros((5, 2))) == (0.0, 1.0)
