"""Limits of Hotelling's T2 and of the squared prediction error of rows that a model has not seen."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2, f, norm

from ..linalg import Array, to_numpy
from ..operators import Operator

#: Up to this many columns the covariance is formed; beyond, this many random signs stand for them.
FORMED, PROBES = 1000, 64


def t2_limit(q: float, s: int, n: float) -> float:
    """``s (n^2 - 1) / (n (n - s)) F_{s, n-s}(q)``: the q-quantile of T2 of a new row.

    Of normal rows, s components and variances from n rows (Tracy, Young and Mason 1992); infinite
    where n is not above s.
    """
    return float(s * (n * n - 1) / (n * (n - s)) * f.ppf(q, s, n - s)) if n > s else np.inf


def jackson_mudholkar(q: float, theta: tuple[float, float, float]) -> float:
    """``theta_1 (z sqrt(2 theta_2 h^2) / theta_1 + 1 + theta_2 h (h - 1) / theta_1^2)^{1/h}``.

    The q-quantile of the squared prediction error, with ``h = 1 - 2 theta_1 theta_3 / (3 theta_2^2)``, z
    the q-quantile of the normal distribution and ``theta_i`` the sum of the i-th powers of the variances
    left out (Jackson and Mudholkar 1979). Box's limit where h is not positive, which their expansion
    does not cover.
    """
    one, two, three = theta
    if not two > 0:
        return 0.0
    h = 1 - 2 * one * three / (3 * two * two)
    inner = norm.ppf(q) * np.sqrt(2 * two) * h / one + 1 + two * h * (h - 1) / one**2
    return float(one * inner ** (1 / h)) if h > 0 and inner > 0 else box(q, theta)


def box(q: float, theta: tuple[float, float, float]) -> float:
    """``g chi2_h(q)`` with ``g = theta_2 / theta_1`` and ``h = theta_1^2 / theta_2`` (Box 1954)."""
    one, two, _ = theta
    return float(two / one * chi2.ppf(q, one * one / two)) if two > 0 else 0.0


def residual_powers(X: Operator, V: Array, mass: float) -> tuple[float, float, float]:
    """``tr (P C P)^i`` for i = 1, 2, 3, with ``C = X^T X / (mass - 1)`` and ``P = I - V V^T``.

    Of more than FORMED columns by random signs w: ``E w^T A w = tr A`` (Hutchinson 1990).
    """
    d, axes = X.shape[1], to_numpy(V).astype(float)

    def outside(W: np.ndarray) -> np.ndarray:
        return W - axes @ (axes.T @ W)

    if d <= FORMED:
        C, W = to_numpy(X.gram()).astype(float) / (mass - 1), outside(np.eye(d))
        CW = outside(C @ W)
        CCW = outside(C @ CW)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (d, PROBES))
        W = outside(signs / np.sqrt(PROBES))
        CW = outside(to_numpy(X.sweep(X.asarray(W))).astype(float)) / (mass - 1)
        CCW = outside(to_numpy(X.sweep(X.asarray(CW))).astype(float)) / (mass - 1)
    return tuple(float(np.vdot(A, B)) for A, B in ((W, CW), (CW, CW), (CW, CCW)))  # type: ignore[return-value]
