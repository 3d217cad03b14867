"""The sections of a report: what each shows in words, its figure and the numbers behind it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..inspect import FittedModel
from ..io.tables.table import counted
from . import _figures as figures
from ._html import escape, figure, joined, number, percent, rounded, select, table
from ._pictures import SHOWN, gallery, signed
from ._rows import MENU, Data, Rows

#: The most bars of a component, rows of a table behind a figure, components in tables.
BARS, TABLE, LISTED = 12, 50, 60

CLICK = (
    'Click a point to see its row.<span class="fine"> Drag to zoom, double-click to see all.</span>'
)


@dataclass(frozen=True)
class Section:
    """A heading, the HTML below it, the variants of its figure, and numbers that the page needs."""

    name: str
    title: str
    body: str
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)


def scree(fitted: FittedModel, data: Data | None) -> Section:
    """Return the shares of the variance, those of plain PCA beside those of a robust model."""
    series = [(fitted.name, fitted.shares, fitted.cumulative_shares)]
    compared = data is not None and fitted.is_robust
    plain = _plain_shares(fitted, data.X) if compared and data is not None else None
    equal = plain is not None and not plain.any()
    name, k = "plain " + fitted.name.removeprefix("Robust"), fitted.n_components
    which = "The component holds" if k == 1 else f"The {k} components hold"
    words = f"{which} {percent(series[0][2][-1])} of the variance"
    words += f", the first alone {percent(fitted.shares[0])}." if k > 1 else "."
    if fitted.has_no_variance:
        which = "Most rows are equal" if fitted.is_robust and not equal else "The rows do not vary"
        words = f"{which}: there is no variance to share."
    elif equal:
        words += " The rows of this report do not vary."
    if plain is not None and not equal:
        series.append((name, plain, np.cumsum(plain)))
        together = f" and {percent(plain.sum())} into the first {len(plain)}"
        words += (
            f" Of the same rows, outliers included, {name} puts {percent(plain[0])} into its first "
            f"component{together if len(plain) > 1 else ''}."
        )
    elif compared and plain is None:
        words += " Plain PCA makes nothing of these rows: too few, or too large."
    columns = [column for _, *pair in series for column in pair]
    cells = [[percent(c[i]) if i < len(c) else "" for c in columns] for i in range(min(k, LISTED))]
    head = [f"{escape(name)}: {kind}" for name, *_ in series for kind in ("share", "cumulative")]
    rows = [[str(i + 1), *row] for i, row in enumerate(cells)]
    hint = "Bars are the shares of single components, lines those of the first ones together."
    behind = table("Shares of the variance", ["Component", *head], rows)
    body = figure("scree-plot", words, hint=hint if k > 1 else "", data=behind)
    return Section("scree", "Scree", body, {"scree-plot": [figures.scree(series)]})


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
        return Section("scores", "Scores", "<p>Scores are of rows, and no rows were given.</p>")
    names, k = _component_names(fitted), fitted.n_components
    one = "component 1" if k == 1 else "components 1 and 2"
    share = f"hold{'s' if k == 1 else ''} {percent(fitted.shares[:2].sum())} of the variance"
    words = f"{drawn(rows)} by {one}" + ("." if fitted.has_no_variance else f", which {share}.")
    if rows.flagged is not None:
        words += f" {flagged_words(rows)}"
    if rows.groups is not None:
        labels = joined(rows.groups[0])
        several = len(rows.groups[0]) > 1
        words += f" Symbols tell {labels} apart." if several else f" All have the label {labels}."
    controls = select("scores-x", "Across: component", names, 0)
    if k > 1:
        controls += select("scores-y", "Up: component", names, 1)
    if fitted.is_linear and k > 1:
        controls += '<label><input type="checkbox" id="arrows"> Arrows of variables</label>'
    labelled = rows.labels is not None
    width = min(rows.scores.shape[1], 6)
    table_rows = [
        [
            escape(rows.names[i]),
            *([escape(rows.labels[i])] if rows.labels else []),
            *(number(float(t)) for t in rows.scores[i, :width]),
        ]
        for i in rows.farthest_first[:TABLE]
    ]
    flagged_first = " (flagged rows first)" if rows.n_flagged else ""
    behind = table(
        f"Scores by component{first_rows(rows, flagged_first)}",
        ["Row", *(["Label"] if labelled else []), *(str(i + 1) for i in range(width))],
        table_rows,
    )
    hint = CLICK + (f" The menus offer the first {MENU} components." if k > MENU else "")
    body = figure("scores-plot", words, controls=controls, hint=hint, data=behind)
    drawing = {"scores-plot": [figures.scores(rows)]}
    return Section("scores", "Scores", body, drawing, {"scores": rounded(rows.scores.T)})


def _component_names(fitted: FittedModel) -> list[str]:
    return [f"{i + 1} ({percent(share)})" for i, share in enumerate(fitted.shares[:MENU])]


def first_rows(rows: Rows, more: str = "") -> str:
    """Return which rows a table holds, if not all."""
    n = len(rows.index)
    return f", the first {TABLE} of {n:,}{more}" if n > TABLE else ""


def drawn(rows: Rows) -> str:
    """Return how many rows are drawn, and which."""
    if len(rows.index) == rows.total:
        return counted(rows.total, "row")
    flagged = 0 if rows.flagged is None else int(rows.flagged.sum())
    if flagged == 0:
        return f"A sample of {len(rows.index):,} of {rows.total:,} rows"
    which = "the only one" if flagged == 1 else f"all {flagged:,}"
    if flagged < rows.n_flagged:
        which = farthest(flagged, rows.n_flagged)
    others = counted(len(rows.index) - flagged, "other")
    return f"{len(rows.index):,} of {rows.total:,} rows ({which} flagged, {others} at random)"


def farthest(shown: int, n: int) -> str:
    """Return which of n flagged rows are shown, if not all are."""
    return f"the farthest {f'{shown:,} ' if shown > 1 else ''}of {n:,}"


def flagged_words(rows: Rows) -> str:
    """Return how many rows are flagged."""
    if rows.n_flagged == 0:
        return "No row is flagged."
    share = percent(rows.n_flagged / rows.total)
    return f"Flagged: {rows.n_flagged:,} of {counted(rows.total, 'row')} ({share})."


def loadings(fitted: FittedModel, shape: tuple[int, ...] | None) -> Section:
    """Return the variables that make up each component."""
    if not fitted.is_linear:
        text = f"<p>{fitted.name} works in the feature space of its kernel: no loadings there.</p>"
        return Section("loadings", "Loadings", text)
    L, width = fitted.loadings[:MENU], fitted.n_features
    tops = [fitted.leading(k, BARS) for k in range(len(L))]
    words = "Component 1 has no loadings: no variance was left for it."
    if tops[0]:
        words = f"Component 1 is led by {joined([f'{n} ({v:+.3f})' for n, v in tops[0][:3]])}."
    behind = table(
        f"The largest loadings of each component, up to {BARS}",
        ["Component", "Loadings"],
        [
            [str(k + 1), "; ".join(f"{escape(name)} {value:+.4f}" for name, value in top)]
            for k, top in enumerate(tops)
        ],
    )
    hint = "Bars are the loadings of the component, the largest first."
    if width == 1:
        hint = "The bar is the loading of the only variable."
    elif width > BARS:
        hint = f"Bars are the largest of {width:,} loadings of the component, up to {BARS}."
    menu = select("loadings-component", "Component", _component_names(fitted), 0)
    body = figure("loadings-plot", words, controls=menu, hint=hint, data=behind)
    if shape:
        words = "Positive loadings are orange, negative blue, each on a scale of its own."
        names = [f"Component {k + 1}" for k in range(min(len(L), SHOWN))]
        pictures = [([(signed(L[k].reshape(shape)), n)], n) for k, n in enumerate(names)]
        body += "<h3>Components as pictures</h3>" + gallery("gallery", pictures, words)
    bars = [
        figures.loadings(k, [name for name, _ in top], np.array([value for _, value in top]))
        for k, top in enumerate(tops)
    ]
    largest = np.unique(np.argsort(-np.abs(L), axis=1, kind="stable")[:, :BARS])
    arrows = {
        "names": [figures.plain(fitted.feature_names[j], 18) for j in largest],
        "values": rounded(L[:, largest]),
        "short": [[figures.plain(name, 14) for name, _ in top] for top in tops],
    }
    return Section("loadings", "Loadings", body, {"loadings-plot": bars}, {"loadings": arrows})


def reconstructions(
    fitted: FittedModel, rows: Rows | None, shape: tuple[int, ...] | None
) -> Section | None:
    """Return rows as pictures beside their reconstructions; None if rows are no pictures."""
    if shape is None:
        return None
    text = ""
    if rows is None or not rows.pictures:
        text = "<p>Reconstructions are of rows, and no rows were given.</p>"
    elif not fitted.is_invertible:
        text = f"<p>{fitted.name} has no way back from scores to rows, so nothing is reconstructed.</p>"
    if text or rows is None or rows.pictures is None:
        return Section("reconstructions", "Reconstructions", text)
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
    each = ", each" if len(chosen) > 1 else ""
    words = (
        f"{counted(len(chosen), 'row')}{each} beside its reconstruction from "
        f"{counted(fitted.n_components, 'component')} and the difference: orange where the row is "
        "larger, blue where it is smaller. Scales are each row's own."
    )
    return Section("reconstructions", "Reconstructions", gallery("triples", items, words))


def convergence(fitted: FittedModel) -> Section:
    """Return the residual by passes over the data."""
    record = getattr(fitted.estimator, "convergence_", None)
    if record is None:
        text = f"<p>This {fitted.name} keeps no record of its iterations.</p>"
        return Section("convergence", "Convergence", text)
    passes, residual = np.asarray(record, dtype=float).T
    tol, n = float(fitted.estimator.tol), int(passes[-1])
    words = f"The residual is {number(residual[-1])} after {n:,} pass{'' if n == 1 else 'es'}"
    if len(residual) > 1:
        words += f", from {number(residual[0])} at the first test"
    every = max(1, -(-len(passes) // TABLE))
    listed = sorted({*range(0, len(passes), every), len(passes) - 1})
    behind = table(
        "Residual by passes over the data",
        ["Passes", "Residual"],
        [[number(int(passes[i])), number(residual[i])] for i in listed],
    )
    body = figure("convergence-plot", f"{words}; tol is {number(tol)}.", data=behind)
    drawing = {"convergence-plot": [figures.convergence(passes, residual, tol)]}
    return Section("convergence", "Convergence", body, drawing)
