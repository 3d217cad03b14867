"""The images Z of loadings W under X: where ``W = F'(Z)`` up to lengths, W is a fixed point of DCA."""

from __future__ import annotations

import numpy as np

from .quadratic import RANK


def lengths(W: np.ndarray) -> np.ndarray:
    """The lengths of the columns, 1 for zero ones."""
    found = np.linalg.norm(W, axis=0)
    return np.where(found > 0, found, 1.0)


def unit(W: np.ndarray) -> np.ndarray:
    """W with columns of length 1; zero columns stay."""
    return W / lengths(W)


def single_images(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``z = C w / ||X w||`` in columns: the features' products with unit scores."""
    variances = np.einsum("ij,ij->j", W, CW)
    return CW / np.sqrt(np.where(variances > 0, variances, 1.0))


def polar_images(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``X^T polar(X W) = C W (W^T C W)^{-1/2}``: the block method, DCA on ``-F(X^T U)``."""
    theta, Q = np.linalg.eigh(W.T @ CW)
    Z = CW @ ((Q * _power(theta, -0.5)) @ Q.T)
    return np.where(_above((Z**2).sum(axis=0)), Z, 0.0)


def fit_images(W: np.ndarray, CW: np.ndarray) -> np.ndarray:
    """``w_j + (X - T W^T)^T t_j / ||t_j||^2``: the loading that fits best what the others leave of X.

    Its k largest entries are the best k-sparse one.
    """
    W, XT, G = scores_of(W, CW)
    sizes = np.diag(G)
    return np.where(sizes > 0, (XT - W @ G) / np.where(sizes > 0, sizes, 1.0) + W, 0.0)


def scores_of(W: np.ndarray, CW: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W with unit columns, ``X^T T`` and ``T^T T`` of the scores ``T = X W (W^T W)^{-1}``.

    These fit X best given W. Columns are 0 where the scores are no more than rounding.
    """
    W, CW = W / lengths(W), CW / lengths(W)
    theta, Q = np.linalg.eigh(W.T @ W)
    inverse = (Q * _power(theta, -1.0)) @ Q.T
    XT = CW @ inverse
    G = inverse @ (W.T @ XT)
    kept = np.diag(G) > RANK * max(float(np.einsum("ij,ij->j", W, CW).max()), 0.0) * len(G)
    return np.where(kept, W, 0.0), np.where(kept, XT, 0.0), np.where(kept, G, 0.0)


def _above(values: np.ndarray) -> np.ndarray:
    """Which of the values are more than rounding of the largest."""
    return values > RANK * max(float(values.max()), 0.0) * len(values)


def _power(theta: np.ndarray, exponent: float) -> np.ndarray:
    kept = _above(theta)
    return np.where(kept, np.where(kept, theta, 1.0) ** exponent, 0.0)
