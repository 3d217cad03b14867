"""What a solver yields: points that know F(XW) and X^T dF(XW), evaluated once, when asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ..linalg import Array, norm, residual
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
        if not problem.is_dual:
            return residual(self.W, self.Z)
        # The image H has X^T H = Z, so its own Z is one product away.
        return residual(self._image[1], problem.X @ problem.dual.F.subgradient(self.Z))


@dataclass(frozen=True)
class Iterate:
    """One iterate, and the paper's own stopping quantity max|W - prox|/gamma where there is one."""

    point: Point
    fixed_point: float | None = None


class Solver(Protocol):
    """Frozen options; called with a problem and a start, an endless iterator of iterates."""

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]: ...
