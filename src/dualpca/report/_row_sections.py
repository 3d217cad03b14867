"""The sections about rows: their scores, the outlier map, the kinds of rows, and flagged rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..inspect import FittedModel
from . import _figures as figures
from . import _html as html
from ._drawn_rows import MENU, Rows
from ._section import Section
from ._words import FLAGS, drawn, flagged_words, how_many, reasons, times_the_limit

#: The most rows of a table behind a figure, and flagged rows in their table.
TABLE, FLAGGED = 50, 200

#: Axes are logarithmic if a row lies so many times its limit away: good rows would be one dot.
FAR = 20

CLICK = (
    'Click a point to see its row.<span class="fine"> Drag to zoom, double-click to go back.</span>'
)

#: Where the rows of each kind lie on the map, and what that means.
MEANINGS = {
    "regular": ("left of and below the dashed lines", "It is like most rows."),
    "good leverage": (
        "right of the vertical line",
        "It is extreme, but in the way in which the rows vary: perhaps a rare case that is right.",
    ),
    "orthogonal outlier": (
        "above the horizontal line",
        "Its size is ordinary, but its variables do not go together as they do elsewhere.",
    ),
    "bad leverage": (
        "beyond both",
        "It is extreme, and its variables do not go together: it would pull plain PCA towards it.",
    ),
}


def component_names(fitted: FittedModel) -> list[str]:
    """Return the components of a menu with their shares."""
    return [f"{i + 1} ({html.percent(share)})" for i, share in enumerate(fitted.shares[:MENU])]


def scores(fitted: FittedModel, rows: Rows | None) -> Section:
    """Return the rows by two components."""
    if rows is None or rows.scores is None:
        return Section("<p>Scores are of rows, and no rows were given.</p>")
    names, k = component_names(fitted), fitted.n_components
    one = "component 1" if k == 1 else "components 1 and 2"
    share = f"hold{'s' if k == 1 else ''} {html.percent(fitted.shares[:2].sum())} of the variance"
    words = f"{drawn(rows)} by {one}" + ("." if fitted.has_no_variance else f", which {share}.")
    if rows.flagged is not None:
        words += f" {flagged_words(rows)}"
    if rows.groups is not None:
        words += f" Symbols stand for labels: {html.joined(rows.groups[0])}."
    controls = html.select("scores-x", "Across: component", names, 0)
    if k > 1:
        controls += html.select("scores-y", "Up: component", names, 1)
    if fitted.is_linear and k > 1:
        controls += html.switch("arrows", "Arrows of variables")
    hint = CLICK + (f" The menus offer the first {MENU} components." if k > MENU else "")
    if _strays(rows):
        controls += html.switch("all-rows", "Axes reach all rows")
        hint = (
            "The axes follow the rows that are not flagged. "
            f'<span id="outside" aria-live="polite"></span> {hint}'
        )
    width = min(rows.scores.shape[1], 6)
    behind = html.table(
        f"Scores by component{_first_rows(rows)}",
        [*_head(rows), *(str(i + 1) for i in range(width))],
        _lines(rows, rows.farthest_first[:TABLE], rows.scores[:, :width]),
    )
    body = html.figure("scores-plot", words, controls=controls, hint=hint, data=behind)
    drawing = {"scores-plot": [figures.scores(rows)]}
    return Section(body, drawing, {"scores": html.rounded(rows.scores.T)})


def _strays(rows: Rows) -> bool:
    """Return whether a flagged row lies outside the range of the others on some component."""
    if rows.scores is None or rows.flagged is None or rows.flagged.all():
        return False
    good, bad = rows.scores[~rows.flagged], rows.scores[rows.flagged]
    low, high = good.min(axis=0), good.max(axis=0)
    room = figures.PADDING * (high - low)
    return bool(((bad < low - room) | (bad > high + room)).any())


def _first_rows(rows: Rows) -> str:
    n = len(rows.index)
    return f", flagged rows first: {TABLE} of {n:,}" if n > TABLE else ""


def _head(rows: Rows) -> list[str]:
    return ["Row", *(["Label"] if rows.labels else [])]


def _lines(rows: Rows, chosen: list[int], numbers: np.ndarray) -> list[list[str]]:
    """Return a line of a table for each of the chosen rows: its name, its label and its numbers."""
    columns = [html.column(numbers[chosen, j].tolist()) for j in range(numbers.shape[1])]
    return [
        [
            html.escape(rows.names[i]),
            *([html.escape(rows.labels[i])] if rows.labels else []),
            *(column[at] for column in columns),
        ]
        for at, i in enumerate(chosen)
    ]


def outliers(fitted: FittedModel, rows: Rows | None) -> Section:
    """Return the outlier map, the kinds of rows, and the table of flagged rows."""
    if rows is None or rows.flagged is None or rows.distances is None or rows.farthest is None:
        return Section(f"<p>{fitted.name} measures no outlyingness of rows; RobustPCA does.</p>")
    limits, dividers = fitted.limits, fitted.kind_limits
    words = f"{drawn(rows)} by score distance and orthogonal distance. {flagged_words(rows)}"
    if len(rows.farthest):
        first = int(rows.farthest[0])
        times = times_the_limit(fitted, rows, first)
        how_far = "" if times is None else f": {how_many(times)} the limit"
        words += f" Farthest is {rows.called(first)}{how_far}."
    overflown = int((~np.isfinite(rows.distances)).any(axis=1).sum())
    if overflown:
        words += f" {overflown:,} row{' lies' if overflown == 1 else 's lie'} beyond any axes."
    lines = _lines(rows, rows.farthest_first[:TABLE], rows.distances)
    for line, i in zip(lines, rows.farthest_first, strict=False):
        line += [_kind(rows, i), "yes" if rows.flagged[i] else "no"]
    head = [*_head(rows), "Score distance", "Orthogonal distance", "Kind"]
    behind = html.table(f"Distances{_first_rows(rows)}", [*head, "Flagged"], lines)
    switch = html.switch("log", "Logarithmic axes", is_far(rows.distances, limits, dividers))
    hint = CLICK
    if (rows.distances == 0).any():
        hint += " On logarithmic axes a distance of 0 stands at the edge."
    body = html.figure("map-plot", words, controls=switch, hint=hint, data=behind)
    body += _explanation(fitted, rows) + "<h3>Flagged rows</h3>" + _flagged(fitted, rows)
    variants = [figures.outlier_map(rows, limits, dividers, log) for log in (False, True)]
    return Section(body, {"map-plot": variants})


def _kind(rows: Rows, i: int) -> str:
    return rows.kinds[i] if rows.kinds else ""


def _explanation(fitted: FittedModel, rows: Rows) -> str:
    """Return what the lines of the map mean, and the kinds of rows between them."""
    model = fitted.estimator
    within = f"{100 * float(model.quantile):.4g} %"
    text = (
        "The <em>score distance</em> tells how far out a row is in the directions in which good rows "
        "vary; the <em>orthogonal distance</em> how far it is from anything that the components can "
        f"make. Dashed lines: {within} of good rows are expected within each. They divide the rows "
        f"into four kinds. Solid line: rows beyond it are flagged, by {FLAGS[model.flags_by_]}."
    )
    if model.contamination != "auto":
        text += (
            f" It lies where it flags {html.percent(float(model.contamination))} of the training rows, "
            "as contamination asked for."
        )
    listed = [
        [kind, MEANINGS[kind][0], f"{n:,}", f"{flagged:,}", MEANINGS[kind][1]]
        for kind, (n, flagged) in rows.kind_counts.items()
    ]
    head = ["Kind", "Where", "Rows", "Flagged", "What it means"]
    note = (
        '<p class="hint">A flagged row within both dashed lines is named by the distance that is nearer '
        "to its line.</p>"
    )
    title = "<h3>The lines and the kinds of rows</h3>"
    return f"{title}<p>{text}</p>{html.table('Kinds of rows', head, listed)}{note}"


def _flagged(fitted: FittedModel, rows: Rows) -> str:
    """Return the table of flagged rows with the reasons, which opens them by the keyboard."""
    assert rows.farthest is not None
    assert rows.distances is not None
    chosen = [int(i) for i in rows.farthest[:FLAGGED]]
    if not chosen:
        return "<p>No row is flagged.</p>"
    head = [*_head(rows), "Score distance", "Orthogonal distance", "Kind"]
    lines = _lines(rows, chosen, rows.distances)
    why = [reasons(rows.details[i], fitted.feature_names) if rows.details else [] for i in chosen]
    for line, i, because in zip(lines, chosen, why, strict=True):
        line[0] = button(rows, i)
        line.append(_kind(rows, i))
        if any(why):
            line.append(f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in because)}</ul>")
    head += ["Because (share of the squared distance)"] if any(why) else []
    which = f", the farthest {FLAGGED} of {rows.n_flagged:,}" if len(chosen) == FLAGGED else ""
    return html.table(f"Flagged rows{which}; a name opens the row", head, lines)


def button(rows: Rows, i: int) -> str:
    """Return a button with the name of a row that opens it."""
    return f'<button type="button" data-row="{i}">{html.escape(rows.names[i])}</button>'


def is_far(distances: np.ndarray, limits: dict[str, Any], dividers: Any) -> bool:
    """Return whether a finite distance is far beyond its limit, or the line between kinds of rows."""
    pairs = zip(limits.values(), dividers, strict=True)
    edges = [float(line if limit is None else limit) for limit, line in pairs]
    with np.errstate(all="ignore"):
        ratios = distances / np.array(edges)
    return bool((ratios[np.isfinite(ratios)] > FAR).any())
