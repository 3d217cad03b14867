"""The data: dense, sparse, centred, weighted, row-blocked and kernel operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj

from .base import Operator
from .kernel import Kernel, Representer
from .rows import Blocks, Matrix, RowBlocked
from .selected import Selected
from .shifted import Shifted
from .views import Centered, Weighted

__all__ = [
    "Blocks",
    "Centered",
    "Kernel",
    "Matrix",
    "Operator",
    "Representer",
    "Selected",
    "Weighted",
    "as_operator",
    "centered",
]


def as_operator(X: Any) -> Operator:
    """The operator of some data.

    Parameters
    ----------
    X : Operator, array, scipy.sparse matrix, memory map, or sequence of row blocks
        Operators pass through; memory maps and lists of two-dimensional blocks become
        :class:`Blocks`, everything else a :class:`Matrix`.

    Returns
    -------
    Operator

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import as_operator
    >>> as_operator(np.eye(3)).shape
    (3, 3)
    """
    if isinstance(X, Operator):
        return X
    if isinstance(X, np.memmap):
        return Blocks([X])
    if sp.issparse(X):
        return Matrix(X)
    if isinstance(X, (list, tuple)) and X and all(getattr(b, "ndim", 0) == 2 for b in X):
        return Blocks(X)
    return Matrix(X if is_array_api_obj(X) else np.asarray(X))


def centered(X: Operator, weights: Any = None) -> Operator:
    """X minus its (weighted) column means, at the digits the data has.

    Implicit (a rank-one correction) where that is accurate. Where the mean is large against the
    spread, the correction would cancel the leading digits of every product; a dense X is then
    centred block by block before each product. Sparse data is never densified, so there the
    correction stays implicit.
    """
    N = X.shape[0]
    if not isinstance(X, RowBlocked):
        mean = X.rmatmul(X.asarray(np.full((N, 1), 1.0 / N)))
        return Centered(X, mean, mean * float(N))
    narrow = "float32" in str(X.dtype)
    mass = N if weights is None else float(weights.sum())
    for exact in (False, True) if narrow else (True,):
        total, energy = X.column_sums(weights, exact=exact)
        mean = total / mass
        with np.errstate(over="ignore", invalid="ignore"):
            offset = float(mass * (mean @ mean))
        if offset < 0.1 * energy < np.inf:
            break  # else rounding of the sums might show: once more, exactly
    # The correction keeps eps * offset / spread of relative accuracy: 5e-7 here, 2e-13 in float64.
    limit = 4.0 if narrow else 1e3
    if offset > limit * max(energy - offset, 0.0) and not X.sparse:
        return Shifted(X, mean[:, None])
    column = X.asarray(mean)[:, None]
    known = {"total": column * float(N), "energy": max(energy - offset, 0.0)}
    return Centered(X, column, **known) if weights is None else Centered(X, column)
