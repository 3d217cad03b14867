"""Kernel data: the feature map Gamma of which only K = Gamma Gamma^* is known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, partialmethod
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ..linalg import Array, is_implicit
from .base import Operator
from .block_ops import block_rows
from .blocks import Blocks
from .matrix import Matrix
from .views import View


class Representer:
    """``W = Gamma^T A``: a thin factor in feature space, by its coefficients A (Remark 2.1).

    It carries K A once that is known, and linear maps of it derive theirs from that, so that an
    iteration costs one product with K.
    """

    def __init__(
        self, operator: Kernel, coefficients: Array, image: Callable[[], Array] | None = None
    ) -> None:
        self.operator = operator
        self.coefficients = coefficients
        self._image: Callable[[], Array] | None = image
        self._known: Array | None = None

    @property
    def image(self) -> Array:
        """``Gamma W = K A``, from the images of the factors that W was made from, or by a product."""
        if self._known is None:
            self._known = self._image() if self._image else self.operator.K @ self.coefficients
            self._image = None
        return self._known

    @property
    def dtype(self) -> Any:
        return self.coefficients.dtype

    @property
    def shape(self) -> tuple[int, int]:
        return (self.operator.shape[1], self.coefficients.shape[1])

    def cross(self, other: Representer) -> Array:
        """Return ``A^T K B``, from whichever image is known."""
        if self._known is None and other._known is not None:
            return self.coefficients.T @ other.image
        return self.image.T @ other.coefficients

    def inner(self, other: Representer) -> float:
        """Return ``<A, K B>``."""
        if self._known is None and other._known is not None:
            return other.inner(self)
        return float(array_namespace(self.image).sum(self.image * other.coefficients))

    def _linear(self, f: Callable[..., Array], *operands: Any) -> Representer:
        """Return f of this factor and the operands, by its coefficients and by its image."""

        def applied(part: str) -> Array:
            factors = (self, *operands)
            return f(*(getattr(W, part) if is_implicit(W) else W for W in factors))

        return Representer(self.operator, applied("coefficients"), partial(applied, "image"))

    __add__ = partialmethod(_linear, operator.add)
    __sub__ = partialmethod(_linear, operator.sub)
    __neg__ = partialmethod(_linear, operator.neg)
    __mul__ = __rmul__ = partialmethod(_linear, operator.mul)
    __truediv__ = partialmethod(_linear, operator.truediv)
    __matmul__ = partialmethod(_linear, operator.matmul)


class Kernel(Operator):
    """Gamma, given K: products with W are products with K, and X^T H is ``Representer(H)``.

    Parameters
    ----------
    K : Operator
        The symmetric N x N kernel matrix: see :meth:`from_matrix`, :meth:`from_function` and
        :meth:`linear`.
    diagonal : callable
        Returns the diagonal of K; it is called only where row norms are needed.
    """

    implicit = True

    def __init__(self, K: Operator, diagonal: Callable[[], Array]) -> None:
        if K.shape[0] != K.shape[1]:
            raise ValueError(f"K has shape {K.shape}; a kernel matrix is square")
        self.K = K
        self.shape = K.shape
        self.dtype = K.dtype
        self._diagonal = diagonal

    @classmethod
    def from_matrix(cls, K: Any) -> Kernel:
        """Return the kernel operator of a kernel matrix in memory."""
        matrix = Matrix(K)

        def diagonal() -> Array:
            if matrix.sparse:
                return matrix.data.diagonal()
            return array_namespace(matrix.data).linalg.diagonal(matrix.data)

        return cls(matrix, diagonal)

    @classmethod
    def from_function(cls, kernel: Callable[[Any, Any], Any], X: Any) -> Kernel:
        """Return ``K_ij = kernel(X_i, X_j)``, computed by blocks in each pass, never stored."""
        N = X.shape[0]
        step = block_rows(N, 8)
        slices = [slice(i, min(i + step, N)) for i in range(0, N, step)]

        def diagonal() -> Array:
            chunks = [X[i : i + 64] for i in range(0, N, 64)]
            return np.concatenate([np.diagonal(kernel(chunk, chunk)) for chunk in chunks])

        K = Blocks(
            [lambda rows=rows: kernel(X[rows], X) for rows in slices],
            shapes=[(rows.stop - rows.start, N) for rows in slices],
            dtype=np.asarray(kernel(X[:1], X[:1])).dtype,
        )
        return cls(K, diagonal)

    @classmethod
    def linear(cls, X: Operator) -> Kernel:
        """Return ``K = X X^T``, as two products with X, never formed."""
        return cls(_Outer(X), lambda: X.row_norms() ** 2)

    def among(self, present: np.ndarray) -> Kernel:
        """Return K between the rows where ``present`` is true; nothing is copied."""
        rows = np.flatnonzero(present)
        return Kernel(_Among(self.K, rows), lambda: self._diagonal()[rows])

    @property
    def passes(self) -> int:
        return self.K.passes

    def matmul(self, W: Representer) -> Array:
        return W.image

    def rmatmul(self, H: Array) -> Representer:
        return Representer(self, H)

    def row_norms(self) -> Array:
        diagonal = self._diagonal()
        xp = array_namespace(diagonal)
        return xp.sqrt(xp.clip(diagonal, 0.0, None))

    def gram(self, weights: Array | None = None, *, single: bool = False) -> Array:
        raise TypeError("X^T X of a kernel lives in feature space; use kernel(), which is K")

    def kernel(self, *, single: bool = False) -> Array:
        return self.K.todense()

    def asarray(self, values: Any) -> Array:
        return self.K.asarray(values)


def from_gram(C: Any) -> Operator:
    """Return an operator X of which only ``C = X^T X`` is known."""
    return Kernel.from_matrix(C).T


class _Among(View):
    """``K[rows, rows]``, never copied in a product."""

    def __init__(self, K: Operator, rows: np.ndarray) -> None:
        super().__init__(K, (len(rows), len(rows)))
        self._rows = rows

    def matmul(self, W: Array) -> Array:
        whole = self.asarray(np.zeros((self.X.shape[0], W.shape[1])))
        whole[self._rows] = W
        return self.X.matmul(whole)[self._rows]

    rmatmul = matmul

    def todense(self) -> Array:
        return self.X.todense()[self._rows[:, None], self._rows]


class _Outer(View):
    """``X X^T``, never formed in a product."""

    def __init__(self, X: Operator) -> None:
        super().__init__(X, (X.shape[0], X.shape[0]))

    def matmul(self, W: Array) -> Array:
        return self.X.T.sweep(W)

    rmatmul = matmul

    def todense(self) -> Array:
        return self.X.kernel()
