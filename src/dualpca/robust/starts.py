"""Where robust PCA starts: a centre and a subspace from a sample of the rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..linalg import (
    Array,
    eigh,
    gram,
    host_sample,
    namespace,
    norm,
    orthonormalize,
    sampled_rows,
    to_numpy,
)
from ..operators import Centered, Matrix, Operator, Weighted
from ..operators.block_ops import dense, row_norms
from ..operators.row_blocks import RowBlocked
from ..solvers.subspace import principal_axes
from .scale import location_scale

#: Rows of the sample, and the most numbers it may hold.
ROWS, ENTRIES = 2000, 2**24

#: Up to so many columns, LAPACK decomposes the Gram matrix of a start at once.
DIRECT = 300

#: The smallest distance from the centre that a row is divided by, over the typical one.
NEAR = 1e-3

#: Directions through pairs of rows, as many as ROBPCA takes.
DIRECTIONS = 250

#: Their locations and scales come from about so many rows, in so many directions at once.
SAMPLE_ROWS, AT_ONCE = 250, 64

#: The most concentration steps, and the share of the objective that a step must gain to go on.
STEPS, GAIN = 15, 1e-3

#: A later start must fit its nearest half better by more than this share. The fit does not see
#: outliers within the subspace; that the first start avoids them counts for as much.
CLEARLY = 0.1

#: Subspaces agree where no direction of one is further than this cosine from the other.
SAME = 0.99

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


def sample_rows(N: int, d: int, rng: np.random.Generator, weights: Array | None) -> np.ndarray:
    """Which rows to look at, in order: all, or ROWS of them; each as often as its weight says."""
    most = max(100, min(ROWS, ENTRIES // max(d, 1)))
    if weights is None:
        return np.sort(rng.choice(N, min(N, most), replace=False))
    return sampled_rows(weights)[by_weight(host_sample(weights).astype(float), most, rng)]


def by_weight(weights: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Rows in order, each ``count w_i / sum(w)`` times but for rounding, by systematic sampling.

    ``count`` is the sum of the weights, at least the number that are positive, and at most ``most``:
    whole weights repeat their rows exactly, equal ones take each row once.
    """
    some = np.flatnonzero(weights > 0)
    mass, order = float(weights.sum()), rng.choice(some, len(some), replace=False)
    count = min(most, max(len(order), round(mass)))
    places = (np.arange(count) + 0.5) * (mass / count)
    return np.sort(order[np.searchsorted(np.cumsum(weights[order]), places, side="right")])


def take_sample(
    rows: RowBlocked, weights: Array | None, rng: np.random.Generator
) -> tuple[Matrix, np.ndarray]:
    """Some rows on the host in float64, about medians where they are dense; and that origin."""
    data = rows.take(sample_rows(*rows.shape, rng, weights))
    if rows.sparse:
        return Matrix(data.astype(np.float64)), np.zeros(rows.shape[1])
    data = to_numpy(data).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # whoever asked looks at the energy
        origin = np.median(data[:: max(1, len(data) // SAMPLE_ROWS)], axis=0)
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


def least_outlying(X: Matrix, h: int, middle: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The h rows of least Stahel-Donoho outlyingness, ``max_u |u^T x - location| / scale``.

    With robust univariate location and scale, over directions u through pairs of rows, as ROBPCA, and
    as many through a row and the middle of all: these see a tight cluster from where it stands out.
    """
    A, n = X.data, X.shape[0]
    first = rng.integers(0, n, DIRECTIONS)
    second = (first + rng.integers(1, max(n, 2), DIRECTIONS)) % n
    # Of few rows many are drawn twice.
    alone, pairs = np.unique(first[::2]), np.unique([first[1::2], second[1::2]], axis=1)
    U = A[pairs[0]] - A[pairs[1]]
    column = middle[:, None]
    Z = np.concatenate([dense(A[alone] @ A.T) - (A @ column).T, dense(U @ A.T)])
    norms = np.concatenate([Centered(X, column).row_norms()[alone], row_norms(U)])
    floor = 1e-10 * typical_size(X.row_norms())
    some = np.nonzero(norms > floor)[0]
    seen = slice(None, None, max(1, n // SAMPLE_ROWS))
    far = np.zeros(n)
    for i in range(0, len(some), AT_ONCE):  # as many as stay in the cache
        these = some[i : i + AT_ONCE]
        z = Z[these] / norms[these, None]
        few = z[:, seen]
        location, scale = location_scale(few, half(few.shape[1], h - (n + 1) // 2))
        # Where more than half of the rows agree in a direction, what differs is far out.
        z -= location[:, None]
        z /= np.maximum(scale, floor)[:, None]
        np.maximum(far, np.abs(z, out=z).max(axis=0), out=far)
    return np.argpartition(far, h - 1)[:h]


def typical_size(norms: np.ndarray) -> float:
    """The median, or the mean where most rows are the centre itself; 1 where all are."""
    return float(np.median(norms)) or float(np.mean(norms)) or 1.0


def principal(X: Operator, s: int, seed: int) -> np.ndarray:
    """The s leading right singular vectors, to the accuracy a start needs."""
    n, d = X.shape
    if d <= min(n, DIRECT):
        return np.ascontiguousarray(eigh(X.gram())[1][:, :s])
    with warnings.catch_warnings():  # what a start is worth shows in its objective
        warnings.simplefilter("ignore", ConvergenceWarning)
        return principal_axes(X, s, tol=5e-3, seed=seed, max_iter=50).V


def spatial_median(X: Operator, weights: Any = None, tol: float = 1e-6) -> Array:
    """``argmin_c sum_i w_i ||x_i - c||`` by Weiszfeld's iteration, one pass a step; a thin factor c.

    Rows nearer to c than rounding allows keep a finite weight.
    """
    norms = X.row_norms()
    xp = namespace(norms)
    size2, typical = norms * norms, typical_size(to_numpy(norms))
    floor = float(xp.finfo(norms.dtype).eps) * typical
    zeros = X.asarray(np.zeros((X.shape[0] if X.implicit else X.shape[1], 1)))
    c = X.rmatmul(zeros) if X.implicit else zeros
    for _ in range(100):
        c2 = float(gram(c)[0, 0])

        def row_map(Y: Array, rows: slice, c2: float = c2) -> tuple[Array, Array]:
            distance = xp.sqrt(xp.clip(size2[rows] - 2 * Y[:, 0] + c2, floor**2, None))
            w = 1 / distance if weights is None else weights[rows] / distance
            return w[:, None], xp.sum(w)

        total, mass = X.sweep(c, row_map)
        new = total / float(mass)
        moved, c = norm(new - c), new
        if moved <= tol * typical:
            break
    return c


def concentrate(X: Operator, start: Start, h: int, fixed: bool) -> Start:
    """C-steps: the centre and one subspace-iteration step of the h nearest rows, while they gain.

    Each is a step of DCA on the sum of the h smallest squared residuals, which never rises.
    """
    center, W = start.center[:, None], start.W
    objective = math.inf
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


def make_start(
    X: Matrix,
    name: Any,
    s: int,
    middle: np.ndarray,
    fixed: bool,
    rng: np.random.Generator,
) -> Start:
    """One start by its name, or from a d x s array; about the middle, where that is fixed."""
    seed = int(rng.integers(2**31))
    if not isinstance(name, str):
        return Start("array", middle, orthonormalize(np.asarray(name, dtype=float)))
    if name == "random":
        return Start(name, middle, orthonormalize(rng.standard_normal((X.shape[1], s))))
    if name == "spherical":
        about = Centered(X, middle[:, None])
        norms = about.row_norms()
        b = 1 / np.maximum(norms, NEAR * typical_size(norms))
        return Start(name, middle, principal(Weighted(about, b), s, seed))
    rows = X if name == "pca" else _few(X, half(X.shape[0], s), middle, rng)
    center = middle if fixed else _mean(rows)
    return Start(name, center, principal(Centered(rows, center[:, None]), s, seed))


def _few(X: Matrix, h: int, middle: np.ndarray, rng: np.random.Generator) -> Matrix:
    return Matrix(X.data[np.sort(least_outlying(X, h, middle, rng))])


def _mean(X: Matrix) -> np.ndarray:
    return X.column_sums()[0] / X.shape[0]


def best_start(
    X: Matrix, names: list[Any], s: int, fixed: np.ndarray | None, rng: np.random.Generator
) -> tuple[Start, float, float]:
    """The first start whose trimmed objective is within CLEARLY of the least; how others compare.

    Their agreement is the smallest share of the best one's nearest rows that are another one's too;
    and how near that one comes the ratio of the objectives, 1 where they fit equally well. A start
    that has nothing to be compared with stays as it is.
    """
    h = half(X.shape[0], s)
    middle = spatial_median(X)[:, 0] if fixed is None else fixed
    starts = [make_start(X, name, s, middle, fixed is not None, rng) for name in names]
    if len(starts) == 1 and starts[0].name != "stahel_donoho":
        return starts[0], 1.0, 0.0
    found = [concentrate(X, start, h, fixed is not None) for start in starts]
    least = min(start.objective for start in found)
    best = next(start for start in found if start.objective <= (1 + CLEARLY) * least)
    agreement, nearness = 1.0, 0.0
    for other in found:
        common = float(best.nearest[other.nearest].mean())  # type: ignore[index]
        cosine = np.linalg.svd(best.W.T @ other.W, compute_uv=False).min()
        if common < agreement and cosine < SAME:
            agreement = common
            nearness = min(best.objective / other.objective, 1.0) if other.objective > 0 else 1.0
    return best, agreement, nearness


def scree(X: Matrix, fixed: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """The variances of the least outlying half of the sample along its principal axes, decreasing."""
    n, d = X.shape
    rows = _few(X, half(n, min(10, d)), spatial_median(X)[:, 0] if fixed is None else fixed, rng)
    center = _mean(rows) if fixed is None else fixed
    view = Centered(rows, center[:, None])
    S = view.gram() if d <= rows.shape[0] else view.kernel()
    return np.clip(np.linalg.eigvalsh(S)[::-1], 0.0, None) / max(rows.shape[0] - 1, 1)


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
    return components_for(scree(X, fixed, rng), n, limit)


def components_for(variances: np.ndarray, share: float | None, limit: int) -> int:
    """The fewest components that hold the share of the variances; None: SHARE, and at most MOST."""
    total = float(variances.sum())
    if not total > 0:
        return 1
    most = MOST if share is None else limit
    share = SHARE if share is None else float(share)
    enough = int(np.searchsorted(np.cumsum(variances) / total, share * (1 - 1e-12))) + 1
    return min(enough, limit, most)
