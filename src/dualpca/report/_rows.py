"""The rows a report draws: a sample with every flagged row, their scores and what explains them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing

from ..linalg import to_numpy
from ..operators import as_operator, is_streamed
from ..operators.row_blocks import RowBlocked
from ._html import clean, counted
from ._model import Fitted
from ._pictures import grey, signed

#: At most so many entries of dense rows are in memory at a time: those drawn, those explained.
ENTRIES, CHUNK = 2**25, 2**21

#: Fitted values below this share of what is beside them are shown as 0.
SMALL = 1e-12

#: Each row is explained by so many variables.
TOP = 8

#: So many components are kept for the menus.
MENU = 20

#: Labels that are told apart by colour and symbol; of more, the most frequent.
GROUPS = 10

#: Pictures of rows take at most so many pixels in all.
PIXELS = 2**18


class Data:
    """X, of which some rows can be had, whatever its kind."""

    def __init__(self, X: Any, precomputed: bool) -> None:
        self.frame = hasattr(X, "columns") and hasattr(X, "to_numpy") and not is_streamed(X)
        self.X = X if self.frame or hasattr(X, "shape") or is_streamed(X) else np.asarray(X)
        if len(getattr(self.X, "shape", (0, 0))) != 2:
            raise ValueError(
                f"X has shape {tuple(self.X.shape)}; give a table of rows and variables"
            )
        rows = None if self.frame else as_operator(self.X)
        if rows is not None and not isinstance(rows, RowBlocked):
            raise TypeError(f"X is a {type(X).__name__}; give the rows themselves")
        self._rows = rows
        self.shape = tuple(map(int, (self.X if self._rows is None else self._rows).shape))
        self.sparse = self._rows is not None and self._rows.sparse
        #: whether the columns are kernels with other rows, not variables
        self.kernels = precomputed

    def take(self, rows: np.ndarray) -> Any:
        """These rows, sorted, in memory."""
        return _safe_indexing(self.X, rows) if self._rows is None else self._rows.take(rows)

    def names(self, rows: np.ndarray) -> list[str] | None:
        """What a data frame calls these rows; None where its index only counts them."""
        index: Any = getattr(self.X, "index", None) if self.frame else None
        if index is None:
            return None
        if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
            return None
        return [clean(name) for name in np.asarray(index)[rows]]


@dataclass(frozen=True)
class Rows:
    """``index`` tells which of the ``total`` rows are drawn; the rest is of these, in this order.

    Where they are not ``named``, their names are "row 1", "row 2" and so on. ``farthest`` holds the
    positions among them of flagged rows, by decreasing distance. A detail is (variable, value, fitted
    value, share of the squared distance), the last two None where unknown.
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
        """The name of a row within a sentence."""
        name = self.names[i]
        return name if name.lower().startswith("row ") else f"row {name}"

    @cached_property
    def groups(self) -> tuple[list[str], list[int]] | None:
        """The labels to colour by, at most ten, and which of them each row has."""
        if self.labels is None:
            return None
        found, count = np.unique(
            np.array(self.labels, dtype=object).astype(str), return_counts=True
        )
        kept = found if len(found) <= GROUPS else _frequent(found, count)
        place = {label: i for i, label in enumerate(kept.tolist())}
        names = kept.tolist() + (["other labels"] if len(found) > GROUPS else [])
        return names, [place.get(label, len(kept)) for label in self.labels]


def collect(
    fitted: Fitted,
    data: Data | None,
    row_names: Any,
    labels: Any,
    shape: tuple[int, ...] | None,
    max_points: int,
    rng: np.random.Generator,
) -> Rows | None:
    """What there is to say of rows; None where neither the data nor the model has any."""
    given = {"row_names": row_names, "labels": labels}
    if data is None and not fitted.robust:
        for name, values in given.items():
            if values is not None:
                raise ValueError(f"{name} are of rows, and {fitted.kind} keeps none; give X too")
        return None
    total = fitted.n_rows if data is None else data.shape[0]
    assert total is not None
    texts = {name: _texts(name, values, total) for name, values in given.items()}
    distances = flagged = normality = None
    if fitted.robust:
        distances, normality, flagged = _measured(fitted, data, total)
    limit = max_points
    if data is not None and not data.sparse:
        limit = min(limit, max(50, ENTRIES // data.shape[1]))
    index = _chosen(total, normality, flagged, limit, rng)
    given_names = texts["row_names"]
    if given_names is not None:
        names: list[str] | None = [given_names[i] for i in index]
    else:
        names = None if data is None else data.names(index)
    known: dict[str, Any] = {
        "total": total,
        "index": index,
        "names": [f"row {i + 1}" for i in index] if names is None else names,
        "named": names is not None,
        "labels": None if texts["labels"] is None else [texts["labels"][i] for i in index],
    }
    if flagged is not None:
        assert distances is not None
        assert normality is not None
        order = np.argsort(normality[index], kind="stable")
        known["distances"], known["flagged"] = distances[index], flagged[index]
        known["n_flagged"] = int(flagged.sum())
        known["farthest"] = order[flagged[index][order]]
    if data is not None:
        known |= _explained(fitted, data, index, known.get("farthest"), shape)
    return Rows(**known)


def _frequent(found: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.sort(found[np.argsort(-count, kind="stable")[: GROUPS - 1]])


def _texts(name: str, values: Any, total: int) -> list[str] | None:
    if values is None:
        return None
    found = [] if isinstance(values, str) else [clean(value) for value in values]
    if len(found) != total:
        raise ValueError(
            f"{name} has length {len(found)} for {counted(total, 'row')}; give a sequence of one for "
            "each"
        )
    return found


def _measured(
    fitted: Fitted, data: Data | None, total: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both distances in columns, the scores that flag, and who is flagged: as ``predict`` does."""
    model = fitted.estimator
    if data is None or fitted.precomputed:
        if total != fitted.n_rows:
            raise ValueError(
                f"X has {counted(total, 'row')}; with a precomputed kernel give the matrix of the fit, "
                f"of {counted(int(fitted.n_rows or 0), 'row')}, or none"
            )
        score, orthogonal = model.score_distances_, model.orthogonal_distances_
    else:
        score, orthogonal = model.distances(fitted.prepared(data.X))
    normality = model._normality_of(score, orthogonal)
    both = np.column_stack([to_numpy(score).astype(float), to_numpy(orthogonal).astype(float)])
    return both, to_numpy(normality), to_numpy(normality < model.offset_)


def _chosen(
    total: int,
    normality: np.ndarray | None,
    flagged: np.ndarray | None,
    limit: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Sorted rows: all, or flagged ones and a sample of the others, half and half at the most."""
    if total <= limit:
        return np.arange(total)
    if flagged is None or normality is None:
        return np.sort(rng.choice(total, limit, replace=False))
    others, far = np.flatnonzero(~flagged), np.flatnonzero(flagged)
    room = limit - min(len(others), limit // 2)
    far = far[np.argsort(normality[far], kind="stable")[:room]]
    some = rng.choice(others, min(len(others), limit - len(far)), replace=False)
    return np.sort(np.concatenate([far, some]))


def _explained(
    fitted: Fitted,
    data: Data,
    index: np.ndarray,
    farthest: np.ndarray | None,
    shape: tuple[int, ...] | None,
) -> dict[str, Any]:
    """Scores, top variables and pictures of rows, some rows at a time."""
    model, drawn = fitted.estimator, data.take(index)
    step = max(1, CHUNK // data.shape[1])
    first = [] if farthest is None else farthest.tolist()
    order = list(dict.fromkeys([*first, *range(len(index))]))
    pictured = set(order[: PIXELS // data.shape[1]]) if shape else set()
    measurable = _leaves_a_rest(fitted)
    scores: list[np.ndarray] = []
    details: list[list[Any]] = []
    pictures: dict[int, list[str]] = {}
    for start in range(0, len(index), step):
        part = _safe_indexing(drawn, slice(start, min(start + step, len(index))))
        with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
            # rows of a file have lost the names of its columns
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            Z = fitted.prepared(part)
            T = model.transform(Z)
        scores.append(to_numpy(_host(T))[:, :MENU].astype(float))
        if data.kernels:
            continue
        values, rows = _host(part), _host(Z)
        back = model.inverse_transform(T) if fitted.invertible else None
        fits = None if back is None else settled(fitted.original(back), values)
        rest = None if back is None or not measurable else np.abs(rows - to_numpy(back))
        details += _details(values, fits, rest)
        for i in range(len(values)):
            if shape and start + i in pictured:
                pictures[start + i] = _pictures(values[i], None if fits is None else fits[i], shape)
    found: dict[str, Any] = {"scores": np.concatenate(scores)}
    return found | ({} if data.kernels else {"details": details, "pictures": pictures})


def _leaves_a_rest(fitted: Fitted) -> bool:
    """Whether distances from the subspace are more than rounding."""
    if getattr(fitted.estimator, "flags_by_", "") == "score":
        return False
    return not fitted.linear or fitted.n_components < fitted.loadings.shape[1]


def _host(rows: Any) -> np.ndarray:
    """A few rows of any kind as a numpy array, missing cells as NaN."""
    if sp.issparse(rows):
        return rows.toarray()
    if hasattr(rows, "iloc"):
        return rows.to_numpy(dtype=float, na_value=np.nan)
    return rows.to_numpy() if hasattr(rows, "to_numpy") else to_numpy(rows)


def settled(fits: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Fitted values, 0 where they are rounding: next to others of the row and of the variable."""
    sizes = np.abs(values).astype(float)
    of_row = np.fmax.reduce(np.fmax(sizes, np.abs(fits)), axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variable that is 0 in each row has no scale of its own
        of_variable = np.nanmedian(np.where(sizes > 0, sizes, np.nan), axis=0, keepdims=True)
    share = max(SMALL, 8 * float(np.finfo(fits.dtype).eps))
    return np.where(np.abs(fits) < share * np.fmin(of_row, of_variable), fits.dtype.type(0), fits)


def _details(
    values: np.ndarray, fits: np.ndarray | None, rest: np.ndarray | None
) -> list[list[tuple[int, float, float | None, float | None]]]:
    """The variables that add most to the squared distance of each row; else the first ones."""
    n, width = values.shape
    top = np.tile(np.arange(min(TOP, width)), (n, 1))
    shares = None
    if rest is not None:
        largest = rest.max(axis=1, keepdims=True)  # over it, squares do not overflow
        squares = (rest / np.where(largest > 0, largest, 1.0)) ** 2
        top = np.argsort(-squares, axis=1, kind="stable")[:, :TOP]
        shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), 1.0)
    return [
        [
            (
                int(j),
                float(values[i, j]),
                None if fits is None else float(fits[i, j]),
                None if shares is None else float(shares[i, j]),
            )
            for j in top[i]
        ]
        for i in range(n)
    ]


def _pictures(values: np.ndarray, fits: np.ndarray | None, shape: tuple[int, ...]) -> list[str]:
    """A row, its reconstruction and their difference; the first two on one scale of their own."""
    both = values if fits is None else np.concatenate([values, fits])
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    shown = [grey(values.reshape(shape), low, high)]
    if fits is None:
        return shown
    return [*shown, grey(fits.reshape(shape), low, high), signed((values - fits).reshape(shape))]
