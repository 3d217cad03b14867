"""Bandwidths: the gamma of kernels from the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator

from ..operators.block_ops import as_float64, moments
from .pairwise import (
    distances,
    origin_near_rows,
    refine_distances,
    row_operator,
    shifted_rows,
    squares,
)


def bandwidth(gamma: Any, X: Any, rng: Generator) -> float:
    """Return gamma itself, or the number that "median", "scale" or None (1/d) stands for."""
    if gamma is None:
        return 1 / X.shape[1]
    if not isinstance(gamma, str):
        return gamma
    return median_gamma(X, rng) if gamma == "median" else scale_gamma(X)


def median_gamma(X: Any, rng: Generator) -> float:
    """``gamma = 1 / median ||x - y||^2`` over the pairs of different rows among at most 1000.

    The median heuristic (Garreau et al. 2017); 1.0 if all rows are equal.
    """
    N = X.shape[0]
    S = as_float64(row_operator(X).take(np.sort(rng.choice(N, min(N, 1000), replace=False))))
    with np.errstate(over="ignore"):  # squares() refuses those rows
        S = shifted_rows(S, origin_near_rows(S) if sp.issparse(S) else np.median(S, axis=0))
    n, sizes = S.shape[0], squares(S)
    D = distances(S, S, sizes, sizes)
    # Rounding of the sizes is then below 1e-9 of a distance: one huge row hides no close pairs.
    refine_distances(D, S, S, np.triu(1e-6 * np.add.outer(sizes, sizes) > D, 1))
    D = D[np.triu_indices(n, 1)]
    median = float(np.median(D[D > 0])) if D.any() else 0.0
    if median > 1 / np.finfo(float).max:
        return 1 / median
    if (S - S[np.zeros(n, dtype=int)] != 0).sum() == 0:
        return 1.0
    raise ValueError(
        "gamma='median' has no value, as X has rows so near one another that the squares of their "
        "distances underflow; divide X by its largest magnitude, or give gamma as a number"
    )


def scale_gamma(X: Any) -> float:
    """``gamma = 1 / (d Var(X))`` over all entries of X: scikit-learn's "scale"; 1.0 if Var is 0."""
    operator = row_operator(X)
    (N, d), origin = operator.shape, origin_near_rows(operator)
    total, energy = operator.sum_blocks(
        lambda rows, block: moments(shifted_rows(block, origin), None, True)
    )
    shifted = total / N
    means = shifted if origin is None else shifted + origin
    with np.errstate(over="ignore", invalid="ignore"):
        variance = (energy / N - shifted @ shifted) / d + float(means.var())
    if not np.isfinite(variance):
        raise ValueError(
            "gamma='scale' has no value, as X has entries so large that their squares overflow; divide X "
            "by its largest magnitude, or give gamma as a number"
        )
    # A smaller variance is the rounding of equal entries.
    return float(1 / (d * variance)) if variance > 1e-28 * np.max(means**2) else 1.0
