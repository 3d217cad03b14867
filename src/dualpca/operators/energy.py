"""Whether the squares of data stay within the range of its precision."""

from __future__ import annotations

import math

import numpy as np

from ..linalg import Array, largest, total
from .base import Operator
from .row_blocks import RowBlocked
from .views import View

#: A sum of squares keeps this far from the ends of the range of its precision.
RANGE = 2.0**10


def energy_of(norms: Array) -> float:
    """Return the sum of the squares of the norms of rows, whatever their scale."""
    top = largest(norms)
    return top * top * total((norms / top) ** 2) if 0 < top < math.inf else top


def check_energy(energy: float, X: Operator) -> None:
    """Refuse data whose energy ``||X||_F^2`` is outside the range of its precision, or nearly.

    Variances would overflow, or lose digits below the least normal number.
    """
    info = np.finfo("float32" if "float32" in str(X.dtype) else "float64")
    if not energy <= float(info.max) / RANGE:
        size = "large that their squares overflow"
    elif energy >= float(info.smallest_normal) * RANGE or _is_zero(energy, X):
        return
    else:
        size = "small that their squares underflow"
    raise ValueError(f"X has entries so {size} {info.dtype}; divide X by its largest magnitude")


def _is_zero(energy: float, X: Operator) -> bool:
    """Return whether X is 0, by the norms of rows, which do not vanish where their squares do."""
    while isinstance(X, View) and not isinstance(X, RowBlocked):
        X = X.X
    return energy == 0 and largest(X.row_norms()) == 0
