"""Norms of all entries; Spectral makes unitarily invariant norms of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import device

from ..linalg import Array, inner, namespace, norm
from .base import Norm, conjugate_exponent, derived, exponent
from .entries import check_count, soft_threshold


@dataclass(frozen=True)
class Lp(Norm):
    """``||W||_p`` of all entries, 1 <= p <= inf; p = 2 is the Schatten 2-norm, without an SVD.

    Eq. (2) and (6), Tables 2 and 3. The subgradient at an entry 0 takes sign(0) = 0;
    for p = inf it spreads over the entries of largest magnitude.
    """

    p: Any = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", exponent(self.p))
        if self.p < 1:
            raise ValueError(f"p={self.p} gives no norm; choose 1 <= p <= inf")

    unitarily_invariant = one_pass = derived(lambda norm: norm.p == 2)
    largest_entry = derived(lambda norm: norm.p == math.inf)
    has_projection = has_half_square_prox = derived(lambda norm: norm.p in (1, 2, math.inf))
    dual = derived(lambda norm: Lp(conjugate_exponent(norm.p)))

    def __call__(self, W: Array) -> float:
        if self.p == 2:
            return norm(W)
        xp = namespace(W)
        size = xp.abs(W)
        if self.p == 1:
            return float(xp.sum(size))
        top = float(xp.max(size))
        if self.p == math.inf or top == 0:
            return top
        return top * float(xp.sum((size / top) ** float(self.p))) ** float(1 / self.p)

    def subgradient(self, W: Array) -> Array:
        value = self(W)
        if value == 0:
            return W * 0.0
        if self.p == 2:
            return W / value
        xp = namespace(W)
        if self.p == math.inf:
            top = xp.astype(xp.abs(W) == value, W.dtype)
            return xp.sign(W) * top / float(xp.sum(top))
        return xp.sign(W) * (xp.abs(W) / value) ** float(self.p - 1)

    def project(self, W: Array) -> Array:
        if self.p == 2:
            return W / max(1.0, norm(W))
        xp = namespace(W)
        if self.p == math.inf:
            return xp.clip(W, -1.0, 1.0)
        if self.p == 1:
            return soft_threshold(W, _threshold(W, lambda total, k: (total - 1) / k))
        return super().project(W)

    def half_square_prox(self, W: Array, gamma: float) -> Array:
        if self.p == 2:
            return W / (1 + gamma)
        if self.p == 1:
            cut = _threshold(W, lambda total, k: gamma * total / (1 + gamma * k))
            return soft_threshold(W, cut)
        if self.p == math.inf:
            return W - gamma * Lp(1).half_square_prox(W / gamma, 1 / gamma)
        return super().half_square_prox(W, gamma)

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        if not self.one_pass:
            return super().pullback(X, W)
        # ||XW||^2 = <W, X^T X W>: the global norm without a second pass.
        Z = X.sweep(W)
        value = math.sqrt(max(inner(W, Z), 0.0))
        return value, (Z / value if value > 0 else Z * 0.0)


def _threshold(W: Array, rule: Callable[[Array, Array], Array]) -> float:
    """Return the largest ``rule(sum_k, k)`` over k, where sum_k adds the k largest magnitudes."""
    xp = namespace(W)
    size = xp.sort(xp.reshape(xp.abs(W), (-1,)), descending=True)
    k = xp.arange(1, size.shape[0] + 1, dtype=size.dtype, device=device(size))
    return max(float(xp.max(rule(xp.cumulative_sum(size), k))), 0.0)


@dataclass(frozen=True)
class _OfLargest(Norm):
    k: int = 1

    def __post_init__(self) -> None:
        check_count("k", self.k)


class KyFan(_OfLargest):
    """The sum of the k entries of largest magnitude; as ``Spectral(KyFan(k))`` the Ky Fan k-norm.

    Section 6 of the paper names it. It shows what a new unitarily invariant objective takes: a value, a
    subgradient and a dual norm. Formulations, duals, kernels and solvers follow.
    """

    dual = derived(lambda norm: KyFanDual(norm.k))

    def _largest(self, size: Array) -> Array:
        """Return the k largest entries in decreasing order."""
        xp = namespace(size)
        flat = xp.sort(xp.reshape(size, (-1,)), descending=True)
        return flat[: min(self.k, flat.shape[0])]

    def __call__(self, W: Array) -> float:
        xp = namespace(W)
        return float(xp.sum(self._largest(xp.abs(W))))

    def subgradient(self, W: Array) -> Array:
        # Entries tied with the k-th share what the larger ones leave of k.
        xp = namespace(W)
        size = xp.abs(W)
        cut = float(self._largest(size)[-1])
        above = xp.astype(size > cut, W.dtype)
        tied = xp.astype(size == cut, W.dtype)
        share = (min(self.k, math.prod(W.shape)) - float(xp.sum(above))) / float(xp.sum(tied))
        return xp.sign(W) * (above + share * tied)


class KyFanDual(_OfLargest):
    """``max(||W||_inf, ||W||_1 / k)``, the dual of the Ky Fan k-norm."""

    dual = derived(lambda norm: KyFan(norm.k))
    has_projection = True

    def __call__(self, W: Array) -> float:
        return max(Lp(math.inf)(W), Lp(1)(W) / self.k)

    def subgradient(self, W: Array) -> Array:
        if Lp(math.inf)(W) * self.k >= Lp(1)(W):
            return Lp(math.inf).subgradient(W)
        return Lp(1).subgradient(W) / self.k

    def project(self, W: Array) -> Array:
        # min(|w| - t, 1)_+ with the least t >= 0 whose sum is at most k; the sum falls with t.
        xp = namespace(W)
        size = xp.abs(W)
        low, high = 0.0, float(xp.max(size))
        if float(xp.sum(xp.clip(size, 0.0, 1.0))) <= self.k:
            high = 0.0
        for _ in range(200 if high > 0 else 0):
            middle = (low + high) / 2
            over = float(xp.sum(xp.clip(size - middle, 0.0, 1.0))) > self.k
            low, high = (middle, high) if over else (low, middle)
        return xp.sign(W) * xp.clip(size - high, 0.0, 1.0)
