"""``solver="auto"``: the spectral solver that would cost least."""

from __future__ import annotations

import math

from ..operators import Operator
from .spectral import SPECTRAL


def costs(X: Operator, s: int, tol: float, energy: float) -> dict[str, float]:
    """Return the estimated seconds of each solver that costs may choose."""
    seconds = {name: solver.cost(X, s, tol, energy) for name, solver in SPECTRAL.items()}
    return {name: value for name, value in seconds.items() if value < math.inf}


def choose(X: Operator, s: int, *, dense: bool, tol: float, energy: float) -> tuple[str, str]:
    """Return the name of the cheapest solver, and why it was chosen.

    ``dense`` tells whether X is one dense array in memory, or X^T X is.
    """
    for name, solver in SPECTRAL.items():
        if (dense or not solver.needs_dense) and (reason := solver.preference(X, s)):
            return name, reason
    seconds = costs(X, s, tol, energy)
    estimates = ", ".join(f"{name} {value:.2g} s" for name, value in seconds.items())
    return min(seconds, key=seconds.__getitem__), f"estimated {estimates}"
