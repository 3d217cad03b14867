"""A start from a sample: the leading axes of some rows are near those of all rows."""

from __future__ import annotations

import numpy as np

from ...linalg import Array, namespace, on_gpu, standard_normal
from ...operators import Operator, as_operator
from .ritz import conditioned

#: X is tall if it has this many times more rows than columns.
TALL = 8

#: The share of the rows in a sample, on a GPU and elsewhere, and the steps of DCA on them.
GPU_SHARE, SHARE, STEPS = 1 / 8, 1 / 32, 5

#: Columns of the start that stay random: what a few rows hold alone, no sample shows.
RANDOM = 8


def is_tall(X: Operator) -> bool:
    """Whether a sample of the rows of X is worth its cost, and can be had without products."""
    return X.takes_rows and X.shape[0] >= TALL * X.shape[1]


def sampled_axes(X: Operator, columns: int, seed: int) -> Array:
    """Return columns near the leading right singular vectors of X, and random ones behind them.

    They come from simultaneous iteration on a random sample of the rows: DCA on (l), whose steps cost
    little there.
    """
    (N, d), like = X.shape, X.like
    size = min(N, max(int(N * (GPU_SHARE if on_gpu(like) else SHARE)), 8 * columns))
    # One row of each stretch of N / size rows: random, in order, and quick to draw.
    rows = (np.arange(size) + np.random.default_rng(seed).random(size)) * (N / size)
    sample = as_operator(X.take(rows.astype(np.int64)))
    sample = sample.with_tf32() if X.precision == "tf32" else sample
    P = standard_normal((d, columns), like, seed)
    random = P[:, columns - min(RANDOM, columns // 4) :] / d**0.5
    for _ in range(STEPS):
        P = conditioned(sample.sweep(P))[0]
    return namespace(P).concat([P[:, : columns - random.shape[1]], random], axis=1)
