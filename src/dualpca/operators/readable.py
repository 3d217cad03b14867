"""What data must be before it is read: no hidden mask, no dates, and no sparse index out of range."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

#: How the types of dates and times begin, in pandas, polars and Arrow.
_TIMES = ("date", "time", "duration", "period")


def check_readable(X: Any, name: str = "X") -> None:
    """Refuse data that would be read as other numbers than it holds, or from outside its memory.

    A numpy masked array would lose its mask, and a missing date (NaT) would become -9.2e18. SciPy
    multiplies by sparse indices without a look at them.
    """
    if sp.issparse(X):
        _check_indices(X, name)
        return
    if isinstance(X, (list, tuple)):
        arrays = [row for row in X if isinstance(row, np.ndarray)]
        for row in arrays:
            check_readable(row, name)
        if not arrays:
            _check_types(
                chain.from_iterable(r if isinstance(r, (list, tuple)) else [r] for r in X), name
            )
        return
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError(
            f"{name} is a numpy masked array in which {np.ma.count_masked(X)} entries are masked, and "
            f"the mask would be lost; drop their rows, as numpy.ma.compress_rows({name}) does, or give "
            f"{name}.filled(numpy.nan) to an imputer such as dualpca.Preprocessor(missing='impute')"
        )
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        _check_types(X.flat, name)
    for dtype in _types_of(X):
        if _is_time(dtype):
            raise _no_numbers(name, dtype)


def _types_of(X: Any) -> list[Any]:
    """The type of an array, or those of the columns of a data frame; a delayed object has any name."""
    if hasattr(type(X), "dtype"):
        return [X.dtype]
    return list(X.dtypes) if hasattr(type(X), "dtypes") else []


def _is_time(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") in ("m", "M") or str(dtype).lower().startswith(_TIMES)


def _check_types(cells: Any, name: str) -> None:
    """Refuse dates among Python objects."""
    for kind in set(map(type, cells)) & {np.datetime64, np.timedelta64}:
        raise _no_numbers(name, kind.__name__)


def _no_numbers(name: str, dtype: Any) -> ValueError:
    return ValueError(
        f"{name} has entries of type {dtype}, and a missing one (NaT) would become -9.2e18; give "
        "numbers, such as (dates - numpy.datetime64('2000-01-01')) / numpy.timedelta64(1, 'D'), in which "
        "NaT is NaN"
    )


def _check_indices(X: Any, name: str) -> None:
    """Refuse a sparse matrix whose indices point outside it: one look at each of them."""
    if X.ndim != 2 or X.format not in ("csr", "csc", "bsr", "coo"):
        return
    rows, columns = X.shape
    if X.format == "coo":
        _check_range(X.coords[0], rows, "row", X, name)
        _check_range(X.coords[1], columns, "column", X, name)
        return
    if X.format == "bsr":
        rows, columns = rows // X.blocksize[0], columns // X.blocksize[1]
    by_column = X.format == "csc"
    major, minor = (columns, rows) if by_column else (rows, columns)
    ends, stored = X.indptr, min(X.indices.shape[0], X.data.shape[0])
    ordered = ends.shape == (major + 1,) and ends[0] == 0 and bool((ends[1:] >= ends[:-1]).all())
    if not (ordered and ends[-1] <= stored):
        raise _out_of_range(
            f"indptr does not rise from 0 to at most {stored}, the entries that are stored", X, name
        )
    _check_range(X.indices[: ends[-1]], minor, "row" if by_column else "column", X, name)


def _check_range(indices: np.ndarray, size: int, what: str, X: Any, name: str) -> None:
    if indices.shape[0] and not (indices.min() >= 0 and indices.max() < size):
        odd = indices.min() if indices.min() < 0 else indices.max()
        raise _out_of_range(f"a {what} has the index {odd}, outside 0 to {size - 1}", X, name)


def _out_of_range(what: str, X: Any, name: str) -> ValueError:
    return ValueError(
        f"{name} is a sparse matrix ({X.format}) of shape {X.shape} with broken indices: {what}; "
        "build it anew, as with scipy.sparse.coo_array((values, (rows, columns)), shape=shape)"
    )
