"""Robust PCA of rows or of a kernel: start, scale, DCA, distances, and a guarded refit."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._memory import ensure
from ..formulations import robust
from ..linalg import (
    Array,
    cross,
    host_sample,
    is_implicit,
    largest,
    namespace,
    norm,
    orthonormalize,
    to_numpy,
    total,
)
from ..losses import Loss, as_loss
from ..operators import Centered, Kernel, Matrix, Operator, Selected, Weighted, centered
from ..operators.energy import check_energy
from ..operators.row_blocks import RowBlocked
from ..problem import DCProblem
from ..progress import phase, stopped
from ..solvers import IRLS, Anderson
from ..solvers.solve import as_solver
from ..solvers.subspace import principal_axes, solve_quietly, warn_above
from .distances import (
    RobustComponents,
    RowDistances,
    centered_at,
    robust_components,
    row_distances,
    thin_factor,
)
from .scale import bulk, typical_size
from .starts import NEAR, Start, as_starts, best_start, number_of_components, take_sample

#: The subspace is fitted and the centre moved at most this many times.
ROUNDS = 10

#: After this many iterations IRLS gives way to DCA.
CYCLE = 50

#: The loss is scaled to this many scales above the location of the good rows' residuals.
ABOVE = 2.0

#: A refit stands where it raises the loss of the fit by no more than this share.
GUARD = 0.05

#: A refit is asked for a residual of at least this many eps.
ROUNDING = 100


@dataclass(frozen=True)
class RobustOptions:
    """The parameters of a robust fit, as :class:`dualpca.RobustPCA` describes them.

    Warnings of convergence begin with ``name``.
    """

    n_components: int | float | str | None = "auto"
    loss: Any = "geman_mcclure"
    normalize: bool = True
    center: Any = "joint"
    init: Any = "auto"
    refit: bool = True
    solver: Any = "auto"
    quantile: float = 0.999
    tol: float = 1e-3
    max_iter: int = 300
    name: str = "RobustPCA"


@dataclass(frozen=True)
class RobustFit:
    """Components and distances of the rows, the weight of each row in the loss, and how they were found.

    The largest weight is 1. ``nearness`` is that of the starts, as :func:`best_start` returns it.
    """

    components: RobustComponents
    rows: RowDistances
    weights: Array
    loss: Loss
    start: str
    agreement: float
    nearness: float
    refitted: bool
    residual: float
    iterations: int


def fit_robust(
    X: Operator,
    options: RobustOptions,
    *,
    rng: np.random.Generator,
    weights: Array | None = None,
    kernel_between: Callable[[np.ndarray], np.ndarray] | None = None,
    check_spectrum: Callable[[np.ndarray, int], None] | None = None,
) -> RobustFit:
    """Minimise ``sum_i m_i rho(||(I - W W^T)(x_i - c)||)`` over W and c, then refit the good rows.

    The rows of X are explicit, or in feature space, where c and W are ``Gamma^T a`` and ``Gamma^T A``.
    Only there are rows of weight 0 allowed, and these two functions needed: ``kernel_between(rows)``
    returns the kernels between some rows; ``check_spectrum(values, s)`` refuses those whose negative
    eigenvalues are too large for s components, None where the kernel has none.
    """
    with phase("start"):
        sample = take_sample(X, options.center, weights, rng, kernel_between, check_spectrum)
        _ensure_room(options.solver, X)
        s = number_of_components(options.n_components, sample, rng)
        if check_spectrum is not None and sample.spectrum is not None:
            check_spectrum(sample.spectrum, s)
        starts = as_starts(options.init, s, sample.rows.shape[1])
        start, agreement, nearness = best_start(sample.rows, starts, s, sample.relative_center, rng)
    spread = typical_size(Centered(sample.rows, start.center[:, None]).row_norms())
    loss = scaled_loss(as_loss(options.loss), sample.rows, start, options.normalize)
    center = sample.origin + sample.vectors(start.center[:, None])[:, 0]
    V, joint = sample.vectors(start.W), sample.fixed is None
    view, W, mass = centered_at(X, center, spread), thin_factor(X, V), _as_rows(X, weights)
    fit = fit_rows(view, W, loss, options, mass=mass, joint=joint, spread=spread)
    warn_above(fit.residual, options.tol, options.name, options.max_iter)
    center = center if fit.shift is None else center + _coordinates(fit.shift)[:, 0]
    # Where all rows that count are the centre, any V fits them, and an implicit W has no columns.
    V = _coordinates(fit.W) if fit.W.shape[1] else V
    rows, again = row_distances(X, center, V, weights, spread), None
    if options.refit and not rows.flat:
        again = refit(X, rows, options, sample.fixed, spread, rng)
    if again is not None:
        size = 1.0 if options.normalize else spread
        before, after = (average_loss(loss, r, fit.scales, size) for r in (rows, again))
        again = again if after <= before + GUARD * abs(before) else None
    tiny = float(np.finfo(np.float32).tiny)  # weights on a cluster may be float32
    by_row = fit.weights if weights is None else fit.weights / weights.clip(tiny, None)
    return RobustFit(
        components=robust_components(again or rows, options.quantile, not joint),
        rows=again or rows,
        weights=by_row / max(largest(by_row), 1e-300),
        loss=loss,
        start=start.name,
        agreement=agreement,
        nearness=nearness,
        refitted=again is not None,
        residual=fit.residual,
        iterations=fit.iterations,
    )


def _as_rows(X: Operator, values: Array | None) -> Array | None:
    """Return one number a row as an array of X's kind."""
    if values is None:
        return None
    return X.row_vector(values) if isinstance(X, RowBlocked) else X.asarray(values)


def _coordinates(W: Array) -> np.ndarray:
    """Return the entries of a thin factor, or its coefficients in feature space, in float64."""
    return to_numpy(W.coefficients if is_implicit(W) else W).astype(float)


def _ensure_room(solver: Any, X: Operator) -> None:
    """Refuse a Gram matrix of IRLS that memory has no room for, before a start is looked for."""
    n = X.shape[1] if X.is_distributed else min(X.shape)
    if solver == "irls" or isinstance(solver, IRLS):
        what = f"a Gram matrix of {n:,} x {n:,} and its eigenvectors"
        ensure(16 * n * n, what, "take another solver, such as 'anderson'", X.like)


def scaled_loss(loss: Loss, sample: Matrix, start: Start, normalize: bool) -> Loss:
    """Return the loss with a scale from the residuals of the sample's good rows at the start."""
    if loss.homogeneous or loss.scale is not None:
        return loss
    view = Centered(sample, start.center[:, None])
    norms, Y = view.row_norms(), view @ start.W
    residuals = np.sqrt(np.clip(norms**2 - (Y * Y).sum(axis=1), 0.0, None))
    if normalize:
        residuals = residuals * row_scales(norms, typical_size(norms))
    location, scale = bulk(residuals, Y)
    c = loss.tuning * max(location + ABOVE * scale, 0.0) ** 1.5
    typical = 1.0 if normalize else typical_size(sample.row_norms())
    # Squared residuals are differences of squares, exact to eps of those.
    return loss.at(max(c, 1e-6 * typical, np.finfo(float).tiny))


def row_scales(norms: Array, spread: float) -> Array:
    """Return ``1/||x_i - c||``, where rows near the centre count as NEAR of the spread away from it.

    Such rows have no direction that deserves a full weight.
    """
    return 1 / namespace(norms).clip(norms, NEAR * spread, None)


@dataclass(frozen=True)
class SubspaceFit:
    """A shift of the centre, an orthonormal W, weights and scales of rows, and what it took."""

    shift: Array | None
    W: Array
    weights: Array
    scales: Array | None
    residual: float
    iterations: int


def fit_rows(
    base: Operator,
    W: Array,
    loss: Loss,
    options: RobustOptions,
    *,
    mass: Array | None,
    joint: bool,
    spread: float,
) -> SubspaceFit:
    """Minimise ``sum_i m_i rho(a_i ||(I - W W^T)(x_i - c)||)`` over W, and over c where ``joint``.

    The rows of ``base`` are centred at the start; ``a_i`` is 1, or 1 over their norm. In turns, DCA
    finds W with c fixed (Algorithm 5; 6 for solver="dual" or a kernel), and c becomes the mean of the
    rows by their weights, which lowers the objective too; until c stays.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite norm is refused
        norms = base.row_norms()
    # A row that is divided by its norm may have any norm that is finite.
    bounded = options.normalize and largest(norms) < math.inf
    check_energy(spread * spread if bounded else _sum_of_squares(norms), base)
    scales = base.persist_rows(row_scales(norms, spread))[0] if options.normalize else None
    solver, dual = _solver(options.solver, W.shape[1], base)
    shift: Array | None = None
    iterations = 0
    for _ in range(ROUNDS):
        view = base if shift is None else Centered(base, shift)
        rows = view if scales is None else Weighted(view, scales)
        problem = robust(rows, loss=loss, mass=mass)
        left = {"tol": options.tol, "max_iter": max(1, options.max_iter - iterations)}
        if dual:
            kernel = Kernel.linear(rows)
            W0 = kernel.rmatmul(rows @ W)
            result = solve_quietly(replace(problem, X=kernel), solver, W0=W0, **left)
            W = rows.rmatmul(result.W.coefficients)
        elif isinstance(solver, IRLS):
            cycle = {**left, "max_iter": min(CYCLE, left["max_iter"])}
            result = solve_quietly(problem, solver, W0=W, **cycle)
            if not (result.converged or result.stopped):
                # It may go round between equal eigenvalues; DCA does not.
                result = solve_quietly(problem, Anderson(), W0=result.W, **left)
            W = result.W
        else:
            result = solve_quietly(problem, solver, W0=W, **left)
            W = result.W
        W = orthonormalize(W)
        iterations += result.iterations
        move, weights = weighted_mean(problem, scales, W)
        if not joint or iterations >= options.max_iter or result.stopped:
            break
        shift = move if shift is None else shift + move
        if norm(move - W @ cross(W, move)) <= options.tol * spread:
            break
    return SubspaceFit(shift, W, weights, scales, result.residual, iterations)


def _solver(solver: Any, s: int, X: Operator) -> tuple[Any, bool]:
    """Return the solver of that name, and whether it runs on the dual."""
    if solver == "auto":
        solver = "irls" if X.shape[1] <= 2 * s and not X.implicit else "anderson"
    dual = isinstance(solver, str) and solver == "dual"
    return as_solver("dca" if dual else solver), dual


def _sum_of_squares(norms: Array) -> float:
    """Return the sum of squares, whatever the scale."""
    top = largest(norms)
    return top * top * total((norms / top) ** 2) if 0 < top < math.inf else top


def weighted_mean(problem: DCProblem, scales: Array | None, W: Array) -> tuple[Array, Array]:
    """Return the mean of the rows by their weights in the loss, and the weights: one pass."""
    parts: dict[int, np.ndarray] = {}
    X: Operator = problem.X
    F: Any = problem.F

    def row_map(Y: Array, rows: slice) -> tuple[Array, Array]:
        w = F.weights(Y, rows)
        if not X.is_distributed:
            parts[rows.start or 0] = to_numpy(w)
        a = w if scales is None else w * scales[rows]
        return a[:, None], namespace(w).sum(a if scales is None else a * scales[rows])

    sums, mass = X.sweep(W, row_map)
    if X.is_distributed:  # then the weights stay with the rows
        (weights,) = X.persist_rows(X.rowwise(W, F.weights))
    else:
        weights = np.concatenate([parts[first] for first in sorted(parts)]).astype(float)
    return sums / float(mass) if float(mass) > 0 else sums, weights


def refit(
    X: Operator,
    rows: RowDistances,
    options: RobustOptions,
    center: np.ndarray | None,
    spread: float,
    rng: np.random.Generator,
) -> RowDistances | None:
    """Return the distances from mean and principal subspace of the good rows; None where none is found.

    The mean is ``center`` where that is given.
    """
    limit, s = rows.cutoff(options.quantile), rows.V.shape[1]
    good = rows.good(limit)
    if not good.sum() * X.shape[0] / len(good) > 2 * s:
        return None
    keep = rows.orthogonal <= limit if X.is_distributed else good
    tol, seed = min(options.tol, 1e-4), int(rng.integers(2**31))
    new = principal_subspace(X, keep, rows.weights, s, center, spread, tol, seed)
    return None if new is None else row_distances(X, *new, rows.weights, spread)


def principal_subspace(
    X: Operator,
    keep: Array,
    weights: Array | None,
    s: int,
    center: np.ndarray | None,
    spread: float,
    tol: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return centre and principal axes of the rows that are kept.

    None where rounding or slow convergence leaves the axes short of ``tol``, and where the rows are
    equal in feature space.
    """
    chosen: Operator = X
    mass: Any = keep if weights is None else keep * weights  # rows that are dropped weigh nothing
    if isinstance(X, RowBlocked) and not X.is_distributed:
        chosen, mass = Selected(X, keep), None if weights is None else weights[keep]
    b = _as_rows(X, mass)
    if center is None and X.implicit:
        center = mass / mass.sum()
    if center is None:
        view = centered(chosen, b)
        center = to_numpy(view.center)[:, 0].astype(float)  # type: ignore[attr-defined]
    else:
        view = centered_at(chosen, center, spread)
    view = view if b is None else Weighted(view, namespace(b).sqrt(b))
    eps = float(np.finfo("float32" if "32" in str(X.dtype) else "float64").eps)
    tol = max(tol, ROUNDING * eps)
    if X.implicit and view.energy() <= 100 * eps * float(mass @ X.row_norms() ** 2):
        return None
    with phase("refit"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if X.implicit:
            ritz = principal_axes(view.T, s, tol=tol, seed=seed, rows=view)
        else:
            ritz = principal_axes(view, s, tol=tol, seed=seed)
    if not X.implicit:
        converged = ritz.residual <= 1.01 * tol or stopped()
        return (center, _coordinates(ritz.V)) if converged else None
    # Rounding may keep a kernel from tol; the loss of the rows tells what the axes are worth.
    theta = np.asarray(ritz.theta, dtype=float)
    positive = theta > 1e-12 * theta[0]  # rows of a lower rank have fewer axes
    return center, _coordinates(view.rmatmul(ritz.V[:, positive] / np.sqrt(theta[positive])))


def average_loss(loss: Loss, rows: RowDistances, scales: Array | None, typical: float) -> float:
    """Return ``sum_i m_i rho(a_i r_i) / sum_i m_i``, with an epsilon where the loss needs one."""
    _, residuals, weights = rows.on_host
    residuals = residuals if scales is None else residuals * host_sample(scales)
    epsilon = 1e-3 * typical if loss.singular else 0.0
    values = loss.psi((residuals**2 + epsilon**2) / loss.c**2)
    return float(np.average(values, weights=weights))
