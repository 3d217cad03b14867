"""Block Krylov with thick restart: DCA with memory.

DCA on (l) moves from W to the polar factor of ``X^T X W`` and forgets where it came from; here the
same objective is minimised over the span of all iterates so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device

from ..linalg import Array, column_norms, namespace, norm, to_numpy
from ..operators import Operator

__all__ = ["Krylov", "KrylovResult", "shortfall_bound"]


@dataclass(frozen=True)
class KrylovResult:
    """Ritz vectors and values of A^T A, their relative residual, and the relative shortfall bound."""

    V: Array
    theta: np.ndarray
    residual: float
    shortfall: float
    steps: int
    converged: bool


def shortfall_bound(theta: np.ndarray, residuals: np.ndarray, s: int) -> float:
    """An upper bound on ``sum_{i<=s} lambda_i - theta_i`` from Ritz values and residual norms.

    ``sum_{i<=s} min(||r_i||, min_{k>=s} sum_{j<=k} ||r_j||^2 / (theta_i - theta_{k+1} - ||r_{k+1}||)_+)``

    Valid if the largest eigenvalue on the complement of the first k Ritz vectors is at most
    ``theta_{k+1} + ||r_{k+1}||``; a block smaller than a multiplicity violates that, which is why the
    solver ends by looking for what it may have missed.
    """
    scale = theta[0]
    if not scale > 0:
        return 0.0
    theta, residuals = theta / scale, residuals / scale  # squares stay in range
    r2 = np.cumsum(residuals**2)
    ceiling = theta[s:] + residuals[s:]  # theta_{k+1} + ||r_{k+1}|| for k = s, s+1, ...
    bound = residuals[:s].copy()
    if len(ceiling):
        gap = theta[:s, None] - ceiling[None, :]
        with np.errstate(divide="ignore"):
            quadratic = np.where(gap > 0, r2[None, s - 1 : -1] / np.where(gap > 0, gap, 1), np.inf)
        bound = np.minimum(bound, quadratic.min(axis=1))
    return float(scale * bound.sum())


@dataclass(frozen=True)
class Krylov:
    """The s leading eigenvectors of ``C = X^T X`` (or X X^T) in blocks, one pass a step.

    Parameters
    ----------
    block : int
        Vectors a step: chosen for the machine, not for s.
    basis : int, optional
        The most vectors kept; beyond it a thick restart keeps the best half. Memory is
        ``min(N, d) * basis`` numbers.
    verify : bool
        At convergence, inject a fresh random block and two more steps, until the captured variance
        rises by no more than the certificate: a block finds at most ``block`` copies of a repeated
        singular value.
    max_steps : int
        Give up after so many passes.
    """

    block: int = 8
    basis: int | None = None
    verify: bool = True
    max_steps: int = 1000

    def __call__(self, A: Operator, s: int, *, tol: float, start: Array, seed: int) -> KrylovResult:
        """Ritz pairs of ``A^T A`` from the span of ``start``'s iterates."""
        return _Run(self, A, s, tol, start, seed).run()


class _Run:
    """The relation ``C V = V T + Q B E^T`` (E: the last block of V) and what grows it."""

    def __init__(
        self, options: Krylov, A: Operator, s: int, tol: float, start: Array, seed: int
    ) -> None:
        self.options, self.A, self.s, self.tol = options, A, s, tol
        self.xp = namespace(start)
        self.rng = np.random.default_rng(seed)
        self.eps = float(self.xp.finfo(start.dtype).eps)
        self.n = A.shape[1]
        self.b = max(1, min(options.block, self.n))
        wanted = options.basis or max(2 * s, s + 24 * self.b)
        self.limit = min(self.n, max(wanted, s + 4 * self.b))
        width = min(self.n, self.limit + max(2 * self.b, start.shape[1]))
        self.V = self.xp.zeros((self.n, width), dtype=start.dtype, device=device(start))
        self.T = np.zeros((width, width))
        self.m = 0  # columns of V whose image is known
        self.steps = 0
        self.next = self._orthonormal(start, norm(start))[0]

    def _array(self, values: np.ndarray) -> Array:
        values = np.ascontiguousarray(values)
        return self.xp.asarray(values, dtype=self.V.dtype, device=device(self.V))

    def _project(self, Z: Array) -> tuple[Array, Array]:
        """Z minus its part in V, twice by matrix products, which is enough; and that part."""
        V = self.V[:, : self.m]
        H = V.T @ Z
        Z = Z - V @ H
        rest = V.T @ Z
        return Z - V @ rest, H + rest

    def _orthonormal(self, Z: Array, scale: float) -> tuple[Array, Array]:
        """QR of a block that is orthogonal to V; columns lost to rounding become random ones."""
        Q, R = self.xp.linalg.qr(Z, mode="reduced")
        B = R
        room = self.n - self.m
        if room < Z.shape[1]:  # the complement of V has fewer dimensions than the block
            Z = self.xp.linalg.svd(Z, full_matrices=False)[0][:, :room]
            Z = self._project(Z)[0]
            Q, R = self.xp.linalg.qr(Z, mode="reduced")
            scale = 1.0
        for _ in range(3):
            diagonal = np.abs(to_numpy(self.xp.linalg.diagonal(R)))
            null = diagonal <= 100 * self.eps * scale
            if not null.any():
                if self.m and room and diagonal.min() < 1e-2 * diagonal.max():
                    # R^{-1} magnified what rounding left of V in the block.
                    Q = self.xp.linalg.qr(self._project(Q)[0], mode="reduced")[0]
                break
            random = self.rng.standard_normal(Q.shape) / np.sqrt(self.n)
            Z = self._project(
                self.xp.where(self._array(null[None, :]) > 0, self._array(random), Q)
            )[0]
            (Q, R), scale = self.xp.linalg.qr(Z, mode="reduced"), 1.0
        return Q, B

    def expand(self) -> None:
        """One pass: V and T grow by a block; ``next`` follows, coupled to it by B."""
        Q = self.next
        m, self.m = self.m, self.m + Q.shape[1]
        self.V[:, m : self.m] = Q
        Z = self.A.sweep(Q)
        self.steps += 1
        scale = norm(Z)
        Z, H = self._project(Z)
        column = to_numpy(H).astype(np.float64)
        self.T[: self.m, m : self.m] = column
        self.T[m : self.m, : self.m] = column.T
        self.next, B = self._orthonormal(Z, scale)
        self.B = to_numpy(B).astype(np.float64)

    def inject(self) -> None:
        """Widen the next block by random vectors, which see what the iterates so far could not."""
        width = min(self.b, self.n - self.m - self.next.shape[1])
        random = self._array(self.rng.standard_normal((self.n, width)) / np.sqrt(self.n))
        random = self._project(random)[0]
        self.next = self.xp.linalg.qr(self.xp.concat([self.next, random], axis=1), mode="reduced")[
            0
        ]

    def ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values (decreasing), their vectors in V, and the norms of the residuals."""
        theta, S = np.linalg.eigh(self.T[: self.m, : self.m])
        theta, S = theta[::-1], S[:, ::-1]
        if self.m >= self.n:
            return theta, S, np.zeros(self.m)
        return theta, S, column_norms(self.B @ S[self.m - self.B.shape[1] :])

    def restart(self, theta: np.ndarray, S: np.ndarray) -> None:
        """Keep the best Ritz vectors and the block that follows: the relation still holds."""
        keep = min(self.m, max(self.s + self.b, (self.s + self.limit) // 2))
        self.V[:, :keep] = self.V[:, : self.m] @ self._array(S[:, :keep])
        self.T[:] = 0
        self.T[:keep, :keep] = np.diag(theta[:keep])
        self.m = keep

    def run(self) -> KrylovResult:
        s, check, before = self.s, 0, (0, np.inf)
        watch: tuple[int, float, float] | None = None  # step, captured, bound at the injection
        while True:
            self.expand()
            full, out = self.m >= self.n, self.steps >= self.options.max_steps
            crowded = self.m + self.next.shape[1] > self.limit
            if self.m < s or not (full or out or crowded or self.steps >= check):
                continue
            theta, S, r = self.ritz()
            captured = max(float(theta[:s].sum()), 0.0)
            scale = max(theta[0], np.finfo(float).tiny)
            rest, size = (float(np.linalg.norm(a[:s] / scale)) for a in (r, theta))
            residual = rest / np.hypot(rest, size) if rest > 0 else 0.0
            bound = max(shortfall_bound(theta, r, s), 4 * self.eps * self.m * captured)
            remaining = self._remaining(before, residual)
            before = (self.steps, residual)
            check = self.steps + max(1, int(0.6 * remaining))
            missed = watch is not None and captured - watch[1] > watch[2]
            settled = watch is not None and self.steps >= watch[0] + 2 and not missed
            if full or out or (residual <= self.tol and (settled or not self.options.verify)):
                V = self.V[:, : self.m] @ self._array(S[:, :s])
                shortfall = bound / captured if captured > 0 else 0.0
                return KrylovResult(
                    V, theta[:s], residual, shortfall, self.steps, residual <= self.tol
                )
            if crowded:
                self.restart(theta, S)
            if self.options.verify and remaining <= 2 and (watch is None or missed):
                self.inject()
                watch, check = (self.steps, captured, bound), self.steps + 2
            elif watch is not None:
                check = max(check, watch[0] + 2)

    def _remaining(self, before: tuple[int, float], residual: float) -> float:
        """Steps still to go, as residuals fall geometrically: most tests can be skipped."""
        if residual <= self.tol:
            return 0.0
        steps, last = before
        if not residual < last < np.inf:
            return 3.0
        rate = np.log(last / residual) / (self.steps - steps)
        return float(np.log(residual / max(self.tol, 1e-300)) / rate)


def random_start(A: Operator, columns: int, seed: int) -> Any:
    """A Gaussian block."""
    rng = np.random.default_rng(seed)
    return A.asarray(rng.standard_normal((A.shape[1], min(columns, A.shape[1]))))
