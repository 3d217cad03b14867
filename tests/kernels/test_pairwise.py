"""Kernels of rows by tiles are those of all rows at once."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel
from tests.loops import over

from dualpca.kernels import distances as module
from dualpca.kernels.pairwise import pairwise


@pytest.mark.parametrize("height", [1, 3, 7, 10, 50])
@over("width", [1, 4, 7, 10, 39, 50])
@over("chunk", [5, 17, 50])
def test_rows_and_columns_in_tiles_of_any_sizes(monkeypatch, height, width, chunk):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 5)), rng.standard_normal((23, 5))
    monkeypatch.setattr(module, "TILE", (height, width))
    monkeypatch.setattr(module, "block_rows", lambda *sizes: chunk)
    K = pairwise(X, X, metric="rbf", gamma=0.3)
    assert_allclose(K, rbf_kernel(X, gamma=0.3), rtol=1e-12)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diag(K), 1)
    K = pairwise(X, Y, metric="rbf", gamma=0.3)
    assert_allclose(K, rbf_kernel(X, Y, gamma=0.3), rtol=1e-12)


def rows(N, d, offset, seed):
    """Clusters of unequal spread, some rows twice, the mean this far from 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, d)) * rng.choice([0.01, 0.3, 1.0], (N, 1))
    X += 0.5 * rng.standard_normal((4, d))[rng.integers(0, 4, N)]
    X[1::5] = X[::5][: len(X[1::5])]
    return X + offset


@over("N", [50, 300])
@over("d", [3, 300])
@over("offset", [0.0, 2.0])
@over("size", [0.02, 0.5, 3.9])
@over("dtype", [np.float32, np.float64])
def test_kernels_in_float32_are_within_their_noise(N, d, offset, size, dtype):
    X = rows(N, d, offset, seed=N + d).astype(dtype)
    wide = X.astype(float)
    gamma = size / float(((wide - wide.mean(axis=0)) ** 2).sum(axis=1).max())
    K = module.rbf(X, X, gamma, single=True)
    assert K.dtype == np.float32
    assert_array_equal(K, K.T)
    assert_array_equal(np.diag(K), 1)
    assert K.max() <= 1
    assert_array_equal(module.rbf(X, X, gamma, n_jobs=3, single=True), K)
    error = np.linalg.eigvalsh(K - rbf_kernel(wide, gamma=gamma))
    assert np.abs(error).max() <= module.single_noise(N)


@over("dtype", [np.float32, np.float64])
@over("gamma", [1e-14, 1e3])
@over("kind", [np.array, sp.csr_array])
def test_rows_that_float32_does_not_serve_have_kernels_of_their_own_type(dtype, gamma, kind):
    X = kind(rows(60, 4, 0.0, seed=0).astype(dtype))
    K = module.rbf(X, X, gamma, single=True)
    assert K.dtype == dtype
    assert_array_equal(K, module.rbf(X, X, gamma))
