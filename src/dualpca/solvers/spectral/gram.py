"""Direct solvers: LAPACK's SVD of a dense matrix, and the smaller Gram matrix of any operator."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from array_api_compat import device, is_numpy_array

from ...linalg import Array, column_norms, eigh, namespace, on_gpu, orthonormalize, to_numpy
from ...operators import Kernel, Operator
from ...progress import phase
from .certificate import Certificate, rounding_floor
from .krylov import LOOSE, Krylov
from .relation import ROUNDING
from .ritz import Found, Ritz, rayleigh_ritz

__all__ = ["by_gram", "by_lapack", "right_from_left"]

#: Rounding leaves ``||E||_2`` of a Gram matrix below ``eps sqrt(lambda_1 trace)`` times
#: ``sqrt(1 + n / TERMS)`` for sums of n terms (docs/performance.md). BLAS adds them in blocks, products
#: of sparse matrices one by one.
TERMS, SPARSE_TERMS = 30_000, 4

#: From this ``tol`` on the products are in float32. Those of float64 data could be from 1e-5 on, but
#: the variances would then have seven digits, which only a loose ``tol`` says are enough.
SINGLE_TOL = {"float32": 1e-6, "float64": 1e-3}

#: Krylov on the Gram matrix itself finds up to this share of its eigenvectors sooner than LAPACK, from
#: this side on (784 columns: 14 ms for 50 of them, 28 for 100, against 45 for all by LAPACK).
KRYLOV_SHARE, KRYLOV_SIDE = 0.1, 700


def by_lapack(X: Operator, s: int) -> Found:
    """The s leading right singular vectors by LAPACK's SVD of the dense X."""
    data = X.todense()
    _, sigma, Vt = namespace(data).linalg.svd(data, full_matrices=False)
    more = min(s + 1, sigma.shape[0])  # one vector beyond s tells the gap
    V, theta = Vt[:more, :].T, sigma[:more] ** 2  # sigma keeps digits that X^T X has not
    ritz = Ritz(V, theta, column_norms(X.sweep(V) - V * theta[None, :])).signed()
    rounding = float(np.finfo("float32" if "float32" in str(X.dtype) else "float64").eps)
    return _with_next(ritz, s, rounding * float(theta[0]))


def by_gram(X: Operator, s: int, *, tol: float = 0.0, seed: int = 0) -> Found:
    """The s leading right singular vectors from ``X^T X`` or ``X X^T``, whichever is smaller.

    The products are in float32 where rounding then stays well below ``tol``, else in float64. Where
    that is not enough, or squaring has lost the digits of the smallest singular values wanted, a
    Rayleigh-Ritz pass over the data measures what was reached.
    """
    wide = X.shape[1] > X.shape[0]
    for single in (True, False) if takes_single(X, tol) else (False,):
        C = X.kernel(single=single) if wide else X.gram(single=single)
        xp = namespace(C)
        kind = xp.float32 if single else xp.float64
        V, theta, residuals, known = _eigenpairs(C, xp.astype(C, kind, copy=False), s, tol, seed)
        rounding = float(xp.finfo(kind).eps) * growth(X) * _magnitude(X, C, theta[0])
        residuals = np.hypot(residuals, rounding)
        ritz = Ritz(X.asarray(V[:, :s]), X.asarray(theta[:s]), X.asarray(residuals[:s]))
        kept = theta[min(s, len(theta)) - 1] > 1e3 * rounding and not X.T.implicit
        if kept and ritz.residual <= tol:
            ritz = right_from_left(X, ritz) if wide else ritz.signed()
            if ritz.residual <= tol and (not wide or ritz.orthonormal):
                note = "float32" if single else "float64"
                certificate = known.with_rounding(rounding).at_least(rounding_floor(note))
                return Found(ritz, certificate, note=note)
    V = X.asarray(V[:, :s])
    ritz = rayleigh_ritz(X, X.rmatmul(V) if wide else V)
    return Found(ritz, known.with_rounding(rounding).at_least(rounding_floor(X.dtype)))


def krylov_aim(tol: float) -> float:
    """What Krylov on C goes for: steps cost little there, and digits are for the taking."""
    return min(max(tol / 50, min(tol / 2, 2e-5)), LOOSE / 2)  # verified, whatever tol is


def growth(X: Operator) -> float:
    """By how much the length of its sums adds to the rounding of a Gram matrix."""
    return math.sqrt(1 + max(X.shape) / (SPARSE_TERMS if X.sparse else TERMS))


def _magnitude(X: Operator, C: Array, largest: float) -> float:
    """``sqrt(lambda_1 trace)``, before the mean was taken out of C where that is done afterwards."""
    trace = float(namespace(C).sum(namespace(C).linalg.diagonal(C)))
    return math.sqrt(max(largest, X.removed_energy, 0.0)) * math.sqrt(
        max(trace + X.removed_energy, 0.0)
    )


def takes_single(X: Operator, tol: float) -> bool:
    """Whether the products of a Gram matrix are first taken in float32."""
    if "float32" in str(X.dtype):
        return tol >= SINGLE_TOL["float32"]
    # With few columns the conversion costs more than it saves.
    return tol >= SINGLE_TOL["float64"] and min(X.shape) >= 256


def _eigenpairs(
    C: Array, work: Array, s: int, tol: float, seed: int
) -> tuple[Array, np.ndarray, np.ndarray, Certificate]:
    """Leading eigenvectors of C, at least s, with Ritz values, residuals and a certificate.

    Few of many by Krylov on ``work``, which is C or its rounding; else by LAPACK, or its like on a GPU.
    """
    xp, n = namespace(C), C.shape[0]
    if tol > 0 and n >= KRYLOV_SIDE and s <= KRYLOV_SHARE * n and not on_gpu(C):
        trace = float(xp.sum(xp.linalg.diagonal(C)))
        with phase("eigenvectors"):
            found = Krylov()(
                Kernel.from_matrix(work).T, s, tol=krylov_aim(tol), seed=seed, energy=trace
            )
        if found.converged:
            # Vectors of a float32 ``work`` are orthonormal to float32 only, whatever X is.
            V = orthonormalize(xp.astype(found.V, C.dtype))
            return V, found.theta, found.residuals, found.certificate
    more = min(s + 1, n)
    if is_numpy_array(C) and more < n and n > 1000:
        theta, V = scipy.linalg.eigh(C, subset_by_index=[n - more, n - 1])
        theta, V = theta[::-1], V[:, ::-1]
    else:
        theta, V = eigh(C)
    theta, V = theta[:more], V[:, :more]
    residuals = column_norms(C @ V - V * theta[None, :])
    theta = xp.clip(theta, 0.0, None)
    values, norms = to_numpy(theta).astype(float), to_numpy(residuals).astype(float)
    return V, values, norms, _beside(values, norms, s, float(xp.finfo(C.dtype).eps) * values[0])


def _beside(theta: np.ndarray, residuals: np.ndarray, s: int, rounding: float) -> Certificate:
    """The certificate of s eigenvectors whose next eigenvalue is known, or of all."""
    ceiling = float(theta[s]) if len(theta) > s else 0.0
    return Certificate.of_norms(theta[:s], residuals[:s], ceiling=ceiling + rounding)


def _with_next(more: Ritz, s: int, rounding: float) -> Found:
    """The first s Ritz pairs, certified by the eigenvalue that follows them."""
    theta, residuals = (to_numpy(a).astype(float) for a in (more.theta, more.residuals))
    certificate = _beside(theta, residuals, s, rounding)
    return Found(more.leading(s), certificate.at_least(rounding_floor(more.V.dtype)))


def right_from_left(
    X: Operator, ritz: Ritz, R: Array | None = None, Q: Array | None = None
) -> Ritz:
    """From Ritz pairs of ``X X^T`` to those of ``X^T X``: one pass.

    ``V = X^T U Theta^{-1/2}`` is orthonormal, and where ``X X^T U = U Theta + Q R`` with Q orthogonal
    to U, ``V^T X^T X V = Theta + S^T S`` with ``S = R Theta^{-1/2}``, whose eigenvectors turn V into
    Ritz vectors. Their residuals are within ``X^T Q S``, measured where Q is given, else bounded by
    ``sigma_1 / sigma`` times those of U. Rounding leaves V less than orthonormal by as much, which the
    caller looks at.
    """
    xp = namespace(ritz.theta)
    sigma = xp.sqrt(ritz.theta)
    s, growth = ritz.V.shape[1], sigma[0] / sigma
    both = X.rmatmul(ritz.V if Q is None else xp.concat([ritz.V, Q], axis=1))
    V, theta, residuals = both[:, :s] / sigma[None, :], ritz.theta, ritz.residuals * growth
    if R is not None:
        S = R / sigma[None, :]
        theta, P = eigh(_diagonal(theta) + S.T @ S)
        V = V @ P
        if Q is None:
            residuals = xp.sqrt((P**2).T @ residuals**2)
        else:
            rounding = ROUNDING * float(xp.finfo(theta.dtype).eps) * theta[0] * growth
            residuals = xp.sqrt(column_norms((both[:, s:] @ S) @ P) ** 2 + rounding**2)
    return Ritz(V, theta, residuals).signed()


def _diagonal(values: Array) -> Array:
    xp = namespace(values)
    return xp.eye(values.shape[0], dtype=values.dtype, device=device(values)) * values[None, :]
