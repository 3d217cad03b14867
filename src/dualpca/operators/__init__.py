"""The data: dense, sparse, centred, weighted, row-blocked and kernel operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj
from scipy.sparse.linalg import LinearOperator

from .base import Operator
from .blocks import Blocks
from .centering import Centered, Shifted, as_rows, centered
from .files import BLOCK, is_streamed, out_of_core
from .kernel import Kernel, Representer, from_gram
from .matrix import Matrix
from .readable import check_readable
from .row_blocks import RowBlocked, RowMap, Selected
from .views import LinearOperatorProducts, Weighted

__all__ = ["Blocks", "Kernel", "Matrix", "Operator", "Representer", "RowBlocked", "RowMap"]
__all__ += ["Centered", "Selected", "Shifted", "Weighted", "as_rows", "centered"]
__all__ += ["as_operator", "from_gram", "is_streamed"]


def as_operator(X: Any, *, block_bytes: int | None = None, device: Any = None) -> Operator:
    """Return the operator of some data.

    Parameters
    ----------
    X : Operator, array, scipy.sparse matrix, SciPy LinearOperator, or data that is not in memory
        Operators pass through, and a LinearOperator becomes one that has its products. Memory maps,
        zarr arrays, HDF5 data sets, Parquet and Arrow data and lists of two-dimensional blocks become
        :class:`Blocks`, dask arrays and data frames an operator that multiplies where their blocks
        are, everything else a :class:`Matrix`.
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
    if isinstance(X, LinearOperator):
        return LinearOperatorProducts(X)
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


def in_memory(X: Any) -> bool:
    """Whether X is an array, a sparse matrix or a data frame, and no operator, file or Dask data."""
    return not (isinstance(X, (Operator, LinearOperator)) or is_streamed(X))
