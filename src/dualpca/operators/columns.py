"""Some of the columns: the features that a sparse component may use."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace

from ..linalg import Array, to_numpy
from .base import Operator
from .block_ops import as_float64, scale_rows, take
from .row_blocks import RowBlocked
from .row_maps import Derived, Turn
from .views import Centered, Weighted


class Columns(Derived):
    """The columns ``features`` of X, taken from each block as it is read: no copy of X."""

    def __init__(self, X: RowBlocked, features: np.ndarray) -> None:
        super().__init__(X, (X.shape[0], len(features)))
        self._features = features

    def _turn(self) -> Turn:
        features = self._features
        return lambda rows, block: [(rows, take(block, features, axis=1))]


def take_columns(X: Operator, features: np.ndarray) -> Operator:
    """The columns of row blocks, also where they are centred or weighted."""
    if isinstance(X, Weighted):
        return Weighted(take_columns(X.X, features), X.b)
    if isinstance(X, Centered):
        total = None if X._total is None else take(X._total, features)
        return Centered(take_columns(X.X, features), take(X._c, features), total)
    assert isinstance(X, RowBlocked)
    return Columns(X, features)


def column_squares(X: Operator, weights: Array | None = None) -> np.ndarray:
    """``sum_i w_i x_ij^2`` for each column j, w = 1 where None."""
    if isinstance(X, Weighted):
        square = X.b**2
        return column_squares(X.X, square if weights is None else square * weights)
    if isinstance(X, Centered):
        ones = X.asarray(np.ones(X.shape[0])) if weights is None else weights
        known = X._total is not None and weights is None
        total = to_numpy(X._total if known else X.X.rmatmul(ones[:, None]))[:, 0]
        c, mass = to_numpy(X._c)[:, 0].astype(float), float(to_numpy(ones).sum(dtype=float))
        squares = column_squares(X.X, weights) - 2 * c * total + mass * c**2
        return np.maximum(squares, 0.0)
    assert isinstance(X, RowBlocked)

    def part(rows: slice, block: Any) -> tuple[Array]:
        block = as_float64(block)
        square = block.multiply(block) if sp.issparse(block) else block * block
        if weights is not None:
            square = scale_rows(square, weights[rows])
        if sp.issparse(square):
            return (np.asarray(square.sum(axis=0)).ravel(),)
        return (array_namespace(square).sum(square, axis=0),)

    return to_numpy(X.sum_blocks(part)[0])
