"""The fit of robust PCA: DCA on the rows and their centre, then flag and refit."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from .._memory import ensure
from ..estimators._base import check_energy
from ..formulations import robust
from ..linalg import (
    Array,
    cross,
    host_sample,
    largest,
    namespace,
    norm,
    orthonormalize,
    to_numpy,
    total,
)
from ..losses import LOSSES, Loss
from ..operators import Centered, Kernel, Matrix, Operator, Selected, Weighted, centered
from ..operators.centering import Shifted
from ..operators.row_blocks import RowBlocked
from ..problem import DCProblem
from ..progress import phase, stopped
from ..solvers import IRLS, Anderson
from ..solvers.solve import as_solver, user_stacklevel
from ..solvers.subspace import principal_axes, solve_quietly
from .scale import bulk
from .starts import NEAR, Start, typical_size

#: The most rounds of fitting the subspace and moving the centre.
ROUNDS = 10

#: After so many iterations IRLS gives way to DCA.
CYCLE = 50

#: The loss is scaled to this many scales above the centre of the good rows' residuals.
ABOVE = 2.0

#: A refit stands where it raises the loss of the fit by no more than this share.
GUARD = 0.05

#: A refit is not asked for a residual of less than so many eps.
ROUNDING = 100

#: The parameters that robust estimators share.
ROBUST_CONSTRAINTS: dict[str, Any] = {
    "n_components": [
        Interval(Integral, 1, None, closed="left"),
        Interval(RealNotInt, 0, 1, closed="neither"),
        None,
    ],
    "loss": [StrOptions(set(LOSSES)), Loss],
    "normalize": ["boolean"],
    "refit": ["boolean"],
    "quantile": [Interval(Real, 0, 1, closed="neither")],
    "flag": [StrOptions({"orthogonal", "both"})],
    "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


@dataclass(frozen=True)
class Fit:
    """A move of the centre, an orthonormal W, the weight of each row in the loss, and what it took."""

    delta: Array | None
    W: Array
    weights: Array
    residual: float
    iterations: int


def recentred(X: RowBlocked, center: np.ndarray, spread: float) -> Operator:
    """``X - 1 c^T``: implicit where that keeps the digits of rows of size ``spread``, else explicit."""
    size2 = float(center @ center)
    if size2 == 0:
        return X
    limit = 4.0 if "float32" in str(X.dtype) else 1e3
    column = center[:, None]
    if X.sparse or size2 <= limit * spread**2:
        return Centered(X, X.asarray(column))
    return Shifted(X, column)


def row_scales(norms: Array, normalize: bool, spread: float) -> Array | None:
    """``1/||x_i - c||``, or None for raw rows.

    Rows much nearer to the centre than others have no direction worth a full weight: they count as
    NEAR of the typical distance away.
    """
    return 1 / namespace(norms).clip(norms, NEAR * spread, None) if normalize else None


def scaled_loss(loss: Loss, sample: Matrix, start: Start, normalize: bool) -> Loss:
    """The loss with a scale from the residuals of the sample's good rows at the start."""
    if loss.homogeneous or loss.scale is not None:
        return loss
    residuals = relative_residuals(sample, start.center, start.W, start.center, normalize)
    scores = Centered(sample, start.center[:, None]) @ start.W
    location, scale = bulk(residuals, scores)
    c = loss.tuning * max(location + ABOVE * scale, 0.0) ** 1.5
    typical = 1.0 if normalize else typical_size(sample.row_norms())
    # Squared residuals are differences of squares, exact to eps of those.
    return loss.at(max(c, 1e-6 * typical, np.finfo(float).tiny))


def relative_residuals(
    X: Matrix, center: np.ndarray, W: np.ndarray, origin: np.ndarray, normalize: bool
) -> np.ndarray:
    """``||(I - W W^T)(x_i - c)||`` over ``||x_i - origin||``, or as they are."""
    view = Centered(X, center[:, None])
    Y = view @ W
    size = view.row_norms()
    residual = np.sqrt(np.clip(size**2 - (Y * Y).sum(axis=1), 0.0, None))
    if not normalize:
        return residual
    norms = Centered(X, origin[:, None]).row_norms()
    return residual * row_scales(norms, True, typical_size(norms))


def fit_rows(
    base: Operator,
    W: Array,
    *,
    loss: Loss,
    normalize: bool,
    joint: bool,
    solver: Any,
    dual: bool,
    mass: Array | None,
    tol: float,
    max_iter: int,
    spread: float,
) -> Fit:
    """``minimize sum_i m_i rho(a_i ||(I - W W^T)(x_i - c)||)`` over W, and over c where ``joint``.

    The rows of ``base`` are about the centre of the start; ``a_i`` is 1, or 1 over their norm. In turns:
    W by DCA with c fixed (Algorithm 5; 6 where ``dual``, or where base is a kernel), and c as the mean of
    the rows by their weights, which lowers the objective too; until c stays.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite norm is refused
        norms = base.row_norms()
    # A row that is divided by its norm may have any, as long as that is finite.
    bounded = normalize and largest(norms) < math.inf
    check_energy(spread * spread if bounded else _energy(norms), base)
    scales = row_scales(norms, normalize, spread)
    scales = None if scales is None else base.persist_rows(scales)[0]
    delta: Array | None = None
    iterations = 0
    for _ in range(ROUNDS):
        view = base if delta is None else Centered(base, delta)
        rows = view if scales is None else Weighted(view, scales)
        problem = robust(rows, loss=loss, mass=mass)
        options = {"tol": tol, "max_iter": max(1, max_iter - iterations)}
        if dual:
            kernel = Kernel.linear(rows)
            result = solve_quietly(
                replace(problem, X=kernel), solver, W0=kernel.rmatmul(rows @ W), **options
            )
            W = rows.rmatmul(result.W.coefficients)
        else:
            few = {**options, "max_iter": min(CYCLE, options["max_iter"])}
            irls = isinstance(solver, IRLS)
            result = solve_quietly(problem, solver, W0=W, **(few if irls else options))
            if irls and not (result.converged or result.stopped):
                # It may go round between equal eigenvalues; DCA does not.
                result = solve_quietly(problem, Anderson(), W0=result.W, **options)
            W = result.W
        W = orthonormalize(W)
        iterations += result.iterations
        shift, weights = weighted_mean(problem, scales, W)
        if not joint or iterations >= max_iter or result.stopped:
            break
        delta = shift if delta is None else delta + shift
        if norm(shift - W @ cross(W, shift)) <= tol * spread:
            break
    return Fit(delta, W, weights, result.residual, iterations)


def _energy(norms: Array) -> float:
    """The sum of squares, whatever the scale."""
    top = largest(norms)
    return top * top * total((norms / top) ** 2) if 0 < top < math.inf else top


def weighted_mean(problem: DCProblem, scales: Array | None, W: Array) -> tuple[Array, Array]:
    """The mean of the rows by their weights in the loss, and the weights: one pass."""
    found: dict[int, np.ndarray] = {}
    F: Any = problem.F
    spread = problem.X.is_distributed  # then the weights stay with the rows

    def row_map(Y: Array, rows: slice) -> tuple[Array, Array]:
        w = F.weights(Y, rows)
        if not spread:
            found[rows.start or 0] = to_numpy(w)
        a = w if scales is None else w * scales[rows]
        return a[:, None], namespace(w).sum(a if scales is None else a * scales[rows])

    total, mass = problem.X.sweep(W, row_map)
    if spread:
        (weights,) = problem.X.persist_rows(problem.X.rowwise(W, F.weights))
    else:
        weights = np.concatenate([found[first] for first in sorted(found)]).astype(float)
    return total / float(mass) if float(mass) > 0 else total, weights


def refit(
    X: RowBlocked,
    keep: Array,
    s: int,
    *,
    center: np.ndarray | None,
    weights: Array | None,
    spread: float,
    tol: float,
    seed: int,
) -> tuple[np.ndarray, Array] | None:
    """Mean and principal subspace of the rows that are kept; about ``center`` where it is given.

    None where rounding, or slow convergence, leaves the subspace short of ``tol``.
    """
    if X.is_distributed:  # rows that are dropped stay where they are, and weigh nothing
        chosen, mass = X, X.row_vector(keep if weights is None else keep * weights)
    else:
        chosen = Selected(X, keep)
        mass = None if weights is None else X.asarray(weights[keep])
    if center is None:
        view = centered(chosen, mass)
        center = to_numpy(view.center)[:, 0].astype(float)  # type: ignore[attr-defined]
    else:
        view = recentred(chosen, center, spread)
    if mass is not None:
        view = Weighted(view, namespace(mass).sqrt(mass))
    tol = max(tol, ROUNDING * float(np.finfo("float32" if "32" in str(X.dtype) else "float64").eps))
    with phase("refit"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        axes = principal_axes(view, s, tol=tol, seed=seed)
    return (center, axes.V) if axes.residual <= 1.01 * tol or stopped() else None


def mean_loss(
    sample: Matrix, loss: Loss, start: Start, center: np.ndarray, W: np.ndarray, normalize: bool
) -> float:
    """The loss of the sample's rows at another centre and subspace, on average."""
    residuals = relative_residuals(sample, center, W, start.center, normalize)
    typical = 1.0 if normalize else typical_size(sample.row_norms())
    return average_loss(loss, residuals, None, typical, None)


def average_loss(
    loss: Loss,
    residuals: np.ndarray,
    scales: np.ndarray | None,
    typical: float,
    mass: np.ndarray | None,
) -> float:
    """``sum_i m_i rho(a_i r_i) / sum_i m_i``, with an epsilon where the loss needs one."""
    residuals = residuals if scales is None else residuals * scales
    epsilon = 1e-3 * typical if loss.singular else 0.0
    values = loss.psi((residuals**2 + epsilon**2) / loss.c**2)
    return float(np.average(values, weights=mass))


def ensure_room(solver: Any, X: Operator) -> None:
    """Refuse a Gram matrix of IRLS that memory has no room for before a start is looked for."""
    n = X.shape[1] if X.is_distributed else min(X.shape)
    if solver == "irls" or isinstance(solver, IRLS):
        what = f"a Gram matrix of {n:,} x {n:,} and its eigenvectors"
        ensure(16 * n * n, what, "take another solver, such as 'anderson'", X.like)


def robust_solver(solver: Any, s: int, d: int) -> tuple[Any, bool]:
    """The solver of that name, and whether it runs on the dual."""
    if not isinstance(solver, str):
        return as_solver(solver), False
    if solver == "dual":
        return as_solver("dca"), True
    name = ("irls" if d <= 2 * s else "anderson") if solver == "auto" else solver
    return as_solver(name), False


#: Starts disagree where their nearest halves share less than this of the rows.
DISAGREE = 0.6


def warn_of_doubt(model: Any, nearness: float) -> None:
    """Say where the fit may not be of the data: most rows flagged, or starts that disagree."""
    share = float(host_sample(model.outliers_).mean())
    if share > 0.5 and model.contamination == "auto":
        warnings.warn(
            f"{share:.0%} of the rows are flagged: more than half, so that what is called an "
            "outlier here may be the data; look at the outlier map, or try another n_components",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    if model.agreement_ < DISAGREE and nearness > 0.9:
        warnings.warn(
            "two starts found subspaces that fit about equally well, each another half of the rows "
            f"({model.agreement_:.0%} in common); try another n_components, or compare the fits of "
            "init='stahel_donoho' and init='spherical'",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
