"""Functions of sparse PCA: gauges of the k-sparse hull, column by column, and GPower's squares.

With ``positive`` a function depends on the positive entries only, and its dual or conjugate is +inf if
one is negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array
from scipy.optimize import brentq

from ..linalg import Array, inner, max_abs, namespace, norm
from . import entries
from .base import Function, Norm, derived


def _positions(A: Array) -> Array:
    """Return 0, 1, ... down the rows of A."""
    xp = namespace(A)
    return xp.reshape(xp.arange(A.shape[0], device=device(A)), (-1,) + (1,) * (A.ndim - 1))


def _pick(A: Array, index: Any) -> Array:
    """Return ``A[index_j, j]`` for each column j."""
    xp = namespace(A)
    return xp.sum(xp.where(_positions(A) == index, A, xp.zeros_like(A)), axis=0)


def _kth_largest(A: np.ndarray, k: Any) -> np.ndarray:
    """Return the k_j-th largest entry of each column j, by partitions."""
    if isinstance(k, int):
        return np.partition(A, len(A) - k, axis=0)[len(A) - k]
    columns = A.reshape(len(A), -1).T
    counts = np.broadcast_to(k, A.shape[1:]).ravel()
    found = [np.partition(a, -n)[-n] for a, n in zip(columns, counts, strict=True)]
    return np.reshape(np.array(found, dtype=A.dtype), A.shape[1:])


@dataclass(frozen=True)
class _ColumnNorm(Norm):
    """A norm of each column, combined by l2; k may be a tuple with a number for each column."""

    k: int | tuple[int, ...]
    positive: bool = False

    has_projection = has_half_square_prox = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", entries.check_each("k", self.k, entries.check_count))

    def _counts(self, W: Array) -> Any:
        k, d = entries.per_column("k", self.k, W), W.shape[0]
        return min(k, d) if isinstance(k, int) else namespace(W).clip(k, 1, d)

    def project(self, W: Array) -> Array:
        # P is the prox of gamma/2 ||.||^2 for the gamma with ||P|| = 1: W - P is then gamma times a
        # subgradient of the norm. 1/||P|| is close to linear in gamma, so few steps find it.
        size = self(W)
        if size <= 1:
            return W

        def excess(gamma: float) -> float:
            return 1 / (self(self.half_square_prox(W, gamma)) if gamma > 0 else size) - 1

        # gamma = ||W - P||_* <= ||W||_*
        high = 2 * self.dual(entries.positive_part(W, self.positive))
        P = self.half_square_prox(W, brentq(excess, 0.0, high, xtol=1e-16 * high, rtol=1e-15))
        return P / max(1.0, self(P))


class TopK(_ColumnNorm):
    """``(sum_j ||z_j||_(k)^2)^{1/2}``, ``||z||_(k)`` the l2 norm of the k largest entries of z.

    For one column it is the support function of the hull of the k-sparse unit vectors (the section on
    sparse PCA; Beck 2021). k = 1 is l_inf, k >= d is l_2. The subgradient keeps k entries of each
    column, the first ones of those that are tied. With ``positive`` it is the support function of the
    nonnegative k-sparse unit vectors and 0: a gauge, which is 0 if no entry is positive.

    Parameters
    ----------
    k : int or tuple of int
        How many entries of each column count; one number for all columns, or one for each.
    positive : bool
        Whether only positive entries count.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.functions import TopK
    >>> z = np.array([[3.0], [-4.0], [1.0]])
    >>> TopK(2)(z), TopK(2, positive=True)(z) ** 2
    (5.0, 10.0)
    >>> TopK(2).subgradient(z).T
    array([[ 0.6, -0.8,  0. ]])
    """

    dual = derived(lambda norm: KSupport(norm.k, norm.positive))

    def _largest(self, W: Array) -> Array:
        """Return W with all but the k largest entries of each column set to 0."""
        xp = namespace(W)
        k = self._counts(W)
        W = entries.positive_part(W, self.positive)
        size = xp.abs(W)
        if is_numpy_array(size):  # a partition is cheaper than sorting
            cut = _kth_largest(size, k)
            kept = size >= cut
            if np.all(kept.sum(axis=0) == k):  # nothing is tied with the last
                return np.where(kept, W, np.zeros_like(W))
        else:
            cut = _pick(xp.sort(size, axis=0, descending=True), k - 1)
        above, tied = size > cut, size == cut
        room = k - xp.sum(xp.astype(above, xp.int64), axis=0)
        first = xp.cumulative_sum(xp.astype(tied, xp.int64), axis=0) <= room
        return xp.where(above | (tied & first), W, xp.zeros_like(W))

    def __call__(self, W: Array) -> float:
        return norm(self._largest(W))

    def subgradient(self, W: Array) -> Array:
        return self.value_and_subgradient(W)[1]

    def value_and_subgradient(self, W: Array) -> tuple[float, Array]:
        kept = self._largest(W)
        value = norm(kept)
        return value, kept / value if value > 0 else kept

    def half_square_prox(self, W: Array, gamma: float) -> Array:
        return W - gamma * self.dual.half_square_prox(W / gamma, 1 / gamma)


class KSupport(_ColumnNorm):
    """``inf { sum_I ||v_I||_2 : supp(v_I) in I, |I| <= k, sum_I v_I = w }``: the k-support norm.

    The norm of each column is combined by l2 (Argyriou, Foygel and Srebro 2012, Definition 2.1 and
    Proposition 2.1). It is the dual of :class:`TopK` and has its parameters. Its unit ball is the hull
    of the k-sparse unit vectors, so ``Ball(KSupport(k))`` is the ``delta_C`` of the paper's section on
    sparse PCA. k = 1 is l_1, k >= d is l_2. With ``positive`` it is +inf if an entry is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca.functions import KSupport
    >>> w = np.array([[3.0], [-4.0], [0.0]])
    >>> KSupport(1)(w), KSupport(2)(w), KSupport(2, positive=True)(w)
    (7.0, 5.0, inf)
    """

    dual = derived(lambda norm: TopK(norm.k, norm.positive))

    def _aligned(self, W: Array) -> Array:
        """Return Z with ``<Z, W> = KSupport(W)^2 = TopK(Z)^2``: small entries are raised to one level.

        The m largest entries stay. The level is (sum of the others)/(k - m), with the least m for which
        none of the others is above it: the r of Proposition 2.1 is k - m - 1.
        """
        xp = namespace(W)
        k, size = self._counts(W), xp.abs(W)
        ordered = xp.sort(size, axis=0, descending=True)
        tails = xp.flip(xp.cumulative_sum(xp.flip(ordered, axis=0), axis=0), axis=0)
        left = k - _positions(W)
        high = (left > 0) & (xp.astype(left, W.dtype) * ordered > tails)
        m = xp.sum(xp.astype(high, xp.int64), axis=0)
        level = _pick(tails, m) / xp.astype(k - m, W.dtype)
        return xp.where(size > level, W, level * xp.sign(W))

    def __call__(self, W: Array) -> float:
        if entries.leaves_orthant(W, self.positive):
            return math.inf
        return inner(W, self.subgradient(W))

    def subgradient(self, W: Array) -> Array:
        scale = max_abs(W)
        if scale == 0:
            return W * 0.0
        Z = self._aligned(W := W / scale)  # whose squares neither overflow nor vanish
        return Z / math.sqrt(inner(W, Z))

    def prox(self, W: Array, gamma: float) -> Array:
        # Rounding may leave the orthant.
        return entries.positive_part(super().prox(W, gamma), self.positive)

    def project(self, W: Array) -> Array:
        return super().project(entries.positive_part(W, self.positive))

    def half_square_prox(self, W: Array, gamma: float) -> Array:
        # ||w||^2 = min sum_i w_i^2/theta_i over 0 <= theta <= 1, sum theta <= k (McDonald, Pontil
        # and Stamos 2014). In the prox theta_i = clip(gamma (|w_i|/t - 1), 0, 1); the sum falls with t.
        xp = namespace(W)
        W = entries.positive_part(W, self.positive)
        k, size = self._counts(W), xp.abs(W)
        k = k if isinstance(k, int) else xp.astype(k, W.dtype)
        low, high = xp.zeros_like(size[0, ...]), xp.max(size, axis=0)
        high = xp.where(high > 0, high, xp.ones_like(high))
        for _ in range(64):  # to rounding of the largest entry
            t = (low + high) / 2
            over = xp.sum(xp.clip(gamma * (size / t - 1), 0.0, 1.0), axis=0) > k
            low, high = xp.where(over, t, low), xp.where(over, high, t)
        return entries.soft_threshold_and_shrink(W, high, gamma)


@dataclass(frozen=True)
class _Thresholded(Function):
    """A function of the entries of W, and of one gamma >= 0 for all columns or for each."""

    gamma: float | tuple[float, ...]
    positive: bool = False

    def __post_init__(self) -> None:
        gamma = entries.check_each("gamma", self.gamma, entries.check_number, "<=")
        object.__setattr__(self, "gamma", gamma)

    def _gamma(self, W: Array) -> Any:
        return entries.per_column("gamma", self.gamma, W)


class SoftSquare(_Thresholded):
    """``1/2 sum_ij [|z_ij| - gamma_j]_+^2``: GPower with the l1 penalty, by soft thresholding.

    Journee, Nesterov, Richtarik and Sepulchre (2010), Sections 2.1 and 2.3; the conjugate is
    :class:`ElasticNet`. With ``positive``, ``[z_ij - gamma_j]_+^2``.
    """

    conjugate = derived(lambda f: ElasticNet(f.gamma, f.positive))

    def __call__(self, W: Array) -> float:
        return 0.5 * norm(self.subgradient(W)) ** 2

    def subgradient(self, W: Array) -> Array:
        W = entries.positive_part(W, self.positive)
        return entries.soft_threshold(W, self._gamma(W))


class ElasticNet(_Thresholded):
    """``1/2 ||W||^2 + sum_ij gamma_j |w_ij|``, the conjugate of :class:`SoftSquare`."""

    conjugate = derived(lambda f: SoftSquare(f.gamma, f.positive))

    def __call__(self, W: Array) -> float:
        if entries.leaves_orthant(W, self.positive):
            return math.inf
        xp = namespace(W)
        return 0.5 * norm(W) ** 2 + float(xp.sum(self._gamma(W) * xp.abs(W)))

    def subgradient(self, W: Array) -> Array:
        return W + self._gamma(W) * namespace(W).sign(W)

    def prox(self, W: Array, gamma: float) -> Array:
        W = entries.positive_part(W, self.positive)
        return entries.soft_threshold(W, gamma * self._gamma(W)) / (1 + gamma)


class HardSquare(_Thresholded):
    """``1/2 sum_ij [z_ij^2 - gamma_j]_+``: GPower with the l0 penalty, by hard thresholding.

    Journee, Nesterov, Richtarik and Sepulchre (2010), Sections 2.2 and 2.4; the conjugate is
    :class:`ReversedHuber`. The subgradient is 0 at the threshold.
    """

    conjugate = derived(lambda f: ReversedHuber(f.gamma, f.positive))

    def __call__(self, W: Array) -> float:
        xp = namespace(W)
        size, root = xp.abs(entries.positive_part(W, self.positive)), self._gamma(W) ** 0.5
        # A product of sum and difference keeps the digits of entries close to the threshold.
        return 0.5 * float(xp.sum(xp.clip(size - root, 0.0, None) * (size + root)))

    def subgradient(self, W: Array) -> Array:
        xp = namespace(W)
        W = entries.positive_part(W, self.positive)
        return xp.where(xp.abs(W) > self._gamma(W) ** 0.5, W, xp.zeros_like(W))


class ReversedHuber(_Thresholded):
    """``sum_ij c_j |w_ij| if |w_ij| <= c_j, else (w_ij^2 + c_j^2)/2``, with ``c_j = gamma_j^{1/2}``.

    The conjugate of :class:`HardSquare`, named by Owen (2007): linear at 0, quadratic far away.
    """

    conjugate = derived(lambda f: HardSquare(f.gamma, f.positive))

    def __call__(self, W: Array) -> float:
        if entries.leaves_orthant(W, self.positive):
            return math.inf
        xp = namespace(W)
        size, root = xp.abs(W), self._gamma(W) ** 0.5
        return float(xp.sum(xp.where(size > root, (size * size + root * root) / 2, root * size)))

    def subgradient(self, W: Array) -> Array:
        xp, root = namespace(W), self._gamma(W) ** 0.5
        return xp.where(xp.abs(W) > root, W, root * xp.sign(W))

    def prox(self, W: Array, gamma: float) -> Array:
        W = entries.positive_part(W, self.positive)
        return entries.soft_threshold_and_shrink(W, gamma * self._gamma(W) ** 0.5, gamma)
