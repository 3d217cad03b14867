"""From any basis to ordered components: Rayleigh-Ritz with deterministic signs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...linalg import (
    Array,
    column_norms,
    eigh,
    fix_signs,
    namespace,
    norm,
    orthonormalize,
    to_numpy,
)
from ...operators import Matrix, Operator
from .certificate import Certificate

__all__ = ["Found", "Ritz", "rayleigh_ritz", "ritz_pairs"]


def relative_residual(residuals: Array, theta: Array) -> float:
    """``||R||_F / ||(R, Theta)||_F`` from the norms of the columns of R."""
    rest, size = norm(residuals), norm(theta)
    return rest / math.hypot(rest, size) if rest > 0 else 0.0


@dataclass(frozen=True)
class Ritz:
    """Ritz vectors V (columns), values theta of X^T X (decreasing), and the residual norm of each."""

    V: Array
    theta: Array
    residuals: Array

    @property
    def residual(self) -> float:
        """``||X^T X V - V Theta||_F / ||X^T X V||_F``: what ``tol`` speaks of."""
        return relative_residual(self.residuals, self.theta)

    def signed(self) -> Ritz:
        """The same with the signs of V as :func:`fix_signs` wants them."""
        return Ritz(self.V * fix_signs(self.V)[None, :], self.theta, self.residuals)

    @property
    def orthonormal(self) -> bool:
        """Whether V is, to rounding."""
        eps = float(namespace(self.V).finfo(self.V.dtype).eps)
        off = to_numpy(Matrix(self.V).gram()) - np.eye(self.V.shape[1])
        return bool(np.abs(off).max(initial=0.0) <= 64 * eps)

    def leading(self, s: int) -> Ritz:
        """The first s of them."""
        return Ritz(self.V[:, :s], self.theta[:s], self.residuals[:s])


@dataclass(frozen=True)
class Found:
    """Ritz pairs, the certificate of what they may miss, and what it took to find them."""

    ritz: Ritz
    certificate: Certificate
    steps: int = 1
    note: str = ""

    @property
    def shortfall(self) -> float:
        """An upper bound on the relative shortfall in captured variance."""
        return self.certificate.shortfall(self.ritz.V.shape[1])


def rayleigh_ritz(X: Operator, W: Array) -> Ritz:
    """``W^T X^T X W = P Theta P^T; V = W P``, the eigenbasis that DCA leaves open (Section 6).

    One pass over the data, for explicit W. The small matrix is accumulated from XW in float64, so
    that float32 data loses nothing to squaring.
    """
    return ritz_pairs(X, orthonormalize(W))[0].signed()


def ritz_pairs(X: Operator, Q: Array) -> tuple[Ritz, Array]:
    """:func:`rayleigh_ritz` of an orthonormal Q, with signs as they come; and ``X^T X V``."""
    xp = namespace(Q)

    def row_map(Y: Array, rows: slice) -> tuple[Array, Array]:
        wide = xp.astype(Y, xp.float64, copy=False)
        return Y, wide.T @ wide

    if X.T.implicit:  # X Q lives in feature space: only its Gram matrix is known
        Z = X.sweep(Q)
        S = xp.astype(Q.T @ Z, xp.float64, copy=False)
    else:
        Z, S = X.sweep(Q, row_map)
    theta, P = eigh(S)
    theta = xp.astype(xp.clip(theta, 0.0, None), Q.dtype, copy=False)
    P = xp.astype(P, Q.dtype, copy=False)
    V, Z = Q @ P, Z @ P
    return Ritz(V, theta, column_norms(Z - V * theta[None, :])), Z
