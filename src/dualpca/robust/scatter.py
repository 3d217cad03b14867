"""Robust location and scatter of scores, and Mahalanobis distances by them."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtr

from ..linalg import Array, namespace, to_numpy
from ..operators import Matrix, Shifted
from ..operators.block_ops import row_norms, take
from .scale import chi2_quantile, location_scale, repeated

#: Scores within this quantile of chi-squared enter the scatter. The first axes, and location and scale
#: along each, come from at most this many rows.
INNER, FIRST_ROWS = 0.975, 5000


def robust_scatter(
    T: Array, weights: np.ndarray | None, fixed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return location (0 where ``fixed``) and covariance of the scores T (n x k), reweighted twice.

    T may be on a GPU, where its products are formed; the weights, and what is returned, are on the host.
    They begin with each coordinate by itself (:func:`location_scale`), and stay so with fewer than 5 k
    rows that count. Then they are mean and covariance of the rows within the INNER quantile of
    chi-squared, to whose median the squared distances are scaled.
    """
    mass = np.ones(len(T)) if weights is None else weights
    counted, k = np.flatnonzero(mass > 0), T.shape[1]
    n, plain = len(counted), bool((mass[counted] == 1).all())
    chosen = counted[np.linspace(0, n, min(n, FIRST_ROWS), endpoint=False).astype(int)]
    first, m = to_numpy(take(T, chosen)).astype(float), mass[chosen]
    # In principal axes of the scores, so that the result does not depend on their basis.
    mean = np.zeros(k) if fixed else m @ first / m.sum()
    Q = np.linalg.eigh(((first - mean).T * m) @ (first - mean))[1]
    Z = (first @ Q).T
    Z = Z if plain else np.stack([repeated(t, m) for t in Z])
    location, scale = location_scale(Z, Z.shape[1] // 2 + 1)
    location = np.zeros(k) if fixed else Q @ location
    covariance = (Q * scale**2) @ Q.T
    cut, rows = chi2_quantile(INNER, k), Matrix(T)
    factor = INNER / float(chdtr(k + 2, cut))
    for _ in range(2 if n >= 5 * k else 0):
        distance = to_numpy(mahalanobis(T, location, covariance))
        inside = distance[counted]
        median = float(np.median(inside if plain else repeated(inside, mass[counted])))
        if not 0 < median < math.inf:
            break
        inner = mass * (distance <= median * math.sqrt(cut / chi2_quantile(0.5, k)))
        total = float(inner.sum())
        if total <= 2 * k:
            break
        b = rows.asarray(inner)
        if not fixed:
            location = to_numpy(rows.rmatmul(b[:, None])[:, 0]).astype(float) / total
        covariance = factor * to_numpy(Shifted(rows, location[:, None]).gram(b)) / total
    return location, covariance


def mahalanobis(T: Array, location: np.ndarray, covariance: np.ndarray) -> Array:
    """Return ``sqrt((t - location)^T C^+ (t - location))`` for each row t.

    Directions of variance 0 are left out.
    """
    values, P = np.linalg.eigh(covariance)
    varying = values > max(values[-1], 0.0) * 1e-12
    if not varying.any():
        return namespace(T).zeros_like(T[:, 0])
    rows = Matrix(T)
    W = rows.asarray(P[:, varying] / np.sqrt(values[varying]))
    return row_norms(Shifted(rows, location[:, None]) @ W)
