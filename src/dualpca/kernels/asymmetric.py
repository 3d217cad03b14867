"""Kernels between two sets of rows: K as an operator, centred on both sides, and its singular vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..linalg import Array, eps, fix_signs, norm
from ..operators import Blocks, Matrix, Operator, centered
from ..operators.block_ops import block_rows
from ..operators.sweep_maps import SweepMap
from ..operators.views import View
from ..solvers import Ritz, SubspaceResult
from ..solvers.spectral.certificate import Certificate
from ..solvers.subspace import DIRECT_ROUNDING, leading_subspace, warn_above
from .pairwise import as_float, pairwise, row_array, row_slices

#: How often the tolerance of the eigensolver is lowered until the singular vectors have theirs.
ROUNDS = 3


def exponential(X: Any, Z: Any, gamma: float) -> Array:
    """``exp(gamma <x, z>)``: attention before its rows are normalised."""
    products = pairwise(X, Z, metric="linear")
    with np.errstate(over="ignore"):
        K = np.exp(gamma * products)
    if not np.isfinite(K).all():
        raise ValueError(
            f"kernel='exp' overflows {K.dtype}, as gamma times the largest inner product is "
            f"{gamma * float(products.max()):.3g}; take a smaller gamma, or divide the rows"
        )
    return K


def cross_kernel(kernel: Callable[[Any, Any], Array], X: Any, Z: Any, limit: int) -> Operator:
    """Return ``K_ij = kernel(X_i, Z_j)``: held up to ``limit`` bytes, else computed in each pass."""
    X, Z = (as_float(row_array(A)) for A in (X, Z))
    N, M = X.shape[0], Z.shape[0]
    step = block_rows(M, 8)
    slices, dtype = row_slices(N, step), np.result_type(X.dtype, Z.dtype)
    if N * M * dtype.itemsize <= limit:
        return Matrix(np.concatenate([kernel(X[rows], Z) for rows in slices]))
    return Blocks(
        [lambda rows=rows: kernel(X[rows], Z) for rows in slices],
        shapes=[(rows.stop - rows.start, M) for rows in slices],
        dtype=dtype,
    )


class RightCentered(View):
    """``X (I - 1 1^T / M)``: each row less the mean of its entries."""

    def __init__(self, X: Operator) -> None:
        super().__init__(X, X.shape)

    def matmul(self, W: Array) -> Array:
        return self.X.matmul(W - W.mean(axis=0))

    def rmatmul(self, H: Array) -> Array:
        Z = self.X.rmatmul(H)
        return Z - Z.mean(axis=0)

    def sweep(self, W: Array, row_map: SweepMap | None = None) -> Any:
        swept = self.X.sweep(W - W.mean(axis=0), row_map)
        Z, *sums = swept if isinstance(swept, tuple) else (swept,)
        Z = Z - Z.mean(axis=0)
        return (Z, *sums) if sums else Z

    def row_norms(self) -> Array:
        M = self.shape[1]
        sums = self.X.matmul(self.X.asarray(np.ones((M, 1))))[:, 0]
        return np.sqrt(np.clip(self.X.row_norms() ** 2 - sums**2 / M, 0.0, None))


def both_centered(K: Operator) -> Operator:
    """Return ``C K C``: both feature maps less their means."""
    if isinstance(K, Matrix) and not K.sparse:
        D = K.data - K.data.mean(axis=0)
        D -= D.mean(axis=1, keepdims=True)
        return Matrix(D)
    return RightCentered(centered(K))


@dataclass(frozen=True)
class SingularTriplets:
    """``K A = B Diag(sigma)`` and ``K^T B = A Diag(sigma)``, to a relative ``residual``."""

    left: Array
    sigma: Array
    right: Array
    residual: float
    result: SubspaceResult


def singular_triplets(
    K: Operator, s: int, *, tol: float, max_iter: int, seed: int, solver: Any = "auto"
) -> SingularTriplets:
    """Return the s leading singular triplets of K, from products with K and K^T.

    The right vectors A come from the eigenproblem of ``K^T K`` (Lanczos' shifted problem in the
    unknowns (B, A), without B); B and sigma follow from the QR of K A. The residual
    ``||K^T B - A Diag(sigma)|| / ||sigma||`` is measured, and small sigma make it larger than that of
    the eigenproblem, whose tolerance is lowered then.
    """
    energy = K.energy()
    if energy == 0:
        sigma = np.zeros(s, dtype=K.dtype)
        B, A = (np.eye(n, s, dtype=K.dtype) for n in K.shape)
        certificate = Certificate.of_norms(sigma, sigma, ceiling=0.0)
        result = SubspaceResult(Ritz(A, sigma, sigma), certificate, steps=0, note="none")
        return SingularTriplets(B, sigma, A, 0.0, result)
    options: dict[str, Any] = {"dense": isinstance(K, Matrix), "energy": energy, "solver": solver}
    options |= {"formulation": None, "max_iter": max_iter, "seed": seed}
    start, inner = None, tol
    floor = DIRECT_ROUNDING * eps(K)
    for _ in range(ROUNDS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = leading_subspace(K, s, **options, tol=inner, start=start)
        A = result.ritz.V
        Q, R = np.linalg.qr(K.matmul(A))
        U, sigma, Vt = np.linalg.svd(R)
        A, B = A @ Vt.T, Q @ U
        back = K.rmatmul(B)
        residual = norm(back - A * sigma) / (norm(sigma) or 1.0)
        if residual <= max(tol, floor) or inner <= floor:
            break
        start, inner = A, max(inner * min(0.1, 0.1 * tol / residual), floor)
    warn_above(residual, max(tol, floor), "KernelSVD", max_iter)
    signs = fix_signs(B)
    return SingularTriplets(B * signs, sigma, A * signs, residual, result)
