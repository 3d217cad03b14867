"""The outlier map, and the table of flagged rows that opens them by the keyboard."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..inspect import FittedModel
from ._figures import outlier_map
from ._html import escape, figure, joined, number, table
from ._rows import Rows
from ._sections import CLICK, TABLE, Section, drawn, farthest, first_rows, flagged_words

#: The most flagged rows that are listed.
FLAGGED = 200

#: Axes are logarithmic if a row lies so many times its limit away: good rows would be one dot.
FAR = 20


def outliers(fitted: FittedModel, rows: Rows | None) -> Section:
    """Return the outlier map and the table of flagged rows."""
    if rows is None or rows.flagged is None or rows.distances is None or rows.farthest is None:
        text = f"<p>{fitted.name} measures no outlyingness of rows; RobustPCA does.</p>"
        return Section("outliers", "Outlier map", text)
    limits, cutoffs = fitted.limits, fitted.cutoffs
    words = f"{drawn(rows)} by score distance and orthogonal distance. {flagged_words(rows)}"
    if len(rows.farthest):
        words += _about_farthest(rows, int(rows.farthest[0]), limits)
    overflown = int((~np.isfinite(rows.distances)).any(axis=1).sum())
    if overflown:
        words += f" {overflown:,} row{' lies' if overflown == 1 else 's lie'} beyond any axes."
    head = ["Row", *(["Label"] if rows.labels else []), "Score distance", "Orthogonal distance"]
    behind = table(
        f"Distances{first_rows(rows)}",
        [*head, "Flagged"],
        [
            [*_cells(rows, i, escape(rows.names[i])), "yes" if rows.flagged[i] else "no"]
            for i in range(min(TABLE, len(rows.index)))
        ],
    )
    ticked = " checked" if is_far(rows.distances, limits, cutoffs) else ""
    switch = f'<label><input type="checkbox" id="log"{ticked}> Logarithmic axes</label>'
    hint = "Dashed: cut-offs at 0.975. Solid: the limit beyond which rows are flagged. "
    if (rows.distances == 0).any():
        hint += "On logarithmic axes a distance of 0 stands at the edge. "
    body = figure("map-plot", words, controls=switch, hint=hint + CLICK, data=behind)
    body += "<h3>Flagged rows</h3>"
    listed = [int(i) for i in rows.farthest[:FLAGGED]]
    if listed:
        n, shown = rows.n_flagged, len(listed)
        which = f", {farthest(shown, n)}" if n > shown else ""
        body += table(
            f"Flagged rows{which}; a name opens the row",
            [*head, *(["Led by"] if rows.details else [])],
            [_flagged_cells(fitted, rows, i) for i in listed],
        )
    else:
        body += "<p>No row is flagged.</p>"
    both = [outlier_map(rows, limits, cutoffs, log) for log in (False, True)]
    return Section("outliers", "Outlier map", body, {"map-plot": both})


def is_far(distances: np.ndarray, limits: dict[str, Any], cutoffs: dict[str, Any]) -> bool:
    """Return whether a finite distance is far beyond its limit, or its cut-off without a limit."""
    for column, (kind, limit) in zip(distances.T, limits.items(), strict=True):
        edge = float(cutoffs[kind]) if limit is None else limit
        finite = column[np.isfinite(column)]
        if edge > 0 and len(finite) and finite.max() > FAR * edge:
            return True
    return False


def _about_farthest(rows: Rows, i: int, limits: dict[str, float | None]) -> str:
    assert rows.distances is not None
    parts = [
        f"{kind} distance {number(float(d))}, {d / limit:.3g} times the limit"
        for d, (kind, limit) in zip(rows.distances[i], limits.items(), strict=True)
        if limit and np.isfinite(d)
    ]
    return f" Farthest is {rows.called(i)}{': ' if parts else ''}{joined(parts)}."


def _cells(rows: Rows, i: int, name: str) -> list[str]:
    assert rows.distances is not None
    label = [escape(rows.labels[i])] if rows.labels else []
    return [name, *label, *(number(float(d)) for d in rows.distances[i])]


def _flagged_cells(fitted: FittedModel, rows: Rows, i: int) -> list[str]:
    button = f'<button type="button" data-row="{i}">{escape(rows.names[i])}</button>'
    details = rows.details[i][:3] if rows.details else []
    led_by = [escape(fitted.feature_names[j]) for j, _, _, share in details if share]
    return [*_cells(rows, i, button), *([", ".join(led_by)] if rows.details else [])]
