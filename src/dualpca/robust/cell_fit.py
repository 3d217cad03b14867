"""Fits of rows with holes and wrong cells: starts on a sample, scales, all rows, and their distances."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from ..linalg import Array, to_numpy
from ..linear.missing import Completed, Completion, observed_cells
from ..losses import Tanh
from ..operators import Matrix, Operator, as_operator
from ..preprocessing.columns import medians
from ..progress import phase
from .cells import CELL, CellModel, chance_turn, converge, judged_rows
from .choice import freedom
from .distances import (
    RowDistances,
    robust_components,
    rounding,
    row_distances,
)
from .fit import RobustFit, RobustOptions, fit_robust, row_weights
from .sample import Sample, chosen_rows, number_of_components
from .scale import chi2_quantile, location_scale, typical_size
from .scatter import mahalanobis, robust_scatter
from .starts import Start, best_start

#: Columns predict each other from this correlation on (DDC: Rousseeuw and Van den Bossche 2018), where
#: there are at most PAIRED of them.
CORRELATED, PAIRED = 0.5, 2000

#: Scales are estimated anew in so many rounds at most, of STEPS steps each, while their squares fall by
#: more than SETTLED. Starts are compared where steps move axes by COARSE; the best one goes on.
ROUNDS, SETTLED, STEPS, COARSE = 6, 0.02, 30, 0.01

#: Residuals have at least this share of the scale of their column: those of a constant one are rounding.
FLOOR = 1e-6

#: Rows within this quantile of chi-squared of the scores keep their mass; others lose it as 1/distance^2.
LEVERAGE = 0.99

#: Steps of all rows after those of a sample stop at a move of tol, or of tol times this times the angle
#: by which axes are off by chance: at a fifth of that angle with the default tol.
CHANCE = 200.0

#: Rows with holes are completed and fitted in at most so many turns, while axes turn by more than SAME.
TURNS, SAME = 10, 1e-3


def column_scales(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return location and scale of each column of R, NaN where cells are missing.

    That of ROBPCA, which a fifth of wrong cells does not make larger, as it does MADs and M-scales: the
    cells between 2 and 5 scales from the others would keep their weight.
    """
    Z = np.ascontiguousarray(R.T)
    holes = np.isnan(Z)
    if holes.any():  # cells that are there stand for those that are not, in turn
        order = np.argsort(holes, axis=1, kind="stable")
        there = np.maximum((~holes).sum(axis=1, keepdims=True), 1)
        Z = np.take_along_axis(Z, order, axis=1)
        Z = np.take_along_axis(Z, np.arange(Z.shape[1])[None, :] % there, axis=1)
        Z[np.isnan(Z)] = 0.0
    location, scale = location_scale(Z, Z.shape[1] // 2 + 1)
    # More than half of the column may be equal.
    tiny = ~(scale > 1e-6 * np.ptp(Z, axis=1))
    if tiny.any():
        few = medians(R[:, tiny], float(np.finfo(float).eps))[1]
        scale[tiny] = np.where(scale[tiny] > 1e-6 * few, scale[tiny], few)
    return location, scale


def predicted(Z: np.ndarray, wrapped: np.ndarray) -> np.ndarray:
    """Return standardised cells; where correlated columns contradict them, what these predict (DDC)."""
    inside = np.abs(Z) <= chi2_quantile(CELL, 1) ** 0.5
    known = np.where(inside, Z, 0.0)
    norms = np.sqrt((wrapped**2).sum(axis=0))
    C = wrapped.T @ wrapped / np.maximum(np.outer(norms, norms), 1e-300)
    np.fill_diagonal(C, 0.0)
    C[np.abs(C) < CORRELATED] = 0.0
    weight = inside.astype(float) @ np.abs(C)
    guess = known @ (C * np.abs(C)) / np.maximum(weight, 1e-300)
    usable = inside & (weight > 0)
    slope = np.where(usable, known * guess, 0).sum(axis=0)
    slope /= np.maximum(np.where(usable, guess**2, 0).sum(axis=0), 1e-300)
    guess *= slope
    rest = np.maximum(column_scales(Z - guess)[1], FLOOR)
    off = ~(np.abs(Z - guess) <= chi2_quantile(CELL, 1) ** 0.5 * rest)
    return np.where(off, guess, Z)


def scatter(model: CellModel, X: Matrix, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return location and covariance of the scores of good rows."""
    R, there = observed_cells(X.data, model.center)
    v = model.squares(there * (R - B @ model.V.T))
    weights = model.row_weights(*model.losses(v, there))
    return robust_scatter(B[weights >= min(0.3, float(np.median(weights)))], None, False)


def masses(B: np.ndarray, location: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the mass a_i of each row: less where its scores are far out, whatever its residuals."""
    distance2 = mahalanobis(B, location, covariance) ** 2
    return np.minimum(1.0, chi2_quantile(LEVERAGE, B.shape[1]) / np.maximum(distance2, 1e-300))


def there_each(X: np.ndarray) -> float:
    """Return how many cells of a row are there, on average."""
    return float((~np.isnan(X)).sum() / len(X))


def fit_sample(X: Matrix, model: CellModel, tol: float) -> tuple[CellModel, np.ndarray, float]:
    """Fit rows in memory, scales anew in each round; return model, scores, sum of squared scales."""
    B = model.scores_of(X.data).astype(float)
    least, floor = np.inf, FLOOR * model.scales
    # Residuals of fitted rows and columns are smaller than noise.
    (n, _), s = X.shape, B.shape[1]
    rows, columns = max(1 - s / there_each(X.data), 0.1), max(1 - (s + 1) / n, 0.1)
    larger = (rows * columns) ** -0.5
    for turn in range(ROUNDS + 1):
        residuals = X.data - model.center - B @ model.V.T
        scales = np.maximum(larger * column_scales(residuals)[1], floor)
        size = float((scales**2).sum())
        if turn == ROUNDS or not size < (1 - SETTLED) * least:
            break
        least, model = size, replace(model, scales=scales)
        model, _, _ = converge(X, model, B, masses(B, *scatter(model, X, B)), tol, STEPS)
    return model, B, size


def tables(S: np.ndarray, location: np.ndarray, scale: np.ndarray) -> Iterator[np.ndarray]:
    """Yield a sample without holes about its location: predicted, wrapped, and with medians alone."""
    Z = (S - location) / scale
    filled = np.nan_to_num(Z, nan=0.0)
    wrapped = filled * Tanh().slope(filled * filled)  # Raymaekers and Rousseeuw (2021)
    if Z.shape[1] <= PAIRED:
        yield predicted(Z, wrapped) * scale
    yield wrapped * scale
    yield filled * scale


def fit_cells(
    X: Operator, options: RobustOptions, rng: np.random.Generator, weights: Array | None
) -> tuple[RobustFit, CellModel]:
    """Fit cells and rows: on a sample from several starts, then on all rows that are on this machine."""
    with phase("start"):
        S = to_numpy(X.take(chosen_rows(X, weights, rng))).astype(float)
        sample = Matrix(S[~np.isnan(S).all(axis=1)])
        model, B, start = best_on_sample(sample, options, rng)
    parts, whole, unit = scatter(model, sample, B), X, 1.0
    if X.is_distributed:  # scores of all rows would have to travel in each step
        whole = sample
    elif len(B) < X.shape[0]:
        s = B.shape[1]
        B = np.asarray(X.map_rows(lambda rows, block: model.scores_of(block), s))
        if len(S) < X.shape[0]:
            unit = max(1.0, CHANCE * chance_turn(model, B))
    mass = masses(B, *parts)
    if weights is not None and whole is X:
        mass = mass * to_numpy(weights)
    model, move, steps = converge(whole, model, B, mass, options.tol, options.max_iter, unit)
    # Scores of rows are sought from the centre on: it has to be the one that new rows will have.
    counts = None if weights is None or whole is not X else to_numpy(weights)
    middle = robust_scatter(B, counts, False)[0]
    model = replace(model, center=model.center + model.V @ middle)
    spread, df = typical_size(np.sqrt((B * B).sum(axis=1))), freedom(sample, B.shape[1])
    # Rows of the fit are completed as new ones are, so that both are flagged alike.
    if X.is_distributed:
        rows = row_distances(Completed(X, model), model.center, model.V, weights, spread, df)
        cells = None
    else:
        scores, orthogonal, cells = judged_rows(X, model)
        floor = rounding(X, model.center, spread)
        rows = RowDistances(
            model.center, model.V, scores, orthogonal, weights, floor, directions=df
        )
    loss = Tanh(Tanh.tuning * max(rows.cutoff(LEVERAGE), 1e-300))
    by_row = row_weights(loss, rows, None, 0.0)
    by_row = by_row if X.is_distributed else to_numpy(by_row).astype(float)
    components = robust_components(rows, options.quantile, True)
    way = start, move, steps, False, max(X.shape[1] - B.shape[1], 0)
    return RobustFit(components, rows, by_row, loss, *way, cells=cells), model


def best_on_sample(
    sample: Matrix, options: RobustOptions, rng: np.random.Generator
) -> tuple[CellModel, np.ndarray, Start]:
    """Return the fit from the table whose start leaves the smallest scales of residuals."""
    location, scale = column_scales(sample.data)
    s, d = 0, sample.shape[1]
    fits = []
    for table in tables(sample.data, location, scale):
        rows = Matrix(table)
        if not s:
            flat = Sample(rows, np.zeros(d), None, None, np.arange(len(table)))
            s = number_of_components(options.n_components, flat)
            if not isinstance(options.n_components, Integral):
                # Cells are judged by others of their row: there have to be enough.
                s = min(s, max(1, d // 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            generator = np.random.default_rng(int(rng.integers(2**31)))
            start = best_start(rows, "auto", s, None, generator)
        model = CellModel(location + start.center, start.W, scale)
        fits.append((*fit_sample(sample, model, max(options.tol, COARSE)), start))
    model, B, _, start = min(fits, key=lambda fit: fit[2])
    return model, B, replace(start, name="cells")


def fit_holes(
    X: Operator, options: Any, seed: int, weights: Array | None, *, shrink: bool
) -> RobustFit:
    """Complete the rows by the robust fit, and fit the completed rows, in turns until the axes stay.

    Holes are medians of their columns at first.
    """
    sample = X.take(chosen_rows(X, None, np.random.default_rng(seed)))
    middle = medians(to_numpy(sample), float(np.finfo(float).eps))[0]
    complete, before = Completion.constant(np.nan_to_num(middle)), np.zeros((X.shape[1], 0))
    for _ in range(TURNS):
        rows: Any = Completed(X, complete)
        if isinstance(X, Matrix):
            rows = as_operator(rows.todense())
        fit = fit_robust(rows, options, np.random.default_rng(seed), weights)
        parts, (d, s) = fit.components, fit.components.V.shape
        noise = fit.noise / (d - s) if d > s else 0.0
        complete = Completion.of(parts.center, parts.V, parts.variances, noise, shrink=shrink)
        turned = parts.V - before @ (before.T @ parts.V)
        if np.linalg.norm(turned, 2) <= max(options.tol, SAME):
            break
        before = parts.V
    return fit
