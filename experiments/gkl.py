"""Golub-Kahan-Lanczos bidiagonalisation with thick restart, one vector at a time.

The algorithm and the parameters of KrylovKit.jl's ``svdsolve``: a Krylov dimension of 30, an absolute
tolerance on the residual of each triplet, convergence looked at only when the basis is full, and
``(3 krylovdim + 2 converged) // 5`` vectors kept at a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

KRYLOV_DIMENSION = 30
MAX_RESTARTS = 100

#: Norms below this share of the largest are rounding.
EPS = 1e-14


@dataclass(frozen=True)
class Triplets:
    """Leading singular triplets of A as the basis has them, and ``||A v_i - sigma_i u_i||``.

    ``A^T u_i = sigma_i v_i`` holds to rounding.
    """

    U: np.ndarray
    sigma: np.ndarray
    V: np.ndarray
    residuals: np.ndarray


def golub_kahan(
    A: Any, s: int, tol: float, rng: np.random.Generator, krylovdim: int = KRYLOV_DIMENSION
) -> Iterator[Triplets]:
    """``A V = U B + r e^T, A^T U = V B^T``: the s leading triplets each time the basis is full.

    Golub and Van Loan, Section 10.4; thick restart after Baglama and Reichel (2005).

    Parameters
    ----------
    A : array or scipy LinearOperator of shape (N, d)
    s : int
        Triplets asked for, at most ``krylovdim``.
    tol : float
        What counts as converged when it is decided how many vectors to keep.
    rng : Generator
        Draws the first vector.
    krylovdim : int
        Vectors of the basis, cut to the smaller side of A.

    Yields
    ------
    Triplets
        Endlessly; until the basis spans an invariant subspace, which is then the last.
    """
    N, d = A.shape
    dimension = min(krylovdim, N, d)
    if s > dimension:
        raise ValueError(f"s={s} triplets do not fit into krylovdim={dimension}; raise krylovdim")
    U, V = np.zeros((N, dimension), order="F"), np.zeros((d, dimension), order="F")
    B = np.zeros((dimension, dimension))
    r = rng.standard_normal(N)
    beta = float(np.linalg.norm(r))
    size, rows, floor = 0, 0, 0.0
    while True:
        while size < dimension and beta > floor:
            U[:, size] = r / beta
            w, row = _orthogonal(A.T @ U[:, size], V[:, :size])
            alpha = float(np.linalg.norm(w))
            B[size, :size] = row
            if alpha <= floor:  # A^T u lies in the basis: with this row of B it is invariant
                rows, beta = size + 1, 0.0
                break
            B[size, size] = alpha
            V[:, size] = w / alpha
            r = _orthogonal(A @ V[:, size], U[:, : size + 1])[0]
            beta, size = float(np.linalg.norm(r)), size + 1
            rows = size
            floor = max(floor, EPS * alpha)
        P, sigma, Qt = np.linalg.svd(B[:rows, :size], full_matrices=False)
        errors = beta * np.abs(Qt[:, size - 1])
        yield Triplets(U[:, :rows] @ P[:, :s], sigma[:s], V[:, :size] @ Qt[:s].T, errors[:s])
        if beta <= floor or size < dimension:
            return
        converged = int(np.argmax(np.append(errors >= tol, True)))
        keep = min((3 * dimension + 2 * converged) // 5, dimension - 1)
        U[:, :keep] = U @ P[:, :keep]
        V[:, :keep] = V @ Qt[:keep].T
        B[:] = 0.0
        B[range(keep), range(keep)] = sigma[:keep]
        size = keep


def _orthogonal(x: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x without its part in span(Q), and that part's coefficients; twice, against rounding."""
    first = Q.T @ x
    x = x - Q @ first
    second = Q.T @ x
    return x - Q @ second, first + second
