"""What is said of each column: missing cells, mean and spread, median and MAD."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace

from ..linalg import to_numpy

#: So many numbers are in memory in float64 at a time.
CHUNK = 2**22

#: 1 over the MAD, and over the mean absolute deviation, of the standard normal distribution.
NORMAL_MAD, NORMAL_MEAN = 1.482602218505602, math.sqrt(math.pi / 2)

#: The smallest number of float64 that has all its digits.
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Described:
    """Rows, those with missing cells, and for each column counts, mean, deviation, extremes."""

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

    def __add__(self, other: Described) -> Described:
        """Of the rows of both (Chan, Golub and LeVeque 1983), in roots, as squares may overflow."""
        n, m = self.counted, other.counted
        share = m / np.maximum(n + m, 1)
        with np.errstate(over="ignore", invalid="ignore"):  # fit refuses columns as wide as float64
            apart = other.mean - self.mean
            mean = self.mean + share * apart
            within = np.hypot(np.sqrt(1 - share) * self.deviation, np.sqrt(share) * other.deviation)
            deviation = np.hypot(within, np.sqrt(share * (1 - share)) * apart)
        return Described(
            self.rows + other.rows,
            self.incomplete + other.incomplete,
            self.missing + other.missing,
            self.infinite + other.infinite,
            mean,
            deviation,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    def deviations(self, eps: float) -> np.ndarray:
        """Standard deviations, 1 where a column has no spread but rounding."""
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        with np.errstate(over="ignore"):
            spread = self.high - self.low > 8 * eps * size
        # Subnormal numbers have not the digits to be divided by.
        return np.where(spread & (self.deviation > TINY), self.deviation, 1.0)


def is_finite(block: Any) -> bool:
    """Whether all entries are; a sum tells in nearly every case."""
    entries = block.data if sp.issparse(block) else block
    xp = array_namespace(entries)
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(xp.isfinite(xp.sum(entries))) or bool(xp.all(xp.isfinite(entries)))


def has_infinite(block: Any) -> bool:
    """Whether any entry is infinite, NaN aside."""
    entries = block.data if sp.issparse(block) else block
    xp = array_namespace(entries)
    return bool(xp.any(xp.isinf(entries)))


def describe(block: Any) -> Described:
    """Of a block of rows of any kind, on the host."""
    if sp.issparse(block):
        return _describe_sparse(block)
    N, step = block.shape[0], max(1, CHUNK // max(1, block.shape[1]))
    parts = (block[i : min(i + step, N), :] for i in range(0, N, step))
    return reduce(lambda a, b: a + b, (_describe_dense(to_numpy(part)) for part in parts))


def _unit(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A power of two at the largest magnitude of each column.

    Columns are divided by it, which rounds nothing, so that their squares neither overflow nor
    vanish.
    """
    size = np.maximum(np.abs(low), np.abs(high))
    return np.ldexp(0.5, np.frexp(np.where(np.isfinite(size), size, 0.0))[1])


def _describe_dense(A: np.ndarray) -> Described:
    A = A.astype(np.float64, copy=False)
    none = np.zeros(A.shape[1], dtype=np.int64)
    if is_finite(A):
        low, high = A.min(axis=0), A.max(axis=0)
        unit = _unit(low, high)
        A = A / unit
        mean = A.mean(axis=0)
        deviation = np.sqrt(((A - mean) ** 2).mean(axis=0))
        return Described(len(A), 0, none, none, mean * unit, deviation * unit, low, high)
    gone, sound = np.isnan(A), np.isfinite(A)
    missing, counted = gone.sum(axis=0), sound.sum(axis=0)
    low = np.where(sound, A, np.inf).min(axis=0)
    high = np.where(sound, A, -np.inf).max(axis=0)
    unit = _unit(low, high)
    A = np.where(sound, A, 0.0) / unit
    mean = A.sum(axis=0) / np.maximum(counted, 1)
    squares = (np.where(sound, A - mean, 0.0) ** 2).sum(axis=0)
    return Described(
        len(A),
        int(gone.any(axis=1).sum()),
        missing,
        len(A) - missing - counted,
        mean * unit,
        np.sqrt(squares / np.maximum(counted, 1)) * unit,
        low,
        high,
    )


def _describe_sparse(S: Any) -> Described:
    """Of a sparse block, of whose entries only those that are stored are looked at."""
    S = S.tocoo(copy=True)
    S.sum_duplicates()
    (N, d), columns, values = S.shape, S.coords[1], S.data.astype(np.float64)
    gone, sound = np.isnan(values), np.isfinite(values)

    def total(what: np.ndarray) -> np.ndarray:
        return np.bincount(columns, weights=what, minlength=d)

    missing, stored = total(gone).astype(np.int64), total(sound).astype(np.int64)
    infinite = total(~sound & ~gone).astype(np.int64)
    counted = N - missing - infinite
    low, high = (np.where(counted > stored, 0.0, end) for end in (np.inf, -np.inf))
    np.minimum.at(low, columns[sound], values[sound])
    np.maximum.at(high, columns[sound], values[sound])
    unit = _unit(low, high)
    values = np.where(sound, values, 0.0) / unit[columns]
    mean = total(values) / np.maximum(counted, 1)
    squares = total(np.where(sound, values - mean[columns], 0.0) ** 2)
    squares += (counted - stored) * mean**2
    return Described(
        N,
        len(np.unique(S.coords[0][gone])),
        missing,
        infinite,
        mean * unit,
        np.sqrt(squares / np.maximum(counted, 1)) * unit,
        low,
        high,
    )


def medians(X: Any, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """The median of each column, NaN where it has no value, and the robust scale.

    That is 1.4826 MAD; where half of the column is equal, 1.2533 times the mean absolute deviation
    from the median; 1 where there is no spread but rounding.
    """
    N, d = X.shape
    if sp.issparse(X):
        S = X.tocsc(copy=True)
        S.sum_duplicates()
        bounds = zip(S.indptr[:-1], S.indptr[1:], strict=True)
        parts = [_of_sparse(S.data[i:j].astype(np.float64), N, eps) for i, j in bounds]
    else:
        width = max(1, CHUNK // max(N, 1))
        parts = [
            _of_columns(to_numpy(X[:, j : min(j + width, d)]).astype(np.float64), eps)
            for j in range(0, d, width)
        ]
    return np.concatenate([m for m, _ in parts]), np.concatenate([s for _, s in parts])


def _of_columns(A: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    complete = is_finite(A)
    median: Callable[..., Any] = np.median if complete else np.nanmedian
    mean: Callable[..., Any] = np.mean if complete else np.nanmean
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns of NaN, whose median is NaN
        middle = median(A, axis=0)
        apart = np.abs(A - middle)
        return middle, _spread(
            NORMAL_MAD * median(apart, axis=0), NORMAL_MEAN * mean(apart, axis=0), eps * abs(middle)
        )


def _of_sparse(values: np.ndarray, N: int, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Of one column by its stored values: where most are zeros, so are median and MAD."""
    kept = values[~np.isnan(values)]
    counted = N - (len(values) - len(kept))
    zeros = counted - len(kept)
    if 2 * zeros <= counted:
        return _of_columns(np.concatenate([kept, np.zeros(zeros)])[:, None], eps)
    mean = np.array([NORMAL_MEAN * (np.abs(kept) / counted).sum()])
    return np.zeros(1), _spread(np.zeros(1), mean, np.zeros(1))


def _spread(mad: np.ndarray, mean: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    least = np.maximum(8 * rounding, TINY)
    return np.where(mad > least, mad, np.where(mean > least, mean, 1.0))


def refuse(found: Described, names: Any, missing: str) -> None:
    """An error for infinite values, and for missing ones unless they are to be filled."""
    if found.infinite.any():
        raise ValueError(
            f"X has {found.infinite.sum()} infinite values (inf), most in "
            f"{worst(found.infinite, names)}; correct them, or mark them as missing with NaN"
        )
    if missing == "refuse" and found.incomplete:
        raise ValueError(
            f"X has {found.missing.sum()} missing cells (NaN) in {found.incomplete} of {found.rows} "
            f"rows, most in {worst(found.missing, names)}; use Preprocessor(missing='impute') to "
            "fill them with the medians of the columns, or drop those rows or columns"
        )


def worst(counts: np.ndarray, names: Any) -> str:
    """The three columns with the largest counts, by name."""
    order = [j for j in np.argsort(-counts, kind="stable")[:3] if counts[j]]
    return ", ".join(f"{named(j, names)} ({counts[j]})" for j in order)


def named(j: int, names: Any) -> str:
    """What a column is called."""
    return f"column {j}" if names is None else repr(str(names[j]))
