"""Upper bounds of ``max w^T C w`` over unit w with at most k nonzeros, C positive semidefinite.

No other support, found by whatever means, has a larger eigenvalue. The bounds are those of d'Aspremont,
Bach and El Ghaoui (2008), of rows and diagonal (Berk and Bertsimas 2019), and of Nystroem.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..linalg import Array
from .deflation import DeflatedGram, leading_subspace

#: Eigenvalues of thresholded matrices bound the variance on at most so many features, unless a proof
#: is asked for: 20 of them take a millisecond each.
SMALL = 100

#: Eigenvalues of thresholded matrices for a bound.
EVALUATIONS = 20

#: Directions below this share of the largest are left out of a Nystroem approximation, which is then
#: one on fewer columns, and still from below.
DROPPED = 1e-8


def largest_eigenvalue(B: Array) -> float:
    """Return the largest eigenvalue of a symmetric matrix, 0 if it is empty."""
    return float(np.linalg.eigvalsh(B)[-1]) if len(B) else 0.0


def upper_bound(B: Array, k: int, most: float = SMALL, others: Array = None) -> tuple[float, float]:
    """Return bounds for k and for k - 1 nonzeros; thresholds are tried on at most ``most`` features.

    ``others`` are the k - 1 largest magnitudes in each row off the diagonal, where they are known.
    """
    if len(B) < k:
        return (largest_eigenvalue(B),) * 2
    others = _largest_others(B, k - 1) if others is None else others
    variances = np.sort(np.diag(B))
    rows, least = np.diag(B) + others.sum(axis=1), others.min(axis=1, initial=np.inf)
    bound = min(float(rows.max()), float(variances[-k:].sum()))
    fewer = min(float((rows - least).max()), float(variances[len(B) - k + 1 :].sum()))
    if len(B) <= most:
        by_threshold, rho = threshold_bound(B, k)
        bound, fewer = min(bound, by_threshold), min(fewer, by_threshold - rho)
    return bound, fewer if k > 1 else 0.0


def threshold_bound(B: Array, k: int) -> tuple[float, float]:
    """``min over rho of lambda_max(soft(B, rho)) + k rho``, and the rho.

    It holds for every rho, as ``w^T (B - soft(B, rho)) w <= rho ||w||_1^2 <= k rho`` (d'Aspremont, Bach
    and El Ghaoui 2008, Section 2). Golden sections: a minimum that is not the least is a bound, too.
    """
    golden = (5**0.5 - 1) / 2

    def at(rho: float) -> tuple[float, float]:
        return largest_eigenvalue(thresholded(B, rho)) + k * rho, rho

    best = at(0.0)
    low, high = 0.0, min(float(np.abs(B).max()), best[0] / k)
    left, right = at(high - golden * (high - low)), at(low + golden * (high - low))
    for _ in range(EVALUATIONS - 3):
        best = min(best, left, right)
        if left < right:
            high, right = right[1], left
            left = at(high - golden * (high - low))
        else:
            low, left = left[1], right
            right = at(low + golden * (high - low))
    return min(best, left, right)


def thresholded(B: Array, rho: float) -> Array:
    """Return ``soft(B, rho)``: every entry is nearer to 0 by rho."""
    return B - np.clip(B, -rho, rho)


def forced_bound(a: Array, t: Array, u: float) -> Array:
    """``lambda_max([[a, t], [t, u]])``: a bound for supports that hold given features.

    a is the largest eigenvalue on these, u a bound for the rest of a support, and t a bound of
    ``x^T C y`` over unit x on these and y on the rest.
    """
    return (a + u) / 2 + np.hypot((a - u) / 2, t)


def bound_above(B: Array, k: int, level: float, most: float = SMALL) -> tuple[float, Array]:
    """Return a bound for k nonzeros, and the features that a support better than ``level`` may hold.

    Some support has the variance ``level``, so that the others need not be bounded.
    """
    kept = np.arange(len(B))
    while True:
        others = _largest_others(B, k - 1)
        bound, fewer = upper_bound(B, k, most, others)
        lengths = np.hypot.reduce(others, axis=1)
        stays = forced_bound(np.diag(B), lengths, fewer) > level
        if stays.all() or not stays.any():
            return max(bound, level) if stays.any() else level, kept[stays]
        kept, B = kept[stays], B[np.ix_(stays, stays)]


def nystroem_bound(variances: Array, V: Array, CV: Array, k: int) -> float:
    """``lambda_max(L) + the k largest of diag(C - L)``, with ``L = C V (V^T C V)^+ V^T C``.

    C - L is positive semidefinite, and has at most its trace as an eigenvalue on a support. Only the
    diagonal of C and ``C V`` are needed, so that it costs no pass over the data.
    """
    theta, Q = np.linalg.eigh(V.T @ CV)
    kept = theta > DROPPED * max(float(theta[-1]), 0.0)
    F = CV @ (Q[:, kept] / np.sqrt(theta[kept]))
    rest = np.maximum(variances - (F**2).sum(axis=1), 0.0)
    return min(largest_eigenvalue(F.T @ F) + _top(rest, k), _top(variances, k))


def component_bounds(
    C: DeflatedGram,
    counts: Sequence[int],
    rule: str,
    W: Array,
    CW: Array,
    sketch: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Return the variance of each component of W in what those before it leave of C, and a bound on it.

    The bound holds for every unit vector with as many nonzeros as ``counts`` has for the component.
    ``sketch`` is any V with ``C V``: unless C is formed there is no other product with it.
    """
    C, values, bounds = C.undeflated(), np.zeros(len(counts)), np.zeros(len(counts))
    V, CV = np.hstack([W, sketch[0]]), np.hstack([CW, sketch[1]])
    for j, k in enumerate(counts):
        w, z = W[:, [j]], C.corrected(W[:, [j]], CW[:, [j]])
        values[j], variances = float(np.vdot(w, z)), np.maximum(C.variances, 0.0)
        if C.formed:
            V = leading_subspace(C, V, steps=1)
            bounds[j] = min(
                nystroem_bound(variances, V, C @ V, k),
                bound_above(C.rows(slice(None)), k, values[j])[0],
            )
        else:
            bounds[j] = nystroem_bound(variances, V, C.corrected(V, CV), k)
        C.remove(w, z, rule)
    return values, bounds


def _largest_others(B: Array, count: int) -> Array:
    """Return the ``count`` largest magnitudes in each row off the diagonal."""
    A = np.abs(B)
    np.fill_diagonal(A, 0.0)
    return np.partition(A, len(A) - count, axis=1)[:, len(A) - count :] if count else A[:, :0]


def _top(values: Array, k: int) -> float:
    """Return the sum of the k largest values."""
    return float(np.sort(values)[-k:].sum())
