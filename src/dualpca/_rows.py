"""Rows of any kind of data that estimators take: some of them, or as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj
from sklearn.utils import _safe_indexing

from .linalg import namespace, to_numpy
from .operators import Operator, as_operator, is_streamed


def sample_rows(
    always: np.ndarray, others: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Return sorted row numbers: those of ``always`` and at most ``count`` of ``others`` at random."""
    if len(others) > count:
        others = rng.choice(others, count, replace=False)
    return np.sort(np.concatenate([always, others]))


def take_rows(X: Any, rows: Any) -> Any:
    """Return some rows of X, of any kind that estimators take, in memory and of the kind of X."""
    if sp.issparse(X) or is_streamed(X) or isinstance(X, Operator):
        once, back = np.unique(rows, return_inverse=True)
        return as_operator(X).take(once)[back]  # type: ignore[attr-defined]
    if is_array_api_obj(X) and not isinstance(X, np.ndarray):
        return namespace(X).stack([X[int(i), :] for i in rows])
    return _safe_indexing(X, rows)


def on_host(X: Any) -> Any:
    """Return a data frame as an array, and other rows as they are."""
    return X.to_numpy() if hasattr(X, "to_numpy") and not is_streamed(X) else X


def dense_cells(rows: Any) -> np.ndarray:
    """Return a few rows of any kind as a NumPy array with NaN for missing cells."""
    if sp.issparse(rows):
        return rows.toarray()
    if hasattr(rows, "iloc"):
        return rows.to_numpy(dtype=float, na_value=np.nan)
    return rows.to_numpy() if hasattr(rows, "to_numpy") else to_numpy(rows)
