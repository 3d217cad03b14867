"""Rows with holes: what estimators do with cells that are missing."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import asarray_like, namespace, to_numpy
from ..linear.decomposition import Decomposition
from ..linear.missing import Completed, Completion, fit_missing, gcv
from ..operators import Operator, as_operator
from ..operators.block_ops import GRAM_FACTOR, block_rows, dense
from ..operators.views import check_energy
from ..preprocessing import columns
from ..robust.cells import CELL, KEPT_CELLS, CellModel, judged_rows
from ..robust.scale import chi2_quantile
from ..solvers.subspace import warn_above
from ._base import as_given, checked_weights, seed, validated

#: What cells that are NaN may become.
MISSING = {"error", "em", "shrink"}


_SPARSE = (
    "X is sparse and has missing cells (NaN), and completing rows would fill them: give a dense array, "
    "or replace NaN by zeros"
)


def summary_of(X: Any, names: Any) -> columns.ColumnSummary:
    """Count the holes of X; refuse infinite cells, sparse rows, and columns and tables without cells."""
    operator = as_operator(X)
    summary = columns.summarize(operator)
    columns.check_cells(summary, names, "impute")
    if operator.sparse and summary.incomplete:
        raise ValueError(_SPARSE)
    columns.check_not_empty(summary.counted == 0, names)
    energy = float((summary.counted * summary.deviation**2).sum())
    if summary.deviation.any():
        check_energy(max(energy, 5e-324), operator)  # it may have vanished
    return summary


def decompose_incomplete(
    model: Any, X: Any, sample_weight: Any, summary: columns.ColumnSummary
) -> Decomposition:
    """Return the components of a PCA with ``missing=`` of rows with holes."""
    operator, (N, d), s = as_operator(X), X.shape, model.n_components
    weights, observed = checked_weights(sample_weight, operator), int(summary.counted.sum())
    if not (isinstance(s, Integral) or s == "gcv"):
        raise ValueError(
            f"n_components={s!r} needs a complete table; give a number, or 'gcv', with "
            f"missing={model.missing!r}"
        )
    if model.formulation is not None or model.solver not in ("auto", "gram"):
        raise ValueError(
            f"X has missing cells, and missing={model.missing!r} takes solver='gram' in turns; leave "
            f"solver={model.solver!r} and formulation={model.formulation!r} out"
        )
    given = isinstance(s, Integral)
    if given and s > min(N - 2, d - 1):
        raise ValueError(
            f"n_components={s} must be between 1 and {min(N - 2, d - 1)} for {N} rows and {d} columns "
            "with missing cells, as the noise beside the components is needed; ask for fewer"
        )
    if given and model.missing == "em" and s * (N + d - s - 1) >= observed - d:
        raise ValueError(
            f"{observed} cells of X are there, too few for n_components={s} of {N} rows and {d} columns "
            "by least squares; use missing='shrink', or fewer components"
        )
    options = {name: getattr(model, name) for name in ("center", "tol", "max_iter")}
    options |= {"weights": weights, "seed": seed(model.random_state)}
    options["shrink"] = model.missing == "shrink"
    mean, chosen = summary.mean if model.center else 0 * summary.mean, None
    if given:
        fit = fit_missing(operator, int(s), mean, **options)
    else:
        chosen, fit = gcv(operator, mean, observed, **options)
    warn_above(fit.change, model.tol, "completing X", model.max_iter)
    share = summary.missing.sum() / (N * d)
    why = f"gram: {share:.1%} of the cells are missing, {fit.iterations} turns of completing them"
    return fit.decomposition(operator, observed, why, chosen)


class HolesMixin:
    """Estimators with ``missing=``: rows are completed before anything else is asked of them."""

    missing: str
    noise_variance_: float

    @property
    def _completes(self) -> str:
        """What is replaced in rows: "holes", "cells" (holes and wrong cells), or nothing, ""."""
        return "" if self.missing == "error" else "holes"

    def _completion(self) -> Any:
        """Return the function of a block of rows that fills its holes."""
        model: Any = self
        axes, variances = model._principal
        return Completion.of(model._origin, axes.T, variances, self.noise_variance_, shrink=True)

    def _completed(self, X: Any) -> Any:
        """Return validated rows without holes: an operator that fills them as it is read, or X."""
        complete = self._completion()
        if isinstance(X, Operator):
            return Completed(X, complete)
        if sp.issparse(X) and not columns.is_finite(X):
            raise ValueError(_SPARSE)
        if self._completes == "holes" and columns.is_finite(X):
            return X
        xp = namespace(X)
        if bool(xp.any(xp.isinf(X))):
            raise ValueError(
                "Input X contains infinity; correct such values, or mark them as missing with NaN"
            )
        step = block_rows(X.shape[1], 8, GRAM_FACTOR)
        parts = [complete(X[i : i + step, :]) for i in range(0, X.shape[0], step)]
        return xp.concat(parts, axis=0)

    def impute(self, X: Any) -> Any:
        """Return the rows with their holes filled.

        A missing cell becomes its conditional mean, given the cells of the row that are there, in the
        Gaussian model of the components and the noise around them. With ``cells=True`` it becomes the
        robust fit of its row, and so do flagged cells of rows that are not bad as a whole.

        Parameters
        ----------
        X : array, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        X : array of the same shape, a data frame for a data frame
            All other cells stay as they are.
        """
        model: Any = self
        if not self._completes:
            raise ValueError(
                "impute fills missing cells, which missing='error' refuses; fit with missing='shrink'"
            )
        rows = model._checked(X, "impute")
        rows = rows.map_rows(_itself, rows.shape[1]) if isinstance(rows, Operator) else rows
        return as_given(rows, X)


class CellsMixin(HolesMixin):
    """``RobustPCA(cells=True)``: residuals and flags of single cells."""

    cells: bool
    cell_scales_: np.ndarray

    @property
    def _completes(self) -> str:
        return "cells" if self.cells else super()._completes

    def _completion(self) -> Any:
        if not self.cells:
            return super()._completion()
        model: Any = self
        V = to_numpy(model._principal[0].T).astype(float)
        return CellModel(to_numpy(model._origin).astype(float), V, self.cell_scales_)

    @property
    def cell_cutoff_(self) -> float:
        """A cell is flagged where its residual is larger, either way: 2.58, for 1 % of good cells."""
        return chi2_quantile(CELL, 1) ** 0.5

    def cell_residuals(self, X: Any) -> Any:
        """Return how far each cell is from what the other cells of its row make of it.

        Parameters
        ----------
        X : array, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        residuals : array of shape (n_samples, n_features), a data frame for a data frame
            ``(x - expected) / cell_scales_``, NaN where a cell is missing. Cells beyond
            ``cell_cutoff_`` are flagged.
        """
        model: Any = self
        if not self.cells:
            raise ValueError(
                "cell_residuals needs a fit with cells=True; this model judges rows alone"
            )
        model._check_kind(X, "cell_residuals")
        rows = as_operator(validated(self, X, reset=False, sparse=False, finite=False))
        return as_given(rows.map_rows(_residuals_by(self._completion()), rows.shape[1]), X)

    def _set_cells(self, X: Operator, known: Any) -> None:
        """Set the residuals and flags of the cells of the training rows, which the fit may know."""
        if known is None and X.is_distributed and X.shape[0] * X.shape[1] <= KEPT_CELLS:
            known = X.map_rows(_residuals_by(self._completion()), X.shape[1])
        elif known is None:
            known = judged_rows(X, self._completion())[2]
        self.cell_residuals_ = known
        self.cell_outliers_ = (
            known.astype(bool) if sp.issparse(known) else abs(known) > self.cell_cutoff_
        )


def _residuals_by(model: CellModel) -> Any:
    def part(rows: slice, block: Any) -> Any:
        block = dense(block)
        return asarray_like(model.judged(block).residuals / model.scales, block)

    return part


def _itself(rows: slice, block: Any) -> Any:
    return block
