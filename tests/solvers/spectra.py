"""Matrices whose singular values are known, for the tests of spectral solvers."""

import numpy as np

N, D = 140, 90


def spectra(k=D):
    """Singular values by name: gaps, clusters, exact ties, graded, low rank, flat, Gaussian."""
    i = np.arange(k)
    return {
        "decay": 100 * 0.9**i,
        "slow": 500 - 400 * i / (k - 1),
        "gap": np.where(i < 10, 10.0 + i[::-1][:k] / k, 1.0),
        "cluster": np.where(i < 14, 5 - 1e-6 * i, 3 - 2 * i / k),
        "ties": np.where(i < 20, 5.0, 2 - i / k),
        "two ties": np.where(i < 12, 4.0, np.where(i < 30, 2.0, 1 - 0.5 * i / k)),
        "graded": 10.0 ** (-12 * i / (k - 1)),
        "low rank": np.where(i < 6, 3.0 - 0.3 * i, 0.0),
        "power": 1.0 / (1 + i),
    }


def matrix(sigma, seed, shape=(N, D)):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((shape[0], len(sigma))))[0]
    V = np.linalg.qr(rng.standard_normal((shape[1], len(sigma))))[0]
    return (U * sigma) @ V.T


def gaussian(seed, shape=(N, D)):
    return np.random.default_rng(seed).standard_normal(shape)
