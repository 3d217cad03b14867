"""The certificate: how much variance a subspace can have missed.

For an orthonormal V with Ritz values Theta, ``C V = V Theta + Q K`` and ``M``, C on the complement of
V, two facts bound what the first s Ritz vectors miss of the largest possible variance:

- M has no eigenvalue above its trace, ``energy - sum(theta)``: nothing is assumed, and nothing has to
  be computed;
- block Lanczos on M from Gaussian vectors that are independent of V sees every large eigenvalue of M,
  but for a probability that :func:`ceiling_of` takes as an argument.

The second one is the theorem of Kuczynski and Wozniakowski (1992) with the measured recurrence in the
place of the worst one: docs/mathematics.md has the proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaincinv

__all__ = ["FAILURE", "Certificate", "ceiling_of", "rounding_floor"]

#: The probability that a certificate is below the truth, for any data.
FAILURE = 1e-6

#: A rise of the captured variance by so many eps is taken for rounding.
UNSEEN = 16


def rounding_floor(dtype: Any) -> float:
    """The relative shortfall that rounding in a precision hides from any verification."""
    return UNSEEN * float(np.finfo("float32" if "float32" in str(dtype) else "float64").eps)


@dataclass(frozen=True)
class Certificate:
    """``C <= (V, V') [[Theta, K^T], [K, mu I]] (V, V')^T``, and what follows for the first s of V.

    Parameters
    ----------
    theta : array of shape (k,)
        Ritz values, decreasing.
    coupling : array of shape (m, k)
        K, or any matrix with the same ``K^T K``, the Gram matrix of the residuals.
    ceiling : float
        mu, an upper bound on the eigenvalues of C on the complement of V; infinite where unknown.
    energy : float
        The trace of C; infinite where unknown.
    floor : float
        The relative shortfall that rounding may hide.
    """

    theta: np.ndarray
    coupling: np.ndarray
    ceiling: float = math.inf
    energy: float = math.inf
    floor: float = 0.0

    @classmethod
    def of_norms(cls, theta: Any, residuals: Any, **known: float) -> Certificate:
        """A certificate from the norms of k residuals, whose Gram matrix is at most k times theirs."""
        theta, residuals = np.asarray(theta, dtype=float), np.asarray(residuals, dtype=float)
        return cls(theta, math.sqrt(len(theta)) * np.diag(residuals), **known)

    def shortfall(self, s: int) -> float:
        """An upper bound on ``sum_{i<=s} lambda_i - theta_i``, as a share of ``sum_{i<=s} theta_i``.

        The eigenvalues of C are at most those of the matrix above, one by one, and the sum of any s of
        them is at most ``sum_{i<=s} theta_i`` plus the energy that no Ritz vector holds.
        """
        captured = float(self.theta[:s].sum())
        if not captured > 0:
            return 0.0
        left = max(self.energy - float(self.theta.sum()), 0.0)
        return max(min(left, self._by_ceiling(s, min(self.ceiling, left))) / captured, self.floor)

    def _by_ceiling(self, s: int, mu: float) -> float:
        if not math.isfinite(mu):
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
        """The same where C itself is known to ``size`` only, in the spectral norm."""
        K = np.vstack([self.coupling, size * np.eye(len(self.theta))])
        return replace(self, coupling=K, ceiling=self.ceiling + size)

    def at_least(self, shortfall: float) -> Certificate:
        """The same with a floor that is not below ``shortfall``."""
        return replace(self, floor=max(self.floor, float(shortfall)))


def ceiling_of(xi: np.ndarray, S: np.ndarray, R: np.ndarray, last: int, failure: float) -> float:
    """An upper bound on the eigenvalues of M from block Lanczos on it: ``M U = U T + Q B E^T``.

    ``T = S Diag(xi) S^T``, with xi increasing. The first block of U times R is a Gaussian matrix,
    independent of M, and ``last`` is the width of the last one. The bound holds with probability
    ``1 - failure``, whatever the spectrum of M is.

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

    # From above, where no eigenvalue can be, by smaller and smaller factors.
    high, least = 16 * scale, np.finfo(float).eps * scale
    if possible(high):
        return math.inf
    for factor in (4.0, 2.0, 1.4, 1.2):
        while high > least and not possible(high / factor):
            high /= factor
    return top + high
