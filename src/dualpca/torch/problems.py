"""The subspaces that are differentiated, as stationary points: ``(I - W W^T) M W = 0``.

``M = A^T Diag(w) A`` with a weight for each row: 1 in PCA, ``psi'(||a_i - W W^T a_i||^2)`` in robust PCA,
where W is a fixed point of DCA (Section 4). With ``Lambda = W^T M W``, a change dA moves W by the Q that
solves ``L(Q) = (I - W W^T) dM W``. L is half the Hessian of the objective on the Grassmann manifold:

    L(Q) = Q Lambda - (I - W W^T) (M Q + A^T Diag(dw) A W),   dw_i = -2 w_i' <W^T a_i, Q^T a_i>.

It is self-adjoint, and positive definite where the minimum is strict.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..formulations import robust
from ..linalg import eps, inner, norm, orthonormalize
from ..losses import Loss
from ..operators import Matrix
from ..operators.views import check_energy
from ..solvers.base import TINY
from ..solvers.subspace import leading_subspace, solve_quietly, warn_above
from .complement import GapError, solve_on_complement

Tensor = torch.Tensor

#: Conjugate gradients give up after so many steps.
MAX_STEPS = 1000


def off(W: Tensor, Y: Tensor) -> Tensor:
    """``(I - W W^T) Y``."""
    return Y - W @ (W.mT @ Y)


def checked(A: Tensor) -> Matrix:
    """Return A as an operator; refuse NaN, infinity and squares that overflow."""
    operator = Matrix(A)
    energy = operator.energy()
    if not math.isfinite(energy) and not bool(torch.isfinite(A).all()):
        raise ValueError("X contains NaN or infinity; drop or replace such entries")
    check_energy(energy, operator)
    return operator


@dataclass(frozen=True)
class Squares:
    """The s leading right singular vectors of A."""

    s: int
    tol: float
    seed: int = 0

    def fit(self, A: Tensor) -> Tensor:
        """Return W for a centred A."""
        operator = checked(A)
        options: dict[str, Any] = {"dense": True, "solver": "auto", "formulation": None}
        options |= {
            "energy": operator.energy(),
            "tol": self.tol,
            "max_iter": MAX_STEPS,
            "seed": self.seed,
        }
        return leading_subspace(operator, self.s, **options).ritz.V

    def weights(self, A: Tensor, W: Tensor) -> tuple[Any, Any, Any]:
        """Return w, its derivative by the squared residual, and the residuals ``A - A W W^T``."""
        return 1.0, None, None

    def solve(self, A: Tensor, W: Tensor, R: Tensor) -> Tensor:
        """``L^{-1}(R)`` for R orthogonal to W."""
        return solve_on_complement(Matrix(A), W, R, tol=self.tol, seed=self.seed)

    def curvature(self, A: Tensor, W: Tensor) -> Callable[[Tensor], Tensor]:
        """Return L, continued to all of space by the identity on the span of W."""
        w, slope, _ = self.weights(A, W)
        Y = A @ W
        Lambda = Y.mT @ (w * Y)

        def L(Q: Tensor) -> Tensor:
            across = off(W, Q)
            image = A @ across
            rows = w * image
            if slope is not None:
                rows = rows - 2 * slope * (Y * image).sum(-1, keepdim=True) * Y
            return off(W, across @ Lambda - A.mT @ rows) + Q - across

        return L

    def pullback(self, A: Tensor, W: Tensor, Y: Tensor) -> Tensor:
        """``d <Y, M W> / dA`` at fixed W."""
        w, slope, residuals = self.weights(A, W)
        U, Z = A @ W, A @ Y
        gradient = torch.cat([w * U, w * Z], dim=-1) @ torch.cat([Y, W], dim=-1).mT
        if slope is None:
            return gradient
        return gradient + 2 * slope * (U * Z).sum(-1, keepdim=True) * residuals

    def pushforward(self, A: Tensor, W: Tensor, dA: Tensor) -> Tensor:
        """``dM W`` by a change of A at fixed W."""
        w, slope, residuals = self.weights(A, W)
        Y, rows = A @ W, w * (dA @ W)
        if slope is not None:
            rows = rows + 2 * slope * (residuals * dA).sum(-1, keepdim=True) * Y
        return A.mT @ rows + dA.mT @ (w * Y)


@dataclass(frozen=True, kw_only=True)
class Robust(Squares):
    """``minimize sum_i c^2 psi((||a_i - W W^T a_i||^2 + epsilon^2) / c^2)``, from a start, by DCA."""

    loss: Loss
    epsilon: float
    max_iter: int
    start: Tensor | None

    def fit(self, A: Tensor) -> Tensor:
        operator, W = checked(A), self.start
        if W is None:  # the axes of the directions, in which no row is long
            norms = torch.linalg.vector_norm(A, dim=-1, keepdim=True)
            W = super().fit(A / torch.where(norms > 0, norms, 1.0))
        problem = robust(operator, self.epsilon, self.loss)
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol**0.5}
        W = orthonormalize(solve_quietly(problem, "anderson", orthonormalize(W), **options).W)
        W, residual = self._refined(A, W)
        if residual > self.tol:  # Newton's method has left the minimum, or was not near it
            result = solve_quietly(problem, "anderson", W, **{**options, "tol": self.tol})
            W, spent = orthonormalize(result.W), result.iterations >= self.max_iter
            warn_above(result.residual, self.tol, "DCA", self.max_iter if spent else None)
        return W

    def _refined(self, A: Tensor, W: Tensor) -> tuple[Tensor, float]:
        """Return W after steps of Newton's method, as long as they help, and its residual.

        DCA converges linearly. The equation of the derivative is that of Newton's step, which doubles
        the digits.
        """
        R, residual = self._residual(A, W)
        while residual > 0:
            try:
                step = orthonormalize(W + self.solve(A, W, R))
            except GapError:
                break
            R, reached = self._residual(A, step)
            if not reached < 0.1 * residual:
                break
            W, residual = step, reached
        return W, residual

    def _residual(self, A: Tensor, W: Tensor) -> tuple[Tensor, float]:
        """``(I - W W^T) M W`` and its size relative to ``M W``."""
        image = A.mT @ (self.weights(A, W)[0] * (A @ W))
        R = off(W, image)
        return R, norm(R) / max(norm(image), TINY)

    def weights(self, A: Tensor, W: Tensor) -> tuple[Any, Any, Any]:
        residuals = A - (A @ W) @ W.mT
        squares = (residuals * residuals).sum(-1, keepdim=True)
        c2 = self.loss.c**2
        weight: Any = torch.func.vjp(self.loss.slope, (squares + self.epsilon**2) / c2)
        return weight[0], weight[1](torch.ones_like(squares))[0] / c2, residuals

    def solve(self, A: Tensor, W: Tensor, R: Tensor) -> Tensor:
        """``L^{-1}(R)`` by conjugate gradients, preconditioned by ``Q Lambda^{-1}``."""
        L, Y = self.curvature(A, W), A @ W
        Lambda = Y.mT @ (self.weights(A, W)[0] * Y)
        goal = max(self.tol, self._residual(A, W)[1], 16 * eps(A)) * norm(R)
        factor, failed = torch.linalg.cholesky_ex(Lambda)
        Q, P, before = R * 0.0, R * 0.0, math.inf
        for _ in range(0 if int(failed) else MAX_STEPS):
            if not norm(R) > goal:
                return Q
            Z = torch.cholesky_solve(R.mT, factor).mT
            product = inner(R, Z)
            P, before = Z + (product / before) * P, product
            image = L(P)
            curved = inner(P, image)
            if not curved > 0:
                break
            Q, R = Q + (product / curved) * P, R - (product / curved) * image
        raise GapError(
            "the robust subspace is no strict minimum, or nearly not, so that it has no derivative: "
            f"n_components={self.s}, loss={self.loss!r}; take another n_components, a larger scale or "
            "another start"
        )
