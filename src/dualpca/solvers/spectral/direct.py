"""Direct solvers: LAPACK's SVD of a dense array, and eigenvectors of the smaller Gram matrix."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from ...linalg import (
    Array,
    column_norms,
    eigh,
    eps,
    is_single,
    namespace,
    on_gpu,
    orthonormalize,
    to_numpy,
)
from ...operators import Operator, from_gram
from ...operators.block_ops import one_blas_thread
from ...progress import phase
from . import costs
from .base import SpectralSolver, is_explicit_on_gpu
from .bases import quick_basis
from .certificate import Certificate, rounding_floor
from .costs import LOOSE, eigh_seconds, expected_steps, step_seconds, wide_block
from .krylov import ROUNDED_TOL, Krylov, mixed_scale
from .lanczos import BLOCK
from .ritz import (
    Ritz,
    SubspaceResult,
    leading_eigenpairs,
    measured_pairs,
    right_from_left,
)

#: With at most this many rows or columns a full SVD takes no time worth saving.
SMALL = 200

#: Rounding leaves ``||E||_2`` of a Gram matrix below ``eps sqrt(lambda_1 trace)`` times
#: ``sqrt(1 + n / TERMS)`` for sums of n terms (docs/performance.md). BLAS adds them in blocks, products
#: of sparse matrices one by one.
TERMS, SPARSE_TERMS = 30_000, 4

#: From this ``tol`` on the products are in float32. Those of float64 data could be from 1e-5 on, but
#: the variances would then have seven digits, which only a loose ``tol`` says are enough.
SINGLE_TOL = {"float32": 1e-6, "float64": ROUNDED_TOL}

#: Squares of entries of about this size or its inverse are far from the ends of the range of float32.
IN_RANGE = 1e-12

#: Krylov on the Gram matrix itself finds up to this share of its eigenvectors sooner than LAPACK, from
#: this side on (784 columns: 14 ms for 50 of them, 28 for 100, against 45 for all by LAPACK).
KRYLOV_SHARE, KRYLOV_SIDE = 0.1, 700

#: From this ``tol`` on LAPACK finds eigenvectors of products in float32 in float32: 151 of 784 in 38 ms,
#: 68 in float64.
SHORT_TOL = 1e-4

#: Up to this side two threads save LAPACK little (500 columns: 11.1 ms, 12.9 with one).
ALONE = 1000


class Gram(SpectralSolver):
    """Eigenvectors of ``X^T X`` or ``X X^T``, whichever is smaller.

    The products are in float32 where rounding then stays well below ``tol``, else in float64. Where
    that is not enough, or squaring has lost the digits of the smallest singular values wanted, a
    Rayleigh-Ritz pass over the data measures the residual.
    """

    def __call__(
        self, X: Operator, s: int, *, tol: float, seed: int, **options: Any
    ) -> SubspaceResult:
        wide, energy = X.shape[1] > X.shape[0], options.get("energy", math.inf)
        for single in (True, False) if takes_single(X, tol, energy) else (False,):
            rows, scale = (_in_float32(X, tol, energy) if single else None) or (X, 1.0)
            C = rows.kernel(single=single) if wide else rows.gram(single=single)
            xp = namespace(C)
            kind = xp.float32 if single else xp.float64
            work = xp.astype(C, kind, copy=False)
            V, theta, residuals, known = _eigenpairs(C, work, s, tol, seed)
            rounding = float(xp.finfo(kind).eps) * growth(X) * _magnitude(rows, C, theta[0])
            known, residuals = known.with_rounding(rounding), np.hypot(residuals, rounding)
            accurate = theta[min(s, len(theta)) - 1] > 1e3 * rounding and not X.T.implicit
            theta, residuals = theta[:s] / scale**2, residuals[:s] / scale**2
            ritz = Ritz(X.asarray(V[:, :s]), X.asarray(theta), X.asarray(residuals))
            if accurate and ritz.residual <= tol:
                ritz = right_from_left(X, ritz).made_orthonormal() if wide else ritz.signed()
                if wide and ritz.residual > tol:
                    ritz = measured_pairs(X, V[:, :s])
                if ritz.residual <= tol:
                    note = "float32" if single else "float64"
                    return SubspaceResult(ritz, known.at_least(rounding_floor(note)), note=note)
        ritz = measured_pairs(X, V[:, :s])
        return SubspaceResult(ritz, known.at_least(rounding_floor(X.dtype)))

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        (N, d), n = X.shape, min(X.shape)
        # LAPACK decomposes K where it is known; X X^T would read data too often that is not in memory.
        if X.T.implicit or (X.read_seconds and d > N):
            return math.inf
        if is_explicit_on_gpu(X):
            product = costs.GPU_FIT + 2 * N * d * n / costs.GPU_SQUARE
            return product + costs.GPU_LAUNCH * n + costs.GPU_EIGH * n**3 + X.read_seconds
        if X.entries < N * d:
            product = costs.SPARSE_SQUARE * X.entries**2 / max(N, d)
        else:
            product = costs.square_seconds(X, single=takes_single(X, tol, energy))
        short = tol >= SHORT_TOL and takes_single(X, tol, energy)
        eigen = eigh_seconds(n, s, single=short)
        if n >= KRYLOV_SIDE and s <= KRYLOV_SHARE * n:
            steps, b = expected_steps(n, s, krylov_aim(tol)), max(BLOCK, wide_block(s, tol))
            thin = costs.THIN if X.uses_kernels else costs.NUMPY_THIN
            thin *= 1.0 if X.precision == "float32" else 0.5
            eigen = step_seconds(steps, n) + steps * n * n * b / thin
        return product + eigen + X.read_seconds


class Lapack(SpectralSolver):
    """The full SVD of a dense X; where only ``K = X^T X`` is known, the eigenvectors of K."""

    needs_dense = True

    def __call__(self, X: Operator, s: int, **options: Any) -> SubspaceResult:
        if X.T.implicit:
            return Gram()(X, s, **{**options, "tol": 0.0})
        data = X.todense()
        _, sigma, Vt = namespace(data).linalg.svd(data, full_matrices=False)
        more = min(s + 1, sigma.shape[0])  # one vector beyond s tells the gap
        V, theta = Vt[:more, :].T, sigma[:more] ** 2  # sigma keeps digits that X^T X has not
        ritz = Ritz(V, theta, column_norms(X.sweep(V) - V * theta[None, :])).signed()
        certificate = Certificate.of_leading(theta, ritz.residuals, s, eps(X))
        return SubspaceResult(ritz.leading(s), certificate.at_least(rounding_floor(V.dtype)))

    def cost(self, X: Operator, s: int, tol: float, energy: float) -> float:
        return eigh_seconds(X.shape[1], s) if X.T.implicit else math.inf

    def preference(self, X: Operator, s: int) -> str:
        n, large = min(X.shape), max(X.shape)
        if X.T.implicit or large > 20 * n:
            return ""
        if s > n / 2:
            return f"n_components={s} is most of {n}, and squaring X would lose the smallest"
        return f"a full SVD is quick with {n} on the smaller side" if n <= SMALL else ""


def krylov_aim(tol: float) -> float:
    """Return the ``tol`` of Krylov on C, where steps cost little; it is always a verified one."""
    return min(max(tol / 50, min(tol / 2, 2e-5)), LOOSE / 2)


def growth(X: Operator) -> float:
    """Return the factor by which the length of its sums adds to the rounding of a Gram matrix."""
    return math.sqrt(1 + max(X.shape) / (SPARSE_TERMS if X.sparse else TERMS))


def _magnitude(X: Operator, C: Array, largest: float) -> float:
    """``sqrt(lambda_1 trace)`` of C before the energy of the mean was removed from it."""
    trace = float(namespace(C).sum(namespace(C).linalg.diagonal(C)))
    top, total = max(largest, X.removed_energy, 0.0), max(trace + X.removed_energy, 0.0)
    return math.sqrt(top) * math.sqrt(total)


def takes_single(X: Operator, tol: float, energy: float) -> bool:
    """Whether the products of a Gram matrix are first computed in float32."""
    if X.T.implicit:
        return False
    if is_single(X):
        return tol >= SINGLE_TOL["float32"]
    scale = mixed_scale(X, tol, energy)
    if scale is None or tol < SINGLE_TOL["float64"]:
        return False
    # Without kernels entries are rounded as they are, and with few columns that costs more than it saves.
    return X.grams_by_kernels or (min(X.shape) >= 256 and IN_RANGE < scale < 1 / IN_RANGE)


def _in_float32(X: Operator, tol: float, energy: float) -> tuple[Operator, float] | None:
    """Return the rows of float64 data as kernels scale and round them, and the scale."""
    scale = mixed_scale(X, tol, energy)
    rows = X.in_float32(scale) if scale is not None and X.grams_by_kernels else None
    return None if rows is None or scale is None else (rows, scale)


def _eigenpairs(
    C: Array, work: Array, s: int, tol: float, seed: int
) -> tuple[Array, np.ndarray, np.ndarray, Certificate]:
    """Return at least s leading eigenvectors of C, their values, residuals and certificate.

    Few of many come from Krylov on ``work``, which is C or its rounding; else LAPACK, or its like on a
    GPU, computes them.
    """
    xp, n = namespace(C), C.shape[0]
    if tol > 0 and n >= KRYLOV_SIDE and s <= KRYLOV_SHARE * n and not on_gpu(C):
        trace, aim = float(xp.sum(xp.linalg.diagonal(C))), krylov_aim(tol)
        # Threads of BLAS would still spin when the next fit begins.
        with phase("eigenvectors"), one_blas_thread():
            result = Krylov().eigenvectors(from_gram(work), s, tol=aim, seed=seed, energy=trace)
            if result.converged:
                # Vectors of a float32 ``work`` are orthonormal to float32 only, whatever X is.
                V = orthonormalize(xp.astype(result.ritz.V, C.dtype))
                return V, result.ritz.theta, result.ritz.residuals, result.certificate
    more, host = min(s + 1, n), is_numpy_array(C)
    # Products in float32 leave no digits that eigenvectors in float64 would show.
    short = work if host and tol >= SHORT_TOL and n > SMALL else C
    # LAPACK is SciPy's, the products NumPy's: threads of one BLAS would spin beside the other.
    with one_blas_thread() if n <= ALONE and host else nullcontext():
        theta, V = leading_eigenpairs(short, more) if host else eigh(C)
        theta, V = theta[:more], V[:, :more]
        if short.dtype != C.dtype:
            V = quick_basis(xp.astype(V, C.dtype))
        Z = C @ V
        if short.dtype != C.dtype:
            theta = xp.sum(V * Z, axis=0)
        residuals = column_norms(Z - V * theta[None, :])
    theta = xp.clip(theta, 0.0, None)
    known = Certificate.of_leading(theta, residuals, s, eps(short))
    return V, to_numpy(theta).astype(float), to_numpy(residuals).astype(float), known
