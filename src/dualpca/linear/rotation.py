"""Rotations of loadings to a simple structure."""

from __future__ import annotations

import numpy as np

from ..linalg import fix_signs

#: The rotations by name, and the weight of the variance term in their orthomax criterion.
ROTATIONS = {"varimax": 1.0, "quartimax": 0.0, "promax": 1.0}

#: The power to which promax raises loadings for its target, and the most steps of a rotation.
POWER, STEPS = 4, 1000

#: Components with less than this share of the largest variance are rounding, and stay as they are.
RANK = 1e-12


def rotation(A: np.ndarray, method: str, tol: float = 1e-5) -> np.ndarray:
    """``maximize sum_jk z_jk^4 - weight/d sum_k (sum_j z_jk^2)^2`` over orthogonal T, ``z = A T``.

    Varimax (Kaiser 1958) with rows of length 1, and quartimax (Neuhaus and Wrigley 1954) with rows as
    they are, by polar steps from ``T = I`` until the sum of singular values grows by less than ``tol``
    of it: R's ``stats::varimax``, step by step. Promax (Hendrickson and White 1964) multiplies varimax by
    the matrix that fits ``z |z|^3`` best, scaled so that scores have variance 1: R's ``stats::promax``.

    Parameters
    ----------
    A : array of shape (d, s) and rank s
        Loadings.
    method : {"varimax", "quartimax", "promax"}
    tol : float

    Returns
    -------
    T : array of shape (s, s)
        ``A T`` are the rotated loadings, and ``(T^T T)^{-1}`` the correlations of their scores.
    """
    (d, s), weight = A.shape, ROTATIONS[method]
    if s < 2:
        return np.eye(s)
    length = np.linalg.norm(A, axis=1, keepdims=True)
    rows = A / np.where(length > 0, length, 1.0) if weight else A
    T, size = np.eye(s), 0.0
    for _ in range(STEPS):
        z = rows @ T
        U, values, Vt = np.linalg.svd(rows.T @ (z**3 - (weight / d) * z * (z * z).sum(axis=0)))
        T, before, size = U @ Vt, size, float(values.sum())
        if size < before * (1 + tol):
            break
    if method != "promax":
        return T
    z = A @ T
    U = np.linalg.lstsq(z, z * np.abs(z) ** (POWER - 1), rcond=None)[0]
    return T @ (U * np.sqrt(np.diag(np.linalg.inv(U.T @ U))))


def rotated(
    V: np.ndarray, variances: np.ndarray, method: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return M, T and the lengths of rotated loadings ``V Diag(variances)^{1/2} T = V M Diag(lengths)``.

    ``V M`` are components of length 1, by decreasing length of their loadings, in each the entry of
    largest magnitude positive. Components without variance come last, and stay as they are.

    Parameters
    ----------
    V : array of shape (d, s)
        Components of length 1.
    variances : array of shape (s,)
    method : {"varimax", "quartimax", "promax"}
    """
    turned = variances > RANK * max(float(variances.max()), 0.0)
    deviation = np.sqrt(np.where(turned, variances, 1.0))
    T = np.eye(len(variances))
    T[np.ix_(turned, turned)] = rotation((V * deviation)[:, turned], method)
    loadings = V @ (deviation[:, None] * T)
    length = np.where(turned, np.linalg.norm(loadings, axis=0), 0.0)
    order = np.argsort(-length, kind="stable")
    T, length = T[:, order] * fix_signs(loadings[:, order]), length[order]
    M = deviation[:, None] * T / np.where(length > 0, length, 1.0)
    return M, T, length
