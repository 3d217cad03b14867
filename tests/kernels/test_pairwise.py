"""Kernels of rows by blocks are those of all rows at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from dualpca.kernels import pairwise as module


@pytest.mark.parametrize("strip", [1, 3, 7, 10, 50])
@pytest.mark.parametrize("tile", [1, 4, 7, 10, 39, 50])
def test_rows_and_columns_in_blocks_of_any_sizes(monkeypatch, strip, tile):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 5)), rng.standard_normal((23, 5))
    # Tiles of columns are asked for with a factor.
    monkeypatch.setattr(
        module, "block_rows", lambda d, size, factor=1: tile if factor > 1 else strip
    )
    K = module.pairwise(X, X, metric="rbf", gamma=0.3)
    assert_allclose(K, rbf_kernel(X, gamma=0.3), rtol=1e-12)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diag(K), 1)
    K = module.pairwise(X, Y, metric="rbf", gamma=0.3)
    assert_allclose(K, rbf_kernel(X, Y, gamma=0.3), rtol=1e-12)
