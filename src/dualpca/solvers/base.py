"""What a solver yields: points that compute F(XW) and X^T dF(XW) once, when first asked."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from ..linalg import Array, eps, inner, max_abs, norm, residual
from ..problem import DCProblem

#: This stands for a length or an energy of 0.
TINY = sys.float_info.min

#: The three terms of a Fenchel gap cancel to this many eps.
GAP_ROUNDING = 16


class Point:
    """A matrix W whose pullback is computed once, for the test or for the next step."""

    def __init__(self, problem: DCProblem, W: Array) -> None:
        self.problem = problem
        self.W = W

    @cached_property
    def _image(self) -> tuple[float, Array]:
        """``F(XW)`` and ``H in dF(XW)``, which solves the dual where W solves the problem."""
        return self.problem.F.value_and_subgradient(self.problem.X @ self.W)

    @cached_property
    def pullback(self) -> tuple[float, Array]:
        """``F(XW)`` and ``Z = X^T dF(XW)``."""
        if self.problem.F.one_pass:
            return self.problem.pullback(self.W)
        value, H = self._image
        return value, self.problem.X.T @ H

    F: Any = property(lambda self: self.pullback[0])
    Z: Any = property(lambda self: self.pullback[1])

    @property
    def finite(self) -> bool:
        """Whether Z is finite, so that a step can be taken."""
        return math.isfinite(max_abs(self.Z))

    @property
    def objective(self) -> float:
        """``G(W) - F(XW)``."""
        return self.problem.G(self.W) - self.F

    @cached_property
    def residual(self) -> float:
        """``||Z - W W^T Z||_F / ||Z||_F`` with W orthonormal; a dual variable has that of its image.

        Unless G is the spectral unit ball, W is more than its span, and the square root of the relative
        Fenchel gap counts if it is larger. Where G or F tell columns of the same span apart, as those of
        sparse PCA do, it is the relative length ``||dG*(Z) - W||_F / ||W||_F`` of a step of DCA.
        """
        span = self.span_residual
        return span if self.problem.G.known_by_span else float(max(span, math.sqrt(self.gap)))

    @cached_property
    def gap(self) -> float:
        """``G(W) + G*(Z) - <W, Z>`` over ``|G(W) - F(XW)|``: 0 where Z is in dG(W); at most 1.

        The next step of DCA brings the objective down by the gap or more.
        """
        G = self.problem.G
        if not (self.finite and math.isfinite(max_abs(self.W))):
            return math.nan
        terms = G(self.W), G.conjugate(self.Z), -inner(self.W, self.Z)
        size = sum(abs(term) for term in terms)
        if not math.isfinite(size):  # W is outside the domain of G, or the numbers overflow
            return math.nan if self.problem.homogeneous else 1.0
        gap = sum(terms) - GAP_ROUNDING * eps(self.Z) * size
        return min(gap / max(abs(terms[0] - self.F), gap), 1.0) if gap > 0 else 0.0

    @cached_property
    def span_residual(self) -> float:
        """The residual of the span of W, whatever G is."""
        problem = self.problem
        if not (problem.G.rotation_invariant and problem.F.rotation_invariant):
            step = problem.G.conjugate.subgradient(self.Z)
            return norm(step - self.W) / max(norm(self.W), norm(step), TINY)
        W, Z = self.W, self.Z
        if max_abs(Z) == 0:  # W is in the kernel of X, or 0 itself
            return 0.0
        if problem.is_dual:  # the image H has X^T H = Z, so its own Z is one product away
            W, Z = self._image[1], problem.X @ problem.dual.F.subgradient(Z)
        value = residual(W, Z)
        return value if value > 0 or math.isfinite(max_abs(Z)) else math.nan


def first(problem: DCProblem, W: Array) -> Point:
    """Return the point to start from; raise an OverflowError where its numbers overflow."""
    point = Point(problem, W)
    if not point.finite:
        raise OverflowError("X^T dF(XW) at the start is not finite")
    return point


@dataclass(frozen=True)
class Iterate:
    """An iterate, and the paper's stopping quantity ``max|W - prox|/gamma`` where there is one."""

    point: Point
    fixed_point: float | None = None


class Solver(Protocol):
    """A solver holds options; called with a problem and a start, it yields iterates without an end."""

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]: ...
