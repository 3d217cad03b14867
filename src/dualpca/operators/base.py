"""The operator X: its shape, dtype and products; everything else has a default in terms of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, wraps
from typing import Any

import numpy as np

from .._memory import ensure
from ..linalg import Array, finfo, namespace, on_gpu, to_numpy, total
from ..progress import reading
from . import block_ops
from .block_ops import as_float64, energy_of, fill, row_norms, stack, sum_up, take
from .sweep_maps import Reweighting, SweepMap, split

#: A function of ``rows, block``: the slice that a block is of all rows, and the block.
BlockFunction = Callable[[slice, Any], Any]


def _counted(product: Callable[..., Array]) -> Callable[..., Array]:
    @wraps(product)
    def counting(self: Any, factor: Array) -> Array:
        self._counter[0] += 1
        return product(self, factor)

    return counting


class Operator(ABC):
    """X, known by ``shape``, ``dtype``, ``X @ W`` and ``X.T @ H``.

    A subclass sets ``shape`` and ``dtype`` and defines :meth:`matmul` and :meth:`rmatmul`. All other
    members have defaults that multiply by columns of the identity; override those that can be had
    more cheaply, and :meth:`asarray` where the products are no numpy arrays. ``passes`` counts these
    two products unless the subclass defines it.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import PCA
    >>> from dualpca.operators import Operator
    >>> class Scaled(Operator):
    ...     def __init__(self, A, scale):
    ...         self.A, self.scale, self.shape, self.dtype = A, scale, A.shape, A.dtype
    ...     def matmul(self, W):
    ...         return self.scale * (self.A @ W)
    ...     def rmatmul(self, H):
    ...         return self.scale * (self.A.T @ H)
    >>> A = np.random.default_rng(0).standard_normal((50, 4))
    >>> ratio = PCA(2).fit(Scaled(A, 3.0)).explained_variance_ / PCA(2).fit(A).explained_variance_
    >>> ratio.round(6)
    array([9., 9.])
    """

    shape: tuple[int, int]
    dtype: Any

    #: whether W is the implicit Gamma^T A, so that only inner products of W are known
    implicit: bool = False
    #: whether reading all blocks costs one pass, so that the rows may be changed before products
    explicit_rows: bool = False
    #: whether :meth:`take` reads rows, without products
    takes_rows: bool = False
    #: whether the blocks are sparse, so that subtracting from them would densify them
    sparse: bool = False
    #: whether C kernels multiply, and whether they form X^T X, where they round rows as they read them
    uses_kernels: bool = False
    grams_by_kernels: bool = False
    #: whether they read the rows of an array, for products and norms
    rows_by_kernels: bool = False
    #: whether the rows lie on a cluster, where arrays with as many rows stay
    is_distributed: bool = False
    #: seconds, roughly, that a pass waits for the data besides the products
    read_seconds: float = 0.0
    #: ``N ||c||^2``, the energy that implicit centring removes; rounding is relative to it
    removed_energy: float = 0.0

    _norms: Array | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.passes is Operator.passes and not cls.explicit_rows:
            for name in {"matmul", "rmatmul"} & set(vars(cls)):
                setattr(cls, name, _counted(vars(cls)[name]))

    @cached_property
    def _counter(self) -> list[int]:
        return [0]

    @property
    def passes(self) -> int:
        """How often the data have been read: one for a product with X or X.T, one for a sweep."""
        return self._counter[0]

    @abstractmethod
    def matmul(self, W: Array) -> Array:
        """Return ``X @ W``."""

    @abstractmethod
    def rmatmul(self, H: Array) -> Array:
        """Return ``X.T @ H``."""

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        """Return ``X^T row_map(X W)``, in one pass where X is read by rows.

        ``row_map(Y, rows)`` gets some rows of XW and the slice they are, and returns as many rows of
        H; or a tuple of H and quantities that the sweep sums over all rows and returns behind
        ``X^T H``. None is the identity.
        """
        Y = self.matmul(W)
        H, sums = split(row_map(Y, slice(0, self.shape[0]))) if row_map else (Y, ())
        Z = self.rmatmul(H)
        return (Z, *sums) if sums else Z

    def reweigh(self, W: Array, F: Any, beside: Array | None = None) -> Any:
        """Return ``X^T dF(XW)`` and ``F(XW)``, in one pass where X is read by rows.

        F is a function of the lengths of rows. With one number a for each row, ``beside``, they are
        ``X^T Diag(w) (XW, a)`` by the weights w of the rows, ``F(XW)``, and the sum of ``w_i a_i^2``.
        """
        return self.sweep(W, Reweighting(F, beside))

    def cosweep(self, W: Array) -> Array:
        """Return ``X (X^T W)``, the sweep of ``X^T``, in one pass where :meth:`takes_strips`."""
        return self.matmul(self.rmatmul(W))

    def takes_strips(self, W: Array) -> bool:
        """Whether kernels read strips of columns of X, each for both products of :meth:`cosweep`."""
        return False

    @property
    def entries(self) -> int:
        """How many numbers a pass multiplies: all, or those that a sparse matrix stores."""
        return self.shape[0] * self.shape[1]

    def _columns(self) -> Iterator[Array]:
        """Yield ``X``, some columns at a time, by products with columns of the identity."""
        return (self.matmul(units) for units in self._units(self.shape[1]))

    def _units(self, n: int, chosen: np.ndarray | None = None) -> Iterator[Array]:
        """Yield columns of the n x n identity, all or those ``chosen``, some at a time."""
        chosen = np.arange(n) if chosen is None else chosen
        step = max(8, block_ops.GRAM_FACTOR * block_ops.BLOCK_BYTES // (8 * max(self.shape)))
        for start in range(0, len(chosen), step):
            part = chosen[start : start + step]
            units = np.zeros((n, len(part)))
            units[part, np.arange(len(part))] = 1.0
            yield self.asarray(units)

    def blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """Yield ``(rows, block)`` in order, the block dense or sparse and of the operator's dtype.

        A ``factor`` above 1 asks for blocks that are so many times larger than the cache. Where X is
        known by its products, each block is a product with columns of the identity.
        """
        N, step = self.shape[0], block_ops.block_rows(self.shape[1], 8, block_ops.GRAM_FACTOR)
        for start in range(0, N, step):
            rows = slice(start, min(start + step, N))
            yield rows, self.take(np.arange(rows.start, rows.stop))

    def read_blocks(self, factor: int = 1) -> Iterator[tuple[slice, Any]]:
        """Yield the blocks, as a pass that is counted and reported."""
        self._counter[0] += self.explicit_rows
        return reading(self.blocks(factor), self.shape[0])

    def _each(self, f: BlockFunction, factor: int = 1) -> Iterable[Any]:
        """Yield ``f(rows, block)`` for each block, in order."""
        return (f(rows, block) for rows, block in self.read_blocks(factor))

    def sum_blocks(self, f: BlockFunction, factor: int = 1) -> tuple[Any, ...]:
        """Return the sums over the blocks of what the tuples ``f(rows, block)`` hold."""
        return sum_up(self._each(f, factor))

    def map_rows(self, f: BlockFunction, columns: int | None = None) -> Array:
        """Stack ``f(rows, block)``: a row for each row, of ``columns`` numbers or one."""
        return fill(self._each(f), self.shape[0])

    def column_sums(
        self, weights: Array | None = None, *, exact: bool = True, keep: bool = False
    ) -> tuple[Array, float]:
        """Return ``sum_i w_i x_i`` and ``sum_i w_i ||x_i||^2``, w = 1 where None.

        Row blocks are summed in one pass and in float64; the rows of a block too where ``exact``,
        else in the data's precision, which leaves an error of about 10 eps. ``keep`` spares later
        calls the pass.
        """
        w = self.row_vector(np.ones(self.shape[0])) if weights is None else weights
        norms = self.row_norms()
        return self.rmatmul(w[:, None])[:, 0], total(w * norms * norms)

    def forget(self) -> None:
        """Drop what was kept of earlier passes, since the data may have changed."""
        self._norms = None

    def take(self, rows: np.ndarray) -> Any:
        """Return the rows with these sorted indices, as one array or CSR matrix in memory."""
        if len(rows) > self.shape[1]:
            return stack([take(Y, rows) for Y in self._columns()], axis=1)
        return stack([self.rmatmul(units).T for units in self._units(self.shape[0], rows)])

    def take_columns(self, features: np.ndarray) -> Operator:
        """Return the operator of some columns of X; nothing is copied."""
        from .views import ColumnsView

        return ColumnsView(self, features)

    def select(self, keep: Any, weights: Any = None) -> tuple[Operator, Array | None]:
        """Return the operator of the rows where ``keep`` is true, and their weights.

        Distributed rows, and others that are not copied, all stay where they are; those that are not
        kept weigh nothing.
        """
        from .row_blocks import Selected

        if self.is_distributed:
            return self, self.row_vector(keep if weights is None else keep * weights)
        keep = to_numpy(keep)
        chosen = None if weights is None else self.asarray(to_numpy(weights)[keep])
        return Selected(self, keep), chosen

    def row_norms(self) -> Array:
        """Return ``||X_i||`` for each row."""
        norms = self._norms  # another thread may forget them
        if norms is None:
            norms = self._norms = self._measure_rows()
        return norms

    def _measure_rows(self) -> Array:
        if self.shape[0] < self.shape[1]:
            return stack([row_norms(Z.T) for Z in self.T._columns()])
        squares = sum_up(as_float64(row_norms(Y)) ** 2 for Y in self._columns())
        return self.asarray(namespace(squares).sqrt(squares))

    def column_squares(self, weights: Array | None = None) -> np.ndarray:
        """Return ``sum_i w_i x_ij^2`` for each column j in float64, w = 1 where None."""
        w = 1.0 if weights is None else to_numpy(weights).astype(float)[:, None]
        parts = [(w * to_numpy(Y).astype(float) ** 2).sum(axis=0) for Y in self._columns()]
        return np.concatenate(parts)

    def energy(self) -> float:
        """Return ``||X||_F^2``."""
        return energy_of(self.row_norms())

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        """Return ``X^T X``, or ``X^T Diag(weights) X``, a dense matrix: for few columns.

        No weight is negative. Squaring costs half the digits, so that the products of rows are in float64
        also where the data is float32. ``single`` asks for float32, which is twice as fast and off by
        about eps of the trace; the products of sparse rows stay in float64.
        """
        self._ensure_square(self.shape[1])
        columns = (Y if weights is None else weights[:, None] * Y for Y in self._columns())
        return stack([as_float64(self.rmatmul(Y)) for Y in columns], axis=1)

    def kernel(self, *, single: bool = False) -> Array:
        """Return ``K = X X^T``, a dense matrix: for few rows."""
        self._ensure_square(self.shape[0])
        return stack([as_float64(self.matmul(Z)) for Z in self.T._columns()], axis=1)

    def todense(self) -> Array:
        """Return X as one dense array."""
        if self.implicit:
            raise TypeError(f"{self!r} has implicit columns and is no array; use kernel()")
        self._ensure_dense()
        if self.shape[0] < self.shape[1]:
            return stack([Z.T for Z in self.T._columns()])
        return stack(list(self._columns()), axis=1)

    def _ensure_dense(self) -> None:
        """Refuse to hold all entries of X in one array if memory has no room for them."""
        N, d = self.shape
        what = f"the entries of X, {N:,} x {d:,}, in one dense array"
        remedy = "give fewer rows or columns, or take a solver that reads blocks, such as 'krylov'"
        ensure(N * d * finfo(self).bits // 8, what, remedy, self.like)

    def _ensure_square(self, n: int) -> None:
        """Refuse a Gram matrix and its eigenvectors, in float64, if memory has no room for them."""
        what = f"a Gram matrix of {n:,} x {n:,} and its eigenvectors"
        remedy = "take a solver that needs none, such as 'krylov', or fewer columns or rows"
        ensure(16 * n * n, what, remedy, self.like)

    def blas_limited(self) -> AbstractContextManager[Any]:
        """Limit BLAS to one thread while this operator multiplies with its own thread pool."""
        return nullcontext()

    def in_float32(self, scale: float) -> Operator | None:
        """Return ``scale X`` with products in float32; None where X is not a dense array in memory."""
        return None

    @property
    def precision(self) -> str:
        """The arithmetic of the products: "float64", "float32" or "tf32"."""
        return str(self.dtype).rsplit(".", 1)[-1]

    def with_tf32(self) -> Operator:
        """Return X with products in TF32 where it is float32 on a GPU; else X itself."""
        from .gpu import Tf32

        return Tf32(self) if self.precision == "float32" and on_gpu(self.like) else self

    def ieee_products(self) -> AbstractContextManager[Any]:
        """Return a context in which float32 products on a GPU are not rounded to TF32."""
        from .gpu import matmul_precision

        return matmul_precision(self.like, "ieee")

    def asarray(self, values: Any) -> Array:
        """Return values as an array of the data's kind, dtype and device."""
        return np.asarray(values, dtype=self.dtype)

    @property
    def like(self) -> Array:
        """An array without entries, of the data's kind, dtype and device."""
        return self.asarray(np.zeros((0, 0)))

    def row_vector(self, values: Any, name: str = "the vector") -> Array:
        """Return one number for each row, as an array of the data's kind, where the rows lie."""
        return self.asarray(check_length(values, self.shape[0], name))

    def persist_rows(self, *arrays: Array) -> tuple[Array, ...]:
        """Compute arrays with a row for each row of X, and keep them where the rows lie."""
        return arrays

    def __matmul__(self, W: Array) -> Array:
        return self.matmul(W)

    @property
    def T(self) -> Operator:
        """The transpose, one object; ``X.T.T is X``."""
        from .views import Transposed

        return self.__dict__.setdefault("_transposed", Transposed(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


def check_length(values: Any, N: int, name: str) -> Any:
    """Refuse anything but a vector of N numbers; a number stands for N of them."""
    if values.ndim == 0:
        values = np.full(N, float(values))
    if tuple(values.shape) != (N,):
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}; give one weight for each of the {N} rows of X"
        )
    return values
