"""The sections of a report: what each shows in words, its figure and the numbers behind it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..inspect import FittedModel
from ..io.tables.table import counted
from . import _figures as figures
from . import _html as html
from ._rows import MENU, Data, Rows

#: The most bars of a component, rows of a table behind a figure, components in tables, flagged rows
#: in their table, and pictures beside each other.
BARS, TABLE, LISTED, FLAGGED, SHOWN = 12, 50, 60, 200, 12

#: Axes are logarithmic if a row lies so many times its limit away: good rows would be one dot.
FAR = 20

CLICK = (
    'Click a point to see its row.<span class="fine"> Drag to zoom, double-click to see all.</span>'
)


@dataclass(frozen=True)
class Section:
    """The HTML below a heading, the variants of its figure, and numbers that the page needs."""

    body: str
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def scree(fitted: FittedModel, data: Data | None) -> Section:
    """Return the shares of the variance, those of plain PCA beside those of a robust model."""
    series = [(fitted.name, fitted.shares, fitted.cumulative_shares)]
    plain = _plain_shares(fitted, data.X) if data is not None and fitted.is_robust else None
    varies = plain is None or plain.any()
    k = fitted.n_components
    which = "The component holds" if k == 1 else f"The {k} components hold"
    words = f"{which} {html.percent(series[0][2][-1])} of the variance"
    words += f", the first alone {html.percent(fitted.shares[0])}." if k > 1 else "."
    if fitted.has_no_variance:
        which = "Most rows are equal" if fitted.is_robust and varies else "The rows do not vary"
        words = f"{which}: there is no variance to share."
    elif not varies:
        words += " The rows of this report do not vary."
    if plain is not None and varies:
        name = "plain " + fitted.name.removeprefix("Robust")
        series.append((name, plain, np.cumsum(plain)))
        together = f" and {html.percent(plain.sum())} into the first {len(plain)}"
        words += (
            f" Of the same rows, outliers included, {name} puts {html.percent(plain[0])} into its first "
            f"component{together if len(plain) > 1 else ''}."
        )
    columns = [column for _, *pair in series for column in pair]
    head = [
        f"{html.escape(name)}: {kind}" for name, *_ in series for kind in ("share", "cumulative")
    ]
    rows = [
        [str(i + 1), *(html.percent(c[i]) if i < len(c) else "" for c in columns)]
        for i in range(min(k, LISTED))
    ]
    hint = "Bars are the shares of single components, lines those of the first ones together."
    behind = html.table("Shares of the variance", ["Component", *head], rows)
    body = html.figure("scree-plot", words, hint=hint if k > 1 else "", data=behind)
    return Section(body, {"scree-plot": [figures.scree(series)]})


def _plain_shares(fitted: FittedModel, X: Any) -> np.ndarray | None:
    """Return the shares of plain PCA of the same rows: zeros for equal rows, None if it fails."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # plain PCA may overflow on rows that a robust fit survives
        try:
            shares = fitted.plain_shares(X)
        except ValueError:
            return None
    return shares if np.isfinite(shares).all() else None


def scores(fitted: FittedModel, rows: Rows | None) -> Section:
    """Return the rows by two components."""
    if rows is None or rows.scores is None:
        return Section("<p>Scores are of rows, and no rows were given.</p>")
    names, k = _component_names(fitted), fitted.n_components
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
        controls += '<label><input type="checkbox" id="arrows"> Arrows of variables</label>'
    width = min(rows.scores.shape[1], 6)
    behind = html.table(
        f"Scores by component{_first_rows(rows)}",
        [*_head(rows), *(str(i + 1) for i in range(width))],
        [_cells(rows, i, rows.scores[i, :width]) for i in rows.farthest_first[:TABLE]],
    )
    hint = CLICK + (f" The menus offer the first {MENU} components." if k > MENU else "")
    body = html.figure("scores-plot", words, controls=controls, hint=hint, data=behind)
    drawing = {"scores-plot": [figures.scores(rows)]}
    return Section(body, drawing, {"scores": html.rounded(rows.scores.T)})


def _component_names(fitted: FittedModel) -> list[str]:
    return [f"{i + 1} ({html.percent(share)})" for i, share in enumerate(fitted.shares[:MENU])]


def _first_rows(rows: Rows) -> str:
    n = len(rows.index)
    return f", flagged rows first: {TABLE} of {n:,}" if n > TABLE else ""


def _head(rows: Rows) -> list[str]:
    return ["Row", *(["Label"] if rows.labels else [])]


def _cells(rows: Rows, i: int, numbers: Any, name: str | None = None) -> list[str]:
    """Return the cells of a row in a table: its name, its label and numbers."""
    label = [html.escape(rows.labels[i])] if rows.labels else []
    return [name or html.escape(rows.names[i]), *label, *(html.number(float(n)) for n in numbers)]


def drawn(rows: Rows) -> str:
    """Return how many rows are drawn, and how many flagged ones are among them."""
    if len(rows.index) == rows.total:
        return counted(rows.total, "row")
    flagged = 0 if rows.flagged is None else int(rows.flagged.sum())
    among = f" with {flagged:,} of {rows.n_flagged:,} flagged ones" if flagged else ""
    return f"A sample of {len(rows.index):,} of {rows.total:,} rows{among}"


def flagged_words(rows: Rows) -> str:
    """Return how many rows are flagged."""
    if rows.n_flagged == 0:
        return "No row is flagged."
    share = html.percent(rows.n_flagged / rows.total)
    return f"Flagged: {rows.n_flagged:,} of {counted(rows.total, 'row')} ({share})."


def outliers(fitted: FittedModel, rows: Rows | None) -> Section:
    """Return the outlier map, and the table of flagged rows that opens them by the keyboard."""
    if rows is None or rows.flagged is None or rows.distances is None or rows.farthest is None:
        return Section(f"<p>{fitted.name} measures no outlyingness of rows; RobustPCA does.</p>")
    limits, cutoffs = fitted.limits, fitted.cutoffs
    words = f"{drawn(rows)} by score distance and orthogonal distance. {flagged_words(rows)}"
    if len(rows.farthest):
        first = int(rows.farthest[0])
        parts = [
            f"{kind} distance {html.number(float(d))}, {d / limit:.3g} times the limit"
            for d, (kind, limit) in zip(rows.distances[first], limits.items(), strict=True)
            if limit and np.isfinite(d)
        ]
        words += f" Farthest is {rows.called(first)}{': ' if parts else ''}{html.joined(parts)}."
    overflown = int((~np.isfinite(rows.distances)).any(axis=1).sum())
    if overflown:
        words += f" {overflown:,} row{' lies' if overflown == 1 else 's lie'} beyond any axes."
    head = [*_head(rows), "Score distance", "Orthogonal distance"]
    behind = html.table(
        f"Distances{_first_rows(rows)}",
        [*head, "Flagged"],
        [
            [*_cells(rows, i, rows.distances[i]), "yes" if rows.flagged[i] else "no"]
            for i in rows.farthest_first[:TABLE]
        ],
    )
    ticked = " checked" if is_far(rows.distances, limits, cutoffs) else ""
    switch = f'<label><input type="checkbox" id="log"{ticked}> Logarithmic axes</label>'
    hint = "Dashed: cut-offs at 0.975. Solid: the limit beyond which rows are flagged. "
    if (rows.distances == 0).any():
        hint += "On logarithmic axes a distance of 0 stands at the edge. "
    body = html.figure("map-plot", words, controls=switch, hint=hint + CLICK, data=behind)
    body += "<h3>Flagged rows</h3>"
    listed = []
    for i in rows.farthest[:FLAGGED]:
        button = f'<button type="button" data-row="{i}">{html.escape(rows.names[i])}</button>'
        listed.append(_cells(rows, i, rows.distances[i], button))
        if rows.details:
            leading = [fitted.feature_names[j] for j, *_, share in rows.details[i][:3] if share]
            listed[-1].append(html.escape(", ".join(leading)))
    if listed:
        which = f", the farthest {FLAGGED} of {rows.n_flagged:,}" if len(listed) == FLAGGED else ""
        led_by = ["Led by"] if rows.details else []
        body += html.table(f"Flagged rows{which}; a name opens the row", [*head, *led_by], listed)
    else:
        body += "<p>No row is flagged.</p>"
    linear_and_log = [figures.outlier_map(rows, limits, cutoffs, log) for log in (False, True)]
    return Section(body, {"map-plot": linear_and_log})


def is_far(distances: np.ndarray, limits: dict[str, Any], cutoffs: dict[str, Any]) -> bool:
    """Return whether a finite distance is far beyond its limit, or its cut-off without a limit."""
    edges = [float(cutoffs[kind] if limit is None else limit) for kind, limit in limits.items()]
    with np.errstate(all="ignore"):
        ratios = distances / np.array(edges)
    return bool((ratios[np.isfinite(ratios)] > FAR).any())


def loadings(fitted: FittedModel, shape: tuple[int, ...] | None) -> Section:
    """Return the variables that make up each component."""
    if not fitted.is_linear:
        text = f"<p>{fitted.name} works in the feature space of its kernel: no loadings there.</p>"
        return Section(text)
    L, width = fitted.loadings[:MENU], fitted.n_features
    tops = [fitted.leading(k, BARS) for k in range(len(L))]
    words = "Component 1 has no loadings: no variance was left for it."
    if tops[0]:
        words = f"Component 1 is led by {html.joined([f'{n} ({v:+.3f})' for n, v in tops[0][:3]])}."
    behind = html.table(
        f"The largest loadings of each component, up to {BARS}",
        ["Component", "Loadings"],
        [
            [str(k + 1), "; ".join(f"{html.escape(name)} {value:+.4f}" for name, value in top)]
            for k, top in enumerate(tops)
        ],
    )
    hint = (
        f"Loadings are sorted by size; at most {BARS} are drawn, of {counted(width, 'variable')}."
    )
    menu = html.select("loadings-component", "Component", _component_names(fitted), 0)
    body = html.figure("loadings-plot", words, controls=menu, hint=hint, data=behind)
    if shape:
        words = "Positive loadings are orange, negative blue, each on a scale of its own."
        names = [f"Component {k + 1}" for k in range(min(len(L), SHOWN))]
        pictures = [([(html.signed(L[k].reshape(shape)), n)], n) for k, n in enumerate(names)]
        body += "<h3>Components as pictures</h3>" + html.gallery("gallery", pictures, words)
    bars = [
        figures.loadings(k, [name for name, _ in top], np.array([value for _, value in top]))
        for k, top in enumerate(tops)
    ]
    largest = np.unique(np.argsort(-np.abs(L), axis=1, kind="stable")[:, :BARS])
    arrows = {
        "names": [html.short(fitted.feature_names[j], 18) for j in largest],
        "values": html.rounded(L[:, largest]),
        "short": [[html.short(name, 14) for name, _ in top] for top in tops],
    }
    return Section(body, {"loadings-plot": bars}, {"loadings": arrows})


def reconstructions(fitted: FittedModel, rows: Rows | None) -> Section:
    """Return rows as pictures beside their reconstructions."""
    if rows is None or not rows.pictures:
        return Section("<p>Reconstructions are of rows, and no rows were given.</p>")
    if not fitted.is_invertible:
        text = f"<p>{fitted.name} has no way back from scores to rows, so nothing is reconstructed.</p>"
        return Section(text)
    flagged = [] if rows.farthest is None else [int(i) for i in rows.farthest if i in rows.pictures]
    others = [i for i in rows.pictures if i not in set(flagged)]
    chosen = flagged[: max(SHOWN // 2, SHOWN - len(others))]
    chosen += others[: SHOWN - len(chosen)]
    kinds = ("the row", "its reconstruction", "the difference")
    items = []
    for i in chosen:
        texts = [f"{rows.called(i)}: {kind}" for kind in kinds]
        name = rows.names[i] + (", flagged" if i in flagged else "")
        items.append((list(zip(rows.pictures[i], texts, strict=True)), name))
    words = (
        f"{counted(len(chosen), 'row')}, each beside its reconstruction from "
        f"{counted(fitted.n_components, 'component')} and the difference: orange where the row is "
        "larger, blue where it is smaller. Scales are each row's own."
    )
    return Section(html.gallery("triples", items, words))


def convergence(fitted: FittedModel) -> Section:
    """Return the residual by passes over the data."""
    record = getattr(fitted.estimator, "convergence_", None)
    if record is None:
        return Section(f"<p>This {fitted.name} keeps no record of its iterations.</p>")
    passes, residual = np.asarray(record, dtype=float).T
    tol, n = float(fitted.estimator.tol), int(passes[-1])
    words = f"The residual is {html.number(residual[-1])} after {n:,} pass{'' if n == 1 else 'es'}"
    if len(residual) > 1:
        words += f", from {html.number(residual[0])} at the first test"
    stride = max(1, -(-len(passes) // TABLE))
    listed = sorted({*range(0, len(passes), stride), len(passes) - 1})
    behind = html.table(
        "Residual by passes over the data",
        ["Passes", "Residual"],
        [[html.number(int(passes[i])), html.number(residual[i])] for i in listed],
    )
    body = html.figure("convergence-plot", f"{words}; tol is {html.number(tol)}.", data=behind)
    return Section(body, {"convergence-plot": [figures.convergence(passes, residual, tol)]})
