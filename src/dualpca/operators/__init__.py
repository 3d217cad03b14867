"""The data: dense, sparse, centred, weighted, row-blocked and kernel operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj

from ..linalg import to_numpy
from ..linalg import total as total_of
from .base import Operator
from .blocks import Blocks
from .centering import Shifted, shifted
from .files import BLOCK, out_of_core
from .kernel import Kernel, Representer, from_gram
from .readable import check_readable
from .row_blocks import Matrix, RowBlocked
from .row_maps import Selected
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
    "from_gram",
]


def is_streamed(X: Any) -> bool:
    """Whether X is not in the memory of this process: a file, or a dask collection."""
    return hasattr(X, "__dask_graph__") or out_of_core(X)


def as_operator(X: Any, *, block_bytes: int | None = None, device: Any = None) -> Operator:
    """The operator of some data.

    Parameters
    ----------
    X : Operator, array, scipy.sparse matrix, or data that is not in memory
        Operators pass through. Memory maps, zarr arrays, HDF5 data sets, Parquet and Arrow data and
        lists of two-dimensional blocks become :class:`Blocks`, dask arrays and data frames an
        operator that multiplies where their blocks are, everything else a :class:`Matrix`.
    block_bytes : int, optional
        Files are read in blocks of about so many bytes, 32 MiB by default: of these one is being
        read, one waits and one is multiplied.
    device : str or torch.device, optional
        Multiply numpy arrays and files there, "cuda" say: their blocks are copied there in each pass,
        so that they may be larger than its memory. Results are torch tensors on the device.

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
    if device is not None:
        from .gpu import OnDevice

        return OnDevice(as_operator(X, block_bytes=block_bytes), device)
    if isinstance(X, Operator):
        return X
    if hasattr(X, "__dask_graph__"):
        from .dask.distributed import Distributed

        return Distributed(X)
    blocks = isinstance(X, (list, tuple)) and X and all(getattr(b, "ndim", 0) == 2 for b in X)
    if blocks or out_of_core(X):
        return Blocks(X if blocks else [X], block_bytes=block_bytes or BLOCK)
    check_readable(X)
    if sp.issparse(X):
        return Matrix(X)
    plain = is_array_api_obj(X) and not isinstance(X, np.ma.MaskedArray)
    return Matrix(X if plain else np.asarray(X))


def centered(X: Operator, weights: Any = None) -> Operator:
    """X minus its (weighted) column means, at the digits the data has.

    Implicit (a rank-one correction) where that is accurate. Where the mean is large against the
    spread, the correction would cancel the leading digits of every product; a dense X is then
    centred block by block before each product. Of sparse data the columns are that are nearly full,
    as those are whose mean is large against their spread: the others stay sparse, their correction
    implicit.
    """
    N = X.shape[0]
    if not isinstance(X, RowBlocked):
        mean = X.rmatmul(X.asarray(np.full((N, 1), 1.0 / N)))
        return Centered(X, mean, mean * float(N))
    narrow = "float32" in str(X.dtype)
    mass = N if weights is None else total_of(weights)
    for exact in (False, True) if narrow else (True,):
        total, energy = X.column_sums(weights, exact=exact)
        mean = total / mass
        with np.errstate(over="ignore", invalid="ignore"):
            offset = float(mass * (mean @ mean))
        if offset < 0.1 * energy < np.inf:
            break  # else rounding of the sums might show: once more, exactly
    # The correction keeps eps * offset / spread of relative accuracy: 5e-7 here, 2e-13 in float64.
    spread, limit = max(energy - offset, 0.0), 4.0 if narrow else 1e3
    if offset > limit * spread:
        return _far(X, mean, weights, mass, lost=spread <= LOST * offset)
    return _implicit(X, total, energy, weights, mass)


#: A spread below this share of ``N ||mean||^2`` may be the rounding of the mean.
LOST = 1e-8

#: Columns of sparse data with so many of their entries are centred explicitly: elsewhere the zeros
#: alone leave a spread of a quarter of the mean's square.
FULL = 0.8


def _far(X: RowBlocked, mean: Any, weights: Any, mass: float, lost: bool) -> Operator:
    """X less its means where these are large against the spread, which rounding may have ``lost``."""
    wide = to_numpy(mean).astype(float)
    if lost:  # equal entries are their own mean, which a sum would round
        first = X.take(np.zeros(1, dtype=int))
        first = to_numpy(first.toarray() if X.sparse else first)[0].astype(float)
        wide = np.where(np.abs(first - wide) <= 1e-12 * np.abs(wide), first, wide)
    if X.sparse:
        c = np.where(_entries(X) >= FULL * X.shape[0], wide, 0.0)
        near = shifted(X, c)
        total, energy = near.column_sums(weights)
        return _implicit(near, total, energy, weights, mass, before=X.asarray(c)[:, None])
    column = wide[:, None]
    if not lost:
        return Shifted(X, column)
    total = Shifted(X, column).column_sums(weights)[0]
    return Shifted(X, column, to_numpy(total).astype(float)[:, None] / mass)


def _entries(X: RowBlocked) -> np.ndarray:
    """How many entries are stored in each column of sparse rows."""
    d = X.shape[1]
    return X.sum_blocks(lambda rows, block: (np.bincount(block.tocsr().indices, minlength=d),))[0]


def _implicit(
    X: RowBlocked, total: Any, energy: float, weights: Any, mass: float, before: Any = None
) -> Centered:
    mean = total / mass
    with np.errstate(over="ignore", invalid="ignore"):
        energy = max(energy - float(mass * (mean @ mean)), 0.0)
    known = {"total": total[:, None], "energy": energy} if weights is None else {}
    return Centered(X, X.asarray(mean)[:, None], before=before, **known)
