"""``C = X^T X`` less what components explain, and the variance of components that are correlated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: What is below this share of the largest variance is rounding, not variance.
RANK = 1e-12


class Deflation:
    """``U M U^T``: what the components taken out of a matrix C of n features explain of it."""

    def __init__(self, n: int) -> None:
        self._U, self._M, self._basis = np.zeros((n, 0)), np.zeros((0, 0)), np.zeros((n, 0))

    def corrected(self, V: np.ndarray, CV: np.ndarray) -> np.ndarray:
        """``(C - U M U^T) V`` from ``C V``."""
        return CV - self._U @ (self._M @ (self._U.T @ V)) if self._U.shape[1] else CV

    def block(self, S: np.ndarray) -> np.ndarray:
        """The principal submatrix on the features S."""
        return self._U[S] @ self._M @ self._U[S].T

    @property
    def variances(self) -> np.ndarray:
        """The diagonal."""
        return ((self._U @ self._M) * self._U).sum(axis=1)

    def take(self, w: np.ndarray, z: np.ndarray, rule: str) -> None:
        """Take out the component w, of which z is the product (Mackey 2008).

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
        self._taken = Deflation(len(variances))

    @classmethod
    def of(cls, C: np.ndarray) -> Quadratic:
        """Of an explicit matrix."""
        return cls(lambda V: C @ V, lambda S: C[np.ix_(S, S)], np.diag(C).copy())

    def undeflated(self) -> Quadratic:
        """C itself, with nothing taken out."""
        return Quadratic(self._product, self._block, self._variances)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self._taken.corrected(V, self._product(V))

    def block(self, S: np.ndarray) -> np.ndarray:
        return self._block(S) - self._taken.block(S)

    @property
    def variances(self) -> np.ndarray:
        """The diagonal."""
        return self._variances - self._taken.variances

    def deflate(self, w: np.ndarray, z: np.ndarray, rule: str) -> None:
        """Take out the component w, of which z is the product, by the rule of :class:`Deflation`."""
        self._taken.take(w, z, rule)


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
        captured[j] = (P * (M @ P)).sum()
    return captured
