"""Rows with holes: what estimators do with cells that are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..linalg import asarray_like, namespace, to_numpy
from ..linear.missing import Completed, Completion
from ..operators import Operator, as_operator
from ..operators.block_ops import GRAM_FACTOR, block_rows, dense
from ..preprocessing import columns
from ..robust.cells import CELL, CellModel
from ..robust.scale import chi2_quantile
from ._base import validated

#: What cells that are NaN may become.
MISSING = {"error", "em", "shrink"}


def summary_of(X: Any, names: Any) -> columns.ColumnSummary:
    """Count the holes of X; refuse infinite cells, sparse rows, and columns and tables without cells."""
    operator = as_operator(X)
    if operator.sparse:
        raise ValueError(
            "X is sparse and has missing cells (NaN); its zeros are cells too, so that completing it "
            "would fill it: give a dense array, or replace NaN by zeros"
        )
    summary = columns.summarize(operator)
    columns.check_cells(summary, names, "impute")
    empty = np.flatnonzero(summary.counted == 0)
    if len(empty):
        listed = ", ".join(columns.column_name(j, names) for j in empty[:5])
        raise ValueError(
            f"{len(empty)} columns of X have no value but NaN: {listed}; drop them before fitting"
        )
    return summary


class HolesMixin:
    """Estimators with ``missing=``: rows are completed before anything else is asked of them."""

    missing: str
    noise_variance_: float

    @property
    def _takes_holes(self) -> bool:
        return self.missing != "error"

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
        if sp.issparse(X) or columns.is_finite(X):
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
        Gaussian model of the components and the noise around them.

        Parameters
        ----------
        X : array, data frame, file or dask array of shape (n_samples, n_features)

        Returns
        -------
        X : array of the same shape, a data frame for a data frame
            Rows that are complete stay as they are.
        """
        model: Any = self
        if not self._takes_holes:
            raise ValueError(
                "impute fills missing cells, which missing='error' refuses; fit with missing='shrink'"
            )
        rows = model._checked(X, "impute")
        rows = rows.map_rows(_itself, rows.shape[1]) if isinstance(rows, Operator) else rows
        return type(X)(to_numpy(rows), index=X.index, columns=X.columns) if _is_frame(X) else rows


#: Up to so many cells their residuals are kept, beyond it those of flagged cells alone.
KEPT_CELLS = 10**7


class CellsMixin(HolesMixin):
    """``RobustPCA(cells=True)``: residuals and flags of single cells."""

    cells: bool
    cell_scales_: np.ndarray

    @property
    def _takes_holes(self) -> bool:
        return self.cells or super()._takes_holes

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
        residuals = rows.map_rows(_residuals_by(self._completion()), rows.shape[1])
        if not _is_frame(X):
            return residuals
        return type(X)(to_numpy(residuals), index=X.index, columns=X.columns)

    def _set_cells(self, X: Operator) -> None:
        """Set the residuals and flags of the cells of the training rows."""
        f, cutoff = _residuals_by(self._completion()), self.cell_cutoff_
        if X.shape[0] * X.shape[1] <= KEPT_CELLS:
            self.cell_residuals_ = X.map_rows(f, X.shape[1])
            self.cell_outliers_ = abs(self.cell_residuals_) > cutoff
            return

        def flagged(rows: slice, block: Any) -> tuple[list[Any]]:
            z = np.nan_to_num(to_numpy(f(rows, block)))
            return ([sp.csr_array(np.where(np.abs(z) > cutoff, z, 0.0).astype(np.float32))],)

        self.cell_residuals_ = sp.vstack(X.sum_blocks(flagged)[0], format="csr")
        self.cell_outliers_ = self.cell_residuals_.astype(bool)


def _residuals_by(model: CellModel) -> Any:
    def part(rows: slice, block: Any) -> Any:
        block = dense(block)
        return asarray_like(model.residuals(block)[1] / model.scales, block)

    return part


def _itself(rows: slice, block: Any) -> Any:
    return block


def _is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") and not hasattr(X, "__dask_graph__")
