"""Eigenpairs of projected problems: few, more, all, whatever the spectrum; LAPACK is the oracle."""

import numpy as np
import pytest
from scipy.linalg import LinAlgError
from tests.loops import over

from dualpca.solvers.spectral import projected
from dualpca.solvers.spectral.projected import ALL, SHARE, Eigenpairs

SPECTRA = {
    "spread": lambda n, rng: rng.standard_normal(n),
    "geometric": lambda n, rng: 0.9 ** np.arange(n),
    "tied": lambda n, rng: np.repeat([3.0, 2.0, 1.0, 0.0], -(-n // 4))[:n],
    "nearly tied": lambda n, rng: np.repeat([3.0, 2.0], -(-n // 2))[:n] + 1e-12 * rng.random(n),
    "tiny": lambda n, rng: 1e-150 * rng.random(n),
    "zero": lambda n, rng: np.zeros(n),
}


def banded(n, b, rng):
    """A symmetric matrix with 2 b + 1 diagonals, as block Lanczos makes them."""
    i = np.arange(n)
    A = np.where(np.abs(i[:, None] - i) <= b, rng.standard_normal((n, n)), 0.0)
    return A + A.T


def check(T, pairs, count):
    theta, S = pairs.leading(count)
    count, size = min(count, len(T)), max(np.abs(T).max(), 1e-300)
    assert theta.shape == (count,)
    assert S.shape == (len(T), count)
    slack = 1e-13 * len(T) * size
    np.testing.assert_allclose(theta, np.linalg.eigvalsh(T)[::-1][:count], rtol=0, atol=slack)
    np.testing.assert_allclose(S.T @ S, np.eye(count), rtol=0, atol=1e-14 * len(T) ** 0.5)
    np.testing.assert_allclose(T @ S, S * theta, rtol=0, atol=slack)


@pytest.mark.parametrize("name", [*SPECTRA, "banded"])
@over(("n", "counts"), [(40, (3, 9)), (ALL + 1, (5, 20, 60)), (300, (10, 26, 42, 300))])
def test_few_and_then_more_are_those_of_lapack(name, n, counts):
    rng = np.random.default_rng(n)
    if name == "banded":
        T = banded(n, 16, rng)
    else:
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        T = (Q * SPECTRA[name](n, rng)) @ Q.T
        T = (T + T.T) / 2
    pairs = Eigenpairs(T)
    for count in counts:
        check(T, pairs, count)
    check(T, pairs, counts[0])  # those that are known already


@over(("first", "then"), [(1, 2), (3, 4), (5, 11), (6, 40), (20, 70)])
def test_vectors_of_a_cluster_that_are_asked_for_apart_stay_orthogonal(first, then):
    """T has the same block several times, and the sizes cut its clusters."""
    T = np.kron(np.eye(6), banded(40, 3, np.random.default_rng(0)))
    pairs = Eigenpairs(T)
    check(T, pairs, first)
    check(T, pairs, then)


@pytest.mark.parametrize("fault", ["raises", "fewer", "parallel"])
def test_all_are_computed_where_those_of_the_tridiagonal_matrix_are_not_found(fault, monkeypatch):
    few = projected.eigh_tridiagonal

    def faulty(*args, **options):
        theta, Z = few(*args, **options)
        if fault == "raises":
            raise LinAlgError("stemr (info=1)")
        if fault == "fewer":
            return theta[1:], Z[:, 1:]
        Z[:, 0] = Z[:, 1]
        return theta, Z

    monkeypatch.setattr(projected, "eigh_tridiagonal", faulty)
    T = banded(200, 8, np.random.default_rng(1))
    assert 2 <= 20 <= SHARE * len(T)
    pairs = Eigenpairs(T)
    check(T, pairs, 20)
    check(T, pairs, 30)


def test_those_that_are_known_are_not_computed_again(monkeypatch):
    few, ranges = projected.eigh_tridiagonal, []

    def recorded(*args, select_range, **options):
        ranges.append(select_range)
        return few(*args, select_range=select_range, **options)

    monkeypatch.setattr(projected, "eigh_tridiagonal", recorded)
    pairs = Eigenpairs(banded(200, 8, np.random.default_rng(1)))
    for count in (20, 10, 32):
        pairs.leading(count)
    assert ranges == [(180, 199), (168, 179)]
