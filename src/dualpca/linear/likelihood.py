"""PCA as a Gaussian model: covariance, precision and likelihood (Tipping and Bishop 1999)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import device

from .._memory import ensure, itemsize
from ..linalg import Array, namespace, to_numpy
from ..operators import Operator
from ..operators.block_ops import dense


def covariance(V: Array, variance: Array, noise: float) -> Array:
    """``V^T Diag(variance - noise) V + noise I`` of components V (rows)."""
    excess, identity = namespace(V).clip(variance - noise, 0.0, None), _identity(V)
    return (V.T * excess[None, :]) @ V + noise * identity


def precision(V: Array, variance: Array, noise: float) -> Array:
    """Return the inverse of :func:`covariance`, by the inversion lemma where the noise allows."""
    xp = namespace(V)
    if noise == 0:
        return xp.linalg.pinv(covariance(V, variance, noise))
    excess = xp.clip(variance - noise, 0.0, None)
    shrink, identity = excess / (noise * (excess + noise)), _identity(V)
    return identity / noise - (V.T * shrink[None, :]) @ V


def log_likelihood(X: Operator, mean: Array, V: Array, variance: Array, noise: float) -> Array:
    """Return the log-likelihood of each row; -inf where the covariance is singular."""
    log_det, d = _log_determinant(V, variance, noise), V.shape[1]
    constant = d * math.log(2 * math.pi) + log_det
    inverse = None if log_det == -math.inf else precision(V, variance, noise)

    def of_rows(rows: slice, block: Any) -> Array:
        centred = dense(block) - mean
        xp = namespace(centred)
        if inverse is None:
            return -math.inf * xp.ones_like(centred[:, 0])
        return -0.5 * (xp.sum(centred * (centred @ inverse), axis=1) + constant)

    return X.map_rows(of_rows)


def _log_determinant(V: Array, variance: Array, noise: float) -> float:
    """``log det`` of the covariance; -inf where it is singular."""
    n, d = V.shape
    variances = np.maximum(to_numpy(variance).astype(float), noise)
    least = noise if n < d else variances.min()
    if least <= 10 * d * np.finfo(float).eps * variances.max():
        return -math.inf
    return float(np.log(variances).sum() + ((d - n) * math.log(noise) if n < d else 0.0))


def _identity(V: Array) -> Array:
    d = V.shape[1]
    ensure(
        3 * d * d * itemsize(V),
        f"a covariance of {d:,} x {d:,} numbers and its parts",
        "use components_, explained_variance_ and noise_variance_, which make it up",
        V,
    )
    return namespace(V).eye(d, dtype=V.dtype, device=device(V))
