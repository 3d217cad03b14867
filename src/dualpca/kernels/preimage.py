"""The way back from feature space: rows whose features are near a point there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..linalg import Array
from ..operators.block_ops import as_float
from .pairwise import shifted_rows

#: The most steps of the fixed-point iteration, and the relative move at which it stops.
STEPS, MOVE = 200, 1e-7


def fixed_point(
    kernel: Callable[..., Array], G: Array, rows: Array, start: Array, origin: Array | None
) -> Array:
    """``x = sum_i g_i k(x, x_i) x_i / sum_i g_i k(x, x_i)`` for each column g of G (Mika et al. 1999).

    For the RBF kernel x is a stationary point of the distance in feature space from
    ``sum_i g_i phi(x_i)``. A row whose denominator is not positive stays where it is. An ``origin`` is
    subtracted from the rows meanwhile, as no move would count beside a large mean.
    """
    rows, X = shifted_rows(rows, origin), np.array(shifted_rows(as_float(start), origin))
    moving = np.arange(len(X))
    for _ in range(STEPS):
        weights = kernel(X[moving], rows) * G.T[moving]
        total = weights.sum(axis=1)
        sound = total > 1e-12 * np.abs(weights).sum(axis=1)
        moving, weights, total = moving[sound], weights[sound], total[sound]
        new = (weights @ rows) / total[:, None]
        step = np.linalg.norm(new - X[moving], axis=1)
        X[moving] = new
        moving = moving[step > MOVE * (1 + np.linalg.norm(new, axis=1))]
        if len(moving) == 0:
            break
    return X if origin is None else X + origin
