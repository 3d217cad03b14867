"""The rows that a report draws: flagged rows and a sample of others, with what explains them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from .._arguments import group_labels
from .._rows import dense_cells, sample_rows, take_rows
from ..inspect import FittedModel
from ..io.tables.table import counted
from ..linalg import to_numpy
from ..operators import as_operator, is_streamed
from ..operators.row_blocks import RowBlocked
from ..robust.distances import KINDS
from ._html import clean, number, rounded, short
from ._pictures import row_pictures

#: The most entries of dense rows in memory at a time: of the rows drawn, and of those explained.
ENTRIES, CHUNK = 2**25, 2**21

#: The most variables that explain a row, components in menus, and pixels of all pictures of rows.
TOP, MENU, PIXELS = 8, 20, 2**18

#: What the shares of variables are of.
RESIDUAL = "The variables that add most to its squared distance from the subspace"
FLAGGING = "The variables that add most to the squared distance by which rows are flagged"

#: A variable, its value, the value that the model expects, and its share of the squared distance of the
#: row; the last two are None if unknown.
Detail = tuple[int, float, float | None, float | None]


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


@dataclass
class Rows:
    """The rows drawn: ``index`` holds their positions among the ``total``, all else is in this order.

    Unless they are ``named``, their names are "row 1", "row 2" and so on. ``farthest`` holds the
    positions among them of flagged rows, by decreasing distance. ``kind_counts`` holds the number of
    rows of each kind among the ``total``, and how many of them are flagged. ``all_names`` holds the names
    of all rows, if they were given.
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
    kinds: list[str] | None = None
    kind_counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    scores: np.ndarray | None = None
    details: list[list[Detail]] | None = None
    measure: str = RESIDUAL
    pictures: dict[int, list[str]] | None = None
    all_names: list[str] | None = None

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
        return None if self.labels is None else group_labels(np.array(self.labels, dtype=object))


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
    always, others = np.arange(0), np.arange(total)
    if fitted.is_robust:
        measured = fitted.distances(None if data is None else data.X)
        always, others = np.flatnonzero(measured.flagged), np.flatnonzero(~measured.flagged)
        if total > limit:  # at most half of the rows drawn are flagged ones
            room = limit - min(len(others), limit // 2)
            always = always[np.argsort(measured.normality[always], kind="stable")[:room]]
    index = sample_rows(always, others, max(limit - len(always), 0), rng)
    names, tags = (t if t is None else [t[i] for i in index] for t in texts.values())
    if names is None and data is not None:
        names = data.names(index)
    called = [f"row {i + 1}" for i in index] if names is None else names
    rows = Rows(total, index, called, names is not None, tags, all_names=texts["row_names"])
    if fitted.is_robust:
        order = np.argsort(measured.normality[index], kind="stable")
        rows.distances = np.column_stack(measured[:2]).astype(float)[index]
        rows.flagged, rows.n_flagged = measured.flagged[index], int(measured.flagged.sum())
        rows.farthest = order[rows.flagged[order]]
        kinds = fitted.kinds(measured)
        rows.kinds = kinds[index].tolist()
        for kind in KINDS:
            of_it = kinds == kind
            rows.kind_counts[kind] = int(of_it.sum()), int((of_it & measured.flagged).sum())
    if data is not None:
        _explain(fitted, data, rows, shape)
    return rows


def _texts(name: str, values: Any, total: int) -> list[str] | None:
    if values is None:
        return None
    texts = [] if isinstance(values, str) else [clean(value) for value in values]
    if len(texts) != total:
        raise ValueError(
            f"{name} has length {len(texts)} for {counted(total, 'row')}; give one for each row"
        )
    return texts


def _explain(fitted: FittedModel, data: Data, rows: Rows, shape: tuple[int, ...] | None) -> None:
    """Set scores, top variables and pictures of the rows drawn, computed by blocks."""
    model, drawn, n = fitted.estimator, take_rows(data.X, rows.index), len(rows.index)
    step = max(1, CHUNK // data.shape[1])
    pictured = set(rows.farthest_first[: PIXELS // data.shape[1]]) if shape else set()
    # Without directions outside the subspace, distances from it are rounding.
    full = fitted.is_linear and fitted.n_components == fitted.n_features
    measurable = not full and getattr(model, "flags_by_", "") != "score"
    blamed = fitted.is_robust and fitted.is_linear
    rows.measure = FLAGGING if blamed else RESIDUAL
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
            why = fitted.reasons(part, TOP) if blamed else []
        scores.append(dense_cells(T)[:, :MENU].astype(float))
        if fitted.is_precomputed:
            continue
        values = dense_cells(part)
        back = model.inverse_transform(T) if fitted.is_invertible else None
        fits = None if back is None else fitted.original(back)
        residuals = None
        if back is not None and measurable:
            residuals = np.nan_to_num(np.abs(dense_cells(Z) - to_numpy(back)), posinf=np.inf)
        details += why if blamed else _details(values, fits, residuals)
        for i, row in enumerate(values):
            if shape and start + i in pictured:
                fit = None if fits is None else fits[i]
                pictures[start + i] = row_pictures(row, fit, shape)
    rows.scores = np.concatenate(scores)
    if not fitted.is_precomputed:
        rows.details, rows.pictures = details, pictures


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


def row_numbers(rows: Rows, variables: list[str]) -> dict[str, Any]:
    """Return the rows drawn, as the page needs them."""
    numbers: dict[str, Any] = {"index": rows.index.tolist(), "name": rows.names}
    numbers |= {"named": rows.named, "label": rows.labels, "hover": _hover_texts(rows)}
    if rows.distances is not None and rows.flagged is not None:
        numbers |= {"distances": rounded(rows.distances.T), "flagged": rows.flagged.tolist()}
        numbers["kind"] = rows.kinds
    if rows.details is not None:
        used = sorted({detail[0] for row in rows.details for detail in row})
        place = {j: i for i, j in enumerate(used)}
        numbers["variables"] = [variables[j] for j in used]
        numbers["details"] = [
            [[place[j], *(None if v is None else rounded(v) for v in cells)] for j, *cells in row]
            for row in rows.details
        ]
        numbers["pictures"] = rows.pictures or None
        numbers["measure"] = rows.measure
    return numbers


def _hover_texts(rows: Rows) -> list[str]:
    """Return what is shown at the point of each row."""
    texts = []
    for i, name in enumerate(rows.names):
        lines = [short(name)]
        if rows.labels is not None:
            lines.append(f"label: {short(rows.labels[i])}")
        if rows.distances is not None and rows.flagged is not None:
            score, orthogonal = map(number, rows.distances[i])
            lines += [f"score distance: {score}", f"orthogonal distance: {orthogonal}"]
            kind = rows.kinds[i] if rows.kinds else ""
            lines.append(f"{kind}, {'' if rows.flagged[i] else 'not '}flagged")
        texts.append("<br>".join(lines))
    return texts
