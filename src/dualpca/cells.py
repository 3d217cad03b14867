"""Single cells of a table as a model with ``cells=True`` sees them: the wrong ones, and a map of all."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._rows import dense_cells, take_rows
from .inspect import CellFit, FittedModel
from .linalg import to_numpy
from .operators import as_operator, is_streamed

__all__ = ["CellMap", "Cells", "cell_map", "flagged_cells"]

#: The most numbers of a block of rows.
BLOCK = 2**21


class Cells(NamedTuple):
    """Cells: rows, variables, values and expected values in units of the data, residuals in scales."""

    row: np.ndarray
    variable: np.ndarray
    value: np.ndarray
    expected: np.ndarray
    residual: np.ndarray


class CellMap(NamedTuple):
    """Lines of rows, the worst first, by groups of variables.

    The cell of a line and group is the one among their cells that is farthest off; its residual is NaN if
    all are missing. Line i holds the rows ``order[edges[i]:edges[i + 1]]``, group j the variables from
    ``groups[j]`` to ``groups[j + 1]``.
    """

    cells: Cells
    order: np.ndarray
    edges: np.ndarray
    groups: np.ndarray


def _blocks(X: Any) -> Iterator[tuple[slice, Any]]:
    """Yield rows of any kind in blocks; those of a data frame as data frames."""
    if not hasattr(X, "columns") or is_streamed(X):
        yield from as_operator(X).read_blocks()  # type: ignore[attr-defined]
        return
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        yield rows, take_rows(X, np.arange(rows.start, rows.stop))


def _fits(fitted: FittedModel, X: Any) -> Iterator[tuple[slice, Any, CellFit]]:
    for rows, block in _blocks(X):
        with warnings.catch_warnings():
            # Rows of a file have lost the names of its columns.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            yield rows, block, fitted.cells(block)


def _opened(model: Any) -> FittedModel:
    fitted = model if isinstance(model, FittedModel) else FittedModel(model)
    if not fitted.has_cells:
        raise ValueError(
            f"model is a {fitted.name} that judges rows alone; give a fitted RobustPCA(cells=True)"
        )
    return fitted


def flagged_cells(model: Any, X: Any) -> Cells:
    """Return the flagged cells of rows, the farthest off first.

    Those of a row that is flagged because it is bad as a whole are left out: all of it is wrong.

    Parameters
    ----------
    model : fitted RobustPCA with ``cells=True``, or Pipeline that ends in one
    X : array, data frame, file or dask array of shape (n_samples, n_features)

    Returns
    -------
    cells : Cells

    Examples
    --------
    >>> import numpy as np
    >>> from dualpca import RobustPCA
    >>> from dualpca.cells import flagged_cells
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 10))
    >>> X += 0.1 * rng.standard_normal(X.shape)
    >>> X[7, 3] = 20
    >>> cells = flagged_cells(RobustPCA(2, cells=True, random_state=0).fit(X), X)
    >>> int(cells.row[0]), int(cells.variable[0]), float(cells.value[0])
    (7, 3, 20.0)
    """
    fitted = _opened(model)
    parts = [Cells(*(np.zeros(0, dtype=kind) for kind in (int, int, float, float, float)))]
    for rows, block, fit in _fits(fitted, X):
        wrong = np.abs(fit.residuals) > fitted.estimator.cell_cutoff_  # a hole, NaN, is not
        bad = np.flatnonzero(fit.bad & wrong.any(axis=1))
        if len(bad):
            wrong[bad[fitted.distances(take_rows(block, bad)).flagged]] = False
        i, j = np.nonzero(wrong)
        values = dense_cells(block)
        parts.append(
            Cells(rows.start + i, j, values[i, j], fit.expected[i, j], fit.residuals[i, j])
        )
    found = Cells(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    order = np.argsort(-np.abs(found.residual), kind="stable")
    return Cells(*(column[order] for column in found))


def cell_map(model: Any, X: Any = None, lines: int = 60, columns: int = 60) -> CellMap:
    """Return a map of at most so many lines and columns, of rows X or of the training rows.

    Rows are in the order of the root mean square of their residuals; X is read twice, for this order and
    for the cells. Where there are more rows than lines, the worst have lines of their own, half of them,
    and the others share the rest. The values of training rows are not known, NaN, and where residuals are
    kept of flagged cells alone the others are 0.
    """
    fitted = _opened(model)
    sizes = np.concatenate([_sizes(fit.residuals) for _, _, fit in _source(fitted, X)])
    n, d = len(sizes), fitted.n_features
    order, alone = np.argsort(-sizes, kind="stable"), min(n, lines // 2)
    edges = np.arange(n + 1)
    if n > lines:
        edges = np.concatenate(
            [edges[:alone], np.linspace(alone, n, lines - alone + 1).astype(int)]
        )
    groups = np.linspace(0, d, min(d, columns) + 1).astype(int)
    line = np.empty(n, dtype=int)
    line[order] = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    shape = len(edges) - 1, len(groups) - 1
    found, farthest = [np.zeros(shape) for _ in Cells._fields], np.full(shape, -np.inf)
    for rows, values, fit in _source(fitted, X):
        size = np.where(np.isnan(fit.residuals), -1.0, np.abs(fit.residuals))
        parts = [low + size[:, low:high].argmax(axis=1) for low, high in pairwise(groups)]
        variable = np.stack(parts, axis=1)  # the one that is farthest off, of each row and group
        for at in np.unique(line[rows]):
            members = np.flatnonzero(line[rows] == at)
            i = members[np.take_along_axis(size[members], variable[members], axis=1).argmax(axis=0)]
            j = variable[i, np.arange(shape[1])]
            better = size[i, j] > farthest[at]
            new = (rows.start + i, j, values[i, j], fit.expected[i, j], fit.residuals[i, j])
            for column, numbers in zip((farthest, *found), (size[i, j], *new), strict=True):
                column[at] = np.where(better, numbers, column[at])
    whole = (column.astype(int) for column in found[:2])
    return CellMap(Cells(*whole, *found[2:]), order, edges, groups)


def _source(fitted: FittedModel, X: Any) -> Iterator[tuple[slice, np.ndarray, CellFit]]:
    """Yield blocks of rows, their values, and what the model makes of them."""
    if X is not None:
        for rows, block, fit in _fits(fitted, X):
            yield rows, dense_cells(block), fit
        return
    kept = fitted.estimator.cell_residuals_
    step = max(1, BLOCK // kept.shape[1])
    for start in range(0, kept.shape[0], step):
        rows = slice(start, min(start + step, kept.shape[0]))
        part = kept[rows, :].toarray() if sp.issparse(kept) else to_numpy(kept[rows, :])
        unknown = np.full(part.shape, np.nan)
        yield rows, unknown, CellFit(part, unknown, np.zeros(len(part), dtype=bool))


def _sizes(residuals: np.ndarray) -> np.ndarray:
    """Return the root mean squares of rows, 0 for a row without cells."""
    squares = np.minimum(np.abs(np.nan_to_num(residuals.astype(float))), 1e150) ** 2
    return np.sqrt(squares.sum(axis=1) / np.maximum((~np.isnan(residuals)).sum(axis=1), 1))
