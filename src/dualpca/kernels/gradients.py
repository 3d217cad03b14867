"""Derivatives of kernels and of feature maps by the row that they are taken of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..linalg import Array
from .features import Nystroem, RandomFourier
from .pairwise import shifted_rows


@dataclass(frozen=True, eq=False)
class Rows:
    """``phi(u) = k(u, Z)``: the kernels with all rows Z themselves, so that phi(Z) is K."""

    landmarks: Array
    kernel: Any

    @property
    def dimension(self) -> int:
        return self.landmarks.shape[0]

    def __call__(self, U: Array) -> Array:
        return self.kernel(U, self.landmarks)


def pullback(phi: Rows | Nystroem | RandomFourier, U: Array, B: Array, values: Array) -> Array:
    """``G_i = sum_m B_im d phi_m(u_i) / d u_i``: the gradient of ``<phi(U), B>`` by the rows U.

    ``values`` is phi(U).
    """
    if isinstance(phi, RandomFourier):
        m = phi.frequencies.shape[1]
        phases = shifted_rows(U, phi.origin) @ phi.frequencies
        phases[:, -1] += phi.offset or 0.0
        turned = -np.sin(phases) * B[:, :m]
        turned[:, : B.shape[1] - m] += np.cos(phases[:, : B.shape[1] - m]) * B[:, m:]
        return math.sqrt(2 / phi.dimension) * (turned @ phi.frequencies.T)
    params = phi.kernel.keywords
    derivative = DERIVATIVES[params["metric"]]
    if isinstance(phi, Rows):
        return derivative(U, phi.landmarks, B, values, params)
    rows, Z = (shifted_rows(A, phi.origin) for A in (U, phi.landmarks))
    return derivative(rows, Z, B @ phi.root.T, phi.kernel(rows, Z), params)


def _rbf(U: Array, Z: Array, B: Array, K: Array, params: dict[str, Any]) -> Array:
    P = B * K
    return 2 * params["gamma"] * (P @ Z - P.sum(axis=1, keepdims=True) * U)


def _linear(U: Array, Z: Array, B: Array, K: Array, params: dict[str, Any]) -> Array:
    return B @ Z


def _poly(U: Array, Z: Array, B: Array, K: Array, params: dict[str, Any]) -> Array:
    gamma, degree = params["gamma"], params["degree"]
    base = gamma * (U @ Z.T) + params["coef0"]
    return gamma * degree * ((B * base ** (degree - 1)) @ Z)


def _sigmoid(U: Array, Z: Array, B: Array, K: Array, params: dict[str, Any]) -> Array:
    return params["gamma"] * ((B * (1 - K * K)) @ Z)


#: The kernels that have a derivative everywhere, which "cosine" lacks at 0. All depend on inner products
#: of rows only, so that a rotation of all rows changes none of them.
DERIVATIVES: dict[str, Callable[..., Array]] = {
    "rbf": _rbf,
    "linear": _linear,
    "poly": _poly,
    "polynomial": _poly,
    "sigmoid": _sigmoid,
}
