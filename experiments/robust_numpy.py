"""Robust subspaces in plain NumPy: spherical PCA, FMS, Tyler's M-estimator, principal component pursuit.

Each returns the components (k x d) and the centre, which is the spatial median.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

Subspace = tuple[np.ndarray, np.ndarray]


def leading(Z: np.ndarray, k: int) -> np.ndarray:
    """The k leading right singular vectors of Z, as rows."""
    N, d = Z.shape
    if d > N:
        return np.linalg.svd(Z, full_matrices=False)[2][:k]
    return eigh(Z.T @ Z, subset_by_index=[d - k, d - 1])[1].T[::-1]


def spatial_median(X: np.ndarray, tol: float = 1e-8, max_iter: int = 200) -> np.ndarray:
    """argmin_m Σ‖xᵢ − m‖ by Weiszfeld's iteration from the columns' medians."""
    m = np.median(X, axis=0)
    for _ in range(max_iter):
        distance = np.linalg.norm(X - m, axis=1)
        weight = 1 / np.maximum(distance, 1e-12 * (distance.max() or 1))
        last, m = m, weight @ X / weight.sum()
        if np.linalg.norm(m - last) <= tol * np.median(distance):
            break
    return m


def spherical(X: np.ndarray, k: int) -> Subspace:
    """PCA of the rows normalised after the spatial median (Locantore et al., 1999)."""
    mean = spatial_median(X)
    Z = X - mean
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    return leading(np.divide(Z, norms, where=norms > 0, out=np.zeros_like(Z)), k), mean


def fms(X: np.ndarray, k: int, delta: float = 1e-10, max_iter: int = 100) -> Subspace:
    """Fast median subspace, p = 1 (Lerman & Maunu, 2018): min Σ‖zᵢ − VᵀVzᵢ‖ by IRLS from PCA."""
    mean = spatial_median(X)
    Z = X - mean
    V = leading(Z, k)
    for _ in range(max_iter):
        residual = np.linalg.norm(Z - Z @ V.T @ V, axis=1)
        last, V = V, leading(Z / np.sqrt(np.maximum(residual, delta))[:, None], k)
        if np.linalg.norm(V - V @ last.T @ last) < 1e-10:
            break
    return V, mean


def tyler(X: np.ndarray, k: int, tol: float = 1e-6, max_iter: int = 100) -> Subspace:
    """Leading eigenvectors of Tyler's (1987) M-estimator Σ = d/N Σᵢ zᵢzᵢᵀ / zᵢᵀΣ⁻¹zᵢ.

    A small multiple of I keeps Σ definite: where many rows lie in a subspace the iterates tend to a
    singular matrix, whose range is the subspace sought (Zhang, 2016).
    """
    mean = spatial_median(X)
    Z = (X - mean)[np.any(mean != X, axis=1)]
    N, d = Z.shape
    ridge = 1e-10 if d < N else 1e-3
    S = np.eye(d)
    for _ in range(max_iter):
        quadratic = np.einsum("ij,ji->i", Z, cho_solve(cho_factor(S), Z.T))
        Y = Z / np.sqrt(quadratic)[:, None]
        last, S = S, Y.T @ Y
        S = (1 - ridge) * S * (d / np.trace(S)) + ridge * np.eye(d)
        if np.linalg.norm(S - last) <= tol * np.linalg.norm(S):
            break
    return eigh(S, subset_by_index=[d - k, d - 1])[1].T[::-1], mean


def pcp(X: np.ndarray, k: int, tol: float = 1e-7, max_iter: int = 500) -> Subspace:
    """min ‖L‖_* + λ‖S‖₁ with L + S = X − mean (Candès et al., 2011, Algorithm 1); leading V of L."""
    mean = spatial_median(X)
    M = X - mean
    lam, mu = 1 / np.sqrt(max(M.shape)), M.size / (4 * np.abs(M).sum())
    L, S, Y = np.zeros_like(M), np.zeros_like(M), np.zeros_like(M)
    for _ in range(max_iter):
        U, sigma, Vt = np.linalg.svd(M - S + Y / mu, full_matrices=False)
        L = (U * np.maximum(sigma - 1 / mu, 0)) @ Vt
        T = M - L + Y / mu
        S = np.sign(T) * np.maximum(np.abs(T) - lam / mu, 0)
        gap = M - L - S
        Y += mu * gap
        if np.linalg.norm(gap) <= tol * np.linalg.norm(M):
            break
    return leading(L, k), mean
