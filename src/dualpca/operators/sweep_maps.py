"""What a sweep does with the rows of ``Y = XW``: nothing, any function, a shift, or weights of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..linalg import Array, namespace
from ..native import RowLosses

#: ``(Y, rows) -> H``, or ``H`` followed by sums: what a sweep does with some rows of ``Y = XW``.
SweepMap = Callable[[Array, slice], Any]


def split(mapped: Any) -> tuple[Array, tuple[Any, ...]]:
    """Split the result of a sweep map into H and the quantities to be summed over the rows."""
    return (mapped[0], tuple(mapped[1:])) if isinstance(mapped, tuple) else (mapped, ())


@dataclass(frozen=True)
class Shift:
    """The sweep map ``Y -> Y - 1 shift`` of centred data, with the sums of the columns behind it."""

    shift: Array

    def __call__(self, Y: Array, rows: slice) -> tuple[Array, Array]:
        H = Y - self.shift
        return H, namespace(H).sum(H, axis=0, keepdims=True)


@dataclass(frozen=True)
class Reweighting:
    """The sweep map ``XW -> Diag(b w) (Y, a)`` with ``Y = Diag(b) (XW - 1 shift)`` and weights w by F.

    Behind ``X^T H`` a sweep returns the sum of the values of F; that of ``w_i a_i^2`` with the numbers
    a, ``beside``; and the sums of the columns of H with a shift.

    Parameters
    ----------
    F : RowFunction
        Its ``values_and_weights`` knows the value and the weight of each row by its squared length.
    beside, scales : arrays of shape (N,), optional
        a and b; b is 1 where None.
    shift : array of shape (1, s), optional
    """

    F: Any
    beside: Array | None = None
    scales: Array | None = None
    shift: Array | None = None

    def __call__(self, Y: Array, rows: slice) -> tuple[Any, ...]:
        xp = namespace(Y)
        Y = Y if self.shift is None else Y - self.shift
        b: Any = 1.0 if self.scales is None else self.scales[rows]
        Y = Y if self.scales is None else b[:, None] * Y
        values, w = self.F.values_and_weights(xp.linalg.vecdot(Y, Y), rows)
        H, sums = (b * w)[:, None] * Y, [xp.sum(values)]
        if self.beside is not None:
            a = self.beside[rows]
            H = xp.concat([H, (b * w * a)[:, None]], axis=1)
            sums.append(xp.sum(w * a * a))
        if self.shift is not None:
            sums.append(xp.sum(H, axis=0, keepdims=True))
        return (H, *sums)

    def shifted(self, shift: Array) -> Reweighting:
        """Return the map of rows that are shifted before."""
        return replace(self, shift=shift if self.shift is None else self.shift + shift)

    def scaled(self, b: Array) -> Reweighting:
        """Return the map of rows that are scaled before, which a shift must not follow."""
        assert self.shift is None
        return replace(self, scales=b if self.scales is None else self.scales * b)

    def row_losses(self) -> RowLosses | None:
        """Return the losses as the C kernels read them; None where they do not know them."""
        F, known = self.F, self.F.for_kernels
        if known is None or not isinstance(F.alpha, np.ndarray):
            return None
        psi, c2, parameter = known
        return RowLosses(F.alpha, psi, c2, parameter, F.mass, self.scales, self.beside)

    def from_kernels(self, product: Callable[..., Any], W: Array) -> tuple[Any, ...]:
        """Return the sweep from ``product(shift)``, that of the C kernels."""
        shift = np.zeros((1, W.shape[1]), dtype=W.dtype) if self.shift is None else self.shift
        Z, total, value, mass = product(shift)
        return (
            Z,
            value,
            *([] if self.beside is None else [mass]),
            *([] if self.shift is None else [total]),
        )
