"""Flagged rows, and the variables that did it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..io.tables import Table
from .show import variables
from .work import Fitted, blocks_of, measured


@dataclass
class Found:
    """A table of rows by decreasing distance, and what it was taken from."""

    columns: dict[str, Any]
    total: int
    flagged: int
    limits: tuple[float, float]

    def text(self) -> list[list[str]]:
        """The rows of the table in print."""
        cells = [
            [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
            for values in (np.asarray(column).tolist() for column in self.columns.values())
        ]
        return [list(row) for row in zip(*cells, strict=True)]

    def words(self) -> str:
        """The table in a sentence."""
        return (
            f"{self.flagged:,} of {self.total:,} rows are flagged; limits: score distance "
            f"{self.limits[0]:.4g}, orthogonal distance {self.limits[1]:.4g}\n"
        )


def flagged_rows(fitted: Fitted, table: Table | None, *, everything: bool) -> Found:
    """Flagged rows of a table, or of the training data where there is none."""
    model = fitted.estimator
    if table is None:
        score, orthogonal = (
            np.asarray(d) for d in (model.score_distances_, model.orthogonal_distances_)
        )
        parts = [_kept(fitted, 0, score, orthogonal, np.asarray(model.outliers_), everything, None)]
        total, flagged = len(score), int(np.asarray(model.outliers_).sum())
    else:
        parts, total, flagged = [], table.X.shape[0], 0
        for start, rows in blocks_of(table.X):
            found = measured(fitted, rows)
            flags = found["outlier"] > 0
            flagged += int(flags.sum())
            distances = found["score_distance"], found["orthogonal_distance"]
            parts.append(_kept(fitted, start, *distances, flags, everything, rows))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(-columns.pop("normality"), kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    rows = columns.pop("row")
    named = _names(table, rows)
    numbers = rows + 1 if table is None else table.in_file(rows)
    return Found({"row": numbers, **named, **columns}, total, flagged, model.limits_)


def _kept(
    fitted: Fitted,
    start: int,
    score: np.ndarray,
    orthogonal: np.ndarray,
    flags: np.ndarray,
    everything: bool,
    rows: Any,
) -> dict[str, np.ndarray]:
    """The rows of a block that are listed; the variables of those that are flagged."""
    model = fitted.estimator
    kept = np.flatnonzero(flags | everything)
    found = {
        "row": start + kept,
        "score_distance": score[kept].astype(float),
        "orthogonal_distance": orthogonal[kept].astype(float),
        "normality": -np.asarray(model._normality_of(score[kept], orthogonal[kept]), dtype=float),
    }
    if everything:
        found["outlier"] = flags[kept].astype(np.int64)
    if rows is not None and hasattr(model, "contributions"):
        names = fitted.names or [f"x{j + 1}" for j in range(model.n_features_in_)]
        far = np.flatnonzero(flags[kept])
        told = np.full(len(kept), "", dtype=object)
        if len(far):
            parts = np.asarray(model.contributions(fitted.prepared(rows[kept[far]])))
            told[far] = [variables(part, names) for part in parts]
        found["variables"] = told
    return found


def _names(table: Table | None, rows: np.ndarray) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if table is not None and table.ids is not None:
        found["id"] = np.asarray(table.ids[rows], dtype=object)
    if table is not None and table.labels is not None:
        found["label"] = np.asarray(table.labels[rows], dtype=object)
    return found
