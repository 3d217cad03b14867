"""Norms of sparse PCA, column by column: the k-sparse hull and its support function.

With ``positive`` a gauge sees only positive entries, and its dual is +inf where one is negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array
from scipy.optimize import brentq

from ..linalg import Array, inner, max_abs, namespace, norm
from .base import Norm
from .norms import _check_count

__all__ = ["KSupport", "TopK"]


def _visible(W: Array, positive: bool) -> Array:
    """W, or its positive part."""
    return namespace(W).clip(W, 0.0, None) if positive else W


def _outside(W: Array, positive: bool) -> bool:
    """Whether W leaves the orthant that it is asked to stay in."""
    return positive and bool(namespace(W).any(W < 0))


def _positions(A: Array) -> Array:
    """0, 1, ... down the rows of A."""
    xp = namespace(A)
    return xp.reshape(xp.arange(A.shape[0], device=device(A)), (-1,) + (1,) * (A.ndim - 1))


def _pick(A: Array, index: Any) -> Array:
    """``A[index_j, j]`` for each column j."""
    xp = namespace(A)
    return xp.sum(xp.where(_positions(A) == index, A, xp.zeros_like(A)), axis=0)


def _each(value: Any, check: Callable[[Any], None], kind: type) -> Any:
    """One parameter for all columns, or a tuple of them, checked."""
    many = isinstance(value, (list, tuple, np.ndarray))
    for part in value if many else (value,):
        check(part)
    return tuple(map(kind, value)) if many else kind(value)


def _per_column(name: str, value: Any, W: Array) -> Any:
    """A parameter as it is, or an array with one for each column of W."""
    if not isinstance(value, tuple):
        return value
    columns = W.shape[1] if W.ndim == 2 else 1
    if len(value) != columns:
        raise ValueError(
            f"{name}={value} has {len(value)} entries where the matrix has {columns} columns; "
            "give one number for all columns, or one for each"
        )
    xp = namespace(W)
    kind = xp.int64 if isinstance(value[0], int) else W.dtype
    return xp.asarray(value, dtype=kind, device=device(W))


@dataclass(frozen=True)
class _ColumnNorm(Norm):
    """What a norm of columns, combined by l2, and its dual have in common."""

    k: int | tuple[int, ...]
    positive: bool = False

    has_projection = has_half_square_prox = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", _each(self.k, _check_count, int))

    def _counts(self, W: Array) -> Any:
        k, d = _per_column("k", self.k, W), W.shape[0]
        return min(k, d) if isinstance(k, int) else namespace(W).clip(k, 1, d)

    def project(self, W: Array) -> Array:
        # The prox of gamma/2 ||.||^2 with the gamma that makes the norm 1: then W - P is gamma times
        # a subgradient of the norm. 1/||P|| is close to linear in gamma, so few steps find it.
        size = self(W)
        if size <= 1:
            return W

        def excess(gamma: float) -> float:
            return 1 / (self(self.half_square_prox(W, gamma)) if gamma > 0 else size) - 1

        high = 2 * self.dual(_visible(W, self.positive))  # gamma = ||W - P||_* <= ||W||_*
        P = self.half_square_prox(W, brentq(excess, 0.0, high, xtol=1e-16 * high, rtol=1e-15))
        return P / max(1.0, self(P))


@dataclass(frozen=True)
class TopK(_ColumnNorm):
    """``(sum_j ||z_j||_(k)^2)^{1/2}``, ``||z||_(k)`` the l2 norm of the k largest entries of z.

    The support function of the hull of the k-sparse unit vectors, for one column (the paper's section
    on sparse PCA; Beck 2021). k = 1 is l_inf, k >= d is l_2. The subgradient keeps k entries of each
    column, of tied ones those with the lowest index. With ``positive`` the support function of the
    nonnegative k-sparse unit vectors and 0: a gauge, which vanishes where no entry is positive.

    Parameters
    ----------
    k : int or tuple of int
        How many entries of each column count; one number for all columns, or one for each.
    positive : bool
        Whether only positive entries count.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.sparse_functions import TopK
    >>> z = np.array([[3.0], [-4.0], [1.0]])
    >>> TopK(2)(z), TopK(2, positive=True)(z) ** 2
    (5.0, 10.0)
    >>> TopK(2).subgradient(z).T
    array([[ 0.6, -0.8,  0. ]])
    """

    @property
    def dual(self) -> KSupport:
        return KSupport(self.k, self.positive)

    def _kept(self, W: Array) -> Array:
        xp = namespace(W)
        k = self._counts(W)
        W = _visible(W, self.positive)
        size = xp.abs(W)
        if is_numpy_array(size):  # no need to sort all, and ties are rare
            counts = np.broadcast_to(k, size.shape[1:]).ravel()
            columns = size.reshape(len(size), -1).T
            cuts = [np.partition(column, -n)[-n] for column, n in zip(columns, counts, strict=True)]
            cut = np.reshape(np.array(cuts, dtype=size.dtype), size.shape[1:])
            kept = size >= cut
            if (kept.sum(axis=0) == k).all():
                return np.where(kept, W, np.zeros_like(W))
        else:
            cut = _pick(xp.sort(size, axis=0, descending=True), k - 1)
        above, tied = size > cut, size == cut
        room = k - xp.sum(xp.astype(above, xp.int64), axis=0)
        first = xp.cumulative_sum(xp.astype(tied, xp.int64), axis=0) <= room
        return xp.where(above | (tied & first), W, xp.zeros_like(W))

    def __call__(self, W: Array) -> float:
        return norm(self._kept(W))

    def subgradient(self, W: Array) -> Array:
        return self.value_and_subgradient(W)[1]

    def value_and_subgradient(self, W: Array) -> tuple[float, Array]:
        kept = self._kept(W)
        value = norm(kept)
        return value, kept / value if value > 0 else kept

    def half_square_prox(self, W: Array, gamma: float) -> Array:
        return W - gamma * self.dual.half_square_prox(W / gamma, 1 / gamma)


@dataclass(frozen=True)
class KSupport(_ColumnNorm):
    """``inf { sum_I ||v_I||_2 : supp(v_I) in I, |I| <= k, sum_I v_I = w }``: the k-support norm.

    Of each column, combined by l2 (Argyriou, Foygel and Srebro 2012, Definition 2.1; the value by
    Proposition 2.1); the dual of :class:`TopK`. Its unit ball is the hull of the k-sparse unit vectors,
    so ``Ball(KSupport(k))`` is the ``delta_C`` of the paper's section on sparse PCA. k = 1 is l_1,
    k >= d is l_2. Parameters as for TopK; with ``positive`` +inf where an entry is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.sparse_functions import KSupport
    >>> w = np.array([[3.0], [-4.0], [0.0]])
    >>> KSupport(1)(w), KSupport(2)(w), KSupport(2, positive=True)(w)
    (7.0, 5.0, inf)
    """

    @property
    def dual(self) -> TopK:
        return TopK(self.k, self.positive)

    def _aligned(self, W: Array) -> Array:
        """Z with ``<Z, W> = KSupport(W)^2 = TopK(Z)^2``: small entries are raised to one level.

        The m largest stay; the level is (sum of the others)/(k - m), with the least m for which no
        other is above it: the r of Proposition 2.1 is k - m - 1.
        """
        xp = namespace(W)
        k, size = self._counts(W), xp.abs(W)
        ordered = xp.sort(size, axis=0, descending=True)
        rest = xp.flip(xp.cumulative_sum(xp.flip(ordered, axis=0), axis=0), axis=0)
        left = k - _positions(W)
        high = (left > 0) & (xp.astype(left, W.dtype) * ordered > rest)
        m = xp.sum(xp.astype(high, xp.int64), axis=0)
        level = _pick(rest, m) / xp.astype(k - m, W.dtype)
        return xp.where(size > level, W, level * xp.sign(W))

    def __call__(self, W: Array) -> float:
        if _outside(W, self.positive):
            return math.inf
        return inner(W, self.subgradient(W))

    def subgradient(self, W: Array) -> Array:
        scale = max_abs(W)
        if scale == 0:
            return W * 0.0
        Z = self._aligned(W := W / scale)  # whose squares neither overflow nor vanish
        return Z / math.sqrt(inner(W, Z))

    def prox(self, W: Array, gamma: float) -> Array:
        return _visible(super().prox(W, gamma), self.positive)  # rounding may leave the orthant

    def project(self, W: Array) -> Array:
        return super().project(_visible(W, self.positive))

    def half_square_prox(self, W: Array, gamma: float) -> Array:
        # ||w||^2 = min sum_i w_i^2/theta_i over 0 <= theta <= 1, sum theta <= k (McDonald, Pontil
        # and Stamos 2014). In the prox theta_i = clip(gamma (|w_i|/t - 1), 0, 1); the sum falls with t.
        xp = namespace(W)
        W = _visible(W, self.positive)
        k, size = self._counts(W), xp.abs(W)
        k = k if isinstance(k, int) else xp.astype(k, W.dtype)
        low, high = xp.zeros_like(size[0, ...]), xp.max(size, axis=0)
        high = xp.where(high > 0, high, xp.ones_like(high))
        for _ in range(64):  # to rounding of the largest entry
            t = (low + high) / 2
            over = xp.sum(xp.clip(gamma * (size / t - 1), 0.0, 1.0), axis=0) > k
            low, high = xp.where(over, t, low), xp.where(over, high, t)
        return _between(W, high, gamma)


def _between(W: Array, threshold: Any, gamma: float) -> Array:
    """``sign(w) clip(|w| - threshold, 0, |w|/(1 + gamma))``."""
    xp = namespace(W)
    size = xp.abs(W)
    return xp.sign(W) * xp.clip(xp.minimum(size - threshold, size / (1 + gamma)), 0.0, None)
