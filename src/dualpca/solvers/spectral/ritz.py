"""Rayleigh-Ritz: ordered components with deterministic signs, and the result of a spectral solver."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg
from array_api_compat import device

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
from ..base import TINY
from .bases import conditioned, quick_basis
from .certificate import Certificate

#: Rounding leaves a recurrence true to this many eps of its largest Ritz value for each vector.
ROUNDING = 4.0

#: The same for products in TF32, whose factors have 11 bits: errors in the terms of a sum are
#: independent, and a quarter of the unit was not reached (336 runs on a GPU, ``benchmarks.gpu``).
TF32 = 2.0**-13

#: Below this share of the eigenvectors, of a matrix with more rows than this, LAPACK computes few.
FEW, FEW_SIDE = 0.4, 128


def unit_of(A: Operator) -> float:
    """Return the rounding unit of the products of A."""
    return TF32 if A.precision == "tf32" else eps(A)


def relative_residual(residuals: Array, theta: Array) -> float:
    """``||R||_F / ||(R, Theta)||_F`` from the norms of the columns of R."""
    size = norm(residuals)
    return size / math.hypot(size, norm(theta)) if size > 0 else 0.0


@dataclass(frozen=True)
class Ritz:
    """Ritz vectors V (columns), values theta of X^T X (decreasing), and the residual norm of each.

    ``host`` has theta and these norms in float64 where the host knows them, so that it need not wait for
    a GPU.
    """

    V: Array
    theta: Array
    residuals: Array
    host: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False, compare=False)

    def on_host(self) -> tuple[np.ndarray, np.ndarray]:
        """Return theta and the norms of the residuals in float64, in one transfer if any."""
        if self.host is not None:
            return self.host
        both = to_numpy(namespace(self.theta).stack([self.theta, self.residuals]))
        return both[0].astype(float), both[1].astype(float)

    def with_residuals(self, residuals: np.ndarray) -> Ritz:
        """Return the pairs with these norms of residuals."""
        host = self.host and (self.host[0], residuals.astype(float))
        return replace(self, residuals=asarray_like(residuals, self.residuals), host=host)

    @property
    def residual(self) -> float:
        """``||X^T X V - V Theta||_F / ||X^T X V||_F``, the quantity that ``tol`` bounds."""
        theta, residuals = self.on_host()
        return relative_residual(residuals, theta)

    def signed(self) -> Ritz:
        """Return the pairs with the signs of V that :func:`fix_signs` chooses."""
        return replace(self, V=self.V * fix_signs(self.V)[None, :])

    @property
    def excess(self) -> float:
        """The largest entry of ``V^T V - I``."""
        excess = to_numpy(as_operator(self.V).gram()) - np.eye(self.V.shape[1])
        return float(np.abs(excess).max(initial=0.0))

    @property
    def orthonormal(self) -> bool:
        """Whether V is orthonormal to rounding."""
        return self.excess <= 64 * eps(self.V)

    def made_orthonormal(self) -> Ritz:
        """Return the pairs of an orthonormal basis of V; residuals include what it changes.

        The residual of a basis ``V (I + F)`` is ``(C V - V Theta) (I + F) + V (Theta F - F Theta)``, and
        ``2 ||F||`` is about ``||V^T V - I||``.
        """
        excess = self.excess
        if excess <= 64 * eps(self.V):
            return self
        moved = 2 * len(self.theta) * excess * float(self.theta[0])
        residuals = np.hypot(self.on_host()[1] * (1 + excess), moved)
        return replace(self, V=quick_basis(self.V)).with_residuals(residuals)

    def leading(self, s: int) -> Ritz:
        """Return the first s pairs."""
        host = self.host and (self.host[0][:s], self.host[1][:s])
        return Ritz(self.V[:, :s], self.theta[:s], self.residuals[:s], host)


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
        if not self.ritz.on_host()[0][:s].sum() > 0:
            return 0.0
        return max(self.certificate.shortfall(s), 4 * eps(theta))


def leading_eigenpairs(C: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues, decreasing, and eigenvectors of a symmetric C: ``most`` of them, or all.

    LAPACK finds few of many sooner than all.
    """
    n = C.shape[0]
    if most < FEW * n and n > FEW_SIDE:
        theta, S = scipy.linalg.eigh(C, subset_by_index=[n - most, n - 1])
        if len(theta) == most:  # it finds fewer where eigenvalues are tied at the end of the range
            return theta[::-1].copy(), S[:, ::-1]
    theta, S = np.linalg.eigh(C)
    return theta[::-1].copy(), S[:, ::-1]


def rayleigh_ritz(X: Operator, W: Array) -> Ritz:
    """``W^T X^T X W = P Theta P^T; V = W P``, the eigenbasis that DCA leaves open (Section 6).

    It takes one pass over the data, for explicit W. The small matrix is accumulated from XW in
    float64, so that float32 data loses nothing to squaring.
    """
    return ritz_pairs(X, orthonormalize(W))[0].signed()


def ritz_pairs(X: Operator, Q: Array) -> tuple[Ritz, Array]:
    """Return :func:`rayleigh_ritz` of an orthonormal Q before signs are fixed, and ``X^T X V``."""
    Z, S = _products(X, Q)
    return _rotated(Q, Z, to_numpy(S))


@dataclass(frozen=True)
class Block:
    """Ritz pairs, ``image = X^T X V``, and K with ``K^T K`` the Gram matrix of their residuals."""

    ritz: Ritz
    image: Array
    coupling: np.ndarray

    @classmethod
    def of_pairs(cls, ritz: Ritz, image: Array) -> Block:
        """Build it from Ritz pairs and their image."""
        xp = namespace(image)
        size = max(float(ritz.on_host()[0][0]), TINY)  # squares stay in range
        R = xp.astype(image - ritz.V * ritz.theta[None, :], xp.float64, copy=False) / size
        return cls(ritz, image, size * _root(to_numpy(R.T @ R)))

    def leading(self, s: int) -> Block:
        """Return the first s pairs."""
        return Block(self.ritz.leading(s), self.image[:, :s], self.coupling[:, :s])


def _root(G: np.ndarray) -> np.ndarray:
    """Return K with ``K^T K = G``."""
    values, S = np.linalg.eigh(G)
    return np.sqrt(np.clip(values, 0.0, None))[:, None] * S.T


def block_pairs(X: Operator, P: Array) -> Block:
    """Return :func:`ritz_pairs` of the span of P; for float32, the host waits for a GPU once.

    One Gram matrix in float64 then tells what Q has lost, and the residuals. Images in float64 may be too
    large to square.
    """
    # Products in float64 leave 1e-16 cond(P)^2: enough for float32, else they are formed twice.
    Q = conditioned(P if is_single(P) else conditioned(P)[0], shift=0.0)[0]
    xp, n = namespace(P), P.shape[1]
    Z, S = _products(X, Q)
    wide = xp.astype(xp.concat([Q, Z], axis=1) if is_single(P) else Q, xp.float64, copy=False)
    both = to_numpy(xp.concat([xp.reshape(part, (-1,)) for part in (S, wide.T @ wide)]))
    S, G = both[: n * n].reshape(n, n), both[n * n :].reshape(wide.shape[1], -1)
    if not np.abs(G[:n, :n] - np.eye(n)).max() <= 64 * eps(Q):  # Cholesky has lost digits
        return Block.of_pairs(*ritz_pairs(X, orthonormalize(P)))
    if not is_single(P):
        return Block.of_pairs(*_rotated(Q, Z, S))
    theta, T = eigh(S)
    theta = np.clip(theta, 0.0, None)
    E, U, M = (T.T @ part @ T for part in (G[:n, :n], G[:n, n:], G[n:, n:]))
    # Of Z T - Q T Theta; it is right to 1e-8 theta_1, below the rounding of Z.
    root = _root(M - theta[:, None] * U - U.T * theta + theta[:, None] * E * theta)
    r = column_norms(root)
    sent = asarray_like(np.vstack([theta, r, T]), Q)  # one transfer
    ritz = Ritz(Q @ sent[2:, :], sent[0, :], sent[1, :], (theta, r))
    return Block(ritz, Z @ sent[2:, :], root)


def _products(X: Operator, Q: Array) -> tuple[Array, Array]:
    """Return ``X^T X Q`` and ``Q^T X^T X Q``, the latter in float64."""
    xp = namespace(Q)

    def row_map(Y: Array, rows: slice) -> tuple[Array, Array]:
        wide = xp.astype(Y, xp.float64, copy=False)
        return Y, wide.T @ wide

    if X.T.implicit or X.precision == "tf32":
        # X Q lives in feature space, where only its Gram matrix is known; or has few digits.
        Z = X.sweep(Q)
        return Z, xp.astype(Q.T @ Z, xp.float64, copy=False)
    return X.sweep(Q, row_map)


def _rotated(Q: Array, Z: Array, S: np.ndarray) -> tuple[Ritz, Array]:
    """Return the Ritz pairs of ``S = Q^T Z``, and Z in their basis."""
    xp = namespace(Q)
    both = asarray_like(np.vstack(eigh(S)), Q)  # one transfer
    theta, P = xp.clip(both[0, :], 0.0, None), both[1:, :]
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
            size = xp.max(residuals)  # squares stay in range
            size = xp.where(size > 0, size, xp.ones_like(size))
            residuals = size * xp.sqrt((P**2).T @ (residuals / size) ** 2)
        else:
            rounding = ROUNDING * eps(theta) * theta[0] * growth
            residuals = xp.sqrt(column_norms((images[:, s:] @ S) @ P) ** 2 + rounding**2)
    return Ritz(V, theta, residuals).signed()


def measured_pairs(X: Operator, V: Array) -> Ritz:
    """Return Ritz pairs of X from vectors of its smaller side, measured in a pass."""
    V = X.asarray(V)
    W = X.rmatmul(V) if X.shape[1] > X.shape[0] else V
    return ritz_pairs(X, quick_basis(W))[0].signed()


def widened(X: Operator, ritz: Ritz, scale: float, energy: float) -> Ritz:
    """Return pairs of ``scale X`` in float32 as those of a float64 X, with what its rounding may hide.

    Rounding moves X by no more than ``eps ||X||_F / 2``, and so a residual by ``eps sigma_1 ||X||_F``.
    """
    rounding = eps(ritz.theta) * math.sqrt(float(ritz.theta[0])) * math.sqrt(energy) / scale
    theta, residuals = (part / (scale * scale) for part in ritz.on_host())
    V = quick_basis(X.asarray(ritz.V))
    return Ritz(V, X.asarray(theta), X.asarray(np.hypot(residuals, rounding)))


def right_pairs(X: Operator, result: SubspaceResult, tol: float) -> Ritz:
    """Return Ritz pairs of ``X^T X`` from a recurrence; measured anew where rounding might show."""
    ritz, wide, unit = result.ritz, X.shape[1] > X.shape[0], eps(result.ritz.V)
    first, last = ritz.theta[0], ritz.theta[-1]
    precise = last * max(tol, unit) > ROUNDING * unit * first
    if precise and not wide and result.remainder is None and not X.T.implicit:
        return _captured_pairs(X, ritz)
    if precise and result.remainder is not None:
        pairs = Ritz(ritz.V, X.asarray(ritz.theta), X.asarray(ritz.residuals))
        if wide:
            Q, R = result.remainder
            bounded = math.sqrt(first / last) * pairs.residual <= tol
            pairs = right_from_left(X, pairs, X.asarray(R), None if bounded else Q)
        else:
            pairs = pairs.signed()
        if pairs.residual <= tol and (not wide or pairs.orthonormal):
            return pairs
    return measured_pairs(X, ritz.V)


def _captured_pairs(X: Operator, ritz: Ritz) -> Ritz:
    """Return Ritz pairs of the span of V from ``X V`` alone; the bounds on residuals stay true."""
    xp, Y = namespace(ritz.V), X.matmul(X.asarray(ritz.V))
    wide = xp.astype(Y, xp.float64, copy=False)
    theta, P = (X.asarray(part.copy()) for part in eigh(to_numpy(wide.T @ wide)))
    return Ritz(X.asarray(ritz.V) @ P, theta, X.asarray(ritz.residuals)).signed()
