"""The difference-of-convex algorithm, and two of its relatives for comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ..linalg import Array, eigh, max_abs, namespace, orthonormalize
from ..problem import DCProblem
from .base import Iterate, Point, first


@dataclass(frozen=True)
class DCA:
    """``H in dF(XW); W in dG*(X^T H)`` (DCA, Section 2.3): Algorithms 1 to 6 are instances."""

    #: DCA on a dual problem has the iterates of DCA on its primal (Proposition 2.5).
    shares_dual_iterates: ClassVar[bool] = True

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        step = problem.G.conjugate.subgradient
        point = first(problem, W)
        while True:
            point = Point(problem, step(point.Z))
            yield Iterate(point)


@dataclass(frozen=True)
class SimultaneousIteration:
    """``W = Q of the QR of X^T X W`` (Trefethen and Bau, Algorithm 28.3; Theorem 3.11)."""

    #: The QR keeps the span of W, not its scale.
    span_only: ClassVar[bool] = True

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        point = first(problem, W)
        while True:
            point = Point(problem, orthonormalize(point.Z))
            yield Iterate(point)


@dataclass(frozen=True)
class IRLS:
    """``W = argmin ||BX - BX W W^T||, B = Diag(weights^{1/2})`` (Appendix D, the IRLS algorithm).

    Each step is a full eigendecomposition of ``X^T B^2 X``, where DCA takes one step of subspace
    iteration: two passes over the data and a d x d matrix. With fewer rows than columns it is that of
    ``B X X^T B``, whose eigenvectors U are ``B X W`` up to their lengths.
    """

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        X, s = problem.X, W.shape[1]
        weights = getattr(problem.F, "weights", None)
        if weights is None or X.implicit:
            raise ValueError("IRLS reweights rows: it solves robust formulations of explicit data")
        wide = s <= X.shape[0] < X.shape[1] and not X.is_distributed
        K = X.kernel() if wide else None
        while True:
            w = weights(X @ W)
            if K is None:
                W = X.asarray(_leading(X.gram(w), s))
            else:
                b = namespace(w).sqrt(w)[:, None]
                W = orthonormalize(X.rmatmul(b * X.asarray(_leading(b * K * b.T, s))))
            yield Iterate(Point(problem, W))


def _leading(S: Array, s: int) -> Array:
    if not math.isfinite(max_abs(S)):
        raise OverflowError("a Gram matrix of X is not finite")
    return eigh(S)[1][:, :s]
