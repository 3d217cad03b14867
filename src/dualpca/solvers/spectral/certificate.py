"""The certificate: how much variance a subspace can have missed.

Let V be orthonormal with Ritz values Theta and ``C V = V Theta + Q K``, and let M be C on the
complement of V. Two facts bound the variance that the first s Ritz vectors miss:

- M has no eigenvalue above its trace, ``energy - sum(theta)``; this assumes nothing and costs nothing;
- block Lanczos on M from Gaussian vectors independent of V sees every large eigenvalue of M, except
  with a probability that :func:`ceiling_of` takes as an argument.

A third one bounds all s eigenvalues at once: block Lanczos on C itself, from a Gaussian block with more
than s columns, misses none of them by much (:func:`leading_ceilings`).

The second fact is the theorem of Kuczynski and Wozniakowski (1992) with the measured recurrence
instead of the worst one; docs/mathematics.md has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ...linalg import eps, to_numpy
from ...operators.block_ops import one_blas_thread
from ..base import TINY

#: The probability that a certificate is below the truth, for any data.
FAILURE = 1e-6

#: The distance of a ceiling from the largest Ritz value is found to this accuracy of its logarithm.
PRECISION = 0.18

#: A rise of the captured variance by this many eps counts as rounding.
ROUNDING_RISE = 16


def rounding_floor(dtype: Any) -> float:
    """Return the relative shortfall that rounding in this precision hides from any verification."""
    return ROUNDING_RISE * eps(dtype)


@dataclass(frozen=True)
class Certificate:
    """``C <= (V, V') [[Theta, K^T], [K, mu I]] (V, V')^T``, and its bound for the first s of V.

    Parameters
    ----------
    theta : array of shape (k,)
        Ritz values, decreasing.
    coupling : array of shape (m, k) or None
        K, or any matrix with the same ``K^T K``, the Gram matrix of the residuals. None where theta
        are eigenvalues of some ``N <= C``: then the energy alone bounds what is missed.
    ceiling : float
        mu, an upper bound on the eigenvalues of C on the complement of V; infinite where unknown.
    energy : float
        The trace of C; infinite where unknown.
    floor : float
        The relative shortfall that rounding may hide.
    """

    theta: np.ndarray
    coupling: np.ndarray | None
    ceiling: float = math.inf
    energy: float = math.inf
    floor: float = 0.0

    @classmethod
    def of_norms(cls, theta: Any, residuals: Any, **known: float) -> Certificate:
        """Build a certificate from the norms of k residuals: ``K^T K <= k Diag(norms^2)``."""
        theta, residuals = np.asarray(theta, dtype=float), np.asarray(residuals, dtype=float)
        return cls(theta, math.sqrt(len(theta)) * np.diag(residuals), **known)

    @classmethod
    def of_leading(cls, theta: Any, residuals: Any, s: int, rounding: float) -> Certificate:
        """Build the certificate of s eigenvectors from theirs and the next one, if there is one.

        ``rounding`` is relative to the largest eigenvalue.
        """
        theta, residuals = (to_numpy(array).astype(float) for array in (theta, residuals))
        ceiling = float(theta[s]) if len(theta) > s else 0.0
        ceiling += rounding * theta[0]
        return cls.of_norms(theta[:s], residuals[:s], ceiling=ceiling)

    def shortfall(self, s: int) -> float:
        """Bound ``sum_{i<=s} lambda_i - theta_i`` as a share of ``sum_{i<=s} theta_i``.

        The eigenvalues of C are at most those of the matrix above, one by one, and the sum of any s of
        them is at most ``sum_{i<=s} theta_i`` plus the energy that no Ritz vector holds.
        """
        captured = float(self.theta[:s].sum())
        if not captured > 0:
            return 0.0
        left = max(self.energy - float(self.theta.sum()), 0.0)
        known = self.__dict__.setdefault("_by_count", {})  # it is asked for more than once
        if s not in known:
            mu = min(self.ceiling, left)
            least = float(np.clip(mu - self.theta[:s], 0.0, None).sum())  # without the coupling
            known[s] = least if least >= left else self._by_ceiling(s, mu)
        return max(min(left, known[s]) / captured, self.floor)

    def _by_ceiling(self, s: int, mu: float) -> float:
        if self.coupling is None or not math.isfinite(mu):
            return math.inf
        k, scale = len(self.theta), float(self.theta[0])
        gap = float(self.theta[s - 1]) - mu
        if k == s and gap > 0:
            # tr A^T Theta A + 2 tr B^T K A + mu ||B||^2, of orthonormal (A, B), gains 2 ||B|| ||K|| at
            # most and loses gap ||B||^2 at least.
            gain = scale * float(np.sum((self.coupling / scale) ** 2)) / (gap / scale)
            if gain <= self.floor * float(self.theta.sum()):
                return gain
        K = self.coupling / scale
        if len(K) > k:
            K = np.linalg.qr(K)[1]
        C = np.diag(np.r_[self.theta / scale, np.full(len(K), mu / scale)])
        C[k:, :k], C[:k, k:] = K, K.T
        with one_blas_thread():  # others would spin long after so small a problem
            values = np.linalg.eigvalsh(C)
        largest = np.sort(np.r_[values, np.full(s, mu / scale)])[::-1]
        return scale * max(float((largest[:s] - self.theta[:s] / scale).sum()), 0.0)

    def with_rounding(self, size: float) -> Certificate:
        """Return the certificate where C itself is known only to ``size`` in the spectral norm."""
        assert self.coupling is not None
        K = np.vstack([self.coupling, size * np.eye(len(self.theta))])
        return replace(self, coupling=K, ceiling=self.ceiling + size)

    def at_least(self, shortfall: float) -> Certificate:
        """Return the certificate with a floor of at least ``shortfall``."""
        return replace(self, floor=max(self.floor, float(shortfall)))


def ceiling_of(
    xi: np.ndarray,
    S: np.ndarray,
    R: np.ndarray,
    last: int,
    failure: float,
    known: float = math.inf,
) -> float:
    """Bound the eigenvalues of M from above by block Lanczos on it, ``M U = U T + Q B E^T``.

    ``T = S Diag(xi) S^T`` with xi increasing. The first block of U times R is a Gaussian matrix
    independent of M, and ``last`` is the width of the last block. The bound holds with probability
    ``1 - failure``, whatever the spectrum of M is; ``known`` is one from fewer steps.
    """
    top = float(xi[-1])
    scale = max(abs(top), abs(float(xi[0])), TINY)
    share = eigenvalue_test(xi, S, R, last, failure)

    def log_share(x: float) -> float:
        return math.log(max(share(top + math.exp(x)), TINY))

    # The search is for the logarithm x of the distance from top, in which log_share is nearly linear:
    # first a value just above the root, which is a bound, then one just below it.
    high, least = math.log(16 * scale), math.log(2 * np.finfo(float).eps * scale)
    near = math.log(2 * (known - top)) if top < known < top + 16 * scale else high
    if (at_high := log_share(near)) < 0:
        high = near
    elif near == high or (at_high := log_share(high)) >= 0:
        return math.inf
    low, x = -math.inf, max(high - math.log(4), least)
    while high - low > 1.01 * PRECISION and high > least:
        at_x = log_share(x)
        slope = min((at_high - at_x) / (high - x), -1.0)
        if at_x < 0:
            high, at_high = x, at_x
        else:
            low = x
        x = min(max(high - at_high / slope, low) + PRECISION / 3, high - PRECISION)
        x = max(x, least)
    return top + math.exp(high)


def eigenvalue_test(
    xi: np.ndarray, S: np.ndarray, R: np.ndarray, last: int, failure: float
) -> Callable[[float], float]:
    """Return a function of a value above those of T, below 1 if M has no eigenvalue there or above.

    The recurrence is that of :func:`ceiling_of`.

    An eigenvector v of M with eigenvalue lambda has coordinates ``z = v^T U`` of norm 1 at most with
    ``z (lambda - T)`` in the last block, so z lies in a space of ``last`` dimensions. If lambda is far
    above T, all vectors of that space are small in the first block; but ``z_1 R = v^T Omega`` is
    Gaussian, and its square exceeds the ``failure`` quantile of chi^2 with that probability.
    """
    F, L = R.T @ S[: len(R)], S[len(S) - last :]
    mass = 2 * float(gammaincinv(R.shape[1] / 2, failure))

    def share(value: float) -> float:
        Z = F @ np.linalg.qr((L / (value - xi)).T)[0]
        at_most = float((Z * Z).sum())  # the square of the spectral norm
        return (at_most if at_most < mass else float(np.linalg.norm(Z, 2)) ** 2) / mass

    return share


def leading_ceilings(
    T: np.ndarray,
    K: np.ndarray,
    R: np.ndarray,
    theta: np.ndarray,
    S: np.ndarray,
    *,
    steps: int,
    failure: float,
    rounding: float,
) -> np.ndarray | None:
    """Bound the s leading eigenvalues of C by ``steps`` of block Lanczos on it, ``C V = V T + Q K``.

    The first block of V times R is a Gaussian matrix Omega with at least s + 4 columns, and S has the
    coordinates of the s leading Ritz vectors. All bounds hold with probability ``1 - failure``, whatever
    the spectrum is; None where rounding, of that size in C, hides them.

    Let p be the Chebyshev polynomial on ``[0, h]`` of degree ``steps``. Some unit vector v in the span of
    j leading eigenvectors is orthogonal to j - 1 leading Ritz vectors. If ``lambda_j > h``, then
    ``p(lambda_j) sigma_min <= ||v^T p(C) Omega||``, sigma_min being that of the s x b Gaussian matrix of
    the leading eigenvectors with Omega, and the right side is known from T off the Ritz vectors.
    """
    s, b, h = len(theta), R.shape[1], float(theta[-1])
    excess = b - s + 1
    least = excess / (math.e * math.sqrt(b)) * failure ** (1 / excess)  # of sigma_min
    growth = steps * math.acosh(2 * float(theta[0]) / h - 1) if h > 0 else math.inf
    if not growth < 100:
        return None
    blur = 2 * steps**2 * rounding / h * math.cosh(growth) * float(np.linalg.norm(R, 2))
    Y, last = np.zeros((len(T), b)), np.zeros((len(T), b))
    Y[: len(R)] = R
    for k in range(1, steps):
        Y, last = (2 if k > 1 else 1) * (2 / h * (T @ Y) - Y) - last, Y
    double = 2 if steps > 1 else 1
    below = double * 2 / h * (K @ Y)
    Y = double * (2 / h * (T @ Y) - Y) - last
    along = S.T @ Y
    taken = np.cumsum(along[:-1, :, None] * along[:-1, None, :], axis=0)
    G = Y.T @ Y + below.T @ below - np.concatenate([np.zeros((1, b, b)), taken])
    size = np.sqrt(_largest(G))
    if (blur > size).any():
        return None
    ratio = np.maximum((size + blur) / least, 1.0)
    return h / 2 * (1 + np.cosh(np.arccosh(ratio) / steps))


def _largest(G: np.ndarray) -> np.ndarray:
    """Bound the largest eigenvalue of each G >= 0 by ``(tr G^8)^(1/8)``: of b, off by b^(1/8) at most."""
    scale = np.linalg.norm(G, axis=(1, 2)).clip(TINY)
    G = G / scale[:, None, None]
    for _ in range(2):
        G = G @ G
    return scale * (G * G).sum(axis=(1, 2)) ** (1 / 8)
