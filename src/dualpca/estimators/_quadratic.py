"""``C = X^T X`` less what components explain, and the variance of components that are correlated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: What is below this share of the largest variance is rounding, not variance.
RANK = 1e-12


class Quadratic:
    """``C - U M U^T``: the matrix C less what the components found so far explain.

    ``product(V)`` is ``C V``, ``block(S)`` the principal submatrix on the features S, ``variances``
    the diagonal.
    """

    def __init__(
        self,
        product: Callable[[np.ndarray], np.ndarray],
        block: Callable[[np.ndarray], np.ndarray],
        variances: np.ndarray,
    ) -> None:
        self._product, self._block, self._variances = product, block, variances
        self._U = np.zeros((len(variances), 0))
        self._M = np.zeros((0, 0))
        self._basis = np.zeros((len(variances), 0))

    @classmethod
    def of(cls, C: np.ndarray) -> Quadratic:
        """Of an explicit matrix."""
        return cls(lambda V: C @ V, lambda S: C[np.ix_(S, S)], np.diag(C).copy())

    def undeflated(self) -> Quadratic:
        """C itself, with nothing taken out."""
        return Quadratic(self._product, self._block, self._variances)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.corrected(V, self._product(V))

    def corrected(self, V: np.ndarray, CV: np.ndarray) -> np.ndarray:
        """``(C - U M U^T) V`` from ``C V``."""
        return CV - self._U @ (self._M @ (self._U.T @ V)) if self._U.shape[1] else CV

    def block(self, S: np.ndarray) -> np.ndarray:
        return self._block(S) - self._U[S] @ self._M @ self._U[S].T

    @property
    def variances(self) -> np.ndarray:
        """The diagonal."""
        return self._variances - np.einsum("ij,jk,ik->i", self._U, self._M, self._U)

    def deflate(self, w: np.ndarray, z: np.ndarray, rule: str) -> None:
        """Take the component w, of which z is the product, out of C (Mackey 2008).

        "projection": ``(I - w w^T) C (I - w w^T)``; "orthogonal": the same with w orthogonalised
        against the components before it; "schur": ``C - z z^T / w^T z``.
        """
        variance = float(w @ z)
        if rule == "schur":
            self._append(z[:, None], np.array([[1 / variance]]))
            return
        if rule == "orthogonal":
            for _ in range(2):  # twice is enough
                w = w - self._basis @ (self._basis.T @ w)
            length = float(np.linalg.norm(w))
            if length <= RANK:
                return
            # C has no part left along the basis, so that z is the product with the new w as well.
            w, z, variance = w / length, z / length, variance / length**2
            self._basis = np.column_stack([self._basis, w])
        self._append(np.column_stack([w, z]), np.array([[-variance, 1.0], [1.0, 0.0]]))

    def _append(self, U: np.ndarray, M: np.ndarray) -> None:
        self._U = np.column_stack([self._U, U])
        old, new = len(self._M), len(self._M) + len(M)
        both = np.zeros((new, new))
        both[:old, :old], both[old:, old:] = self._M, M
        self._M = both


def adjusted_variances(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``R_jj^2`` of ``X W = Q R``: what each component adds (Zou, Hastie and Tibshirani 2006)."""
    G = W.T @ CW
    adjusted = np.zeros(len(G))
    floor = RANK * max(float(np.diag(G).max(initial=0.0)), 0.0) * len(G)
    for j in range(len(G)):
        if G[j, j] > floor:
            adjusted[j] = G[j, j]
            G = G - np.outer(G[:, j] / G[j, j], G[j])
    return adjusted


def cumulative_variances(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``||X P_j||^2``, P_j the projection on the first j loadings (Shen and Huang 2008)."""
    G, M = W.T @ W, W.T @ CW
    captured, P = np.zeros(len(G)), np.zeros((len(G), 0))
    for j in range(len(G)):  # P has W P orthonormal
        p = np.eye(len(G))[:, j] - P @ (P.T @ G[:, j])
        p -= P @ (P.T @ (G @ p))
        length = float(p @ G @ p)
        if length > RANK:
            P = np.column_stack([P, p / length**0.5])
        captured[j] = np.einsum("ij,ik,kj->", P, M, P)
    return captured
