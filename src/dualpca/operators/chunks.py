"""Dask collections as arrays in chunks of whole rows."""

from __future__ import annotations

from typing import Any

import dask
import dask.array as da
import numpy as np

from .cluster import is_held


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame of numbers, where they are strings."""
    if not hasattr(type(X), "columns"):
        return None
    odd = [name for name, dtype in X.dtypes.items() if dtype.kind not in "biuf"]
    if odd:
        raise ValueError(
            f"the columns {odd[:5]} of X are not numbers; leave them out, X.drop(columns=[...]), or "
            "encode them as numbers"
        )
    names = list(X.columns)
    return names if all(isinstance(name, str) for name in names) else None


def whole_rows(X: Any) -> Any:
    """A dask array of known chunks, none empty and each with all columns; X is left as it is."""
    if not hasattr(type(X), "ndim"):
        raise TypeError(
            f"X is a dask {type(X).__name__}; give a dask array, as of dask.array.from_delayed, or a "
            "dask data frame"
        )
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array; X.shape={X.shape}")
    if any(np.isnan(n) for n in X.chunks[0]):
        X = X.map_blocks(lambda block: block, dtype=X.dtype, meta=X._meta)  # not the user's object
        X = X.compute_chunk_sizes()
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
        # Blocks in the cluster's memory are joined once, not in each pass.
        X = dask.persist(X, optimize_graph=False)[0] if is_held(X) else X
    if 0 in X.chunks[0] and X.shape[0] > 0:
        X = da.concatenate([X.blocks[i] for i, n in enumerate(X.chunks[0]) if n])
    return X
