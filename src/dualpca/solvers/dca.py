"""The difference-of-convex algorithm, and two relatives for comparison."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..linalg import Array, eigh, orthonormalize
from ..problem import DCProblem
from .base import Iterate, Point

__all__ = ["DCA", "IRLS", "SimultaneousIteration"]


@dataclass(frozen=True)
class DCA:
    """``H in dF(XW); W in dG*(X^T H)`` (DCA, Section 2.3): Algorithms 1 to 6 are instances."""

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        step = problem.G.conjugate.subgradient
        point = Point(problem, W)
        while True:
            point = Point(problem, step(point.Z))
            yield Iterate(point)


@dataclass(frozen=True)
class SimultaneousIteration:
    """``W = Q of the QR of X^T X W`` (Trefethen and Bau, Algorithm 28.3; Theorem 3.11)."""

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        point = Point(problem, W)
        while True:
            point = Point(problem, orthonormalize(point.Z))
            yield Iterate(point)


@dataclass(frozen=True)
class IRLS:
    """``W = argmin ||BX - BX W W^T||, B = Diag(weights^{1/2})`` (Appendix D, the IRLS algorithm).

    Each step is a full eigendecomposition of ``X^T B^2 X``, where DCA takes one step of subspace
    iteration: two passes over the data and a d x d matrix.
    """

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        X, s = problem.X, W.shape[1]
        weights = getattr(problem.F, "weights", None)
        if weights is None or X.implicit:
            raise ValueError("IRLS reweights rows: it solves robust formulations of explicit data")
        while True:
            W = X.asarray(eigh(X.gram(weights(X @ W)))[1][:, :s])
            yield Iterate(Point(problem, W))
