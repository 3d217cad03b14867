"""Where robust PCA starts: a centre and a subspace from a sample of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import Array, namespace, norm, orthonormalize, to_numpy
from ..operators import Centered, Matrix, Operator, Selected, Weighted
from ..operators.rows import RowBlocked
from ._subspace import leading_subspace
from ._univariate import location_scale

#: Rows of the sample, and the most numbers it may hold.
ROWS, ENTRIES = 2000, 2**24

#: Directions through pairs of rows, as many as ROBPCA takes.
DIRECTIONS = 250

#: The most concentration steps.
STEPS = 15

#: A later start is taken where its trimmed objective is smaller by more than this share.
CLEARLY = 0.1

#: The starts by name; "auto" is the first two.
STARTS = ("stahel_donoho", "spherical", "pca", "random")


@dataclass(frozen=True)
class Start:
    """A centre, an orthonormal W, and the rows nearest to it with their mean squared residual."""

    name: str
    center: np.ndarray
    W: np.ndarray
    objective: float = math.inf
    nearest: np.ndarray | None = None


def sample_rows(N: int, d: int, rng: np.random.Generator, weights: np.ndarray | None) -> np.ndarray:
    """Which rows to look at: all, or ROWS of them drawn by their weights."""
    count = min(N, max(100, min(ROWS, ENTRIES // max(d, 1))))
    positive = N if weights is None else int((weights > 0).sum())
    keep = np.zeros(N, dtype=bool)
    p = None if weights is None else weights / weights.sum()
    keep[rng.choice(N, min(count, positive), replace=False, p=p)] = True
    return keep


def take_sample(
    rows: RowBlocked, weights: np.ndarray | None, rng: np.random.Generator
) -> tuple[Matrix, np.ndarray]:
    """Some rows on the host in float64, about their medians where they are dense; and that origin."""
    keep = sample_rows(*rows.shape, rng, weights)
    data = Selected(rows, keep).gathered().data
    if rows.sparse:
        return Matrix(data.astype(np.float64)), np.zeros(rows.shape[1])
    data = to_numpy(data).astype(np.float64)
    origin = np.median(data, axis=0)
    return Matrix(data - origin), origin


def as_starts(init: Any, s: int, d: int) -> list[Any]:
    """The names and d x s arrays that ``init`` means."""
    if isinstance(init, str):
        return list(STARTS[:2]) if init == "auto" else [init]
    several = isinstance(init, (list, tuple)) and any(
        isinstance(one, str) or np.ndim(one) == 2 for one in init
    )
    starts: list[Any] = []
    for one in init if several else [init]:
        if isinstance(one, str):
            if one not in STARTS:
                raise ValueError(
                    f"init={one!r} is unknown; choose among {', '.join(STARTS)}, or give components"
                )
            starts.append(one)
            continue
        array = np.asarray(one, dtype=float)
        if array.shape != (s, d) or not np.isfinite(array).all():
            raise ValueError(
                f"init has shape {array.shape}; give finite components of shape {(s, d)}, or a name"
            )
        starts.append(array.T)
    return starts


def half(n: int, s: int) -> int:
    """How many rows are taken to be good: h of ROBPCA with alpha = 1/2."""
    return min(n, max((n + s + 1) // 2, min(n, s + 1)))


def least_outlying(X: Matrix, h: int, rng: np.random.Generator) -> np.ndarray:
    """The h rows of least Stahel-Donoho outlyingness, ``max_u |u^T x - location| / scale``.

    Over directions u through pairs of rows, with robust univariate location and scale.
    """
    A, n = X.data, X.shape[0]
    first = rng.integers(0, n, DIRECTIONS)
    second = (first + rng.integers(1, max(n, 2), DIRECTIONS)) % n
    U = A[first] - A[second]
    norms = np.sqrt(U.multiply(U).sum(axis=1)).ravel() if X.sparse else np.linalg.norm(U, axis=1)
    U, norms = U[norms > 0], norms[norms > 0]
    if len(norms) == 0:  # all rows are equal
        return np.arange(h)
    Z = (A @ U.T).T
    Z = (Z.toarray() if sp.issparse(Z) else Z) / norms[:, None]
    location, scale = location_scale(Z, h)
    # Where more than half of the rows agree in a direction, what differs is far out.
    floor = 1e-10 * float(np.median(X.row_norms())) + np.finfo(float).tiny
    far = (np.abs(Z - location[:, None]) / np.maximum(scale, floor)[:, None]).max(axis=0)
    return np.argpartition(far, h - 1)[:h]


def principal(X: Operator, s: int, seed: int) -> np.ndarray:
    """The s leading right singular vectors, to the accuracy a start needs."""
    energy = max(X.energy(), np.finfo(float).tiny)
    found = leading_subspace(
        X,
        s,
        dense=False,
        energy=energy,
        solver="auto",
        formulation=None,
        tol=5e-3,
        max_iter=50,
        seed=seed,
    )
    return found.ritz.V


def spatial_median(X: Operator, weights: Any = None, tol: float = 1e-6) -> np.ndarray:
    """``argmin_c sum_i w_i ||x_i - c||`` by Weiszfeld's iteration, one pass a step.

    Rows nearer to c than rounding allows keep a finite weight.
    """
    norms = X.row_norms()
    xp = namespace(norms)
    size2, typical = norms * norms, float(xp.sort(norms)[norms.shape[0] // 2])
    c = X.asarray(np.zeros((X.shape[1], 1)))
    floor = float(xp.finfo(norms.dtype).eps) * typical + float(xp.finfo(norms.dtype).tiny)
    for _ in range(100):
        c2 = float((c.T @ c)[0, 0])

        def row_map(Y: Array, rows: slice, c2: float = c2) -> tuple[Array, Array]:
            distance = xp.sqrt(xp.clip(size2[rows] - 2 * Y[:, 0] + c2, floor**2, None))
            w = 1 / distance if weights is None else weights[rows] / distance
            return w[:, None], xp.sum(w)

        total, mass = X.sweep(c, row_map)
        moved, c = norm(total / mass - c), total / mass
        if moved <= tol * typical:
            break
    return to_numpy(c)[:, 0].astype(float)


def concentrate(X: Operator, start: Start, h: int, fixed: bool) -> Start:
    """C-steps: the centre and one subspace-iteration step of the h nearest rows, until they stay.

    Each is a step of DCA on the sum of the h smallest squared residuals, which never rises.
    """
    center, W = start.center[:, None], start.W
    before = None
    for _ in range(STEPS):
        view = Centered(X, center)
        Y = view @ W
        residual2 = np.clip(view.row_norms() ** 2 - (Y * Y).sum(axis=1), 0.0, None)
        nearest = np.argpartition(residual2, h - 1)[:h]
        keep = np.zeros(X.shape[0])
        keep[nearest] = 1.0
        objective = float(residual2[nearest].mean())
        if before is not None and np.array_equal(keep, before):
            break
        before = keep
        if not fixed:
            shift = view.rmatmul(keep[:, None]) / h
            center, Y = center + shift, Y - shift.T @ W
        W = orthonormalize(view.rmatmul(keep[:, None] * Y))
    return Start(start.name, center[:, 0], W, objective, keep > 0)


def make_start(
    X: Matrix, name: Any, s: int, fixed: np.ndarray | None, rng: np.random.Generator
) -> Start:
    """One start by its name, or from a d x s array."""
    n, d = X.shape
    seed = int(rng.integers(2**31))
    if isinstance(name, str) and name == "stahel_donoho":
        rows = least_outlying(X, half(n, s), rng)
        chosen = Matrix(X.data[np.sort(rows)])
        center = fixed if fixed is not None else _mean(chosen)
        return Start(name, center, principal(Centered(chosen, center[:, None]), s, seed))
    if fixed is not None:
        center = fixed
    else:
        center = _mean(X) if isinstance(name, str) and name == "pca" else spatial_median(X)
    view = Centered(X, center[:, None])
    if not isinstance(name, str):
        return Start("array", center, orthonormalize(np.asarray(name, dtype=float)))
    if name == "random":
        return Start(name, center, orthonormalize(rng.standard_normal((d, s))))
    if name == "spherical":
        norms = view.row_norms()
        b = 1 / np.where(norms > 1e-12 * np.median(norms), norms, np.inf)
        return Start(name, center, principal(Weighted(view, b), s, seed))
    return Start(name, center, principal(view, s, seed))


def _mean(X: Matrix) -> np.ndarray:
    return X.column_sums()[0] / X.shape[0]


def best_start(
    X: Matrix, names: list[Any], s: int, fixed: np.ndarray | None, rng: np.random.Generator
) -> tuple[Start, float, float]:
    """The first start whose trimmed objective is least, or within CLEARLY of that; and the others.

    Their agreement is the smallest share of the best one's nearest rows that are another one's too;
    and how near that one comes the ratio of the objectives, 1 where they fit equally well.
    """
    h = half(X.shape[0], s)
    found = [
        concentrate(X, make_start(X, name, s, fixed, rng), h, fixed is not None) for name in names
    ]
    least = min(start.objective for start in found)
    best = next(start for start in found if start.objective <= least * (1 + CLEARLY))
    agreement, nearness = 1.0, 0.0
    for other in found:
        common = float(best.nearest[other.nearest].mean())  # type: ignore[index]
        if common < agreement:
            agreement = common
            nearness = min(best.objective / other.objective, 1.0) if other.objective > 0 else 1.0
    return best, agreement, nearness


def scree(X: Matrix, fixed: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """The variances of the least outlying half of the sample along its principal axes, decreasing."""
    n, d = X.shape
    rows = least_outlying(X, half(n, min(10, d)), rng)
    chosen = Matrix(X.data[np.sort(rows)])
    center = _mean(chosen) if fixed is None else fixed
    view = Centered(chosen, center[:, None])
    S = view.gram() if d <= chosen.shape[0] else view.kernel()
    return np.clip(np.linalg.eigvalsh(S)[::-1], 0.0, None) / max(chosen.shape[0] - 1, 1)


#: n_components=None takes the fewest components that hold this share of the robust variance.
SHARE, MOST = 0.8, 10


def number_of_components(
    n: Any, X: Matrix, fixed: np.ndarray | None, rng: np.random.Generator
) -> int:
    """``n_components`` as a number: as given, or from the robust scree."""
    limit = min(X.shape)
    if isinstance(n, Integral):
        if int(n) > limit:
            raise ValueError(
                f"n_components={n} must be between 1 and {limit}, the number of features or of "
                "rows that the start sees; ask for fewer components"
            )
        return int(n)
    variances = scree(X, fixed, rng)
    total = float(variances.sum())
    if not total > 0:
        return 1
    share = SHARE if n is None else float(n)
    enough = int(np.searchsorted(np.cumsum(variances) / total, share * (1 - 1e-12))) + 1
    return min(enough, limit, MOST if n is None else limit)
