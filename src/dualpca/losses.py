"""Functions of the rows of Y = XW: the robust F of Section 4 and its conjugate."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from .functions import Function, newton
from .linalg import Array, namespace

__all__ = ["RowFunction", "RowHyperbola", "RowSemicircle"]


class RowFunction(Function):
    """``sum_i f_i(||Y_i||)`` over rows; the subgradient is ``weights(Y) * Y``."""

    alpha: Array

    @property
    def one_pass(self) -> bool:
        return True

    @abstractmethod
    def row_values(self, size2: Array, rows: slice) -> Array:
        """``f_i`` from the squared row norms."""

    @abstractmethod
    def row_weights(self, size2: Array, rows: slice) -> Array:
        """``f_i'(t)/t`` from the squared row norms."""

    def __call__(self, Y: Array) -> float:
        xp = namespace(Y)
        return float(xp.sum(self.row_values(xp.sum(Y * Y, axis=1), slice(None))))

    def weights(self, Y: Array, rows: slice = slice(None)) -> Array:
        """The weight of each row: dF(Y) = weights(Y)[:, None] * Y."""
        return self.row_weights(namespace(Y).sum(Y * Y, axis=1), rows)

    def subgradient(self, Y: Array) -> Array:
        return self.weights(Y)[:, None] * Y

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        def row_map(Y: Array, rows: slice) -> tuple[Array, Array]:
            xp = namespace(Y)
            size2 = xp.sum(Y * Y, axis=1)
            return self.row_weights(size2, rows)[:, None] * Y, xp.sum(self.row_values(size2, rows))

        Z, value = X.sweep(W, row_map)
        return float(value), Z


@dataclass(frozen=True, eq=False)
class RowSemicircle(RowFunction):
    """``-sum_i sqrt(alpha_i^2 - ||Y_i||^2)`` (eq. (4), Proposition 4.1), the robust F.

    With ``alpha_i^2 = ||X_i||^2 + epsilon^2`` it is minus the l1 deviation of the reconstruction
    errors where W^T W = I. Rounding beyond the domain is clamped, so weights stay finite.
    """

    alpha: Array
    _conjugate: Any = field(default=None, repr=False)

    @property
    def conjugate(self) -> RowHyperbola:
        return self._conjugate or RowHyperbola(self.alpha, self)

    def _gap(self, size2: Array, rows: slice) -> Array:
        alpha = self.alpha[rows]
        xp = namespace(alpha)
        floor = float(xp.finfo(alpha.dtype).eps) * alpha * alpha
        gap = alpha * alpha - size2
        return xp.sqrt(xp.where(gap > floor, gap, floor))

    def row_values(self, size2: Array, rows: slice) -> Array:
        alpha = self.alpha[rows]
        xp = namespace(alpha)
        slack = 1 + 100 * float(xp.finfo(alpha.dtype).eps)
        outside = size2 > slack * alpha * alpha
        return xp.where(outside, math.inf * xp.ones_like(size2), -self._gap(size2, rows))

    def row_weights(self, size2: Array, rows: slice) -> Array:
        gap = self._gap(size2, rows)
        xp = namespace(gap)
        return xp.where(gap > 0, 1 / xp.where(gap > 0, gap, xp.ones_like(gap)), gap)


@dataclass(frozen=True, eq=False)
class RowHyperbola(RowFunction):
    """``sum_i alpha_i sqrt(1 + ||H_i||^2)`` (eq. (4), Proposition 4.1), the conjugate of the robust F."""

    alpha: Array
    _conjugate: Any = field(default=None, repr=False)

    @property
    def conjugate(self) -> RowSemicircle:
        return self._conjugate or RowSemicircle(self.alpha, self)

    def row_values(self, size2: Array, rows: slice) -> Array:
        alpha = self.alpha[rows]
        return alpha * namespace(alpha).sqrt(1 + size2)

    def row_weights(self, size2: Array, rows: slice) -> Array:
        alpha = self.alpha[rows]
        return alpha / namespace(alpha).sqrt(1 + size2)

    def prox(self, H: Array, gamma: float) -> Array:
        xp = namespace(H)
        v = xp.sqrt(xp.sum(H * H, axis=1))
        slope = gamma * self.alpha
        # t + gamma alpha t / sqrt(1 + t^2) = v is concave: Newton climbs to the root from below.
        t = newton(
            v / (1 + slope),
            lambda t: t + slope * t / xp.sqrt(1 + t * t) - v,
            lambda t: 1 + slope / (1 + t * t) ** 1.5,
            v.dtype,
        )
        return H * (t / xp.where(v > 0, v, xp.ones_like(v)))[:, None]
