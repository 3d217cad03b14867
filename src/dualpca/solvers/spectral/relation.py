"""The relation ``C V = V T + Q K`` of a basis V that grows by one pass over the data a step."""

from __future__ import annotations

import math

import numpy as np
from array_api_compat import device

from ...linalg import Array, column_norms, namespace, norm, to_numpy
from ...operators import Operator
from ..base import TINY
from .ritz import Ritz

__all__ = ["Relation"]

#: Directions of a block up to so many eps of its size are rounding, and random ones take their place.
NULL = 8.0

#: Rounding leaves the recurrence true to this many eps of its largest Ritz value a vector.
ROUNDING = 4.0


class Relation:
    """``C V = V T + Q K`` with ``C = A^T A`` and orthonormal (V, Q).

    T is symmetric; K is nonzero only in the columns of the last block of V, or after a restart in all.
    V has ``m`` columns, and room for ``width``.
    """

    def __init__(self, A: Operator, start: Array, width: int, rng: np.random.Generator) -> None:
        self._allocate(A, start, width, rng)
        self.Q = self._orthonormal(start, norm(start))[0]
        self.K = np.zeros((self.Q.shape[1], 0))
        self.lost = 0.0  # a start may be cut

    @classmethod
    def of_ritz(
        cls, A: Operator, ritz: Ritz, image: Array, width: int, rng: np.random.Generator
    ) -> Relation:
        """The relation of Ritz vectors V with ``image = C V``, without a pass; Q is left out."""
        relation = cls.__new__(cls)
        relation._allocate(A, ritz.V, width, rng)
        xp, theta = relation.xp, to_numpy(ritz.theta).astype(np.float64)
        size = max(float(theta[0]), TINY)  # squares stay in range
        R = xp.astype(image / size - ritz.V * (ritz.theta / size)[None, :], xp.float64, copy=False)
        values, S = np.linalg.eigh(to_numpy(R.T @ R))
        relation.m = len(theta)
        relation.V[:, : relation.m] = ritz.V
        relation.T[: relation.m, : relation.m] = np.diag(theta)
        relation.K = size * np.sqrt(np.clip(values, 0.0, None))[:, None] * S.T
        return relation

    def _allocate(self, A: Operator, start: Array, width: int, rng: np.random.Generator) -> None:
        self.A, self.rng, self.n = A, rng, A.shape[1]
        self.xp = namespace(start)
        self.eps = float(self.xp.finfo(start.dtype).eps)
        # Basis vectors lie one behind the other, so that any number of them is one matrix.
        self.V = self.xp.zeros((width, self.n), dtype=start.dtype, device=device(start)).T
        self.T = np.zeros((width, width))
        self.m = 0
        self.recent = 0  # C maps V[:, recent:] to what was not yet coupled to V[:, :recent]
        self.steps = 0
        self.lost = 0.0  # what images were cut by, in the Frobenius norm

    @property
    def complete(self) -> bool:
        """Whether V spans the whole space."""
        return self.m >= self.n

    @property
    def room(self) -> bool:
        """Whether V has room for another block."""
        return self.m + self.Q.shape[1] <= self.V.shape[1]

    def expand(self) -> None:
        """Append Q to V: one pass, which gives the next Q and K."""
        Q = self.Q
        m, self.m = self.m, self.m + Q.shape[1]
        self.V[:, m : self.m] = Q
        Z = self.A.sweep(Q)
        self.steps += 1
        scale = norm(Z)
        Z, H = self._project(Z, self.recent)
        self.recent = m
        column = to_numpy(H).astype(np.float64)
        self.T[: self.m, m : self.m] = column
        self.T[m : self.m, : self.m] = column.T
        self.Q, B = self._orthonormal(Z, scale)
        self.K = np.zeros((self.Q.shape[1], self.m))
        self.K[:, m:] = to_numpy(B).astype(np.float64)

    def ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values (decreasing), their vectors in V, and the norms of the residuals."""
        theta, S = np.linalg.eigh(self.T[: self.m, : self.m])
        theta, S = theta[::-1].copy(), S[:, ::-1]
        if self.complete:
            return theta, S, np.zeros(self.m)
        return theta, S, np.hypot(column_norms(self.K @ S), self.lost)

    def restart(self, theta: np.ndarray, S: np.ndarray) -> None:
        """Replace V by the Ritz vectors ``V S``; the relation still holds."""
        keep = S.shape[1]
        self.V[:, :keep] = self.V[:, : self.m] @ self.array(S)
        self.T[:] = 0
        self.T[:keep, :keep] = np.diag(theta)
        self.K = self.K @ S
        self.m, self.recent = keep, 0

    def turn_to_complement(self, columns: int) -> np.ndarray:
        """Go on from Gaussian vectors instead of Q, and return R with ``Omega = Q R`` off V.

        From here on the trailing block of T, V and K are those of block Lanczos on the complement of
        the V so far.
        """
        columns = min(columns, self.n - self.m)
        Z = self._project(self.array(self.rng.standard_normal((self.n, columns))))[0]
        self.Q, R = self._orthonormal(Z, norm(Z))
        self.recent = 0
        return to_numpy(R).astype(np.float64)

    def array(self, values: np.ndarray) -> Array:
        """A numpy array as one of V's kind."""
        values = np.ascontiguousarray(values)
        return self.xp.asarray(values, dtype=self.V.dtype, device=device(self.V))

    def _project(self, Z: Array, first: int = 0) -> tuple[Array, Array]:
        """Z minus its part in V, by matrix products; and that part.

        The first time only from column ``first`` on, where the others hold no more than rounding;
        then from all of V, again and again while that takes half of Z or more ("twice is enough").
        """
        V = self.V[:, : self.m]
        H = V[:, first:].T @ Z
        Z = Z - V[:, first:] @ H
        if first:
            zeros = self.xp.zeros((first, Z.shape[1]), dtype=Z.dtype, device=device(Z))
            H = self.xp.concat([zeros, H], axis=0)
        size = norm(Z)
        for _ in range(4):
            rest = V.T @ Z
            Z, H, before = Z - V @ rest, H + rest, size
            size = norm(Z)
            if size > 0.5 * before:
                break
        return Z, H

    def _cholesky_qr(self, Z: Array, scale: float) -> tuple[Array, Array] | None:
        """QR by the Cholesky factor of a float64 Gram matrix; None where that might lose digits."""
        xp = self.xp
        if not 0 < scale < np.inf:
            return None
        R = scale * np.eye(Z.shape[1])
        Q = xp.astype(Z / scale, xp.float64, copy=False)
        floor = 100 * self.eps
        for _ in range(1 if self.eps > 1e-10 else 2):  # the first leaves eps64 cond(Z)^2
            try:
                factor = np.linalg.cholesky(to_numpy(Q.T @ Q)).T
            except np.linalg.LinAlgError:
                return None
            diagonal = np.diagonal(factor)
            if not diagonal.min() > max(1e-4 * diagonal.max(), floor):
                return None
            inverse = np.ascontiguousarray(np.linalg.inv(factor))
            Q = Q @ xp.asarray(inverse, dtype=Q.dtype, device=device(Q))
            R = factor @ R
        return xp.astype(Q, self.V.dtype, copy=False), R

    def _orthonormal(self, Z: Array, scale: float) -> tuple[Array, Array]:
        """``Q, B`` of a block ``Q B`` that is orthogonal to V; directions of rounding become random."""
        room = self.n - self.m
        if room >= Z.shape[1]:
            quick = self._cholesky_qr(Z, scale)
            if quick is not None and self.m and _diagonal_ratio(quick[1]) < 1e-2:
                # R^{-1} magnified what rounding left of V in the block.
                again = self._cholesky_qr(self._project(quick[0])[0], 1.0)
                quick = None if again is None else (again[0], quick[1])
            if quick is not None:
                return quick
        U, sigma, _ = self.xp.linalg.svd(Z, full_matrices=False)
        Q = U[:, :room]  # the complement of V may have fewer dimensions than the block
        null = to_numpy(sigma)[None, : Q.shape[1]] <= NULL * self.eps * scale
        random = self.rng.standard_normal(Q.shape) / np.sqrt(self.n)
        Q = self.xp.where(self.array(null) > 0, self.array(random), Q)
        for _ in range(2 if Q.shape[1] else 0):
            # Small singular values magnified what rounding left of V in the block.
            Q = self.xp.linalg.qr(self._project(Q)[0], mode="reduced")[0]
        B = Q.T @ Z
        self.lost = math.hypot(self.lost, norm(Z - Q @ B))
        return Q, B


def _diagonal_ratio(R: np.ndarray) -> float:
    """The smallest over the largest entry of the diagonal."""
    diagonal = np.abs(np.diagonal(R))
    return float(diagonal.min() / diagonal.max())
