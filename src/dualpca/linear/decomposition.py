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
    d, tiny = len(spectrum), 1e-15
    if spectrum[rank - 1] < tiny:
        return -np.inf
    sizes = d - np.arange(rank)
    uniform = np.sum(gammaln(sizes / 2) - np.log(np.pi) * sizes / 2) - rank * np.log(2.0)
    model = spectrum.copy()
    model[rank:] = max(tiny, spectrum[rank:].mean())
    fit = -np.sum(np.log(model)) * n_samples / 2
    i, j = np.triu_indices(rank, 1, d)
    volume = np.log(2 * np.pi) * (len(i) + rank) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        hessian = np.log((spectrum[i] - spectrum[j]) * (1 / model[j] - 1 / model[i]) * n_samples)
    value = uniform + fit + volume - hessian.sum() / 2 - rank * np.log(n_samples) / 2
    return float(value) if np.isfinite(value) else -np.inf
