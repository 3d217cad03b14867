"""The components of a data matrix, with the facts about the data that a fitted PCA needs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import gammaln

from ..linalg import Array, namespace
from ..solvers.base import TINY
from ..solvers.spectral.ritz import SubspaceResult


@dataclass(frozen=True)
class Decomposition:
    """Ritz pairs of the centred data, its energy and its mean.

    ``mass`` is the number of rows, or the sum of their weights; ``discarded`` bounds the variance
    that was lost before the Ritz pairs were computed; ``state`` lets partial_fit continue.
    """

    result: SubspaceResult
    energy: float
    mass: float
    mean: Array | None
    shape: tuple[float, int]
    passes: int
    discarded: float = 0.0
    state: Any = None

    def variances(self) -> tuple[Array, Array, float]:
        """Return the variance of each component, its share of the total, and the total."""
        variance, total = self.result.ritz.theta / (self.mass - 1), self.energy / (self.mass - 1)
        return variance, variance / total if total > 0 else variance, total

    def count(self, n_components: int | float | str | None) -> int:
        """Return the number of components: as given, by Minka, by a share of the variance, or all."""
        variance, ratio, _ = self.variances()
        if n_components is None:
            return variance.shape[0]
        if isinstance(n_components, Integral):
            return int(n_components)
        if n_components == "mle":
            return minka_dimension(np.array([float(v) for v in variance]), round(self.mass))
        xp = namespace(ratio)
        below = xp.cumulative_sum(ratio) <= n_components
        return min(variance.shape[0], int(xp.sum(xp.astype(below, xp.int64))) + 1)

    def shortfall(self, n: int) -> float:
        """Bound the relative shortfall in captured variance of the first n components."""
        theta = self.result.ritz.theta[:n]
        captured = max(float(namespace(theta).sum(theta)), TINY)
        return self.result.shortfall(n) + self.discarded / captured


def minka_dimension(spectrum: np.ndarray, n_samples: int) -> int:
    """Return the rank that maximises Laplace's approximation of the evidence (Minka 2000, eq. 30).

    The spectrum are all variances in decreasing order.
    """
    spectrum = spectrum / (spectrum[0] or 1.0)  # a unit adds the same to the evidence of every rank
    evidence = [_log_evidence(spectrum, rank, n_samples) for rank in range(1, len(spectrum))]
    return int(np.argmax(evidence)) + 1 if evidence else 1


def _log_evidence(spectrum: np.ndarray, rank: int, n_samples: int) -> float:
    d = len(spectrum)
    tiny = 1e-15
    if spectrum[rank - 1] < tiny:
        return -np.inf
    i = np.arange(1, rank + 1)
    uniform = -rank * np.log(2.0) + np.sum(
        gammaln((d - i + 1) / 2) - np.log(np.pi) * (d - i + 1) / 2
    )
    fit = -np.sum(np.log(spectrum[:rank])) * n_samples / 2
    noise = max(tiny, np.sum(spectrum[rank:]) / (d - rank))
    fit -= np.log(noise) * n_samples * (d - rank) / 2
    m = d * rank - rank * (rank + 1) / 2
    volume = np.log(2 * np.pi) * (m + rank) / 2
    inner = spectrum.copy()
    inner[rank:] = noise
    hessian = 0.0
    for k in range(rank):
        gap = spectrum[k] - spectrum[k + 1 :]
        curvature = 1 / inner[k + 1 :] - 1 / inner[k]
        with np.errstate(divide="ignore", invalid="ignore"):
            hessian += np.sum(np.log(gap * curvature)) + np.log(n_samples) * (d - 1 - k)
    value = uniform + fit + volume - hessian / 2 - rank * np.log(n_samples) / 2
    return float(value) if np.isfinite(value) else -np.inf
