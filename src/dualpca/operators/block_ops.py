"""Functions of one row block: sizes, sums, norms and moments; threads that share the blocks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from operator import add
from threading import Lock, local
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device, is_numpy_array
from threadpoolctl import ThreadpoolController

from .. import native
from ..linalg import Array, namespace, on_gpu, over_blocks, to_numpy

#: Rows are swept in blocks of about this size: the second product then reads from the cache, which
#: makes a sweep one pass over memory (measured 0 to 25 % faster than two products, never slower).
BLOCK_BYTES = 4 * 2**20

#: A Gram matrix does d products for each number it reads, and wants blocks this many times larger.
GRAM_FACTOR = 8


def block_rows(columns: int, itemsize: int, factor: int = 1) -> int:
    """Return rows of a block of about BLOCK_BYTES, at least 64 so that products stay efficient."""
    return max(64, factor * BLOCK_BYTES // max(1, columns * itemsize))


def as_float(data: Any) -> Any:
    """Return float32 and float64 data as it is, anything else as float64."""
    known = str(data.dtype).rsplit(".", 1)[-1] in ("float32", "float64")
    return data if known else cast(data, "float64")


def compressed(data: Any) -> Any:
    """Return sparse data as CSR or CSC, without memory beyond the last entry."""
    if not sp.issparse(data):
        return data
    if data.format not in ("csr", "csc"):
        return data.tocsr()
    if data.data.shape[0] == data.nnz:
        return data
    entries = data.data[: data.nnz], data.indices[: data.nnz], data.indptr
    return type(data)(entries, shape=data.shape)


def cast(block: Any, kind: str) -> Any:
    """Return the block in "float32" or "float64"."""
    if sp.issparse(block):
        return block.astype(kind, copy=False)
    xp = namespace(block)
    return xp.astype(block, getattr(xp, kind), copy=False)


def as_float64(block: Any) -> Any:
    """Return the block in float64."""
    return cast(block, "float64")


def sum_up(parts: Iterable[Any]) -> Any:
    """Return the sum of the parts in their order; tuples are summed entry by entry."""
    return reduce(lambda a, b: tuple(map(add, a, b)) if isinstance(a, tuple) else a + b, parts)


def stack(parts: list[Any], axis: int = 0) -> Any:
    """Concatenate the parts; a single part is returned as it is."""
    return parts[0] if len(parts) == 1 else namespace(*parts).concat(parts, axis=axis)


def fill(parts: Iterable[Any], rows: int) -> Any:
    """Concatenate parts of so many rows or fewer; numpy arrays one by one, which need not be held."""
    parts = iter(parts)
    first = next(parts)
    if first.shape[0] == rows or not is_numpy_array(first):
        return stack([first, *parts])
    out, done = np.empty((rows, *first.shape[1:]), dtype=first.dtype), 0
    for part in itertools.chain([first], parts):
        out[done : done + len(part)] = part
        done += len(part)
    return out[:done]


def take(block: Any, chosen: np.ndarray, axis: int = 0) -> Any:
    """Return the chosen rows (or columns) of a block of any kind."""
    if sp.issparse(block) or is_numpy_array(block):
        return block[chosen] if axis == 0 else block[:, chosen]
    xp = namespace(block)
    return xp.take(block, xp.asarray(chosen, device=device(block)), axis=axis)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


_LIMITED = Lock()
_threads_before: list[int] = []  # how many threads BLAS had when one_blas_thread began
_this_thread = local()


def blas_threads() -> int:
    """Return how many threads BLAS may use, by its own or the user's limit."""
    libraries = _controller().select(user_api="blas").lib_controllers
    return max((library.get_num_threads() for library in libraries), default=1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS from starting threads while threads of our own multiply.

    Only the first of several concurrent fits changes the limit; a second would save the limited
    value and restore it permanently.
    """
    if not _LIMITED.acquire(blocking=False):
        yield
        return
    try:
        _threads_before.append(blas_threads())
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _threads_before.clear()
        _LIMITED.release()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let this thread multiply alone, as others multiply other blocks at the same time."""
    before, _this_thread.alone = getattr(_this_thread, "alone", False), True
    try:
        yield
    finally:
        _this_thread.alone = before


@cache
def _processors() -> int:
    return os.cpu_count() or 1  # it reads a file


def threads() -> int:
    """Return how many threads products may use: as many as BLAS, and OMP_NUM_THREADS at most."""
    if getattr(_this_thread, "alone", False):
        return 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    most = int(given) if given.isdigit() and int(given) > 0 else _processors()
    limited = _threads_before[:1]  # another thread may clear it
    return min(most, limited[0] if limited else blas_threads())


def multiply(X: Any, W: Array) -> Array:
    """Return ``X W`` for a block X."""
    if native.takes(native.MATMUL, X, W):
        return native.multiply(native.MATMUL, X, W, threads())
    if native.takes(native.RMATMUL, X.T, W):
        return native.multiply(native.RMATMUL, X.T, W, threads())
    return X @ W


def multiply_transposed(X: Any, H: Array) -> Array:
    """Return ``X^T H`` for a block X."""
    if native.takes(native.RMATMUL, X, H):
        return native.multiply(native.RMATMUL, X, H, threads())
    if native.takes(native.MATMUL, X.T, H):
        return native.multiply(native.MATMUL, X.T, H, threads())
    return X.T @ H


def scaled_gram(X: Array, scale: float = 1.0) -> Array:
    """Return ``X^T X / scale^2`` in float64, for a dense block of few columns."""
    if native.takes_gram(X, threads()):
        return native.gram(X, threads(), single=False, scale=1 / scale)
    wide = as_float64(X)
    wide = wide if scale == 1.0 else wide / scale
    return wide.T @ wide


def takes_exponential(X: Any) -> bool:
    """Whether the C kernels compute ``exp(X W)`` of a copy of X by rows."""
    return native.native_available() and isinstance(X, np.ndarray)


def exponential(X: np.ndarray, W: np.ndarray, out: np.ndarray) -> None:
    """Set ``out`` to ``exp(X W)``, at most 1, by the C kernels in this thread; all have one type."""
    native.exponential(X, W, out)


def off_rows(rows: Any, Z: Array) -> tuple[Array, Array]:
    """Return ``Z - V H`` and ``H = V^T Z``, where the rows are ``V^T``."""
    if native.takes(native.SWEEP, rows, Z):
        H, image = native.both_products(rows, Z, threads())
        return np.subtract(Z, image, out=image), H
    H = multiply(rows, Z)
    return Z - multiply_transposed(rows, H), H


def gathered(Y: Array) -> Array:
    """Return a thin factor in the memory of this process, also one whose rows lie on a cluster."""
    return to_numpy(Y) if hasattr(Y, "__dask_graph__") else Y


def dense(S: Any) -> Any:
    """Return a block or a small product as a dense array."""
    return S.toarray() if sp.issparse(S) else S


def scale_rows(block: Any, weights: Array) -> Any:
    """Return ``Diag(weights) block``."""
    if sp.issparse(block):
        return sp.diags_array(weights) @ block
    return namespace(block).astype(weights, block.dtype, copy=False)[:, None] * block


def canonical(block: Any) -> Any:
    """Return a sparse block in which each entry is stored once: a copy if it was not so."""
    if block.has_canonical_format:
        return block
    block = block.copy()
    block.sum_duplicates()
    return block


def squares(block: Any) -> Any:
    """Return the squares of the entries."""
    if not sp.issparse(block):
        return block * block
    block = canonical(block)
    return block.multiply(block)


def _plain_norms(block: Any) -> Array:
    if sp.issparse(block):
        return np.sqrt(np.asarray(squares(block).sum(axis=1)).ravel())
    xp = namespace(block)
    return xp.sqrt(xp.linalg.vecdot(block, block))


def row_norms(block: Any) -> Array:
    """Return ``||x_i||`` for each row, also where squares overflow or vanish."""
    with np.errstate(over="ignore", under="ignore"):
        size = _plain_norms(block)
    xp = namespace(size)
    info = xp.finfo(size.dtype)
    low, high = (info.smallest_normal / info.eps) ** 0.5, info.max**0.5 / 2
    extreme = (size < low) | (size > high)
    if not bool(xp.any(extreme)):
        return size
    if sp.issparse(block):
        largest = abs(canonical(block)).max(axis=1).toarray().ravel()
    else:
        largest = xp.max(xp.abs(block), axis=1)
    usable = extreme & (largest > 0)
    # A subnormal number has no finite inverse.
    scale = xp.where(usable, xp.clip(largest, info.smallest_normal, None), xp.ones_like(largest))
    scaled = scale_rows(block, 1 / scale)
    with np.errstate(over="ignore"):  # a norm may be infinite
        return xp.where(usable, scale * _plain_norms(scaled), size)


def moments(block: Any, weights: Array | None, exact: bool) -> tuple[Array, float]:
    """Return ``sum_i w_i x_i`` and ``sum_i w_i ||x_i||^2`` of a block, w = 1 where None."""
    gpu = not sp.issparse(block) and on_gpu(block)
    wide = as_float64(block) if exact and not gpu else block
    if sp.issparse(wide):
        return _sparse_moments(wide, weights)
    xp = namespace(wide)
    if gpu and weights is None:  # float64 sums of float32 entries, without a copy of these
        return xp.sum(wide, axis=0, dtype=xp.float64), energy(wide)
    if weights is None:
        w = xp.ones(wide.shape[0], dtype=wide.dtype, device=device(wide))
    else:
        w = xp.astype(weights, wide.dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller sees an infinite energy
        if weights is None:
            total = sum(float(xp.sum(_row_squares(part))) for part in _merged(wide))
        else:
            total = float(xp.sum(as_float64(w) * _row_squares(wide)))
        return as_float64((w[None, :] @ wide)[0, :]), total


def energy(block: Any) -> float:
    """Return ``||X||_F^2`` of a block."""
    if sp.issparse(block) or not on_gpu(block):
        return moments(block, None, True)[1]
    xp = namespace(block)
    # Row norms need no memory, as squares would; extreme ones show in the sum.
    total = float(xp.sum(as_float64(xp.linalg.vector_norm(block, axis=1)) ** 2))
    if 1e-20 < total < np.inf:
        return total
    return float(xp.sum(as_float64(block) ** 2))


def energy_of(norms: Array) -> float:
    """Return the sum of the squares of the norms of rows, in float64."""

    def part(i: int, block: Array) -> float:
        with np.errstate(over="ignore", under="ignore"):  # the caller checks the range
            return float(namespace(block).sum(as_float64(block) ** 2))

    return sum(over_blocks(norms, part))


def _merged(A: Array) -> list[Array]:
    """Return views of A: short rows joined to rows of about 4096 entries, and the others."""
    N, d = A.shape
    count = 4096 // d
    if count < 2 or count > N or not (is_numpy_array(A) and A.flags.c_contiguous):
        return [A]
    whole = N - N % count
    return [A[:whole].reshape(-1, count * d), A[whole:]]


def _row_squares(A: Array) -> Array:
    """Return ``||A_i||^2``; sums over more than 4096 terms would lose digits, and are in float64."""
    xp = namespace(A)
    cuts = [*range(0, A.shape[1], 4096), A.shape[1]]
    pieces = (A[:, start:stop] for start, stop in itertools.pairwise(cuts))
    return sum_up(as_float64(xp.linalg.vecdot(p, p)) for p in pieces)


def _sparse_moments(block: Any, weights: Array | None) -> tuple[Array, float]:
    block = canonical(block)
    data = np.asarray(block.data, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller sees an infinite energy
        if weights is None:
            return np.asarray(block.sum(axis=0, dtype=np.float64)).ravel(), float(data @ data)
        entry_weights = (
            np.repeat(weights, np.diff(block.indptr))
            if block.format == "csr"
            else weights[block.indices]
        )
        return as_float64(block).T @ as_float64(weights), float((entry_weights * data) @ data)


def float_type(dtype: Any) -> np.dtype:
    """Return float32 and float64 in the machine's byte order; float64 for other real numbers."""
    dtype = np.dtype(dtype)
    if dtype.kind not in "biuf":
        raise ValueError(
            f"the data has dtype {dtype}; real numbers are needed: convert it, or drop the columns "
            "that hold no numbers"
        )
    return np.dtype(dtype.name if dtype.name in ("float32", "float64") else "float64")
