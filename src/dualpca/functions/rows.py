"""Functions of the rows of ``Y = XW``: the robust F of Section 4 for any loss, and its conjugate."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..linalg import Array, namespace
from ..losses import L1, Loss, where_positive
from .base import Function, derived, newton


@dataclass(frozen=True, eq=False)
class RowFunction(Function):
    """``sum_i f_i(||Y_i||)`` over rows; the subgradient is ``weights(Y) * Y``."""

    alpha: Array
    loss: Loss = field(default_factory=L1)
    mass: Array | None = None
    _conjugate: Any = field(default=None, repr=False)

    rotation_invariant = one_pass = True
    #: psi as the C kernels know it; None where they do not
    for_kernels: ClassVar[Any] = None

    @abstractmethod
    def row_values(self, size2: Array, rows: slice) -> Array:
        """Return ``f_i`` of each row, from the squared row norms."""

    @abstractmethod
    def row_weights(self, size2: Array, rows: slice) -> Array:
        """Return ``f_i'(t)/t`` of each row, from the squared row norms."""

    def values_and_weights(self, size2: Array, rows: slice) -> tuple[Array, Array]:
        """Return :meth:`row_values` and :meth:`row_weights`, which may share work."""
        return self.row_values(size2, rows), self.row_weights(size2, rows)

    def _mass(self, rows: slice) -> Array:
        return 1.0 if self.mass is None else self.mass[rows]

    def __call__(self, Y: Array) -> float:
        xp = namespace(Y)
        return float(xp.sum(self.row_values(xp.linalg.vecdot(Y, Y), slice(None))))

    def weights(self, Y: Array, rows: slice = slice(None)) -> Array:
        """Return the weight of each row: ``dF(Y) = weights(Y)[:, None] * Y``."""
        return self.row_weights(namespace(Y).linalg.vecdot(Y, Y), rows)

    def subgradient(self, Y: Array) -> Array:
        return self.weights(Y)[:, None] * Y

    def pullback(self, X: Any, W: Array) -> tuple[float, Array]:
        Z, value = X.reweigh(W, self)
        return float(value), Z


class RowLoss(RowFunction):
    """``-sum_i m_i c^2 psi((alpha_i^2 - ||Y_i||^2)/c^2)``, ``||Y_i|| <= alpha_i`` (Proposition 4.1).

    With ``alpha_i^2 = ||X_i||^2 + epsilon^2`` it is minus the loss of the reconstruction errors if
    W^T W = I. The paper's F has psi = sqrt (:class:`dualpca.losses.L1`) and m = 1. Rounding beyond the
    domain is clamped, so that weights stay finite.

    Parameters
    ----------
    alpha : array of shape (N,)
    loss : Loss
    mass : array of shape (N,), optional
        m: how often each row counts; positive.
    """

    has_prox = derived("conjugate.has_prox")
    for_kernels = derived(lambda f: f.loss.for_kernels)
    conjugate = derived(lambda f: f._conjugate or RowLossConjugate(f.alpha, f.loss, f.mass, f))

    def _gap(self, size2: Array, rows: slice) -> Array:
        """Return ``(alpha^2 - size^2)/c^2`` of each row, without rounding beyond the domain."""
        alpha = self.alpha[rows]
        xp = namespace(alpha)
        floor = float(xp.finfo(alpha.dtype).eps) * alpha * alpha
        with np.errstate(over="ignore"):
            gap = alpha * alpha - size2
            v = xp.where(gap > floor, gap, floor) / self.loss.c**2
        return xp.clip(v, None, float(xp.finfo(v.dtype).max) / 4)

    def _values(self, v: Array, size2: Array, rows: slice) -> Array:
        """Return ``-m c^2 psi(v)``, infinite outside of the domain; 0 where alpha is 0."""
        alpha = self.alpha[rows]
        xp = namespace(alpha)
        value = -(self.loss.c**2) * self._mass(rows) * where_positive(self.loss.psi, v)
        slack = 1 + 100 * float(xp.finfo(alpha.dtype).eps)
        return xp.where(size2 > slack * alpha * alpha, math.inf * xp.ones_like(size2), value)

    def _weights(self, v: Array, rows: slice) -> Array:
        return 2 * self._mass(rows) * where_positive(self.loss.slope, v)

    def row_values(self, size2: Array, rows: slice) -> Array:
        return self._values(self._gap(size2, rows), size2, rows)

    def row_weights(self, size2: Array, rows: slice) -> Array:
        return self._weights(self._gap(size2, rows), rows)

    def values_and_weights(self, size2: Array, rows: slice) -> tuple[Array, Array]:
        v = self._gap(size2, rows)
        return self._values(v, size2, rows), self._weights(v, rows)


class RowLossConjugate(RowFunction):
    """``sum_i m_i max_t (||H_i||/m_i) t + c^2 psi((alpha_i^2 - t^2)/c^2)``, the conjugate of RowLoss.

    For L1 it is ``sum_i alpha_i sqrt(1 + ||H_i||^2)`` (eq. (4), Proposition 4.1); Huber, Log and Cauchy
    have closed forms too, the others are solved by bisection.
    """

    has_prox = derived(lambda f: isinstance(f.loss, L1))
    conjugate = derived(lambda f: f._conjugate or RowLoss(f.alpha, f.loss, f.mass, f))

    def row_values(self, size2: Array, rows: slice) -> Array:
        alpha, mass = self.alpha[rows], self._mass(rows)
        return mass * self.loss.conjugate_value(namespace(alpha).sqrt(size2) / mass, alpha)

    def row_weights(self, size2: Array, rows: slice) -> Array:
        alpha, mass = self.alpha[rows], self._mass(rows)
        return self.loss.conjugate_weight(namespace(alpha).sqrt(size2) / mass, alpha) / mass

    def prox(self, H: Array, gamma: float) -> Array:
        if not self.has_prox:
            return super().prox(H, gamma)
        xp = namespace(H)
        v = xp.sqrt(xp.sum(H * H, axis=1))
        slope, k = gamma * self.alpha, self.loss.c * self._mass(slice(None))
        # t + gamma alpha t / sqrt(k^2 + t^2) = v is concave: Newton climbs to the root from below.
        t = newton(
            v / (1 + slope / k),
            lambda t: t + slope * t / xp.sqrt(k**2 + t * t) - v,
            lambda t: 1 + slope * k**2 / (k**2 + t * t) ** 1.5,
        )
        return H * (t / xp.where(v > 0, v, xp.ones_like(v)))[:, None]
