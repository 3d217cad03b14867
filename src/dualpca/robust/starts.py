"""The start of robust PCA: candidates for centre and subspace, from a sample of the rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from sklearn.exceptions import ConvergenceWarning

from ..linalg import eigh, orthonormalize
from ..operators import Centered, Matrix, Operator, Weighted
from ..solvers.spectral.bases import quick_basis
from ..solvers.subspace import principal_axes
from .choice import Measured, choose, clearly_better, freedom, measure, narrow_rows
from .scale import (
    bulk,
    cutoff,
    half,
    least_outlying,
    location_scale,
    spatial_median,
    typical_size,
)

#: Up to this many rows or columns LAPACK decomposes the Gram matrix of a start at once.
DIRECT = 300

#: A row is divided by its distance from the centre, and by no less than this share of the typical one.
NEAR = 1e-3

#: There are at most STEPS concentration steps; the next one follows a gain of more than this share. With
#: 1e-3, and 20 instead of 10 KURTOSIS_STEPS, four seeds of the grid fail in as many cells (35 of 5,856).
STEPS, GAIN = 15, 1e-2

#: Subspaces agree where no direction of one is further than this cosine from the other.
SAME = 0.99

#: Concentrated starts with this share of their nearest rows in common, and one subspace, count once.
ALIKE = 0.95

#: The middle of the rows, about which starts look for directions, is known to this share of their size.
MIDDLE = 1e-3

#: Starts disagree where their nearest halves share less than this of the rows.
DISAGREE = 0.6

#: Rows are dropped for another start where they are at least PEELED of all, and LEFT of all remain.
PEELED, LEFT = 0.1, 0.25

#: A direction with a kurtosis below TWO_GROUPS (uniform numbers have 1.8, two equal groups 1) splits
#: the rows; it is looked for among the SPLIT_AXES leading axes, in KURTOSIS_STEPS steps.
TWO_GROUPS, SPLIT_AXES, KURTOSIS_STEPS = 1.7, 10, 10

#: The quantiles of the distances of good rows in the two rounds of :func:`reweighted`.
FIRST, LAST = 0.975, 0.999

#: The starts by name; "auto" is the first two.
STARTS = ("stahel_donoho", "spherical", "pca", "random")


@dataclass(frozen=True)
class Start:
    """A centre and an orthonormal W.

    ``agreement`` is the smallest share of the nearest rows that another candidate has too, ``nearness``
    the ratio of the reaches of the two: 1 where they fit equally well. ``compared`` tells whether it was
    chosen among candidates. ``rows`` are those of the sample beside it, if they have been measured.
    """

    name: str
    center: np.ndarray
    W: np.ndarray
    agreement: float = 1.0
    nearness: float = 0.0
    compared: bool = False
    rows: Measured | None = None

    def beside(self, X: Operator) -> Measured:
        """Return the rows of the sample X beside the start."""
        return measure(X, self.center, self.W) if self.rows is None else self.rows

    def measured(self, X: Operator) -> Start:
        """Return the start with the rows of the sample X beside it."""
        return replace(self, rows=self.beside(X))


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
        view: Operator = Centered(X, middle[:, None])
        norms = view.row_norms()
        b = 1 / np.maximum(norms, NEAR * typical_size(norms))
        if X.sparse:
            return Start(name, middle, _leading(Weighted(view, b), s, seed))
        return Start(name, middle, _leading(Matrix(b[:, None] * (X.data - middle)), s, seed))
    rows = X if name == "pca" else least_outlying(X, half(X.shape[0], s), middle, rng)
    return Start(name, *_center_and_axes(rows, s, middle if fixed else None, seed))


def _center_and_axes(
    X: Matrix, s: int, fixed: np.ndarray | None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the rows, or the fixed centre, and the s leading axes about it."""
    if fixed is not None:
        return fixed, _leading(Centered(X, fixed[:, None]), s, seed)
    total = X.column_sums()[0][:, None]
    mean = total / X.shape[0]
    return mean[:, 0], _leading(Centered(X, mean, total), s, seed)


def _leading(X: Operator, s: int, seed: int) -> np.ndarray:
    """Return the s leading right singular vectors, to the accuracy that a start needs."""
    n, d = X.shape
    if d <= min(n, DIRECT):
        return np.ascontiguousarray(eigh(X.gram())[1][:, :s])
    if s < n <= DIRECT:
        return orthonormalize(X.rmatmul(eigh(X.kernel())[1][:, :s]))
    with warnings.catch_warnings():  # best_start compares the objectives
        warnings.simplefilter("ignore", ConvergenceWarning)
        return principal_axes(X, s, tol=5e-3, seed=seed, max_iter=50, verify=False).V


def concentrate(X: Matrix, start: Start, h: int, fixed: bool) -> Start:
    """Take C-steps while they gain: centre and one subspace-iteration step of the h nearest rows.

    Each is a step of DCA on the sum of the h smallest squared residuals, which never rises.
    """
    center, W, objective = start.center, start.W, np.inf
    for _ in range(STEPS):
        rows = measure(X, center, W)
        nearest = rows.nearest(h)
        before, objective = objective, float((rows.residuals[nearest] ** 2).mean())
        if objective >= (1 - GAIN) * before:
            return replace(start, center=center, W=W, rows=rows)
        # One product, of which the first column is the sum of the nearest rows.
        H = np.concatenate([np.ones((h, 1)), rows.scores[nearest]], axis=1)
        Z = Centered(Matrix(X.data[nearest]), center[:, None]).rmatmul(H)
        shift, Z = Z[:, :1] / h, Z[:, 1:]
        if not fixed:
            center, Z = center + shift[:, 0], Z - h * shift * (shift.T @ W)
        W = quick_basis(Z)
    return replace(start, center=center, W=W, rows=None)


def peeled(
    X: Matrix, start: Start, rows: Measured, fixed: np.ndarray | None, rng: Generator
) -> Start | None:
    """Return a start from the rows that are left without narrow ones; None where those are few.

    ``rows`` are those of X beside the start.
    """
    n, s = X.shape[0], start.W.shape[1]
    h = half(n, s)
    drop = narrow_rows(rows, h, freedom(X, s))
    left = n - int(drop.sum())
    if n - left < PEELED * n or left < max(LEFT * n, 2 * (s + 1)):
        return None
    rest = Matrix(X.data[~drop])
    middle = spatial_median(rest, tol=MIDDLE)[:, 0] if fixed is None else fixed
    new = make_start(rest, "stahel_donoho", s, middle, fixed is not None, rng)
    new = concentrate(rest, new, half(left, s), fixed is not None)
    new = concentrate(X, new, min(h, half(left, s)), fixed is not None)
    return replace(new, name=f"{start.name}, peeled")


def split(X: Matrix, start: Start, rows: Measured, fixed: np.ndarray | None) -> Start | None:
    """Return a start from the larger of two groups that scores fall into; None where they do not.

    Groups side by side look like one more component. They show in the direction along which the scores
    have the least kurtosis (Pena and Prieto 2001).
    """
    n, s = X.shape[0], start.W.shape[1]
    h = half(n, s)
    near = np.flatnonzero(rows.residuals <= 2 * rows.level(h))
    Y = rows.scores[near] - rows.scores[near].mean(axis=0)
    values, axes = eigh(Y.T @ Y / len(Y))
    varying = values[:SPLIT_AXES] > 1e-12 * values[0]
    if not varying.any():
        return None
    Z = Y @ (axes[:, :SPLIT_AXES][:, varying] / np.sqrt(values[:SPLIT_AXES][varying]))
    U = np.eye(Z.shape[1])
    for _ in range(KURTOSIS_STEPS):
        T = Z @ U
        U = 3 * U - Z.T @ (T * T * T) / len(Z)
        U /= np.linalg.norm(U, axis=0)
    T = Z @ U
    kurtosis = ((T * T) ** 2).mean(axis=0)
    if kurtosis.min() > TWO_GROUPS:
        return None
    t = T[:, kurtosis.argmin()]
    location, scale = (float(a[0]) for a in location_scale(t[None, :], half(len(t), s)))
    kept = near[np.abs(t - location) <= 3 * scale]
    if len(kept) < max(LEFT * n, 2 * (s + 1)):
        return None
    new = Start(f"{start.name}, split", *_center_and_axes(Matrix(X.data[kept]), s, fixed))
    return concentrate(X, new, min(h, len(kept)), fixed is not None)


def best_start(X: Matrix, init: Any, s: int, fixed: np.ndarray | None, rng: Generator) -> Start:
    """Return the candidate that :func:`choose` takes.

    Candidates are the starts as they are and concentrated, starts without narrow rows, and starts from
    one of two groups. A start that has nothing to be compared with stays as it is.
    """
    n = X.shape[0]
    h = half(n, s)
    middle = spatial_median(X, tol=MIDDLE)[:, 0] if fixed is None else fixed
    names = as_starts(init, s, X.shape[1])
    starts = [make_start(X, name, s, middle, fixed is not None, rng) for name in names]
    if len(starts) == 1 and starts[0].name != "stahel_donoho":
        return starts[0]
    near: list[Start] = []
    for start in starts:
        new = concentrate(X, start, h, fixed is not None).measured(X)
        if not any(are_alike(X, new, other, h) for other in near):
            near.append(new)
    others = [peeled(X, start, start.beside(X), fixed, rng) for start in near]
    others += [split(X, start, start.beside(X), fixed) for start in near]
    first = [start for start in starts if start.name == "stahel_donoho"]
    others += [start for start in starts if start.name != "stahel_donoho"]
    candidates = [*first, *near, *(start for start in others if start is not None)]
    candidates = [start.measured(X) for start in candidates]
    k, reach = choose([start.beside(X) for start in candidates], freedom(X, s))
    best, agreement, nearness = candidates[k], 1.0, 0.0
    for other, r in zip(candidates, reach, strict=True):
        common = shared_rows(best.beside(X), other.beside(X), h)
        if common < agreement and cosine_between(best.W, other.W) < SAME:
            agreement, nearness = common, min(reach[k] / r, 1.0) if r > 0 else 1.0
    return replace(best, agreement=agreement, nearness=nearness, compared=True)


def shared_rows(one: Measured, other: Measured, h: int) -> float:
    """Return the share of the h nearest rows that two measurements have in common."""
    mine = np.zeros(len(one.residuals), dtype=bool)
    mine[one.nearest(h)] = True
    return float(mine[other.nearest(h)].mean())


def cosine_between(W: np.ndarray, V: np.ndarray) -> float:
    """Return the cosine of the largest angle between two subspaces."""
    return float(np.linalg.svd(W.T @ V, compute_uv=False).min())


def are_alike(X: Matrix, one: Start, other: Start, h: int) -> bool:
    """Return whether two starts have one subspace and nearly one set of nearest rows."""
    common = shared_rows(one.beside(X), other.beside(X), h)
    return common >= ALIKE and cosine_between(one.W, other.W) >= SAME


def fitted_start(X: Matrix, init: Any, s: int, fixed: np.ndarray | None, rng: Generator) -> Start:
    """Return the best start, fitted to its good rows unless it was clearly better as it was."""
    start = best_start(X, init, s, fixed, rng)
    if not start.compared:
        return start.measured(X)
    new = reweighted(X, start, fixed).measured(X)
    return start if clearly_better(start.beside(X), new.beside(X), freedom(X, s)) else new


def reweighted(X: Matrix, start: Start, fixed: np.ndarray | None) -> Start:
    """Return mean and principal axes of the rows that are good beside the start, twice.

    In the second round a row that the subspace was fitted to counts as further away than it is, and
    another as nearer: by the share of a row in a fit of s axes and a centre.
    """
    s = start.W.shape[1]
    good: np.ndarray | None = None
    for q in (FIRST, LAST):
        rows = start.beside(X)
        distances = rows.residuals
        if good is not None:
            share = min((s + 1) / good.sum(), 0.5)
            distances = distances / np.sqrt(np.where(good, 1 - share, 1 + share))
        limit = cutoff(*bulk(distances, rows.scores, freedom(X, s)), q)
        good = distances <= max(limit, np.sort(distances)[min(len(distances) - 1, 2 * s)])
        center, W = _center_and_axes(Matrix(X.data[good]), s, fixed)
        start = replace(start, center=center, W=W, rows=None)
    return start
