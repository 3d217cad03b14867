"""Statistics of columns (missing cells, moments, medians), and rows that are filled and scaled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace

from ..linalg import asarray_like, power_of_two, to_numpy
from ..operators import Operator
from ..operators.block_ops import GRAM_FACTOR, as_float, as_float64, block_rows
from ..operators.row_blocks import RowMap

#: This many numbers are in memory in float64 at a time.
CHUNK = 2**18

#: 1 over the MAD of the standard normal distribution.
NORMAL_MAD = 1.482602218505602

#: The smallest number of float64 that has all its digits.
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class ColumnSummary:
    """The numbers of rows and of rows with missing cells; of each column, counts and moments."""

    rows: int
    incomplete: int
    missing: np.ndarray
    infinite: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def counted(self) -> np.ndarray:
        return self.rows - self.missing - self.infinite

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        """Summarise the rows of both (Chan, Golub and LeVeque 1983), in roots: squares may overflow."""
        n, m = self.counted, other.counted
        share = m / np.maximum(n + m, 1)
        with np.errstate(over="ignore", invalid="ignore"):  # fit refuses columns as wide as float64
            difference = other.mean - self.mean
            mean = self.mean + share * difference
            within = np.hypot(np.sqrt(1 - share) * self.deviation, np.sqrt(share) * other.deviation)
            deviation = np.hypot(within, np.sqrt(share * (1 - share)) * difference)
        names = ("rows", "incomplete", "missing", "infinite")
        counts = {name: getattr(self, name) + getattr(other, name) for name in names}
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return ColumnSummary(**counts, mean=mean, deviation=deviation, low=low, high=high)

    def deviations(self, eps: float) -> np.ndarray:
        """Return standard deviations, 1 for columns without spread beyond rounding."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        with np.errstate(over="ignore"):
            spread = self.high - self.low > 8 * eps * size
        # Subnormal numbers have too few digits to divide by.
        return np.where(spread & (self.deviation > TINY), self.deviation, 1.0)


def summarize(X: Operator) -> ColumnSummary:
    """Summarise the columns of all rows, the blocks in their order."""
    parts = X.sum_blocks(lambda rows, block: ([summarize_block(block)],), GRAM_FACTOR)[0]
    return reduce(add, parts)


def summarize_block(block: Any) -> ColumnSummary:
    """Summarise the columns of a block of rows of any kind, on the host."""
    if sp.issparse(block):
        return _summarize_sparse(block)
    N, step = block.shape[0], max(1, CHUNK // max(1, block.shape[1]))
    parts = (block[i : min(i + step, N), :] for i in range(0, N, step))
    return reduce(add, (_summarize_dense(to_numpy(part)) for part in parts))


def _summarize_dense(A: np.ndarray) -> ColumnSummary:
    A = A.astype(np.float64, copy=False)
    N, lost, nan = len(A), None, np.zeros((1, A.shape[1]), dtype=bool)
    missing = infinite = np.zeros(A.shape[1], dtype=np.int64)
    if not is_finite(A):
        nan, lost = np.isnan(A), ~np.isfinite(A)
        missing = nan.sum(axis=0)
        infinite = lost.sum(axis=0) - missing
        A = np.where(lost, np.nan, A) if infinite.any() else A
    counted = np.maximum(N - missing - infinite, 1)
    low = np.fmin.reduce(A, axis=0, initial=np.inf)
    high = np.fmax.reduce(A, axis=0, initial=-np.inf)
    unit = power_of_two(np.maximum(np.abs(low), np.abs(high)))
    A = A / unit  # so that squares neither overflow nor vanish

    def without_lost(part: np.ndarray) -> np.ndarray:
        if lost is not None:  # sums with where= take several times as long
            np.copyto(part, 0.0, where=lost)
        return part

    mean = without_lost(A).sum(axis=0) / counted
    A -= mean
    A = without_lost(A)
    deviation = np.sqrt((A * A).sum(axis=0) / counted)
    incomplete = int(nan.any(axis=1).sum())
    return ColumnSummary(N, incomplete, missing, infinite, mean * unit, deviation * unit, low, high)


def _summarize_sparse(S: Any) -> ColumnSummary:
    """Summarise the columns of a sparse block by its stored entries."""
    S = S.tocoo(copy=True)
    S.sum_duplicates()
    (N, d), columns, values = S.shape, S.coords[1], S.data.astype(np.float64)
    nan, sound = np.isnan(values), np.isfinite(values)

    def total(entries: np.ndarray) -> np.ndarray:
        return np.bincount(columns, weights=entries, minlength=d)

    missing, stored, infinite = (
        total(which).astype(np.int64) for which in (nan, sound, ~sound & ~nan)
    )
    counted = N - missing - infinite
    low, high = (np.where(counted > stored, 0.0, end) for end in (np.inf, -np.inf))
    np.minimum.at(low, columns[sound], values[sound])
    np.maximum.at(high, columns[sound], values[sound])
    unit = power_of_two(np.maximum(np.abs(low), np.abs(high)))
    values = np.where(sound, values, 0.0) / unit[columns]
    mean = total(values) / np.maximum(counted, 1)
    squares = total(np.where(sound, values - mean[columns], 0.0) ** 2)
    squares = squares + (counted - stored) * mean**2  # integers if nothing is stored
    deviation = np.sqrt(squares / np.maximum(counted, 1))
    incomplete = len(np.unique(S.coords[0][nan]))
    return ColumnSummary(N, incomplete, missing, infinite, mean * unit, deviation * unit, low, high)


def is_finite(block: Any) -> bool:
    """Return whether all entries are finite; their sum shows it in nearly every case."""
    entries = block.data if sp.issparse(block) else block
    xp = array_namespace(entries)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(xp.isfinite(xp.sum(entries))) or bool(xp.all(xp.isfinite(entries)))


def medians(X: Any, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the median of each column, NaN if it has no value, and the robust scale.

    The scale is 1.4826 MAD. If more than half of the column is equal to its median, it is
    ``sqrt(p) median|x - median|`` of the others, whose share is p: the standard deviation if these are
    equal, and not one of them alone can make it large. It is 1 without spread beyond rounding.
    """
    N, d = X.shape
    if sp.issparse(X):
        S = X.tocsc(copy=True)
        S.sum_duplicates()
        bounds = zip(S.indptr[:-1], S.indptr[1:], strict=True)
        parts = [_sparse_medians(S.data[i:j].astype(np.float64), N, eps) for i, j in bounds]
    else:
        width = max(1, CHUNK // max(N, 1))
        parts = [
            _dense_medians(to_numpy(X[:, j : min(j + width, d)]).astype(np.float64), eps)
            for j in range(0, d, width)
        ]
    return np.concatenate([m for m, _ in parts]), np.concatenate([s for _, s in parts])


def _dense_medians(A: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    median: Callable[..., Any] = np.median if is_finite(A) else np.nanmedian
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the median of a column of NaN is NaN
        middle = median(A, axis=0)
        distance = np.abs(A - middle)
        scale = NORMAL_MAD * median(distance, axis=0)
    least = np.maximum(8 * eps * np.abs(middle), TINY)
    for j in np.flatnonzero(scale <= least):
        observed = distance[~np.isnan(distance[:, j]), j]
        scale[j] = _scale_of_few(observed[observed > least[j]], len(observed))
    return middle, scale


def _sparse_medians(values: np.ndarray, N: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return those of one column by its stored values: 0 and 0 for the MAD if most are zeros."""
    observed = values[~np.isnan(values)]
    counted = N - (len(values) - len(observed))
    zeros = counted - len(observed)
    if 2 * zeros <= counted:
        return _dense_medians(np.concatenate([observed, np.zeros(zeros)])[:, None], eps)
    size = np.abs(observed)
    return np.zeros(1), np.array([_scale_of_few(size[size > TINY], counted)])


def _scale_of_few(distances: np.ndarray, counted: int) -> float:
    """Return the scale of a column by the distances from the median of those that are not at it."""
    share = len(distances) / max(counted, 1)
    return math.sqrt(share) * float(np.median(distances)) if len(distances) else 1.0


def check_cells(summary: ColumnSummary, names: Any, missing: str) -> None:
    """Raise an error for infinite values, and for missing ones if they are refused."""
    if summary.infinite.any():
        raise ValueError(
            f"X has {summary.infinite.sum()} infinite values (inf), most in "
            f"{_worst(summary.infinite, names)}; correct them, or mark them as missing with NaN"
        )
    if missing == "refuse" and summary.incomplete:
        raise ValueError(
            f"X has {summary.missing.sum()} missing cells (NaN) in {summary.incomplete} of "
            f"{summary.rows} rows, most in {_worst(summary.missing, names)}; use "
            "Preprocessor(missing='impute') to fill them with the medians of the columns, or drop "
            "those rows or columns"
        )


def check_not_empty(empty: np.ndarray, names: Any) -> None:
    """Raise an error that names the columns without any value."""
    if empty.any():
        listed = ", ".join(column_name(j, names) for j in np.flatnonzero(empty)[:5])
        raise ValueError(
            f"{empty.sum()} columns of X have no value but NaN: {listed}; drop them before fitting"
        )


def _worst(counts: np.ndarray, names: Any) -> str:
    """Return the names of the three columns with the largest counts."""
    order = [j for j in np.argsort(-counts, kind="stable")[:3] if counts[j]]
    return ", ".join(f"{column_name(j, names)} ({counts[j]})" for j in order)


def column_name(j: int, names: Any) -> str:
    return f"column {j}" if names is None else repr(str(names[j]))


@dataclass(frozen=True, eq=False)
class Scaling:
    """``(x - center) / scale`` of rows whose NaN are filled; ``x * scale + center`` if ``inverse``."""

    fill: np.ndarray | None
    center: np.ndarray | None
    scale: np.ndarray | None
    names: Any = None
    missing: str = "impute"
    inverse: bool = False

    def is_needed(self, X: Any) -> bool:
        """Return whether X would change; raise an error for cells that it must not hold."""
        if self.inverse or is_finite(X):
            return self.scale is not None
        entries = X.data if sp.issparse(X) else X
        xp = array_namespace(entries)
        if self.missing == "refuse" or bool(xp.any(xp.isinf(entries))):
            check_cells(summarize_block(X), self.names, self.missing)
        return self.scale is not None or self.fill is not None

    def __call__(self, values: Any, columns: Any = slice(None)) -> Any:
        """Return rows scaled, or single values, given the column of each."""
        fill, center, scale = (
            None if numbers is None else asarray_like(numbers[columns], values)
            for numbers in (self.fill, self.center, self.scale)
        )
        if self.inverse:
            values = values if scale is None else values * scale
            return values if center is None else values + center
        if fill is not None:
            xp = array_namespace(values)
            values = xp.where(xp.isnan(values), fill, values)
        values = values if center is None else values - center
        return values if scale is None else values / scale


class Preprocessed(RowMap):
    """Rows that are filled and scaled, or brought back, as they are read."""

    def __init__(self, X: Operator, f: Scaling) -> None:
        super().__init__(X, X.shape, lambda rows, block: [(rows, apply(f, block))])
        self._f = f
        #: the names of the columns, if the data has any
        self.names = getattr(X, "names", None)

    def take(self, rows: np.ndarray) -> Any:
        return apply(self._f, self.X.take(rows))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all rows in memory, for those who ask numpy for them."""
        if self.sparse:
            raise TypeError(
                "these rows are sparse, and numpy has no array for them; use take(rows)"
            )
        return np.asarray(to_numpy(self.todense()), dtype=dtype)


def apply(f: Scaling, X: Any) -> Any:
    """Return f of X, computed in float64, in X's precision; X itself if it would not change.

    An operator becomes an operator that applies f to the blocks as they are read.
    """
    by_block = isinstance(X, Operator)
    if by_block and X.implicit:
        raise TypeError(f"X is a {type(X).__name__}, which has no rows to read; give its rows")
    if (X.sparse if by_block else sp.issparse(X)) and f.center is not None:
        raise ValueError(
            "X is sparse, and the Preprocessor was fitted on dense data, which it centres; fit it on "
            "sparse data, which it only scales"
        )
    if by_block:
        return Preprocessed(X, f)
    X = as_float(X)
    if not f.is_needed(X):
        return X
    if sp.issparse(X):
        out = X.copy()
        out.sum_duplicates()  # a number stored in parts is changed as a whole
        values = f(out.data.astype(np.float64), out.tocoo(copy=False).coords[1])
        out.data = values.astype(X.dtype, copy=False)
        return out
    xp = array_namespace(X)
    out = xp.empty_like(X)
    step = block_rows(X.shape[1], 8, GRAM_FACTOR)  # one block is in float64 at a time
    for i in range(0, X.shape[0], step):
        rows = slice(i, min(i + step, X.shape[0]))
        out[rows, :] = xp.astype(f(as_float64(X[rows, :])), X.dtype, copy=False)
    return out
