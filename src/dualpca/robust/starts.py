"""The start of robust PCA: a centre and a subspace from a sample of the rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.exceptions import ConvergenceWarning

from ..linalg import Array, eigh, eps, host_sample, orthonormalize, sampled_rows, to_numpy
from ..operators import Centered, Matrix, Operator, Weighted
from ..operators.views import check_energy
from ..solvers.solve import user_stacklevel
from ..solvers.subspace import principal_axes
from .scale import SAMPLE_ROWS, fixed_center, half, least_outlying, spatial_median, typical_size

#: The sample has at most this many rows and numbers; in feature space, where the kernel matrix of the
#: sample is decomposed, at most this many rows.
ROWS, ENTRIES, KERNEL_ROWS = 2000, 2**24, 1000

#: Up to this many columns LAPACK decomposes the Gram matrix of a start at once.
DIRECT = 300

#: A row is divided by its distance from the centre, and by no less than this share of the typical one.
NEAR = 1e-3

#: There are at most STEPS concentration steps; the next one follows a gain of more than this share.
STEPS, GAIN = 15, 1e-3

#: A later start must fit its nearest half better by more than this share. The fit does not see
#: outliers within the subspace; that the first start avoids them counts for as much.
CLEARLY = 0.1

#: Subspaces agree where no direction of one is further than this cosine from the other.
SAME = 0.99

#: Starts disagree where their nearest halves share less than this of the rows.
DISAGREE = 0.6

#: The starts by name; "auto" is the first two.
STARTS = ("stahel_donoho", "spherical", "pca", "random")

#: n_components="auto" is the fewest components that hold this share of the variance, up to MOST.
SHARE, MOST = 0.8, 10


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


def take_sample(X: Any, center: Any, weights: Array | None, rng: Generator) -> Sample:
    """Draw rows, each as often as its weight says; dense ones are centred at their median."""
    N, d = X.shape
    most = max(100, min(ROWS, ENTRIES // max(d, 1)))
    if weights is None:
        chosen = np.sort(rng.choice(N, min(N, most), replace=False))
    else:
        chosen = sampled_rows(weights)[by_weight(host_sample(weights).astype(float), most, rng)]
    data, origin = X.take(chosen), np.zeros(d)
    data = (data if X.sparse else to_numpy(data)).astype(np.float64)
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


@dataclass(frozen=True)
class Start:
    """A centre, an orthonormal W, and the rows nearest to it with their mean squared residual.

    ``agreement`` is the smallest share of the nearest rows that another start has too, ``nearness`` the
    ratio of the objectives of the two: 1 where they fit equally well.
    """

    name: str
    center: np.ndarray
    W: np.ndarray
    objective: float = math.inf
    nearest: np.ndarray | None = None
    agreement: float = 1.0
    nearness: float = 0.0


def as_starts(init: Any, s: int, d: int) -> list[Any]:
    """Return the names and d x s arrays that ``init`` means."""
    if isinstance(init, str) and init == "auto":
        init = STARTS[:2]
    several = isinstance(init, (list, tuple)) and any(
        isinstance(one, str) or np.ndim(one) == 2 for one in init
    )
    starts = [
        one if isinstance(one, str) else np.asarray(one, dtype=float).T
        for one in (init if several else [init])
    ]
    for start in starts:
        if isinstance(start, str) and start not in STARTS:
            raise ValueError(
                f"init={start!r} is unknown; choose among {', '.join(STARTS)}, or give components"
            )
        if not isinstance(start, str) and (start.shape != (d, s) or not np.isfinite(start).all()):
            raise ValueError(
                f"init has shape {start.T.shape}; give finite components of shape {(s, d)}, or a name"
            )
    return starts


def make_start(
    X: Matrix, name: Any, s: int, middle: np.ndarray, fixed: bool, rng: Generator
) -> Start:
    """Return one start, by its name or from a d x s array; its centre is the middle where ``fixed``."""
    seed = int(rng.integers(2**31))
    if not isinstance(name, str):
        return Start("array", middle, orthonormalize(name))
    if name == "random":
        return Start(name, middle, orthonormalize(rng.standard_normal((X.shape[1], s))))
    if name == "spherical":
        view = Centered(X, middle[:, None])
        norms = view.row_norms()
        b = 1 / np.maximum(norms, NEAR * typical_size(norms))
        return Start(name, middle, _leading(Weighted(view, b), s, seed))
    rows = X if name == "pca" else least_outlying(X, half(X.shape[0], s), middle, rng)
    center = middle if fixed else rows.column_sums()[0] / rows.shape[0]
    return Start(name, center, _leading(Centered(rows, center[:, None]), s, seed))


def _leading(X: Operator, s: int, seed: int) -> np.ndarray:
    """Return the s leading right singular vectors, to the accuracy that a start needs."""
    n, d = X.shape
    if d <= min(n, DIRECT):
        return np.ascontiguousarray(eigh(X.gram())[1][:, :s])
    with warnings.catch_warnings():  # best_start compares the objectives
        warnings.simplefilter("ignore", ConvergenceWarning)
        return principal_axes(X, s, tol=5e-3, seed=seed, max_iter=50).V


def concentrate(X: Operator, start: Start, h: int, fixed: bool) -> Start:
    """Take C-steps while they gain: centre and one subspace-iteration step of the h nearest rows.

    Each is a step of DCA on the sum of the h smallest squared residuals, which never rises.
    """
    center, W, objective = start.center[:, None], start.W, math.inf
    for _ in range(STEPS):
        view = Centered(X, center)
        Y = view @ W
        residual2 = np.clip(view.row_norms() ** 2 - (Y * Y).sum(axis=1), 0.0, None)
        nearest = np.argpartition(residual2, h - 1)[:h]
        keep = np.zeros(X.shape[0])
        keep[nearest] = 1.0
        before, objective = objective, float(residual2[nearest].mean())
        if objective >= (1 - GAIN) * before:
            break
        if not fixed:
            shift = view.rmatmul(keep[:, None]) / h
            center, Y = center + shift, Y - shift.T @ W
        W = orthonormalize(view.rmatmul(keep[:, None] * Y))
    return Start(start.name, center[:, 0], W, objective, keep > 0)


def best_start(X: Matrix, init: Any, s: int, fixed: np.ndarray | None, rng: Generator) -> Start:
    """Return the first start whose trimmed objective is within CLEARLY of the least.

    A start that has nothing to be compared with stays as it is.
    """
    h = half(X.shape[0], s)
    middle = spatial_median(X)[:, 0] if fixed is None else fixed
    names = as_starts(init, s, X.shape[1])
    starts = [make_start(X, name, s, middle, fixed is not None, rng) for name in names]
    if len(starts) == 1 and starts[0].name != "stahel_donoho":
        return starts[0]
    starts = [concentrate(X, start, h, fixed is not None) for start in starts]
    least = min(start.objective for start in starts)
    best = next(start for start in starts if start.objective <= (1 + CLEARLY) * least)
    for other in starts:
        common = float(best.nearest[other.nearest].mean())  # type: ignore[index]
        cosine = np.linalg.svd(best.W.T @ other.W, compute_uv=False).min()
        if common < best.agreement and cosine < SAME:
            ratio = best.objective / other.objective if other.objective > 0 else 1.0
            best = replace(best, agreement=common, nearness=min(ratio, 1.0))
    return best


def scree(X: Matrix, fixed: np.ndarray | None, rng: Generator) -> np.ndarray:
    """Return the variances of the least outlying half of the sample along its axes, decreasing."""
    n, d = X.shape
    middle = spatial_median(X)[:, 0] if fixed is None else fixed
    rows = least_outlying(X, half(n, min(10, d)), middle, rng)
    center = rows.column_sums()[0] / rows.shape[0] if fixed is None else fixed
    view = Centered(rows, center[:, None])
    S = view.gram() if d <= rows.shape[0] else view.kernel()
    return np.clip(np.linalg.eigvalsh(S)[::-1], 0.0, None) / max(rows.shape[0] - 1, 1)


def number_of_components(n: Any, sample: Sample, rng: Generator) -> int:
    """Return ``n_components`` as a number: as given, all, or from the robust scree."""
    rows, d = sample.rows.shape
    if n is None:
        if rows <= 2 * d:
            raise ValueError(
                f"n_components=None asks for all {min(rows, d)} components, which half of the {rows} "
                "rows that the start sees do not determine; give a number, a fraction or 'auto'"
            )
        return d
    if not isinstance(n, Integral):
        return components_for(scree(sample.rows, sample.relative_center, rng), n, min(rows, d))
    limit = min(rows, d) if sample.basis is None else rows
    if int(n) > limit:
        raise ValueError(
            f"n_components={n} must be between 1 and {limit}, the number of features or of "
            "rows that the start sees; ask for fewer components"
        )
    return min(int(n), d)  # rows in feature space may span fewer axes


def components_for(variances: np.ndarray, share: float | str, limit: int) -> int:
    """Return the fewest components that hold the share of the variances; "auto" is SHARE, up to MOST."""
    total = float(variances.sum())
    if not total > 0:
        return 1
    part, most = (SHARE, MOST) if isinstance(share, str) else (float(share), limit)
    enough = int(np.searchsorted(np.cumsum(variances) / total, part * (1 - 1e-12))) + 1
    return min(enough, limit, most)


def warn_of_doubt(outliers: Array, contamination: Any, start: Start) -> None:
    """Warn where the fit may not be of the data: most rows are flagged, or the starts disagree."""
    share, doubts = float(host_sample(outliers).mean()), []
    if share > 0.5 and contamination == "auto":
        doubts.append(
            f"{share:.0%} of the rows are flagged: more than half, so that the flagged rows may be the "
            "data; look at the outlier map, or try another n_components"
        )
    if start.agreement < DISAGREE and start.nearness > 0.9:
        doubts.append(
            "two starts found subspaces that fit about equally well, each another half of the rows "
            f"({start.agreement:.0%} in common); try another n_components, or compare the fits of "
            "init='stahel_donoho' and init='spherical'"
        )
    for doubt in doubts:
        warnings.warn(doubt, UserWarning, stacklevel=user_stacklevel())
