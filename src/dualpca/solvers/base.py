"""What a solver yields: points that know F(XW) and X^T dF(XW), evaluated once, when asked."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ..linalg import Array, max_abs, norm, residual
from ..problem import DCProblem

#: What stands for a length or an energy of 0.
TINY = sys.float_info.min


class Point:
    """W with its pullback, lazily: whoever asks first, the test or the next step, pays for it."""

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

    @property
    def F(self) -> float:
        return self.pullback[0]

    @property
    def Z(self) -> Array:
        return self.pullback[1]

    @property
    def finite(self) -> bool:
        """Whether Z is, so that a step can be taken."""
        return math.isfinite(max_abs(self.Z))

    @property
    def objective(self) -> float:
        """``G(W) - F(XW)``."""
        return self.problem.G(self.W) - self.F

    @cached_property
    def residual(self) -> float:
        """``||Z - W W^T Z||_F / ||Z||_F`` with W orthonormal; of a dual variable, that of its image.

        Where G or F tell columns of the same span apart, as those of sparse PCA do, the relative
        length ``||dG*(Z) - W||_F / ||W||_F`` of a step of DCA.
        """
        problem = self.problem
        if not (problem.G.rotation_invariant and problem.F.rotation_invariant):
            step = problem.G.conjugate.subgradient(self.Z)
            return norm(step - self.W) / max(norm(self.W), norm(step), TINY)
        W, Z = self.W, self.Z
        if problem.is_dual:  # the image H has X^T H = Z, so its own Z is one product away
            W, Z = self._image[1], problem.X @ problem.dual.F.subgradient(Z)
        value = residual(W, Z)
        return value if value > 0 or math.isfinite(max_abs(Z)) else math.nan


def first(problem: DCProblem, W: Array) -> Point:
    """The point to start from; an OverflowError where its numbers leave the range of floats."""
    point = Point(problem, W)
    if not point.finite:
        raise OverflowError("X^T dF(XW) at the start is not finite")
    return point


@dataclass(frozen=True)
class Iterate:
    """One iterate, and the paper's own stopping quantity max|W - prox|/gamma where there is one."""

    point: Point
    fixed_point: float | None = None


class Solver(Protocol):
    """Frozen options; called with a problem and a start, an endless iterator of iterates."""

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]: ...
