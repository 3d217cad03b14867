"""``Y Theta - C Y = R`` off the leading eigenvectors V of ``C = A^T A``: block Lanczos, and the gap.

The columns of Y are the solutions of ``(theta_i - C) y_i = r_i``: one matrix with a shift for each
column, so that one block Krylov space of C serves all of them. Galerkin's condition in that space is the
one of conjugate gradients. On the complement of V every ``theta_i - C`` is positive definite if, and only
if, ``lambda_{s+1} < theta_s``. A block has some Gaussian columns too, by which the same products prove
this gap (:func:`dualpca.solvers.spectral.certificate.eigenvalue_test`).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from .._memory import SMALL, available, itemsize
from ..linalg import Array, column_norms, eigh, eps, norm, on_gpu, right_singular, to_numpy
from ..operators import Operator
from ..solvers.spectral.certificate import FAILURE, eigenvalue_test
from ..solvers.spectral.lanczos import BLOCK, PATIENCE, Lanczos
from ..solvers.spectral.ritz import ROUNDING, Block, Ritz, unit_of

#: A block has a multiple of BLOCK columns, at least so many of them Gaussian.
GAUSSIAN = 8

#: A derivative is refused where the angle between V and the leading subspace may be larger than this.
ANGLE = 1e-2

#: Blocks that a basis has room for before a restart, if memory has.
BLOCKS, RESTARTS = 40, 20


class GapError(ValueError):
    """The gap at the cut is not proved to be large enough for a derivative of the subspace."""


def solve_on_complement(C: Operator, V: Array, R: Array, *, tol: float, seed: int) -> Array:
    """Return Y with ``Y (V^T C V) - C Y = R`` and ``V^T Y = 0``, where C is given by its factor A.

    V is orthonormal and R orthogonal to it. The residual relative to R is at most ``tol``, or that of V
    as eigenvectors where that is larger. Raise GapError unless a gap at the cut is proved.
    """
    with C.blas_limited(), C.ieee_products():
        Y = C.matmul(V)
        sigma, P = right_singular(Y)  # the squares of small ones would be rounding in V^T C V
        Z = C.rmatmul(Y)
        # Off V: what rounding mixes within the subspace does no harm to it.
        ritz = Ritz(V @ P, sigma**2, column_norms((Z - V @ (V.T @ Z)) @ P))
        return _Equation(C, ritz, Z @ P, tol, seed).solve(R @ P) @ P.T


class _Equation:
    """The equation in a basis of Ritz vectors, where Theta is diagonal."""

    def __init__(self, C: Operator, ritz: Ritz, image: Array, tol: float, seed: int) -> None:
        self.C, self.ritz, self.image = C, ritz, image
        self.rng = np.random.default_rng(seed)
        self.n, self.s = ritz.V.shape
        self.theta = to_numpy(ritz.theta).astype(float)
        self.tol = max(tol, ritz.residual, 16 * eps(ritz.V))
        #: all eigenvalues on the complement must be below this
        self.limit = largest_below(self.theta, to_numpy(ritz.residuals), unit_of(C), C.shape)
        self.proved = False

    def solve(self, R: Array) -> Array:
        """Return Y for a right side that is orthogonal to V."""
        total, size = R * 0.0, norm(R)
        goal = self.tol * size
        if self.s == self.n:
            return total
        for _ in range(RESTARTS):
            if not 0 < size < math.inf:  # a right side that is not finite gives NaN
                return total
            Y, R = self._cycle(R, goal)
            total, size = total + Y, norm(R)
            if size <= goal and self.proved:
                return total
        raise self._error()

    def _cycle(self, R: Array, goal: float) -> tuple[Array, Array]:
        """Return an approximate solution from one basis, and what it leaves of R."""
        s, n = self.s, self.n
        size, P = right_singular(R)
        rank = max(1, int((to_numpy(size) > 0.1 * goal / math.sqrt(s)).sum()))
        size, P = size[:rank], P[:, :rank]
        width = BLOCK * -(-(rank + GAUSSIAN) // BLOCK)
        basis = Lanczos(self.C, self.ritz.V, self._room(width), self.rng)
        basis.begin_with_ritz(Block.of_pairs(self.ritz, self.image))
        Omega = basis.array(self.rng.standard_normal((n, width - rank)))
        columns = (R @ P) * (math.sqrt(n) / size)[None, :]  # as long as those of Omega
        start = basis.turn_to(basis.xp.concat([columns, Omega], axis=1))
        F = start[:, :rank] @ (to_numpy(P * size[None, :]).T.astype(float) / math.sqrt(n))
        gaussian = start[:, rank:]
        elimination, solved, next_test = _Elimination(float(self.theta[-1]), F), 0, 0
        while True:
            before = basis.m
            basis.expand()
            left = elimination.add(basis.T[before : basis.m, before : basis.m], basis.K[:, before:])
            if left == math.inf and not basis.complete:
                raise self._error()
            full = basis.m + basis.Q.shape[1] > basis.V.shape[1]
            ended = basis.complete or full
            if not ended and (left > goal or basis.steps < next_test):
                continue
            xi, S = eigh(basis.array(basis.T[s : basis.m, s : basis.m]))
            top = float(xi[0])
            if top >= self.limit:
                raise self._error(top)
            excluded = basis.complete or not self._possible(xi, S, gaussian, basis.m - before)
            self.proved = self.proved or excluded
            if self.proved or ended:
                break
            solved = solved or basis.steps
            if basis.steps >= solved + PATIENCE:
                raise self._error(top)
            next_test = basis.steps + 1 + basis.steps // 4  # an eigenproblem costs several passes
        shifts = self.ritz.theta[None, :] - xi[:, None]
        z = S @ ((S[: len(F)].T @ basis.array(F)) / shifts)
        rest = R * 0.0 if basis.complete else basis.Q @ (basis.array(basis.K[:, s:]) @ z)
        return basis.V[:, s : basis.m] @ z, rest

    def _possible(self, xi: Array, S: Array, G: np.ndarray, last: int) -> bool:
        """Whether an eigenvalue above the limit is not excluded on the complement of V."""
        values, vectors = to_numpy(xi)[::-1].astype(float), to_numpy(S)[:, ::-1].astype(float)
        return eigenvalue_test(values, vectors, G, last, FAILURE)(self.limit) >= 1

    def _room(self, width: int) -> int:
        """Return how many vectors the basis may have: BLOCKS blocks, or half of the free memory."""
        wanted, least = self.s + BLOCKS * width, self.s + 4 * width
        nbytes = self.n * itemsize(self.ritz.V)
        free = None if wanted * nbytes <= SMALL or on_gpu(self.ritz.V) else available()
        if free is not None:
            wanted = min(wanted, free // (2 * nbytes))
        return min(self.n, max(wanted, least))

    def _error(self, found: float | None = None) -> GapError:
        s, first, last = self.s, float(self.theta[0]), float(self.theta[-1])
        reached = f", and another one is at least {found:.6g}" if found is not None else ""
        return GapError(
            f"the gap at the cut is too small for a derivative with n_components={s}: eigenvalue {s} of "
            f"X^T X is {last:.6g} (the first is {first:.6g}, known with a relative residual of "
            f"{self.ritz.residual:.1e}){reached}; take another n_components, where the spectrum falls, "
            "give float64, or lower tol"
        )


def largest_below(
    theta: np.ndarray, residuals: np.ndarray, unit: float, shape: tuple[int, int]
) -> float:
    """Return the largest mu for which ``sum_i (r_i / (theta_i - mu))^2 <= ANGLE^2``.

    The left side bounds the squared sines of the angles between V and the leading subspace, if no
    eigenvalue of the complement is above mu. Products with C round by ``unit sigma_1 sigma_i``, and a
    sigma_i below ``unit sigma_1`` times the longer side of A counts as 0.
    """
    size = np.sqrt(np.clip(theta, 0.0, None))
    size = np.maximum(size, max(shape) * unit * size[0])
    r = np.hypot(residuals.astype(float), ROUNDING * unit * size[0] * size)
    low, high = float(theta[-1] - np.linalg.norm(r) / ANGLE), float(theta[-1])
    for _ in range(60):
        mu = (low + high) / 2
        inside = mu < theta[-1] and np.linalg.norm(r / (theta - mu)) <= ANGLE
        low, high = (mu, high) if inside else (low, mu)
    return low


class _Elimination:
    """Block elimination in ``(theta - T) z = (F, 0, ..., 0)`` for a block tridiagonal T that grows."""

    def __init__(self, theta: float, F: np.ndarray) -> None:
        self.theta, self.right, self.carried = theta, F, 0.0

    def add(self, diagonal: np.ndarray, coupling: np.ndarray) -> float:
        """Add a block; return the residual of the solution, infinity where T is not below theta."""
        D = self.theta * np.eye(len(diagonal)) - diagonal - self.carried
        try:
            factor = scipy.linalg.cho_factor(D)
        except np.linalg.LinAlgError:
            return math.inf
        self.right = coupling @ scipy.linalg.cho_solve(factor, self.right)
        self.carried = coupling @ scipy.linalg.cho_solve(factor, coupling.T)
        return float(np.linalg.norm(self.right))
