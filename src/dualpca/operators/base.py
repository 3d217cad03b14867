"""The data as an operator: shape, dtype, products, one fused pass and a count of passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ..linalg import Array, on_gpu, over_blocks

RowMap = Callable[[Array, slice], Any]


def split(mapped: Any) -> tuple[Array, tuple[Any, ...]]:
    """What a row map returned: H, or H followed by quantities to be summed over the rows."""
    return (mapped[0], tuple(mapped[1:])) if isinstance(mapped, tuple) else (mapped, ())


def _sum_of_squares(norms: Array) -> float:
    xp = array_namespace(norms)
    return float(xp.sum(xp.astype(norms, xp.float64, copy=False) ** 2))


class Operator(ABC):
    """X, of which a solver knows ``shape``, ``dtype``, ``X @ W``, ``X.T @ H`` and ``X.sweep``.

    ``passes`` counts the readings of the data: one for a product with X or X.T, one for a sweep, also
    where the product was asked of a transposed, centred or weighted view.
    """

    shape: tuple[int, int]
    dtype: Any

    #: whether W is the implicit Gamma^T A, so that only inner products of W are known
    implicit: bool = False

    @property
    def entries(self) -> int:
        """How many numbers a pass multiplies: all, or those that a sparse matrix stores."""
        return self.shape[0] * self.shape[1]

    @property
    def sparse(self) -> bool:
        """Whether the blocks are sparse, so that subtracting from them would densify."""
        return False

    @property
    def is_distributed(self) -> bool:
        """Whether the rows are spread over a cluster, where what has as many rows stays."""
        return False

    @property
    def read_seconds(self) -> float:
        """About how many seconds a pass waits for the data, besides the products."""
        return 0.0

    @property
    def removed_energy(self) -> float:
        """What is taken out of ``||X||_F^2`` after the products, whose rounding it adds to."""
        return 0.0

    @property
    @abstractmethod
    def passes(self) -> int:
        """How often the data have been read."""

    @abstractmethod
    def matmul(self, W: Array) -> Array:
        """``X @ W``."""

    @abstractmethod
    def rmatmul(self, H: Array) -> Array:
        """``X.T @ H``."""

    @abstractmethod
    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        """``X^T row_map(X W)`` in one pass over the rows.

        ``row_map(Y, rows)`` gets some rows of XW and the slice they are, and returns as many rows of
        H; or a tuple of H and quantities that the sweep sums over all rows and returns behind
        ``X^T H``. None is the identity.
        """

    def rowwise(self, W: Array, f: RowMap) -> Array:
        """``f(X W, rows)``, a number for each row, where these are spread: one pass."""
        raise TypeError(f"the rows of {self!r} are not spread over a cluster")

    @abstractmethod
    def row_norms(self) -> Array:
        """``||X_i||`` for each row."""

    def energy(self) -> float:
        """``||X||_F^2``."""
        return sum(over_blocks(self.row_norms(), lambda i, norms: _sum_of_squares(norms)))

    @abstractmethod
    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        """``X^T X``, or ``X^T Diag(weights) X``, a dense matrix: for few columns.

        The products are in float64 also where the data is float32; in float32 where ``single``.
        """

    @abstractmethod
    def kernel(self, *, single: bool = False) -> Array:
        """``K = X X^T``, a dense matrix: for few rows."""

    def blas_limited(self) -> AbstractContextManager[Any]:
        """A context for many products, in which BLAS leaves the cores to threads of our own."""
        return nullcontext()

    def float32_copy(self, scale: float) -> Operator | None:
        """``scale X`` as a float32 copy; None where X is not a dense array in memory."""
        return None

    @property
    def precision(self) -> str:
        """The arithmetic of the products: "float64", "float32" or "tf32"."""
        return str(self.dtype).rsplit(".", 1)[-1]

    def with_tf32(self) -> Operator:
        """Return X with products in TF32 where it is float32 on a GPU; else X itself."""
        from .tf32 import Tf32

        return Tf32(self) if self.precision == "float32" and on_gpu(self.like) else self

    def ieee_products(self) -> AbstractContextManager[Any]:
        """Return a context in which float32 products on a GPU are not rounded to TF32."""
        from .tf32 import matmul_precision

        return matmul_precision(self.like, "ieee")

    def todense(self) -> Array:
        """X as one dense array."""
        raise TypeError(f"{self!r} is not held as one dense array")

    @abstractmethod
    def asarray(self, values: Any) -> Array:
        """A numpy array as an array of the data's kind, dtype and device."""

    @property
    def like(self) -> Array:
        """An array without entries, of the data's kind, dtype and device."""
        return self.asarray(np.zeros((0, 0)))

    def gather(self, Y: Array) -> Array:
        """A product with X as a thin factor of this process, where it is spread over others."""
        return Y

    def persist_rows(self, *arrays: Array) -> tuple[Array, ...]:
        """Arrays with as many rows as X, computed and kept where the rows are."""
        return arrays

    def __matmul__(self, W: Array) -> Array:
        return self.matmul(W)

    @property
    def T(self) -> Operator:
        """The transpose, one object; ``X.T.T is X``."""
        return self.__dict__.setdefault("_transposed", Transposed(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype})"


class View(Operator):
    """What every view passes on to the operator below it."""

    def __init__(self, X: Operator) -> None:
        self.X = X
        self.shape = X.shape
        self.dtype = X.dtype
        self.implicit = X.implicit

    @property
    def entries(self) -> int:
        return self.X.entries

    @property
    def sparse(self) -> bool:
        return self.X.sparse

    @property
    def is_distributed(self) -> bool:
        return self.X.is_distributed

    @property
    def read_seconds(self) -> float:
        return self.X.read_seconds

    @property
    def removed_energy(self) -> float:
        return self.X.removed_energy

    def blas_limited(self) -> AbstractContextManager[Any]:
        return self.X.blas_limited()

    @property
    def passes(self) -> int:
        return self.X.passes

    def asarray(self, values: Any) -> Array:
        return self.X.asarray(values)

    def gather(self, Y: Array) -> Array:
        return self.X.gather(Y)

    def persist_rows(self, *arrays: Array) -> tuple[Array, ...]:
        return self.X.persist_rows(*arrays)


class Transposed(View):
    """``X^T``. Its sweep needs X^T H finished before the first row: two passes over the rows of X."""

    def __init__(self, X: Operator) -> None:
        super().__init__(X)
        self.shape = (X.shape[1], X.shape[0])
        self.implicit = False

    @property
    def T(self) -> Operator:
        return self.X

    def matmul(self, W: Array) -> Array:
        return self.X.rmatmul(W)

    def rmatmul(self, H: Array) -> Array:
        return self.gather(self.X.matmul(H))

    def sweep(self, W: Array, row_map: RowMap | None = None) -> Any:
        Y = self.X.rmatmul(W)
        H, sums = split(row_map(Y, slice(0, self.shape[0]))) if row_map else (Y, ())
        Z = self.gather(self.X.matmul(H))
        return (Z, *sums) if sums else Z

    def row_norms(self) -> Array:
        raise TypeError(
            "the norms of the columns of X were asked for, which row blocks do not offer; "
            "pass the transposed data itself"
        )

    def energy(self) -> float:
        return self.X.energy()

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        if weights is not None:
            raise TypeError("weights of the columns of X; pass the transposed data itself")
        return self.X.kernel(single=single)

    def kernel(self, *, single: bool = False) -> Array:
        return self.X.gram(single=single)
