"""Powers ``1/p ||W||_p^p``, their exponents, and the scalar Newton iteration of their proximal maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..linalg import Array, namespace, norm
from .base import Function

__all__ = ["Power", "conjugate_exponent", "exponent", "newton"]


def conjugate_exponent(p: Fraction | float) -> Fraction | float:
    """q with 1/p + 1/q = 1, exactly."""
    if p == 1:
        return math.inf
    return Fraction(1) if p == math.inf else p / (p - 1)


def exponent(p: Any) -> Fraction | float:
    if p in (math.inf, -math.inf):
        return float(p)
    try:
        return Fraction(p)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise TypeError(
            f"p={p!r} is not an exponent; give a number such as 4, '4/3' or inf"
        ) from error


@dataclass(frozen=True)
class Power(Function):
    """``1/p ||W||_p^p``, p > 1 (eq. (3) and (8)); its conjugate is Power(q), 1/p + 1/q = 1 exactly."""

    p: Any = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", exponent(self.p))
        if not 1 < self.p < math.inf:
            raise ValueError(f"p={self.p} is outside (1, inf); use Lp or Ball for the end points")

    @property
    def unitarily_invariant(self) -> bool:
        return self.p == 2

    @property
    def degree(self) -> float:
        return float(self.p)

    @property
    def conjugate(self) -> Power:
        return Power(conjugate_exponent(self.p))

    def __call__(self, W: Array) -> float:
        if self.p == 2:
            return 0.5 * norm(W) ** 2
        xp = namespace(W)
        return float(xp.sum(xp.abs(W) ** float(self.p))) / float(self.p)

    def subgradient(self, W: Array) -> Array:
        if self.p == 2:
            return W
        xp = namespace(W)
        return xp.sign(W) * xp.abs(W) ** float(self.p - 1)

    def prox(self, W: Array, gamma: float) -> Array:
        if self.p == 2:
            return W / (1 + gamma)
        if self.p < 2:  # the gradient is steep at 0; the conjugate's is not
            return super().prox(W, gamma)
        xp = namespace(W)
        v, q = xp.abs(W), float(self.p - 1)
        # t + gamma t^q = v is convex: Newton descends to the root from any point above it.
        start = xp.minimum(v, (v / gamma) ** (1 / q))
        t = newton(
            start, lambda t: t + gamma * t**q - v, lambda t: 1 + gamma * q * t ** (q - 1), v.dtype
        )
        return xp.sign(W) * t


def newton(
    t: Array, f: Callable[[Array], Array], slope: Callable[[Array], Array], dtype: Any
) -> Array:
    """Entrywise Newton on a monotone convex or concave f from the side where it cannot overshoot."""
    xp = namespace(t)
    for _ in range(100):
        step = f(t) / slope(t)
        t = xp.clip(t - step, 0.0, None)
        if float(xp.max(xp.abs(step))) <= 4 * xp.finfo(dtype).eps * float(xp.max(t)):
            break
    return t
