"""The certificate: how much variance Ritz vectors can have missed, from their residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["relative_shortfall", "shortfall_bound", "unseen"]

#: A rise of the captured variance by so many eps is taken for rounding.
UNSEEN = 16


def unseen(dtype: Any) -> float:
    """The relative shortfall that rounding in a precision hides from any verification."""
    return UNSEEN * float(np.finfo("float32" if "float32" in str(dtype) else "float64").eps)


def relative_shortfall(theta: np.ndarray, residuals: np.ndarray, s: int) -> float:
    """:func:`shortfall_bound` as a share of what the first s Ritz vectors capture."""
    captured = float(theta[:s].sum())
    return shortfall_bound(theta, residuals, s) / captured if captured > 0 else 0.0


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
