"""Rayleigh-Ritz: ordered components with deterministic signs, and the result of a spectral solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from array_api_compat import device
from scipy.linalg.lapack import dtrtri

from ...linalg import (
    Array,
    asarray_like,
    column_norms,
    eigh,
    eps,
    fix_signs,
    is_single,
    namespace,
    norm,
    orthonormalize,
    to_numpy,
)
from ...operators import Operator, as_operator
from .certificate import Certificate

#: Rounding leaves a recurrence true to this many eps of its largest Ritz value for each vector.
ROUNDING = 4.0


#: Below this share of the eigenvectors, of a matrix with more rows than this, LAPACK computes few.
FEW, FEW_SIDE = 0.4, 128

#: The same for products in TF32, whose factors have 11 bits: errors in the terms of a sum are
#: independent, and a quarter of the unit was not reached (336 runs on a GPU, ``benchmarks.gpu``).
TF32 = 2.0**-13


def unit_of(A: Operator) -> float:
    """Return the rounding unit of the products of A."""
    return TF32 if A.precision == "tf32" else eps(A)


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


def leading_eigenpairs(C: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues, decreasing, and eigenvectors of a symmetric C: ``most`` of them, or all.

    LAPACK finds few of many sooner than all.
    """
    n = C.shape[0]
    few = most < FEW * n and n > FEW_SIDE
    chosen = [n - most, n - 1] if few else None
    theta, S = scipy.linalg.eigh(C, subset_by_index=chosen) if few else np.linalg.eigh(C)
    return theta[::-1].copy(), S[:, ::-1]


def cholesky_qr(Z: Array, scale: float = 1.0) -> tuple[Array, np.ndarray] | None:
    """Return a QR of Z by Cholesky of a float64 Gram matrix; None where that might lose digits.

    ``scale`` brings the squares of Z into range. Small matrices are factored on the host.
    """
    xp, R = namespace(Z), scale * np.eye(Z.shape[1])
    Q = xp.astype(Z, xp.float64, copy=False)
    Q = Q if scale == 1.0 else Q / scale
    for _ in range(1 if is_single(Z) else 2):  # the first leaves eps64 cond(Z)^2
        S = to_numpy(Q.T @ Q)
        size = np.sqrt(np.diagonal(S))
        if not 0 < size.min() <= size.max() < np.inf:
            return None
        try:
            factor = np.linalg.cholesky(S / np.outer(size, size)).T
        except np.linalg.LinAlgError:
            return None
        if not np.diagonal(factor).min() > 1e-4:
            return None
        inverse = np.ascontiguousarray(dtrtri(factor)[0] / size[:, None])
        Q = Q @ xp.asarray(inverse, dtype=Q.dtype, device=device(Q))
        R = factor * size @ R
    return xp.astype(Q, Z.dtype, copy=False), R


def thin_basis(P: Array) -> Array:
    """Return an orthonormal basis of a block, by Cholesky where its condition allows, else by QR."""
    factors = cholesky_qr(P)
    return orthonormalize(P) if factors is None else factors[0]


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

    if X.T.implicit or X.precision == "tf32":
        # X Q lives in feature space, where only its Gram matrix is known; or has few digits.
        Z = X.sweep(Q)
        S = xp.astype(Q.T @ Z, xp.float64, copy=False)
    else:
        Z, S = X.sweep(Q, row_map)
    theta, P = (asarray_like(part.copy(), Q) for part in eigh(to_numpy(S)))
    theta = xp.clip(theta, 0.0, None)
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
