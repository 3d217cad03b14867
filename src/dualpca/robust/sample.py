"""The sample of rows that a start sees: rows about an origin, or coordinates in feature space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import Generator

from ..linalg import Array, eigh, eps, host_sample, sampled_rows, to_numpy
from ..linear.resampling import cross_validated, parallel
from ..linear.selection import BY_SPECTRUM, METHODS, Selection, Spectrum
from ..operators import Centered, Matrix, Operator
from ..operators.views import check_energy
from .scale import SAMPLE_ROWS, fixed_center, half, least_outlying, spatial_median

#: The sample has at most this many rows and numbers; in feature space, where the kernel matrix of the
#: sample is decomposed, at most this many rows.
ROWS, ENTRIES, KERNEL_ROWS = 2000, 2**24, 1000

#: n_components="auto" is the fewest components that hold this share of the variance, up to MOST.
SHARE, MOST = 0.8, 10

#: n_components="outliers" fits the fewest that hold this share, with ROWS_EACH rows for each at least,
#: and keeps the fewest that hold KEPT. (Mean AUC on the 19 sets of experiments.robust_adbench that MCD
#: can fit, all rows and half of the normal ones. KEPT 0.9: 0.861, 0.877; 0.95: 0.862, 0.877; 0.97: 0.860,
#: 0.879; 1: 0.843, 0.871. OUTLIER_SHARE 0.995: 0.859, 0.878; 0.999: 0.861, 0.876; 1: 0.861, 0.874. A fit
#: of 0.95 from the beginning: 0.838, 0.871. ROWS_EACH 10: 0.862, 0.879, but InternetAds, which is not
#: among them, 0.58 instead of 0.72.)
OUTLIER_SHARE, ROWS_EACH, KEPT = 0.99, 5, 0.95


@dataclass(frozen=True)
class Sample:
    """Coordinates of some rows about an origin, and those of the centre if it is fixed.

    In feature space they belong to an orthonormal basis, given by its coefficients in the rows
    ``chosen``, and the kernel matrix of these has the eigenvalues ``spectrum``.
    """

    rows: Matrix
    origin: np.ndarray
    fixed: np.ndarray | None
    relative_center: np.ndarray | None
    chosen: np.ndarray
    basis: np.ndarray | None = None
    spectrum: np.ndarray | None = None

    def vectors(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the coordinates that these vectors have for X."""
        if self.basis is None:
            return coordinates
        B = self.basis @ coordinates
        A = np.zeros((len(self.origin), B.shape[1]))
        np.add.at(A, self.chosen, B)  # a row may be there several times
        return A - np.outer(self.origin, B.sum(axis=0))


def chosen_rows(X: Any, weights: Array | None, rng: Generator) -> np.ndarray:
    """Draw the rows of a sample, in order, each as often as its weight says."""
    N, d = X.shape
    most = max(100, min(ROWS, ENTRIES // max(d, 1)))
    if weights is None:
        return np.sort(rng.choice(N, min(N, most), replace=False))
    return sampled_rows(weights)[by_weight(host_sample(weights).astype(float), most, rng)]


def take_sample(X: Any, center: Any, weights: Array | None, rng: Generator) -> Sample:
    """Draw rows, each as often as its weight says; dense ones are centred at their median."""
    chosen, d = chosen_rows(X, weights, rng), X.shape[1]
    data, origin = X.take(chosen), np.zeros(d)
    data = (data if X.sparse else to_numpy(data)).astype(np.float64, copy=False)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # see check_energy
        if not X.sparse:
            origin = np.median(data[:: max(1, len(data) // SAMPLE_ROWS)], axis=0)
            data = data - origin
        rows = Matrix(data)
        energy = rows.energy()
    check_energy(energy, rows)
    fixed = fixed_center(center, X, weights)
    return Sample(rows, origin, fixed, None if fixed is None else fixed - origin, chosen)


def take_kernel_sample(
    K: Operator,
    center: Any,
    weights: np.ndarray | None,
    rng: Generator,
    between: Callable[[np.ndarray], np.ndarray],
    check_spectrum: Callable[[np.ndarray, int], None] | None = None,
) -> Sample:
    """Draw rows and return them in an orthonormal basis of their span, about the fixed centre.

    Starts depend on inner products alone, so that they are the same as on the rows themselves.
    ``between(chosen)`` returns the kernels between rows, and ``check_spectrum(values, s)`` refuses
    negative eigenvalues too large for s components, where the kernel may have any.
    """
    mass = np.ones(K.shape[0]) if weights is None else weights
    positive = mass[mass > 0]
    if positive.min() == positive.max():  # each row once
        count, p = min(KERNEL_ROWS, len(positive)), mass / mass.sum()
        chosen = np.sort(rng.choice(len(mass), count, replace=False, p=p))
    else:
        chosen = by_weight(mass, KERNEL_ROWS, rng)
    fixed = fixed_center(center, K, weights)
    origin = np.bincount(chosen, minlength=len(mass)) / len(chosen) if fixed is None else fixed
    image = np.asarray(K.rmatmul(K.asarray(origin[:, None])).image, dtype=float)[:, 0]
    S = np.asarray(between(chosen), dtype=float)
    rounding = 100 * eps(K) * float(np.abs(np.diagonal(S)).max())
    S = S - image[chosen] - image[chosen][:, None] + float(image @ origin)
    spectrum = None if check_spectrum is None else _spectrum(S, rounding, K.dtype)
    if np.diagonal(S).max() <= rounding:
        if check_spectrum and spectrum is not None:
            check_spectrum(spectrum, 1)
        raise ValueError(
            "the rows of X are all equal in feature space, so that there is no subspace to fit; check X "
            "and the parameters of the kernel, such as gamma"
        )
    # Rows are scaled to norm 1 first: beside one huge row the others would be rounding.
    norms = np.sqrt(np.clip(np.diagonal(S), 0.0, None))
    norms = np.where(norms > 0, norms, 1.0)[:, None]
    values, U = eigh(S / norms / norms.T)
    positive = values > len(chosen) * eps(K) * float(values[0])
    U, root = U[:, positive], np.sqrt(values[positive])
    relative = None if fixed is None else np.zeros(len(root))
    rows, basis = Matrix(norms * U * root), U / root / norms
    return Sample(rows, origin, fixed, relative, chosen, basis, spectrum)


def _spectrum(S: np.ndarray, rounding: float, dtype: Any) -> np.ndarray:
    """Return the eigenvalues of S, decreasing; 0 where they may be the rounding of its entries."""
    values = np.linalg.eigvalsh((S + S.T) / 2)[::-1]
    return np.where(np.abs(values) > rounding * np.sqrt(len(S)), values, 0.0).astype(dtype)


def by_weight(weights: np.ndarray, most: int, rng: Generator) -> np.ndarray:
    """Draw rows in order, each ``count w_i / sum(w)`` times up to rounding, by systematic sampling.

    ``count`` is the sum of the weights, at least the number of positive ones, and at most ``most``:
    whole weights repeat their rows exactly, equal ones take each row once.
    """
    positive = np.flatnonzero(weights > 0)
    mass, order = float(weights.sum()), rng.choice(positive, len(positive), replace=False)
    count = min(most, max(len(order), round(mass)))
    places = (np.arange(count) + 0.5) * (mass / count)
    return np.sort(order[np.searchsorted(np.cumsum(weights[order]), places, side="right")])


def central_rows(X: Matrix, fixed: np.ndarray | None, rng: Generator) -> tuple[Matrix, np.ndarray]:
    """Return the least outlying half of the sample, and its mean or the fixed centre."""
    n, d = X.shape
    middle = spatial_median(X)[:, 0] if fixed is None else fixed
    rows = least_outlying(X, half(n, min(10, d)), middle, rng)
    center = rows.column_sums()[0] / rows.shape[0] if fixed is None else fixed
    return rows, center


def scree(X: Matrix, fixed: np.ndarray | None, rng: Generator) -> np.ndarray:
    """Return the variances of the least outlying half of the sample along its axes, decreasing."""
    rows, center = central_rows(X, fixed, rng)
    return _eigenvalues(rows, center) / max(rows.shape[0] - 1, 1)


def _eigenvalues(rows: Matrix, center: np.ndarray) -> np.ndarray:
    view = Centered(rows, center[:, None])
    S = view.gram() if rows.shape[1] <= rows.shape[0] else view.kernel()
    return np.clip(np.linalg.eigvalsh(S)[::-1], 0.0, None)


def selected(method: Any, sample: Sample) -> Selection | None:
    """Return the choice of a method among the least outlying half of the sample; None for no method.

    Directions and permutations have generators of their own, so that the number does not depend on
    random_state.
    """
    if method not in METHODS:
        return None
    rng, fixed = np.random.default_rng(0), sample.relative_center
    rows, center = central_rows(sample.rows, fixed, rng)
    (n, d), free = rows.shape, fixed is None
    if method == "cv":
        if rows.sparse:
            raise ValueError("n_components='cv' needs dense rows; give 'parallel', or a number")
        return cross_validated(rows.data - center, center=free, seed=0)
    theta = _eigenvalues(rows, center)
    if method == "parallel":
        return parallel(rows.data, center, float(theta.sum()), lambda s: theta[:s], seed=0)
    return BY_SPECTRUM[method](Spectrum(theta, n, n - free, d))


def number_of_components(n: Any, sample: Sample) -> int:
    """Return ``n_components`` as a number: as given, selected, all, or from the robust scree."""
    rows, d = sample.rows.shape
    if isinstance(n, Selection):
        return n.at_least_one()
    if n is None:
        if rows <= 2 * d:
            raise ValueError(
                f"n_components=None asks for all {min(rows, d)} components, which half of the {rows} "
                "rows that the start sees do not determine; give a number, a fraction or 'auto'"
            )
        return d
    if not isinstance(n, Integral):
        # Directions of its own, so that the number does not depend on random_state.
        variances = scree(sample.rows, sample.relative_center, np.random.default_rng(0))
        return components_for(variances, n, min(rows, d), rows)
    limit = min(rows, d) if sample.basis is None else rows
    if int(n) > limit:
        raise ValueError(
            f"n_components={n} must be between 1 and {limit}, the number of features or of "
            "rows that the start sees; ask for fewer components"
        )
    return min(int(n), d)  # rows in feature space may span fewer axes


def components_for(variances: np.ndarray, share: float | str, limit: int, rows: int) -> int:
    """Return the fewest components that hold the share of the variances of this many rows.

    "auto" is SHARE, up to MOST. "outliers" is OUTLIER_SHARE, as far as the rows support, and at least
    one direction is left out: its residuals show what the components do not.
    """
    total = float(variances.sum())
    if not total > 0:
        return 1
    part, most = share_and_most(share, limit, rows)
    enough = int(np.searchsorted(np.cumsum(variances) / total, part * (1 - 1e-12))) + 1
    return max(min(enough, limit, most), 1)


def share_and_most(share: float | str, limit: int, rows: int) -> tuple[float, int]:
    """Return the share of the variance that components are to hold, and the most of them."""
    if share == "outliers":
        return OUTLIER_SHARE, min(rows // ROWS_EACH, limit - 1)
    return (SHARE, min(MOST, limit)) if isinstance(share, str) else (float(share), limit)
