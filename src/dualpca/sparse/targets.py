"""``Z = X^T dF(XW)``, from W and ``C W`` alone: loadings W are a fixed point if ``W = dG*(Z)``."""

from __future__ import annotations

import numpy as np

from .deflation import RANK


def lengths(W: np.ndarray) -> np.ndarray:
    """Return the lengths of the columns, 1 for zero columns."""
    sizes = np.linalg.norm(W, axis=0)
    return np.where(sizes > 0, sizes, 1.0)


def unit(W: np.ndarray) -> np.ndarray:
    """Scale the columns to length 1; zero columns stay."""
    return W / lengths(W)


def column_targets(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``z = C w / ||X w||`` for each column: ``X^T dF(Xw)`` of problems with one component.

    F is the length of ``X w`` with penalties, half its square on the k-sparse ball, where the length
    of z does not matter.
    """
    variances = np.einsum("ij,ij->j", W, CW)
    return CW / np.sqrt(np.where(variances > 0, variances, 1.0))


def polar_targets(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``X^T polar(X W) = C W (W^T C W)^{-1/2}``: ``X^T dF(XW)`` of ``F = ||.||_{S_1}``.

    This is what :class:`dualpca.functions.Spectral` computes, with directions below ``RANK`` dropped.
    """
    theta, Q = np.linalg.eigh(W.T @ CW)
    Z = CW @ ((Q * _power(theta, -0.5)) @ Q.T)
    return np.where(_above((Z**2).sum(axis=0)), Z, 0.0)


def fit_targets(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``w_j + (X - T W^T)^T t_j / ||t_j||^2``: the best fit of w_j to what the others leave of X.

    Its k largest entries are the best k-sparse one. No DCA: T are the scores that fit X best.
    """
    W, XT, G = best_scores(W, CW)
    sizes = np.diag(G)
    return np.where(sizes > 0, (XT - W @ G) / np.where(sizes > 0, sizes, 1.0) + W, 0.0)


def best_scores(W: np.ndarray, CW: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return unit W, ``X^T T`` and ``T^T T`` of the scores ``T = X W (W^T W)^{-1}``.

    Columns are 0 where the scores are no more than rounding.
    """
    W, CW = W / lengths(W), CW / lengths(W)
    theta, Q = np.linalg.eigh(W.T @ W)
    inverse = (Q * _power(theta, -1.0)) @ Q.T
    XT = CW @ inverse
    G = inverse @ (W.T @ XT)
    significant = np.diag(G) > RANK * max(float(np.einsum("ij,ij->j", W, CW).max()), 0.0) * len(G)
    return tuple(np.where(significant, A, 0.0) for A in (W, XT, G))  # type: ignore[return-value]


def _above(values: np.ndarray) -> np.ndarray:
    """Return which values are more than rounding of the largest."""
    return values > RANK * max(float(values.max()), 0.0) * len(values)


def _power(theta: np.ndarray, exponent: float) -> np.ndarray:
    positive = _above(theta)
    return np.where(positive, np.where(positive, theta, 1.0) ** exponent, 0.0)
