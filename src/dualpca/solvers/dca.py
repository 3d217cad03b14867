"""The difference-of-convex algorithm, plain and accelerated, and two relatives for comparison."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..linalg import Array, eigh, eps, inner, max_abs, namespace, orthonormalize
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
class Anderson:
    """``T(W) - sum_j gamma_j (T(W_j+1) - T(W_j))``, T a step of DCA (Section 2.3).

    gamma minimises the same combination of the residuals ``T(W_j) - W_j`` (type II; Walker and Ni
    2011). The combination is mapped back to the domain of G by ``dG*`` where G is an indicator, as the
    spectral ball of PCA and robust PCA. A point that is no better than the last one gives way to the
    plain step of DCA, so the objective never rises; that costs a pass.

    Parameters
    ----------
    memory : int
        How many differences are kept.
    """

    memory: int = 8
    #: On a dual problem it runs as on its primal, as :class:`DCA` does.
    shares_dual_iterates: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise ValueError(
                f"memory={self.memory} keeps no difference; give at least 1, or use DCA()"
            )

    def __call__(self, problem: DCProblem, W: Array) -> Iterator[Iterate]:
        step = problem.G.conjugate.subgradient
        point, past = first(problem, W), Past(self.memory)
        while True:
            plain = step(point.Z)
            mixed, last = past.mix(point.W, plain), point
            if mixed is None:
                point = Point(problem, plain)
            else:
                point = Point(problem, step(mixed) if problem.G.indicator else mixed)
                rounding = 4 * eps(point.W) * abs(last.objective)
                if not point.objective <= last.objective + rounding:
                    past = Past(self.memory)
                    past.mix(last.W, plain)
                    point = Point(problem, plain)
            yield Iterate(point)


class Past:
    """The differences of the last residuals and images, and the Gram matrix of the former."""

    def __init__(self, memory: int) -> None:
        self.residuals: deque[Array] = deque(maxlen=memory)
        self.images: deque[Array] = deque(maxlen=memory)
        self.gram = np.zeros((0, 0))
        self.last: tuple[Array, Array] | None = None

    def mix(self, W: Array, image: Array) -> Array | None:
        """Return the next point; None while there is nothing to mix with."""
        residual = image - W
        if self.last is not None:
            self.residuals.append(residual - self.last[0])
            self.images.append(image - self.last[1])
            row = np.array([inner(other, self.residuals[-1]) for other in self.residuals])
            first = len(self.gram) + 1 - len(row)  # 1 where the oldest difference has gone
            self.gram = np.block([[self.gram[first:, first:], row[:-1, None]], [row]])
        self.last = (residual, image)
        if not self.residuals:
            return None
        right = np.array([inner(difference, residual) for difference in self.residuals])
        gamma = np.linalg.lstsq(self.gram, right, rcond=1e-10)[0]
        for weight, difference in zip(gamma.tolist(), self.images, strict=True):
            image = image - difference * weight
        return image


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
