"""The certificate: how much variance a subspace can have missed.

Let V be orthonormal with Ritz values Theta and ``C V = V Theta + Q K``, and let M be C on the
complement of V. Two facts bound the variance that the first s Ritz vectors miss:

- M has no eigenvalue above its trace, ``energy - sum(theta)``; this assumes nothing and costs nothing;
- block Lanczos on M from Gaussian vectors independent of V sees every large eigenvalue of M, except
  with a probability that :func:`ceiling_of` takes as an argument.

The second fact is the theorem of Kuczynski and Wozniakowski (1992) with the measured recurrence
instead of the worst one; docs/mathematics.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv

from ...linalg import eps, to_numpy

#: The probability that a certificate is below the truth, for any data.
FAILURE = 1e-6

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
        K = self.coupling / scale
        if len(K) > k:
            K = np.linalg.qr(K)[1]
        C = np.diag(np.r_[self.theta / scale, np.full(len(K), mu / scale)])
        C[k:, :k], C[:k, k:] = K, K.T
        largest = np.sort(np.r_[np.linalg.eigvalsh(C), np.full(s, mu / scale)])[::-1]
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

    An eigenvector v of M with eigenvalue lambda has coordinates ``z = v^T U`` of norm 1 at most with
    ``z (lambda - T)`` in the last block, so z lies in a space of ``last`` dimensions. If lambda is far
    above T, all vectors of that space are small in the first block; but ``z_1 R = v^T Omega`` is
    Gaussian, and its square exceeds the ``failure`` quantile of chi^2 with that probability.
    """
    F, L = R.T @ S[: len(R)], S[len(S) - last :]
    mass = 2 * float(gammaincinv(R.shape[1] / 2, failure))
    top = float(xi[-1])
    scale = max(abs(top), abs(float(xi[0])), np.finfo(float).tiny)

    def possible(excess: float) -> bool:
        Z = np.linalg.qr((L / (top + excess - xi)).T)[0]
        return float(np.linalg.norm(F @ Z, 2)) ** 2 >= mass

    # Come down from a bound above all eigenvalues, by smaller and smaller factors; the bound of an
    # earlier step, ``known``, is near.
    high, least = 16 * scale, np.finfo(float).eps * scale
    if top < known < top + high and not possible(2 * (known - top)):
        high = 2 * (known - top)
    elif possible(high):
        return math.inf
    for factor in (4.0, 2.0, 1.4, 1.2):
        while high > least and not possible(high / factor):
            high /= factor
    return top + high
