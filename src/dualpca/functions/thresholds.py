"""GPower's thresholded squares and their conjugates, entry by entry, for sparse PCA.

With ``positive`` a function depends on positive entries only; its conjugate is +inf if one is negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..linalg import Array, namespace, norm
from . import entries
from .base import Function

__all__ = ["ElasticNet", "HardSquare", "ReversedHuber", "SoftSquare"]


@dataclass(frozen=True)
class _Thresholded(Function):
    """A function of the entries of W, and of one gamma >= 0 for all columns or for each."""

    gamma: float | tuple[float, ...]
    positive: bool = False

    def __post_init__(self) -> None:
        gamma = entries.check_each(
            self.gamma, lambda value: entries.check_number("gamma", value, "<=")
        )
        object.__setattr__(self, "gamma", gamma)

    def _gamma(self, W: Array) -> Any:
        return entries.per_column("gamma", self.gamma, W)


@dataclass(frozen=True)
class SoftSquare(_Thresholded):
    """``1/2 sum_ij [|z_ij| - gamma_j]_+^2``: GPower with the l1 penalty, by soft thresholding.

    Journee, Nesterov, Richtarik and Sepulchre (2010), Sections 2.1 and 2.3; the conjugate is
    :class:`ElasticNet`. With ``positive``, ``[z_ij - gamma_j]_+^2``.
    """

    @property
    def conjugate(self) -> ElasticNet:
        return ElasticNet(self.gamma, self.positive)

    def __call__(self, W: Array) -> float:
        return 0.5 * norm(self.subgradient(W)) ** 2

    def subgradient(self, W: Array) -> Array:
        W = entries.visible(W, self.positive)
        return entries.soft_threshold(W, self._gamma(W))


@dataclass(frozen=True)
class ElasticNet(_Thresholded):
    """``1/2 ||W||^2 + sum_ij gamma_j |w_ij|``, the conjugate of :class:`SoftSquare`."""

    @property
    def conjugate(self) -> SoftSquare:
        return SoftSquare(self.gamma, self.positive)

    def __call__(self, W: Array) -> float:
        if entries.leaves_orthant(W, self.positive):
            return math.inf
        xp = namespace(W)
        return 0.5 * norm(W) ** 2 + float(xp.sum(self._gamma(W) * xp.abs(W)))

    def subgradient(self, W: Array) -> Array:
        return W + self._gamma(W) * namespace(W).sign(W)

    def prox(self, W: Array, gamma: float) -> Array:
        W = entries.visible(W, self.positive)
        return entries.soft_threshold(W, gamma * self._gamma(W)) / (1 + gamma)


@dataclass(frozen=True)
class HardSquare(_Thresholded):
    """``1/2 sum_ij [z_ij^2 - gamma_j]_+``: GPower with the l0 penalty, by hard thresholding.

    Journee, Nesterov, Richtarik and Sepulchre (2010), Sections 2.2 and 2.4; the conjugate is
    :class:`ReversedHuber`. The subgradient is 0 at the threshold.
    """

    @property
    def conjugate(self) -> ReversedHuber:
        return ReversedHuber(self.gamma, self.positive)

    def __call__(self, W: Array) -> float:
        xp = namespace(W)
        size, root = xp.abs(entries.visible(W, self.positive)), self._gamma(W) ** 0.5
        # A product of sum and difference keeps the digits of entries close to the threshold.
        return 0.5 * float(xp.sum(xp.clip(size - root, 0.0, None) * (size + root)))

    def subgradient(self, W: Array) -> Array:
        xp = namespace(W)
        W = entries.visible(W, self.positive)
        return xp.where(xp.abs(W) > self._gamma(W) ** 0.5, W, xp.zeros_like(W))


@dataclass(frozen=True)
class ReversedHuber(_Thresholded):
    """``sum_ij c_j |w_ij| if |w_ij| <= c_j, else (w_ij^2 + c_j^2)/2``, with ``c_j = gamma_j^{1/2}``.

    The conjugate of :class:`HardSquare`, named by Owen (2007): linear at 0, quadratic far away.
    """

    @property
    def conjugate(self) -> HardSquare:
        return HardSquare(self.gamma, self.positive)

    def __call__(self, W: Array) -> float:
        if entries.leaves_orthant(W, self.positive):
            return math.inf
        xp = namespace(W)
        size, root = xp.abs(W), self._gamma(W) ** 0.5
        return float(xp.sum(xp.where(size > root, (size * size + root * root) / 2, root * size)))

    def subgradient(self, W: Array) -> Array:
        xp, root = namespace(W), self._gamma(W) ** 0.5
        return xp.where(xp.abs(W) > root, W, root * xp.sign(W))

    def prox(self, W: Array, gamma: float) -> Array:
        W = entries.visible(W, self.positive)
        return entries.soft_threshold_and_shrink(W, gamma * self._gamma(W) ** 0.5, gamma)
