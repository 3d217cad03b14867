"""The sections about trust: how well components show variables, and how far other rows move them."""

from __future__ import annotations

import numpy as np

from ..frames import shown_shares
from ..inspect import FittedModel
from ..io.tables.table import counted
from ..operators import in_memory
from ..stability import bootstrap
from . import _html as html
from ._drawn_rows import MENU, Data
from ._section import Section

#: The most variables that are listed, and loadings of a component.
VARIABLES, LOADINGS = 30, 8


def quality(fitted: FittedModel, data: Data | None) -> Section | None:
    """Return the share of each variable that components show (cos2), the least first.

    Rows are taken where they are in memory and complete; else the covariance of the model is, if it
    has one. Where scores are correlated, cos2 of components do not add up.
    """
    model, X = fitted.estimator, None if data is None else data.X
    known = hasattr(model, "get_covariance") or (X is not None and in_memory(X))
    if not (hasattr(model, "rotation") and known):
        return None
    cos2 = shown_shares(fitted, X)
    adds_up = model.rotation != "promax" and fitted.name != "SparsePCA"
    whole = np.minimum(cos2.sum(axis=0), 1.0) if adds_up else cos2.max(axis=0)
    word = "Together" if adds_up else "Largest"
    order, shown = np.argsort(whole, kind="stable"), cos2[:MENU]
    names = [html.escape(name) for name in fitted.feature_names]
    words = (
        f"cos2 is the squared correlation of a variable with the scores of a component: what can be seen "
        f"of it there. Half of the variables have {html.percent(np.median(whole))} or more "
        f"{'in all components together' if adds_up else 'in one of the components'}; the least is that "
        f"of {names[order[0]]} ({html.percent(whole[order[0]])})."
    )
    head = ["Variable", word, *(f"Component {k + 1}" for k in range(len(shown)))]
    rows = [
        [names[j], html.percent(whole[j]), *(html.percent(share) for share in shown[:, j])]
        for j in order[:VARIABLES]
    ]
    caption = f"cos2 of variables, the least shown first, of {counted(len(names), 'variable')}"
    return Section(f"<p>{words}</p>" + html.table(caption, head, rows))


def stability(fitted: FittedModel, data: Data | None, n: int, seed: int) -> Section:
    """Return how far components, variances and loadings move in n resamples of the rows."""
    if data is None:
        raise ValueError(f"bootstrap={n} resamples rows, and there are none; give X")
    found = bootstrap(fitted.model, data.X, n, random_state=seed)
    turn, far = np.quantile(found.angles[:, 0], [0.5, 0.95])
    words = (
        f"Other rows of the same kind would turn the components: in {len(found.angles)} resamples "
        f"their space turned by {turn:.1f} degrees in the median, and by {far:.1f} or less in 95 %."
    )
    bounds = found.bounds()
    low, high = np.quantile(found.variances, [0.025, 0.975], axis=0)
    turns = np.median(found.turns(), axis=0)
    kept = range(min(len(found.loadings), MENU))
    components = [
        [str(k + 1), html.number(low[k]), html.number(high[k]), f"{turns[k]:.1f}"] for k in kept
    ]
    loadings = []
    for k in kept:
        for j in np.argsort(-np.abs(found.loadings[k]), kind="stable")[:LOADINGS]:
            (least, most), name = bounds[:, k, j], html.escape(fitted.feature_names[j])
            sure = "yes" if least * most > 0 else "no"
            value = f"{found.loadings[k, j]:+.3f}"
            loadings.append([str(k + 1), name, value, f"{least:+.3f}", f"{most:+.3f}", sure])
    head = ["Component", "Variance from", "to", "Turns by, degrees"]
    body = f"<p>{words}</p>" + html.table("95 % intervals of variances", head, components)
    head = ["Component", "Variable", "Loading", "From", "To", "Sign is sure"]
    caption = f"95 % intervals of loadings, the {LOADINGS} largest of each component"
    return Section(body + html.table(caption, head, loadings))
