"""How far a subspace has turned since a checkpoint, and whether chance alone turns it so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc

from ..linalg import Array, eps, to_numpy
from .incremental import Sums


@dataclass(frozen=True)
class Drift:
    """What has changed since the last checkpoint of a stream.

    Parameters
    ----------
    angles : array of shape (n_components,)
        The principal angles between the present subspace and that at the checkpoint, in degrees, the
        largest first.
    significance : float
        The probability that a subspace which has not moved shows angles as large, by sampling alone: a
        p-value. It is that of independent Gaussian rows, by the perturbation of eigenvectors to first
        order; rows that share both estimates are accounted for.
    rows : int
        How many rows have come since the checkpoint.
    regime : int
        How many times :class:`dualpca.RobustPCA` has announced a new regime.
    changed : bool
        Whether the last ``partial_fit`` announced one.
    """

    angles: np.ndarray
    significance: float
    rows: int
    regime: int = 0
    changed: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """Axes at some time (k x d), and what of the sums then tells how far chance may turn them."""

    axes: Array
    spectrum: np.ndarray
    mass: float
    squares: float
    seen: int
    age: float

    @classmethod
    def of(cls, axes: Array, sums: Sums) -> Checkpoint:
        """Return that of a model whose axes come from the sums."""
        known = float(sums.rows), sums.sum_of_squares, sums.n_seen, sums.age
        return cls(axes, sums.spectrum(axes), *known)


def sines(axes: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the sines of the principal angles between the spans of orthonormal rows, decreasing.

    Those above 1/sqrt(2) come from the cosines: each of the two has its digits where the other has not.
    """
    products = before @ axes.T
    cosine = np.clip(np.linalg.svd(products, compute_uv=False), 0.0, 1.0)[::-1]
    sine = np.clip(np.linalg.svd(before - products @ axes, compute_uv=False), 0.0, 1.0)
    return np.where(cosine < math.sqrt(0.5), np.sqrt(1 - cosine**2), sine)


def drift_since(checkpoint: Checkpoint, axes: Array, sums: Sums, **known: Any) -> Drift:
    """Compare the present axes, those of the sums, with those at the checkpoint.

    ``sum_k sin^2 angle_k``, to first order, is ``sum_ij (v_i^T E v_j)^2 / (lambda_i - lambda_j)^2`` over
    axes i inside and j outside, with E the difference of the two covariances. For Gaussian rows
    ``v_i^T E v_j`` are independent with variances ``lambda_i lambda_j sum_k (w_k - u_k)^2``, w and u
    being the weights of the rows in both, each with sum 1; the lambdas are those of the present, or of
    the checkpoint where these allow more. The distribution of such a sum of squares is taken by its first
    three moments (Buckley and Eagleson 1988).
    """
    now, before = (to_numpy(a).astype(float) for a in (axes, checkpoint.axes))
    k = min(len(now), len(before))
    sine = sines(now[:k], before[:k])
    rounding = 8 * eps(axes) * math.sqrt(now.shape[1])
    turned = float((np.clip(sine - rounding, 0.0, None) ** 2).sum())
    mass, first = float(sums.rows), checkpoint.mass
    shared = 2.0 ** (checkpoint.age - sums.age) * checkpoint.squares / (mass * first)
    spread = sums.sum_of_squares / mass**2 + checkpoint.squares / first**2 - 2 * shared
    spread, spectra = max(spread, 0.0), (sums.spectrum(axes), checkpoint.spectrum)
    sizes = spread * np.maximum(*(turning(values, k) for values in spectra))
    # No angle turns by more than 90 degrees, also where a gap is too small for first order.
    sizes = np.minimum(sizes, 1.0)
    return Drift(
        np.rad2deg(np.arcsin(sine)),
        tail_of_squares(turned, sizes),
        sums.n_seen - checkpoint.seen,
        **known,
    )


def turning(values: np.ndarray, k: int) -> np.ndarray:
    """Return ``lambda_i lambda_j / (lambda_i - lambda_j)^2`` for the first k values and the others."""
    inside, outside = values[:k, None], values[None, k:]
    gap2 = np.maximum((inside - outside) ** 2, np.finfo(float).tiny)
    return np.minimum(inside * outside / gap2, 1 / np.finfo(float).eps)


def tail_of_squares(value: float, sizes: np.ndarray) -> float:
    """Return the probability that ``sum_i sizes_i z_i^2`` of standard normal z is above the value.

    It is that of a shifted and scaled chi-squared with the same mean, variance and skewness.
    """
    mean, variance, third = (c * float((sizes**p).sum()) for c, p in ((1, 1), (2, 2), (8, 3)))
    if not third > 0:
        return 1.0 if value <= 0 else 0.0
    freedom = 8 * variance**3 / third**2
    place = freedom + (value - mean) * math.sqrt(2 * freedom / variance)
    return float(chdtrc(freedom, max(place, 0.0)))
