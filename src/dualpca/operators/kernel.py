"""Kernel data: the feature map Gamma of which only K = Gamma Gamma^* is known."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, partialmethod
from operator import attrgetter
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

    dtype: Any = property(attrgetter("coefficients.dtype"))

    def __init__(self, operator: Kernel, coefficients: Array, image: Any = None) -> None:
        self.operator, self.coefficients = operator, coefficients
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
    passes: Any = property(attrgetter("K.passes"))
    asarray: Any = property(attrgetter("K.asarray"))
    blas_limited: Any = property(attrgetter("K.blas_limited"))

    def __init__(self, K: Operator, diagonal: Callable[[], Array]) -> None:
        if K.shape[0] != K.shape[1]:
            raise ValueError(f"K has shape {K.shape}; a kernel matrix is square")
        self.K, self._diagonal = K, diagonal
        self.shape, self.dtype = K.shape, K.dtype

    @classmethod
    def from_matrix(cls, K: Any) -> Kernel:
        """Return the kernel operator of a kernel matrix in memory."""
        matrix = Matrix(K)

        if matrix.sparse:
            return cls(matrix, matrix.data.diagonal)
        return cls(matrix, lambda: array_namespace(matrix.data).linalg.diagonal(matrix.data))

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
        K = _Symmetric(X, X.shape[0], X.T.sweep, X.kernel)
        return cls(K, lambda: X.row_norms() ** 2)

    def among(self, present: np.ndarray) -> Kernel:
        """Return K between the rows where ``present`` is true; nothing is copied."""
        rows, K = np.flatnonzero(present), self.K

        def product(W: Array) -> Array:
            whole = K.asarray(np.zeros((K.shape[0], W.shape[1])))
            whole[rows] = W
            return K.matmul(whole)[rows]

        part = _Symmetric(K, len(rows), product, lambda: K.todense()[rows[:, None], rows])
        return Kernel(part, lambda: self._diagonal()[rows])

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


def from_gram(C: Any) -> Operator:
    """Return an operator X of which only ``C = X^T X`` is known."""
    return Kernel.from_matrix(C).T


class _Symmetric(View):
    """A matrix of n rows, made of X, that is known by its products; its columns are its rows."""

    def __init__(self, X: Operator, n: int, product: Any, dense: Any) -> None:
        super().__init__(X, (n, n))
        self._product, self._dense = product, dense

    def matmul(self, W: Array) -> Array:
        return self._product(W)

    def rmatmul(self, H: Array) -> Array:
        return self._product(H)

    def todense(self) -> Array:
        return self._dense()
