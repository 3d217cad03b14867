"""The components of a data matrix, with the facts about the data that a fitted PCA needs."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from ..linalg import Array, namespace, to_numpy
from ..solvers.base import TINY
from ..solvers.spectral.ritz import SubspaceResult
from .selection import BY_SPECTRUM, Selection, Spectrum


@dataclass(frozen=True)
class Decomposition:
    """Ritz pairs of the centred data, its energy and its mean.

    ``mass`` is the number of rows, or the sum of their weights; ``discarded`` bounds the variance
    that was lost before the Ritz pairs were computed; ``state`` lets partial_fit continue; ``selection``
    is the choice of a number of components by the data.
    """

    result: SubspaceResult
    energy: float
    mass: float
    mean: Array | None
    shape: tuple[float, int]
    passes: int
    discarded: float = 0.0
    state: Any = None
    selection: Selection | None = None

    def variances(self) -> tuple[Array, Array, float]:
        """Return the variance of each component, its share of the total, and the total."""
        variance, total = self.result.ritz.theta / (self.mass - 1), self.energy / (self.mass - 1)
        return variance, variance / total if total > 0 else variance, total

    def select(self, n_components: Any, **options: Any) -> Selection | None:
        """Return the choice of a method, by its name, with its options; None for numbers and shares."""
        if not isinstance(n_components, str) or self.selection is not None:
            return self.selection
        theta, N = to_numpy(self.result.ritz.theta).astype(float), self.mass
        spectrum = Spectrum(theta, N, N - (self.mean is not None), self.shape[1])
        return BY_SPECTRUM[n_components](spectrum, **options)

    def count(self, n_components: Any) -> int:
        """Return the number of components: as given, by a share of the variance, or all."""
        if isinstance(n_components, Integral):
            return int(n_components)
        variance, ratio, _ = self.variances()
        if n_components is None:
            return variance.shape[0]
        xp = namespace(ratio)
        below = xp.cumulative_sum(ratio) <= n_components
        return min(variance.shape[0], int(xp.sum(xp.astype(below, xp.int64))) + 1)

    def shortfall(self, n: int) -> float:
        """Bound the relative shortfall in captured variance of the first n components."""
        captured = max(self.captured(n), TINY)
        return self.result.shortfall(n) + self.discarded / captured

    def captured(self, n: int) -> float:
        """Return the energy that the first n components hold, as the host knows it."""
        return float(self.result.ritz.on_host()[0][:n].sum())
