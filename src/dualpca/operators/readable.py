"""Refuse data that would be read as other numbers than it holds, or from outside its memory."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

#: How the types of dates and times begin, in pandas, polars and Arrow.
_TIMES = ("date", "time", "duration", "period")


def check_readable(X: Any, name: str = "X") -> None:
    """Refuse hidden masks, dates, and sparse indices out of range.

    A numpy masked array would lose its mask, and a missing date (NaT) would become -9.2e18. SciPy
    multiplies by sparse indices without checking them.
    """
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a numpy masked array in which {np.ma.count_masked(X)} entries are masked, and "
            f"the mask would be lost; drop their rows, as numpy.ma.compress_rows({name}) does, or give "
            f"{name}.filled(numpy.nan) to an imputer such as dualpca.Preprocessor(missing='impute')"
        )
    dtypes: Any = []
    if sp.issparse(X):
        _check_indices(X, name)
    elif isinstance(X, (list, tuple)):
        for row in X:
            if isinstance(row, (list, tuple, np.ndarray)):
                check_readable(row, name)
        dtypes = _numpy_times(X)
    elif isinstance(X, np.ndarray) and X.dtype.kind == "O":
        dtypes = _numpy_times(X.flat)
    elif hasattr(type(X), "dtype"):  # of the type: a delayed object has any attribute
        dtypes = [X.dtype]
    elif hasattr(type(X), "dtypes"):
        dtypes = X.dtypes
    names = list(dtypes.index) if hasattr(dtypes, "index") and hasattr(dtypes, "items") else None
    for j, dtype in enumerate(dtypes):
        if getattr(dtype, "kind", "") in ("m", "M") or str(dtype).lower().startswith(_TIMES):
            place = "" if names is None else f" in column {str(names[j])!r}"
            raise ValueError(
                f"{name} has entries of type {dtype}{place}, and a missing one (NaT) would become "
                "-9.2e18; give numbers, such as (dates - numpy.datetime64('2000-01-01')) / "
                "numpy.timedelta64(1, 'D'), in which NaT is NaN"
            )


def _numpy_times(cells: Any) -> list[str]:
    kinds = set(map(type, cells)) & {np.datetime64, np.timedelta64}
    return [kind.__name__ for kind in kinds]


def _check_indices(X: Any, name: str) -> None:
    """Refuse a sparse matrix whose indices point outside it, after one look at each of them."""
    try:
        if X.ndim == 2 and X.format in ("csr", "csc", "bsr"):
            copy(X).check_format(full_check=True)  # which may replace arrays of what it checks
        elif X.ndim == 2 and X.format == "coo" and X.nnz:
            for axis, indices in enumerate(X.coords):
                if indices.min() < 0 or indices.max() >= X.shape[axis]:
                    raise ValueError(f"an index of axis {axis} is outside 0 to {X.shape[axis] - 1}")
    except ValueError as error:
        raise ValueError(
            f"{name} is a sparse matrix ({X.format}) of shape {X.shape} with broken indices: {error}; "
            "build it anew, as with scipy.sparse.coo_array((values, (rows, columns)), shape=shape)"
        ) from error
