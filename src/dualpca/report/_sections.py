"""The sections of a report: what each shows in words, its figure and the numbers behind it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..estimators import PCA, KernelPCA
from ..linalg import to_numpy
from ._html import counted, escape, figure, listed, number, percent, rounded, select, table
from ._model import Fitted, still
from ._pictures import SHOWN, gallery, signed
from ._rows import MENU, Data, Rows

#: Bars of a component, rows of a table behind a figure, components in tables.
BARS, TABLE, LISTED = 12, 50, 60


CLICK = (
    'Click a point to see its row.<span class="fine"> Drag to zoom, double-click to see all.</span>'
)


@dataclass(frozen=True)
class Section:
    """A heading, what stands below it, and the numbers its drawing needs."""

    name: str
    title: str
    body: str
    data: dict[str, Any] = field(default_factory=dict)


def components(fitted: Fitted) -> list[str]:
    """What the menus call components."""
    return [f"{i + 1} ({percent(share)})" for i, share in enumerate(fitted.shares[:MENU])]


def scree(fitted: Fitted, data: Data | None) -> Section:
    """Shares of the variance, plain beside robust."""
    series = [(fitted.kind, fitted.shares, cumulative(fitted))]
    plain = plain_shares(fitted, data) if data is not None and fitted.robust else None
    equal = plain is not None and not plain.any()
    name = "plain " + fitted.kind.removeprefix("Robust")
    if plain is not None and not equal:
        series.append((name, plain, np.cumsum(plain)))
    k = fitted.n_components
    which = "The component holds" if k == 1 else f"The {k} components hold"
    words = f"{which} {percent(series[0][2][-1])} of the variance"
    words += f", the first alone {percent(fitted.shares[0])}." if k > 1 else "."
    if fitted.still:
        which = "Most rows are equal" if fitted.robust and not equal else "The rows do not vary"
        words = f"{which}: there is no variance to share."
    elif equal:
        words += " The rows of this report do not vary."
    if plain is not None and not equal:
        words += (
            f" Of the same rows, outliers included, {name} puts {percent(plain[0])} into its first"
        )
        more = (
            f" and {percent(plain.sum())} into the first {len(plain)}." if len(plain) > 1 else "."
        )
        words += f" component{more}"
    elif plain is None and data is not None and fitted.robust:
        words += " Plain PCA makes nothing of these rows: too few, or too large."
    rows = [
        [str(i + 1), *(cell for _, each, total in series for cell in _pair(each, total, i))]
        for i in range(min(k, LISTED))
    ]
    head = ["Component"]
    for name, _, _ in series:
        head += [f"{escape(name)}: share", f"{escape(name)}: cumulative"]
    shown = [
        {"name": name, "share": rounded(each), "cumulative": rounded(total)}
        for name, each, total in series
    ]
    hint = "Bars are the shares of single components, lines those of the first ones together."
    hint = hint if k > 1 else ""
    behind = table("Shares of the variance", head, rows)
    body = figure("scree-plot", words, hint=hint, data=behind)
    return Section("scree", "Scree", body, {"scree": shown})


def _pair(each: np.ndarray, total: np.ndarray, i: int) -> list[str]:
    return [percent(each[i]), percent(total[i])] if i < len(each) else ["", ""]


def cumulative(fitted: Fitted) -> np.ndarray:
    """The share of the first components together."""
    known = getattr(fitted.estimator, "cumulative_variance_ratio_", None)
    sums = known is None or fitted.still
    return np.cumsum(fitted.shares) if sums else to_numpy(known).astype(float)


def plain_shares(fitted: Fitted, data: Data) -> np.ndarray | None:
    """What PCA without robustness makes of the same rows: zeros of equal rows, None where it fails."""
    if data.shape[0] < 2:
        return None
    model, Z = fitted.estimator, fitted.prepared(data.X)
    if fitted.linear:
        plain: Any = PCA(min(fitted.n_components, *data.shape), random_state=0)
    else:
        names = (
            "kernel degree coef0 kernel_params approximation n_landmarks n_random_features n_jobs"
        )
        options = {name: getattr(model, name) for name in names.split()}
        landmarks = {"gamma": getattr(model, "gamma_", None), "landmarks": model.landmarks}
        n = min(fitted.n_components, data.shape[0])
        plain = KernelPCA(n, **options, **landmarks, random_state=0)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # bad rows may overflow here, which the robust fit survived
        try:
            shares = to_numpy(plain.fit(Z).explained_variance_ratio_).astype(float)
        except ValueError:
            return None
    if not np.isfinite(shares).all():
        return None
    return np.zeros_like(shares) if still(plain) else shares


def scores(fitted: Fitted, rows: Rows | None) -> Section:
    """Rows by two components."""
    if rows is None or rows.scores is None:
        return Section("scores", "Scores", "<p>Scores are of rows, and no rows were given.</p>")
    names, k = components(fitted), fitted.n_components
    one = "component 1" if k == 1 else "components 1 and 2"
    share = f"hold{'s' if k == 1 else ''} {percent(fitted.shares[:2].sum())} of the variance"
    words = f"{drawn(rows)} by {one}" + ("." if fitted.still else f", which {share}.")
    if rows.flagged is not None:
        words += f" {flagged_words(rows)}"
    if rows.groups is not None:
        names_of = listed(rows.groups[0])
        several = len(rows.groups[0]) > 1
        words += (
            f" Symbols tell {names_of} apart." if several else f" All have the label {names_of}."
        )
    controls = select("scores-x", "Across: component", names, 0)
    if k > 1:
        controls += select("scores-y", "Up: component", names, 1)
    if fitted.linear and k > 1:
        controls += '<label><input type="checkbox" id="arrows"> Arrows of variables</label>'
    order = list(range(len(rows.index)))
    if rows.farthest is not None:
        order = list(dict.fromkeys([*rows.farthest.tolist(), *order]))
    few = min(rows.scores.shape[1], 6)
    behind = table(
        f"Scores by component{first(len(order), ' (flagged rows first)' if rows.n_flagged else '')}",
        ["Row", *(["Label"] if rows.labels else []), *(str(i + 1) for i in range(few))],
        [
            [
                escape(rows.names[i]),
                *([escape(rows.labels[i])] if rows.labels else []),
                *(number(float(t)) for t in rows.scores[i, :few]),
            ]
            for i in order[:TABLE]
        ],
    )
    body = figure(
        "scores-plot",
        words,
        controls=f'<div class="controls">{controls}</div>',
        hint=CLICK + (f" The menus offer the first {MENU} components." if k > MENU else ""),
        data=behind,
    )
    return Section("scores", "Scores", body, {"scores": rounded(rows.scores.T)})


def first(n: int, more: str = "") -> str:
    """Which rows a table holds, where it does not hold all."""
    return f", the first {TABLE} of {n:,}{more}" if n > TABLE else ""


def drawn(rows: Rows) -> str:
    """How many rows are drawn, and which."""
    if len(rows.index) == rows.total:
        return counted(rows.total, "row")
    far = 0 if rows.flagged is None else int(rows.flagged.sum())
    if far == 0:
        return f"A sample of {len(rows.index):,} of {rows.total:,} rows"
    which = "the only one" if far == 1 else f"all {far:,}"
    if far < rows.n_flagged:
        which = farthest(far, rows.n_flagged)
    rest = counted(len(rows.index) - far, "other")
    return f"{len(rows.index):,} of {rows.total:,} rows ({which} flagged, {rest} at random)"


def farthest(some: int, n: int) -> str:
    """Which of n flagged rows are shown, where not all are."""
    return f"the farthest {f'{some:,} ' if some > 1 else ''}of {n:,}"


def flagged_words(rows: Rows) -> str:
    """How many rows are flagged."""
    if rows.n_flagged == 0:
        return "No row is flagged."
    share = percent(rows.n_flagged / rows.total)
    return f"Flagged: {rows.n_flagged:,} of {counted(rows.total, 'row')} ({share})."


def loadings(fitted: Fitted, shape: tuple[int, ...] | None) -> Section:
    """The variables that make up each component."""
    if not fitted.linear:
        text = f"<p>{fitted.kind} works in the feature space of its kernel: no loadings there.</p>"
        return Section("loadings", "Loadings", text)
    L, names = fitted.loadings[:MENU], fitted.variables
    tops = [_largest(row) for row in L]
    leading = [f"{names[j]} ({L[0, j]:+.3f})" for j in tops[0][:3]]
    words = "Component 1 has no loadings: no variance was left for it."
    if leading:
        words = f"Component 1 is led by {listed(leading)}."
    kept = np.unique(np.concatenate([np.array(top, dtype=int) for top in tops]))
    place = {int(j): i for i, j in enumerate(kept)}
    behind = table(
        f"The largest loadings of each component, up to {BARS}",
        ["Component", "Loadings"],
        [
            [str(i + 1), "; ".join(f"{escape(names[j])} {L[i, j]:+.4f}" for j in top)]
            for i, top in enumerate(tops)
        ],
    )
    hint = "Bars are the loadings of the component, the largest first."
    if L.shape[1] == 1:
        hint = "The bar is the loading of the only variable."
    elif L.shape[1] > BARS:
        hint = f"Bars are the largest of {L.shape[1]:,} loadings of the component, up to {BARS}."
    menu = select("loadings-component", "Component", components(fitted), 0)
    body = figure(
        "loadings-plot",
        words,
        controls=f'<div class="controls">{menu}</div>',
        hint=hint,
        data=behind,
    )
    if shape:
        pictures = [(signed(row.reshape(shape)), f"Component {i + 1}") for i, row in enumerate(L)]
        body += "<h3>Components as pictures</h3>" + gallery(
            pictures[:SHOWN],
            "Positive loadings are orange, negative blue, each on a scale of its own.",
        )
    found = {
        "variables": [names[j] for j in kept],
        "values": rounded(L[:, kept]),
        "tops": [[place[j] for j in top] for top in tops],
    }
    return Section("loadings", "Loadings", body, {"loadings": found})


def _largest(row: np.ndarray) -> list[int]:
    order = np.argsort(-np.abs(row), kind="stable")[:BARS]
    return [int(j) for j in order if row[j] != 0]


def convergence(fitted: Fitted) -> Section:
    """The residual after so many passes."""
    record = getattr(fitted.estimator, "convergence_", None)
    if record is None:
        text = f"<p>This {fitted.kind} keeps no record of its iterations.</p>"
        return Section("convergence", "Convergence", text)
    passes, residual = np.asarray(record, dtype=float).T
    tol = float(fitted.estimator.tol)
    words = (
        f"The residual is {number(residual[-1])} after {counted(int(passes[-1]), 'pass', 'passes')}"
    )
    if len(residual) > 1:
        words += f", from {number(residual[0])} at the first test"
    words += f"; tol is {number(tol)}."
    every = max(1, -(-len(passes) // TABLE))
    kept = sorted({*range(0, len(passes), every), len(passes) - 1})
    behind = table(
        "Residual after so many passes over the data",
        ["Passes", "Residual"],
        [[number(int(passes[i])), number(residual[i])] for i in kept],
    )
    found = {"passes": rounded(passes), "residual": rounded(residual), "tol": rounded(tol)}
    body = figure("convergence-plot", words, data=behind)
    return Section("convergence", "Convergence", body, {"convergence": found})
