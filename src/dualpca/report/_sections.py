"""The sections about the model: its loadings, reconstructions of pictures, and its convergence."""

from __future__ import annotations

import numpy as np

from ..inspect import FittedModel
from ..io.tables.table import counted
from . import _figures as figures
from . import _html as html
from ._drawn_rows import MENU, Rows
from ._pictures import signed
from ._row_sections import TABLE, component_names
from ._section import Section
from ._words import passes

#: The most bars of a component, points of a line, and pictures beside each other.
BARS, POINTS, SHOWN = 12, 2000, 12

#: From this many variables on, smooth loadings are drawn as a line.
MANY = 30

#: Loadings are smooth if neighbours differ by less than this share of what unrelated ones do.
SMOOTH = 0.1


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
    listed = [
        [str(k + 1), html.escape(name), f"{value:+.4f}"]
        for k, top in enumerate(tops)
        for name, value in top or [("none", 0.0)]
    ]
    behind = html.table(
        f"The largest loadings of each component, up to {BARS}",
        ["Component", "Variable", "Loading"],
        listed,
    )
    colours = "Positive loadings are orange, negative ones blue"
    at = None if shape else ordered(fitted)
    pairs = [([name for name, _ in top], np.array([value for _, value in top])) for top in tops]
    if at is None:
        hint = (
            f"Loadings are sorted by size; at most {BARS} are drawn, of {counted(width, 'variable')}. "
            f"{colours} and striped."
        )
        drawing = [figures.loadings(k, *pair) for k, pair in enumerate(pairs)]
    else:
        step = -(-width // POINTS)
        which = f"every {step}th is drawn" if step > 1 else "all are drawn"
        hint = f"The variables are in order, so a line shows them; {which}. {colours}."
        names = fitted.feature_names[::step]
        drawing = [
            figures.loadings_line(k, at[::step], L[k, ::step], names, pair)
            for k, pair in enumerate(pairs)
        ]
    menu = html.select("loadings-component", "Component", component_names(fitted), 0)
    body = html.figure("loadings-plot", words, controls=menu, hint=hint, data=behind)
    if shape:
        names = [f"Component {k + 1}" for k in range(min(len(L), SHOWN))]
        pictures = [([(signed(L[k].reshape(shape)), n)], n) for k, n in enumerate(names)]
        body += "<h3>Components as pictures</h3>"
        body += html.gallery("gallery", pictures, f"{colours}, each on a scale of its own.")
    largest = np.unique(np.argsort(-np.abs(L), axis=1, kind="stable")[:, :BARS])
    numbers = {
        "names": [html.short(fitted.feature_names[j], 18) for j in largest],
        "values": html.rounded(L[:, largest]),
        "short": None if at is not None else [[html.short(n, 14) for n in p] for p, _ in pairs],
    }
    return Section(body, {"loadings-plot": drawing}, {"loadings": numbers})


def ordered(fitted: FittedModel) -> np.ndarray | None:
    """Return the places of variables in order, such as wavelengths; None if they have none.

    Their names are increasing or decreasing numbers, or there are many and loadings are smooth: the
    squared differences of neighbours are small beside the variance, as von Neumann's ratio has it.
    """
    width = fitted.n_features
    if width <= BARS:
        return None
    try:
        places = np.array([float(name) for name in fitted.feature_names])
    except ValueError:
        places = np.full(width, np.nan)
    steps = np.diff(places)
    if np.isfinite(places).all() and ((steps > 0).all() or (steps < 0).all()):
        return places
    L = fitted.loadings[:3]
    variation = ((L - L.mean(axis=1, keepdims=True)) ** 2).sum()
    smooth = (np.diff(L, axis=1) ** 2).sum() < 2 * SMOOTH * variation
    return np.arange(width, dtype=float) if width >= MANY and smooth else None


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
    """Return the residual by passes over the data; of sparse components, by steps of their iterations."""
    model = fitted.estimator
    record = getattr(model, "convergence_", None)
    if record is None:
        return Section(f"<p>This {fitted.name} keeps no record of its iterations.</p>")
    count, residual = np.asarray(record, dtype=float).T
    tol, n = float(model.tol), int(count[-1])
    steps = fitted.name == "SparsePCA"
    unit = "steps" if steps else "passes over the data"
    taken = f"{counted(n, 'step')} in {passes(int(model.n_passes_))}" if steps else passes(n)
    words = f"The residual is {html.number(residual[-1])} after {taken}"
    if len(residual) > 1:
        words += f", from {html.number(residual[0])} at the first test"
    hint = (
        "Every start of every component begins anew, so the residual rises again." if steps else ""
    )
    stride = max(1, -(-len(count) // TABLE))
    listed = sorted({*range(0, len(count), stride), len(count) - 1})
    behind = html.table(
        f"Residual by {unit}",
        [unit.capitalize(), "Residual"],
        [[f"{int(count[i]):,}", html.number(residual[i])] for i in listed],
    )
    words += f"; tol is {html.number(tol)}."
    body = html.figure("convergence-plot", words, hint=hint, data=behind)
    return Section(body, {"convergence-plot": [figures.convergence(count, residual, tol, unit)]})
