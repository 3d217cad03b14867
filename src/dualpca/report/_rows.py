"""The rows that a report draws: flagged rows and a sample of others, with what explains them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from ..inspect import FittedModel, sample_rows, take_rows
from ..io.tables.table import counted
from ..linalg import to_numpy
from ..operators import as_operator, is_streamed
from ..operators.row_blocks import RowBlocked
from ._html import clean
from ._pictures import row_pictures

#: The most entries of dense rows in memory at a time: of the rows drawn, and of those explained.
ENTRIES, CHUNK = 2**25, 2**21

#: Fitted values below this share of their neighbours are shown as 0.
SMALL = 1e-12

#: The most variables that explain a row, components in menus, and labels with their own colour.
TOP, MENU, GROUPS = 8, 20, 10

#: Pictures of rows take at most so many pixels in all.
PIXELS = 2**18


class Data:
    """The rows X to show, of any kind that estimators take."""

    def __init__(self, X: Any) -> None:
        self.is_frame = hasattr(X, "columns") and hasattr(X, "to_numpy") and not is_streamed(X)
        self.X = X if self.is_frame or hasattr(X, "shape") or is_streamed(X) else np.asarray(X)
        if len(getattr(self.X, "shape", (0, 0))) != 2:
            raise ValueError(
                f"X has shape {tuple(self.X.shape)}; give a table of rows and variables"
            )
        operator = None if self.is_frame else as_operator(self.X)
        if operator is not None and not isinstance(operator, RowBlocked):
            raise TypeError(f"X is a {type(X).__name__}; give the rows themselves")
        self.is_sparse = operator is not None and operator.sparse
        self.shape = tuple(map(int, (self.X if operator is None else operator).shape))

    def names(self, rows: np.ndarray) -> list[str] | None:
        """Return the names of rows in a data frame; None if its index only counts them."""
        index: Any = getattr(self.X, "index", None) if self.is_frame else None
        counts = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
        return None if index is None or counts else [clean(n) for n in np.asarray(index)[rows]]


@dataclass(frozen=True)
class Rows:
    """The rows drawn: ``index`` holds their positions among the ``total``, all else is in this order.

    Unless they are ``named``, their names are "row 1", "row 2" and so on. ``farthest`` holds the
    positions among them of flagged rows, by decreasing distance. A detail is (variable, value, fitted
    value, share of the squared distance), the last two None if unknown.
    """

    total: int
    index: np.ndarray
    names: list[str]
    named: bool
    labels: list[str] | None
    distances: np.ndarray | None = None
    flagged: np.ndarray | None = None
    n_flagged: int = 0
    farthest: np.ndarray | None = None
    scores: np.ndarray | None = None
    details: list[list[tuple[int, float, float | None, float | None]]] | None = None
    pictures: dict[int, list[str]] | None = None

    def called(self, i: int) -> str:
        """Return the name of a row within a sentence."""
        name = self.names[i]
        return name if name.lower().startswith("row ") else f"row {name}"

    @property
    def farthest_first(self) -> list[int]:
        """The positions of all rows drawn, flagged ones first."""
        first = [] if self.farthest is None else self.farthest.tolist()
        return list(dict.fromkeys([*first, *range(len(self.index))]))

    @cached_property
    def groups(self) -> tuple[list[str], np.ndarray] | None:
        """The labels that have a colour, at most ten, and which of them each row has."""
        if self.labels is None:
            return None
        labels, group, count = np.unique(
            np.array(self.labels, dtype=object).astype(str),
            return_inverse=True,
            return_counts=True,
        )
        if len(labels) <= GROUPS:
            return labels.tolist(), group
        frequent = np.sort(np.argsort(-count, kind="stable")[: GROUPS - 1])
        place = np.full(len(labels), GROUPS - 1)
        place[frequent] = np.arange(GROUPS - 1)
        return [*labels[frequent].tolist(), "other labels"], place[group]


def collect(
    fitted: FittedModel,
    data: Data | None,
    row_names: Any,
    labels: Any,
    shape: tuple[int, ...] | None,
    max_points: int,
    rng: np.random.Generator,
) -> Rows | None:
    """Return the rows to draw, or None if neither the data nor the model has any."""
    given = {"row_names": row_names, "labels": labels}
    if data is None and not fitted.is_robust:
        for name, values in given.items():
            if values is not None:
                raise ValueError(f"{name} are of rows, and {fitted.name} keeps none; give X too")
        return None
    total = int(fitted.n_samples or 0) if data is None else data.shape[0]
    texts = {name: _texts(name, values, total) for name, values in given.items()}
    limit = max_points
    if data is not None and not data.is_sparse:
        limit = min(limit, max(50, ENTRIES // data.shape[1]))
    known: dict[str, Any] = {"total": total}
    always, others = np.arange(0), np.arange(total)
    if fitted.is_robust:
        measured = fitted.distances(None if data is None else data.X)
        always, others = np.flatnonzero(measured.flagged), np.flatnonzero(~measured.flagged)
        if total > limit:  # at most half of the rows drawn are flagged ones
            room = limit - min(len(others), limit // 2)
            always = always[np.argsort(measured.normality[always], kind="stable")[:room]]
    index = sample_rows(always, others, max(limit - len(always), 0), rng)
    if fitted.is_robust:
        flagged = measured.flagged[index]
        order = np.argsort(measured.normality[index], kind="stable")
        known["distances"] = np.column_stack(measured[:2]).astype(float)[index]
        known |= {"flagged": flagged, "n_flagged": int(measured.flagged.sum())}
        known["farthest"] = order[flagged[order]]
    names = None if texts["row_names"] is None else [texts["row_names"][i] for i in index]
    if names is None and data is not None:
        names = data.names(index)
    rows = Rows(
        index=index,
        names=[f"row {i + 1}" for i in index] if names is None else names,
        named=names is not None,
        labels=None if texts["labels"] is None else [texts["labels"][i] for i in index],
        **known,
    )
    return rows if data is None else Rows(**vars(rows) | _explained(fitted, data, rows, shape))


def _texts(name: str, values: Any, total: int) -> list[str] | None:
    if values is None:
        return None
    texts = [] if isinstance(values, str) else [clean(value) for value in values]
    if len(texts) != total:
        raise ValueError(
            f"{name} has length {len(texts)} for {counted(total, 'row')}; give a sequence of one for "
            "each"
        )
    return texts


def _explained(
    fitted: FittedModel, data: Data, rows: Rows, shape: tuple[int, ...] | None
) -> dict[str, Any]:
    """Return scores, top variables and pictures of the rows drawn, computed by blocks."""
    model, drawn, n = fitted.estimator, take_rows(data.X, rows.index), len(rows.index)
    step = max(1, CHUNK // data.shape[1])
    pictured = set(rows.farthest_first[: PIXELS // data.shape[1]]) if shape else set()
    # Without directions outside the subspace, distances from it are rounding.
    full = fitted.is_linear and fitted.n_components == fitted.n_features
    measurable = not full and getattr(model, "flags_by_", "") != "score"
    scores: list[np.ndarray] = []
    details: list[list[Any]] = []
    pictures: dict[int, list[str]] = {}
    for start in range(0, n, step):
        part = _safe_indexing(drawn, slice(start, min(start + step, n)))
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            # Rows of a file have lost the names of its columns.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            Z = fitted.prepared(part)
            T = model.transform(Z)
        scores.append(_host(T)[:, :MENU].astype(float))
        if fitted.is_precomputed:
            continue
        values = _host(part)
        back = model.inverse_transform(T) if fitted.is_invertible else None
        fits = None if back is None else settled(fitted.original(back), values)
        residuals = np.abs(_host(Z) - to_numpy(back)) if back is not None and measurable else None
        details += _details(values, fits, residuals)
        for i in range(len(values)):
            if shape and start + i in pictured:
                fit = None if fits is None else fits[i]
                pictures[start + i] = row_pictures(values[i], fit, shape)
    found: dict[str, Any] = {"scores": np.concatenate(scores)}
    return found if fitted.is_precomputed else {**found, "details": details, "pictures": pictures}


def _host(rows: Any) -> np.ndarray:
    """Return a few rows of any kind as a NumPy array with NaN for missing cells."""
    if sp.issparse(rows):
        return rows.toarray()
    if hasattr(rows, "iloc"):
        return rows.to_numpy(dtype=float, na_value=np.nan)
    return rows.to_numpy() if hasattr(rows, "to_numpy") else to_numpy(rows)


def settled(fits: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return fitted values, with 0 for rounding beside other values of the row and the variable."""
    sizes = np.abs(values).astype(float)
    of_row = np.fmax.reduce(np.fmax(sizes, np.abs(fits)), axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variable of zeros has no scale
        of_variable = np.nanmedian(np.where(sizes > 0, sizes, np.nan), axis=0, keepdims=True)
    share = max(SMALL, 8 * float(np.finfo(fits.dtype).eps))
    return np.where(np.abs(fits) < share * np.fmin(of_row, of_variable), fits.dtype.type(0), fits)


def _details(
    values: np.ndarray, fits: np.ndarray | None, residuals: np.ndarray | None
) -> list[list[Any]]:
    """Return the variables that add most to the squared distance of each row, or the first ones."""
    n, width = values.shape
    top = np.tile(np.arange(min(TOP, width)), (n, 1))
    shares = None
    if residuals is not None:
        largest = residuals.max(axis=1, keepdims=True)  # scaled by it, squares do not overflow
        squares = (residuals / np.where(largest > 0, largest, 1.0)) ** 2
        top = np.argsort(-squares, axis=1, kind="stable")[:, :TOP]
        shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1.0)
    known = [None if A is None else np.take_along_axis(A, top, 1) for A in (values, fits, shares)]
    columns = [np.full(top.shape, None) if A is None else A.astype(float) for A in known]
    return [
        list(zip(*(column[i].tolist() for column in (top, *columns)), strict=True))
        for i in range(n)
    ]
