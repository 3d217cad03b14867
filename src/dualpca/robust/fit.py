"""Robust PCA of rows or of a kernel: start, scale, DCA, distances, and a guarded refit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._memory import ensure
from ..linalg import Array, at_least, largest, to_numpy
from ..linalg import eps as machine_eps
from ..linear.selection import Selection
from ..losses import Loss, as_loss
from ..operators import Matrix, Operator, centered
from ..operators.centering import by_weights
from ..progress import phase, stopped
from ..solvers import IRLS
from ..solvers.solve import as_solver
from ..solvers.subspace import principal_axes
from .choice import clearly_better, freedom, start_stands
from .distances import (
    RobustComponents,
    RowDistances,
    leading_components,
    measured_beside,
    robust_components,
    row_distances,
)
from .joint import fit_rows, row_scales
from .sample import KEPT, number_of_components, selected, take_kernel_sample, take_sample
from .scale import bulk, centered_at, coordinates, thin_factor, typical_size
from .starts import DISAGREE, Start, fitted_start

#: The loss is scaled to this many scales above the location of the good rows' residuals.
ABOVE = 2.0

#: A refit is asked for a residual of at least this many eps.
ROUNDING = 100


@dataclass(eq=False, repr=False)
class RobustOptions:
    """The parameters of robust estimators; :class:`dualpca.RobustPCA` describes them."""

    n_components: int | float | str | None = "auto"
    _: KW_ONLY
    loss: Any = "geman_mcclure"
    normalize: bool = True
    center: Any = "joint"
    init: Any = "auto"
    refit: bool = True
    solver: Any = "auto"
    quantile: float = 0.999
    flag: str = "density"
    contamination: Any = "auto"
    tol: float = 1e-3
    max_iter: int = 300


@dataclass(frozen=True)
class RobustFit:
    """Components, distances of the rows, their weights in the loss (at most 1), and the way there.

    ``directions`` is the number of those that the sample of rows spans beside the components; ``cells``
    are standardised residuals of cells, where the fit is one of cells.
    """

    components: RobustComponents
    rows: RowDistances
    weights: Array
    loss: Loss
    start: Start
    residual: float
    iterations: int
    refitted: bool
    directions: int
    selection: Selection | None = None
    cells: Any = None

    @property
    def noise(self) -> float:
        """The mean squared orthogonal distance of good rows.

        It is no less than rounding makes, and than what counts as no variance beside the largest one:
        where good rows have no noise, rows off the subspace are the least likely, then those far out.
        """
        largest_one = float(self.components.variances[0])
        return max(self.components.residual_variance, self.rows.floor**2, 1e-12 * largest_one)


def fit_robust(
    X: Operator,
    options: RobustOptions,
    rng: np.random.Generator,
    weights: Array | None = None,
    between: Callable[[np.ndarray], np.ndarray] | None = None,
    check_spectrum: Callable[[np.ndarray, int], None] | None = None,
    least: int = 1,
) -> RobustFit:
    """Minimise ``sum_i m_i rho(||(I - W W^T)(x_i - c)||)`` over W and c, then refit the good rows.

    The rows of X are explicit, or in feature space, where c and W are ``Gamma^T a`` and ``Gamma^T A``,
    the functions of :func:`take_kernel_sample` are needed, and weights may be 0. Where the components
    hold less of the variance than ``n_components`` asks for, the fit is repeated with more, ``least``.
    """
    state = rng.bit_generator.state
    with phase("start"):
        # A generator of its own: starts do not depend on how the sample was drawn.
        start_rng = np.random.default_rng(int(rng.integers(2**31)))
        data = X, options.center, weights, rng
        if between is None:
            sample = take_sample(*data)
        else:
            sample = take_kernel_sample(*data, between, check_spectrum)
        selection = selected(options.n_components, sample)
        s = max(number_of_components(selection or options.n_components, sample), least)
        if check_spectrum is not None and sample.spectrum is not None:
            check_spectrum(sample.spectrum, s)
        solver = _solver(options.solver, s, X)
        start = fitted_start(sample.rows, options.init, s, sample.relative_center, start_rng)
    spread = typical_size(start.beside(sample.rows).sizes)
    loss = scaled_loss(as_loss(options.loss), sample.rows, start, options.normalize)
    center = sample.origin + sample.vectors(start.center[:, None])[:, 0]
    V, joint = sample.vectors(start.W), sample.fixed is None
    view, W = centered_at(X, center, spread), thin_factor(X, V)
    mass = None if weights is None else X.row_vector(weights)
    fitted = fit_rows(view, W, loss, options, solver, mass, joint, spread)
    shift, W, scales, epsilon, residual, iterations = fitted
    moved = center if shift is None else center + coordinates(shift)[:, 0]
    # Where all rows that count are the centre, any V fits them, and an implicit W has no columns.
    df = freedom(sample.rows, s)
    given = weights, spread, df
    rows = row_distances(X, moved, coordinates(W) if W.shape[1] else V, *given)
    if start.compared and options.refit and W.shape[1]:
        in_memory = not (X.implicit or X.is_distributed)
        whole = weights is None and in_memory and len(sample.chosen) == X.shape[0]
        before = start.beside(sample.rows) if whole else measured_beside(X, center, V, *given)
        if start_stands(before, rows.measured, start.agreement < DISAGREE, df):
            rows = row_distances(X, center, V, *given)
    by_row, refitted = row_weights(loss, rows, scales, epsilon), False
    if options.refit and not rows.flat:
        seed = int(rng.integers(2**31))
        candidate = refit(X, rows, s, options, sample.fixed, spread, seed)
        refitted = candidate is not None and not clearly_better(
            rows.measured, candidate.measured, df
        )
        rows = candidate if candidate is not None and refitted else rows
    components = robust_components(rows, options.quantile, not joint)
    if options.n_components == "outliers":
        found = rows, components, KEPT, options.quantile, spread
        rows, components = leading_components(X, *found)
    more = components.too_few(options.n_components, *sample.rows.shape)
    if more:
        rng.bit_generator.state = state
        return fit_robust(X, options, rng, weights, between, check_spectrum, s + more)
    by_row = by_row if X.is_distributed else to_numpy(by_row).astype(float)
    by_row = by_row if weights is None else by_row * (weights > 0)
    by_row = by_row / max(largest(by_row), 1e-300)
    beside = max(sample.rows.shape[1] - components.V.shape[1], 0)
    way = start, residual, iterations, refitted, beside, selection
    return RobustFit(components, rows, by_row, loss, *way)


def _solver(solver: Any, s: int, X: Operator) -> Any:
    """Return the solver of that name; "dual" stays. Refuse IRLS where memory has no room for it."""
    if solver == "auto":
        solver = "irls" if X.shape[1] <= 2 * s and not X.implicit else "anderson"
    solver = solver if solver == "dual" else as_solver(solver)
    if isinstance(solver, IRLS):
        n = X.shape[1] if X.is_distributed else min(X.shape)
        what = f"a Gram matrix of {n:,} x {n:,} and its eigenvectors"
        ensure(16 * n * n, what, "take another solver, such as 'anderson'", X.like)
    return solver


def scaled_loss(loss: Loss, sample: Matrix, start: Start, normalize: bool) -> Loss:
    """Return the loss with a scale from the residuals of the sample's good rows at the start."""
    if loss.homogeneous or loss.scale is not None:
        return loss
    rows = start.beside(sample)
    residuals = rows.residuals
    if normalize:
        residuals = residuals * row_scales(rows.sizes, typical_size(rows.sizes))
    location, scale = bulk(residuals, rows.scores, freedom(sample, rows.scores.shape[1]))
    c = loss.tuning * max(location + ABOVE * scale, 0.0) ** 1.5
    typical = 1.0 if normalize else typical_size(sample.row_norms())
    # Squared residuals are differences of squares, exact to eps of those.
    return loss.at(max(c, 1e-6 * typical, np.finfo(float).tiny))


def refit(
    X: Any,
    rows: RowDistances,
    s: int,
    options: RobustOptions,
    center: Any,
    spread: float,
    seed: int,
) -> RowDistances | None:
    """Return the distances from mean and s principal axes of the good rows.

    The mean is ``center`` where that is given. None where too few rows are good or they are equal in
    feature space, and where rounding or slow convergence leaves explicit axes short of ``tol``.
    """
    limit = rows.limit(options.quantile)
    good: Any = rows.good(limit)
    if not good.sum() * X.shape[0] / len(good) > 2 * s:
        return None
    if X.implicit:  # the other rows stay, and weigh nothing
        mass = good if rows.weights is None else good * rows.weights
        chosen, b = X, X.row_vector(mass)
    else:
        good = rows.orthogonal <= limit if X.is_distributed else good
        chosen, b = X.select(good, rows.weights)
    if center is None and X.implicit:
        center = mass / mass.sum()
    if center is None:
        view = centered(chosen, b)
        center = coordinates(view.center)[:, 0]  # type: ignore[attr-defined]
    else:
        view = centered_at(chosen, center, spread)
    view = view if b is None else by_weights(view, b)
    tol = max(min(options.tol, 1e-4), ROUNDING * machine_eps(X))
    if X.implicit and view.energy() <= 100 * machine_eps(X) * float(mass @ X.row_norms() ** 2):
        return None
    with phase("refit"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ritz = principal_axes(view.T if X.implicit else view, s, tol=tol, seed=seed)
    V = ritz.V
    if X.implicit:  # rows of a lower rank have fewer axes
        positive = ritz.theta > 1e-12 * ritz.theta[0]
        V = view.rmatmul(V[:, positive] / np.sqrt(ritz.theta[positive].astype(float)))
    elif not (ritz.residual <= 1.01 * tol or stopped()):
        return None  # rounding may keep a kernel from tol; the loss judges its refit
    return row_distances(X, center, coordinates(V), rows.weights, spread, rows.directions)


def row_weights(loss: Loss, rows: RowDistances, scales: Array | None, epsilon: float) -> Array:
    """Return ``psi'(((a_i r_i)^2 + epsilon^2) / c^2)``, the weight of each row in the loss."""
    residuals = rows.orthogonal if scales is None else rows.orthogonal * scales
    # Where most rows are 0, so is epsilon.
    least = float(np.finfo(np.float32).tiny)
    return loss.slope(at_least((residuals**2 + epsilon**2) / loss.c**2, least))
