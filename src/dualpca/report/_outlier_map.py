"""The outlier map, and the table of flagged rows that opens them by the keyboard."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._html import counted, escape, figure, listed, number, rounded, table
from ._model import Fitted
from ._rows import Rows
from ._sections import CLICK, TABLE, Section, drawn, farthest, first, flagged_words

#: At most so many flagged rows are listed.
FLAGGED = 200

#: Axes are logarithmic where a row lies so many times its limit away: the good rows were a dot.
FAR = 20


def limits(model: Any) -> dict[str, float | None]:
    """Where the flagging limit lies on the two axes of the outlier map."""
    far = -float(model.offset_)
    score, orthogonal = (float(limit) for limit in model.limits_)
    return {
        "score": {"score": far, "both": far * score}.get(model.flags_by_),
        "orthogonal": {"orthogonal": far, "both": far * orthogonal}.get(model.flags_by_),
    }


def outliers(fitted: Fitted, rows: Rows | None) -> Section:
    """The outlier map and the table of flagged rows."""
    if rows is None or rows.flagged is None or rows.distances is None:
        text = f"<p>{fitted.kind} measures no outlyingness of rows; RobustPCA does.</p>"
        return Section("outliers", "Outlier map", text)
    model = fitted.estimator
    found = limits(model)
    words = f"{drawn(rows)} by score distance and orthogonal distance. {flagged_words(rows)}"
    assert rows.farthest is not None
    if len(rows.farthest):
        words += _farthest(rows, found)
    outside = int((~np.isfinite(rows.distances)).any(axis=1).sum())
    if outside:
        words += f" {counted(outside, 'row lies', 'rows lie')} beyond any axes."
    head = ["Row", *(["Label"] if rows.labels else []), "Score distance", "Orthogonal distance"]
    head += ["Led by"] if rows.details else []
    listing = [_listed_row(fitted, rows, int(i), button=True) for i in rows.farthest[:FLAGGED]]
    behind = table(
        f"Distances{first(len(rows.index))}",
        [*head[: 3 + bool(rows.labels)], "Flagged"],
        [
            [
                *_listed_row(fitted, rows, i)[: 3 + bool(rows.labels)],
                "yes" if rows.flagged[i] else "no",
            ]
            for i in range(min(TABLE, len(rows.index)))
        ],
    )
    cutoffs = {"score": model.score_cutoff_, "orthogonal": model.orthogonal_cutoff_}
    ticked = " checked" if spread(rows.distances, found, cutoffs) else ""
    switch = f'<label><input type="checkbox" id="log"{ticked}> Logarithmic axes</label>'
    hint = "Dashed: cut-offs at 0.975. Solid: the limit beyond which rows are flagged. "
    if (rows.distances == 0).any():
        hint += "On logarithmic axes a distance of 0 stands at the edge. "
    body = figure(
        "map-plot",
        words,
        controls=f'<div class="controls">{switch}</div>',
        hint=hint + CLICK,
        data=behind,
    )
    body += "<h3>Flagged rows</h3>"
    if listing:
        n = rows.n_flagged
        some = f", {farthest(len(listing), n)}" if n > len(listing) else ""
        body += table(f"Flagged rows{some}; a name opens the row", head, listing)
    else:
        body += "<p>No row is flagged.</p>"
    return Section(
        "outliers",
        "Outlier map",
        body,
        {"map": {"limits": _finite(found), "cutoffs": _finite(cutoffs)}},
    )


def spread(distances: np.ndarray, found: dict[str, float | None], cutoffs: dict[str, Any]) -> bool:
    """Whether a finite distance is far beyond its limit, or its cut-off where it has no limit."""
    for column, (kind, limit) in zip(distances.T, found.items(), strict=True):
        edge = float(cutoffs[kind]) if limit is None else limit
        finite = column[np.isfinite(column)]
        if edge > 0 and len(finite) and finite.max() > FAR * edge:
            return True
    return False


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: None if v is None else rounded(float(v)) for name, v in values.items()}


def _farthest(rows: Rows, found: dict[str, float | None]) -> str:
    assert rows.distances is not None
    assert rows.farthest is not None
    i = int(rows.farthest[0])
    parts = [
        f"{kind} distance {number(float(d))}, {d / limit:.3g} times the limit"
        for d, (kind, limit) in zip(rows.distances[i], found.items(), strict=True)
        if limit and np.isfinite(d)
    ]
    return f" Farthest is {rows.called(i)}{': ' if parts else ''}{listed(parts) if parts else ''}."


def _listed_row(fitted: Fitted, rows: Rows, i: int, button: bool = False) -> list[str]:
    assert rows.distances is not None
    name = escape(rows.names[i])
    cells = [f'<button type="button" data-row="{i}">{name}</button>' if button else name]
    cells += [escape(rows.labels[i])] if rows.labels else []
    cells += [number(float(d)) for d in rows.distances[i]]
    if rows.details:
        led = [f"{escape(fitted.variables[j])}" for j, _, _, share in rows.details[i][:3] if share]
        cells.append(", ".join(led))
    return cells
