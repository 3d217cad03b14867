"""Rayleigh-Ritz: ordered components with deterministic signs, and the result of a spectral solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import device

from ...linalg import (
    Array,
    column_norms,
    eigh,
    eps,
    fix_signs,
    namespace,
    norm,
    orthonormalize,
    to_numpy,
)
from ...operators import Operator, as_operator
from .certificate import Certificate

#: Rounding leaves a recurrence true to this many eps of its largest Ritz value for each vector.
ROUNDING = 4.0


def relative_residual(residuals: Array, theta: Array) -> float:
    """``||R||_F / ||(R, Theta)||_F`` from the norms of the columns of R."""
    size = norm(residuals)
    return size / math.hypot(size, norm(theta)) if size > 0 else 0.0


@dataclass(frozen=True)
class Ritz:
    """Ritz vectors V (columns), values theta of X^T X (decreasing), and the residual norm of each."""

    V: Array
    theta: Array
    residuals: Array

    @property
    def residual(self) -> float:
        """``||X^T X V - V Theta||_F / ||X^T X V||_F``, the quantity that ``tol`` bounds."""
        return relative_residual(self.residuals, self.theta)

    def signed(self) -> Ritz:
        """Return the pairs with the signs of V that :func:`fix_signs` chooses."""
        return replace(self, V=self.V * fix_signs(self.V)[None, :])

    @property
    def orthonormal(self) -> bool:
        """Whether V is orthonormal to rounding."""
        excess = to_numpy(as_operator(self.V).gram()) - np.eye(self.V.shape[1])
        return bool(np.abs(excess).max(initial=0.0) <= 64 * eps(self.V))

    def leading(self, s: int) -> Ritz:
        """Return the first s pairs."""
        return Ritz(self.V[:, :s], self.theta[:s], self.residuals[:s])


@dataclass(frozen=True)
class SubspaceResult:
    """The answer of every spectral solver.

    Parameters
    ----------
    ritz : Ritz
        The components.
    certificate : Certificate
        A bound on the variance that they miss.
    steps : int
        Passes or iterations that the solver took.
    note : str
        The precision of the passes; in the result of ``leading_subspace`` the text of ``solver_``.
    converged : bool
        Whether the solver reached what it was asked for.
    remainder : tuple of arrays, optional
        Q and R with ``X^T X V - V Theta = Q R``, where the solver knows them.
    """

    ritz: Ritz
    certificate: Certificate
    steps: int = 1
    note: str = ""
    converged: bool = True
    remainder: tuple[Array, np.ndarray] | None = None

    def shortfall(self, s: int | None = None) -> float:
        """Bound the relative shortfall in captured variance of the first s components, or of all."""
        theta = self.ritz.theta
        s = theta.shape[0] if s is None else s
        if not float(namespace(theta).sum(theta[:s])) > 0:
            return 0.0
        return max(self.certificate.shortfall(s), 4 * eps(theta))


def rayleigh_ritz(X: Operator, W: Array) -> Ritz:
    """``W^T X^T X W = P Theta P^T; V = W P``, the eigenbasis that DCA leaves open (Section 6).

    It takes one pass over the data, for explicit W. The small matrix is accumulated from XW in
    float64, so that float32 data loses nothing to squaring.
    """
    return ritz_pairs(X, orthonormalize(W))[0].signed()


def ritz_pairs(X: Operator, Q: Array) -> tuple[Ritz, Array]:
    """Return :func:`rayleigh_ritz` of an orthonormal Q before signs are fixed, and ``X^T X V``."""
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


def right_from_left(
    X: Operator, ritz: Ritz, R: Array | None = None, Q: Array | None = None
) -> Ritz:
    """Turn Ritz pairs of ``X X^T`` into those of ``X^T X`` in one pass.

    ``V = X^T U Theta^{-1/2}`` is orthonormal, and where ``X X^T U = U Theta + Q R`` with Q orthogonal
    to U, ``V^T X^T X V = Theta + S^T S`` with ``S = R Theta^{-1/2}``; its eigenvectors turn V into
    Ritz vectors. Their residuals are within ``X^T Q S``, measured where Q is given, else bounded by
    ``sigma_1 / sigma`` times those of U. Rounding makes V less orthonormal by the same factor, so the
    caller has to test that.
    """
    xp = namespace(ritz.theta)
    sigma = xp.sqrt(ritz.theta)
    s, growth = ritz.V.shape[1], sigma[0] / sigma
    images = X.rmatmul(ritz.V if Q is None else xp.concat([ritz.V, Q], axis=1))
    V, theta, residuals = images[:, :s] / sigma[None, :], ritz.theta, ritz.residuals * growth
    if R is not None:
        S = R / sigma[None, :]
        eye = xp.eye(s, dtype=theta.dtype, device=device(theta))
        theta, P = eigh(eye * theta[None, :] + S.T @ S)
        V = V @ P
        if Q is None:
            residuals = xp.sqrt((P**2).T @ residuals**2)
        else:
            rounding = ROUNDING * eps(theta) * theta[0] * growth
            residuals = xp.sqrt(column_norms((images[:, s:] @ S) @ P) ** 2 + rounding**2)
    return Ritz(V, theta, residuals).signed()
