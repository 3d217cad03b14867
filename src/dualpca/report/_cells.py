"""The section about single cells: their map, and the table of those that are farthest off."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..cells import Cells, cell_map, flagged_cells
from ..inspect import FittedModel
from ..io.tables.table import counted
from . import _figures as figures
from . import _html as html
from ._drawn_rows import Data, Rows
from ._row_sections import FLAGGED
from ._section import Section

#: The most lines and columns of the map, and the cut-offs from which on colours are full.
LINES, COLUMNS, FULL = 60, 60, 3


def cells(fitted: FittedModel, data: Data | None, rows: Rows | None) -> Section:
    """Return the map of cells, worst rows first, and the flagged single cells that are farthest off."""
    if data is None or rows is None:
        return Section("<p>The map is of the cells of rows, and no rows were given.</p>")
    drawn, found = cell_map(fitted, data.X, LINES, COLUMNS), flagged_cells(fitted, data.X)
    worst = Cells(*(column[:FLAGGED] for column in found))
    both = [np.concatenate([a, b.ravel()]) for a, b in zip(worst, drawn.cells, strict=True)]
    used = [np.unique(column, return_inverse=True) for column in both[:2]]
    names, variables = _names(data, rows, used[0][0]), [fitted.feature_names[j] for j in used[1][0]]
    cutoff, sizes = fitted.estimator.cell_cutoff_, np.diff(drawn.edges)
    places = [used[0][1].tolist(), used[1][1].tolist(), *(html.rounded(c) for c in both[2:])]
    numbers: dict[str, Any] = {"list": list(zip(*places, strict=True)), "names": names}
    numbers |= {"rows": used[0][0].tolist(), "variables": variables, "first": len(worst.row)}
    numbers |= {"sizes": sizes.tolist(), "width": len(drawn.groups) - 1, "cutoff": cutoff}

    first = dict(zip(used[0][0].tolist(), names, strict=True))
    alone = _names(data, rows, drawn.order[drawn.edges[:-1]])
    lines = [n if k == 1 else f"{k:,} rows" for n, k in zip(alone, sizes, strict=True)]
    known = fitted.feature_names
    groups = [
        known[i] if j == i + 1 else f"{known[i]} to {known[j - 1]}"
        for i, j in pairwise(drawn.groups)
    ]
    shared = np.flatnonzero(sizes > 1)
    single = int(shared[0]) if len(shared) else len(lines)
    plot = figures.cell_map(lines, groups, single, FULL * cutoff, cutoff)
    body = html.figure(
        "cells-plot", _words(fitted, found, first, rows), hint=_hint(fitted, len(lines), single)
    )
    table = _table(fitted, worst, len(found.row), first)
    return Section(
        f"{body}<h3>Single cells</h3>{table}", {"cells-plot": [plot]}, {"cells": numbers}
    )


def _names(data: Data, rows: Rows, index: np.ndarray) -> list[str]:
    """Return the names of rows, by their positions in the data."""
    if rows.all_names is not None:
        return [rows.all_names[i] for i in index]
    return data.names(index) or [f"row {i + 1}" for i in index]


def _words(fitted: FittedModel, found: Cells, names: dict[int, str], rows: Rows) -> str:
    size = f"{counted(rows.total, 'row')} and {counted(fitted.n_features, 'column')}"
    if not len(found.row):
        return f"{size}, the worst rows first. No single cell is flagged."
    i, j = int(found.row[0]), int(found.variable[0])
    return (
        f"{size}, the worst rows first. Flagged single cells: {len(found.row):,}. Farthest off is "
        f"{fitted.feature_names[j]} of {names[i]}: {html.number(float(found.value[0]))} instead of "
        f"{html.number(float(found.expected[0]))}."
    )


def _hint(fitted: FittedModel, lines: int, single: int) -> str:
    text = (
        "Orange cells are above what the other cells of the row make likely, blue ones below, in scales "
        f"of the residuals of their column; beyond {fitted.estimator.cell_cutoff_:.3g} they are flagged, "
        "as 1 % of good cells are. Grey cells are missing. Rows are sorted by the root mean square of "
        "their residuals. "
    )
    if single < lines:
        text += "Below the line each cell is the one farthest off in a block of rows. "
    if fitted.n_features > COLUMNS:
        text += "Columns are in blocks too. "
    return f"{text}Click a cell to see its numbers."


def _table(fitted: FittedModel, worst: Cells, total: int, names: dict[int, str]) -> str:
    """Return the table of cells, whose names open them by the keyboard."""
    if not total:
        return "<p>No cell is flagged but for rows that are bad as a whole.</p>"
    scales = html.column(worst.residual.astype(float).tolist())
    lines = [
        [
            f'<button type="button" data-cell="{k}">{html.escape(names[int(i)])}</button>',
            html.escape(fitted.feature_names[j]),
            *(html.number(float(v)) for v in (worst.value[k], worst.expected[k])),
            scales[k],
        ]
        for k, (i, j) in enumerate(zip(worst.row, worst.variable, strict=True))
    ]
    which = f", the farthest {FLAGGED} of {total:,}" if total > FLAGGED else ""
    note = "<p class='hint'>Rows that are bad as a whole are among the flagged rows instead.</p>"
    head = ["Row", "Column", "Value", "Expected", "Scales"]
    return html.table(f"Flagged single cells{which}; a name opens the cell", head, lines) + note
