"""A start from a sample: the leading axes of some rows are near those of all rows."""

from __future__ import annotations

import numpy as np

from ...linalg import Array, namespace, on_gpu, standard_normal
from ...operators import Operator, as_operator
from ...operators.block_ops import cast
from .bases import conditioned
from .lanczos import BLOCK

#: X is tall if it has this many times more rows than columns.
TALL = 8

#: The share of the rows in a sample, on a GPU and elsewhere, and the steps of DCA on them.
GPU_SHARE, SHARE, STEPS = 1 / 8, 1 / 32, 5

#: From this ``tol`` on a start from a sample leaves little to do.
SAMPLED_TOL = 5e-2

#: Columns of the start that stay random: what a few rows hold alone, no sample shows.
RANDOM = 8


def is_tall(X: Operator) -> bool:
    """Whether a sample of the rows of X is worth its cost, and can be had without products."""
    return X.takes_rows and X.shape[0] >= TALL * X.shape[1]


def begins_with_sample(X: Operator, tol: float) -> bool:
    """Whether the axes of a sample are worth their cost as a start of Krylov.

    They save passes that wait for the data, and are nearly all that a loose ``tol`` asks for.
    """
    return is_tall(X) and (X.read_seconds > 0 or tol >= SAMPLED_TOL)


def start_columns(s: int) -> int:
    """Return the columns of a start for s components on a CPU."""
    return BLOCK * -(-(s + BLOCK) // BLOCK)


def sampled_axes(X: Operator, columns: int, seed: int, scale: float | None = None) -> Array:
    """Return columns near the leading right singular vectors of X, and random ones behind them.

    They come from simultaneous iteration on a random sample of the rows: DCA on (l), whose steps cost
    little there. With a ``scale`` that brings them near 1, dense rows are rounded to float32.
    """
    (N, d), like = X.shape, X.like
    size = min(N, max(int(N * (GPU_SHARE if on_gpu(like) else SHARE)), 8 * columns))
    # One row of each stretch of N / size rows: random, in order, and quick to draw.
    rows = (np.arange(size) + np.random.default_rng(seed).random(size)) * (N / size)
    taken = X.take(rows.astype(np.int64))
    sample = as_operator(taken if scale is None else cast(taken * scale, "float32"))
    sample = sample.with_tf32() if X.precision == "tf32" else sample
    P = standard_normal((d, columns), sample.like, seed)
    random = P[:, columns - min(RANDOM, columns // 4) :] / d**0.5
    for _ in range(STEPS):
        P = conditioned(sample.sweep(P))[0]
    return namespace(P).concat([P[:, : columns - random.shape[1]], random], axis=1)
