"""The headline of a report: what was found, the worst rows and why, and what to do next."""

from __future__ import annotations

from collections import Counter

from ..inspect import MANY_FLAGGED, FittedModel
from ..io.tables.table import counted
from ._drawn_rows import Rows
from ._html import escape, joined, percent
from ._row_sections import button
from ._words import how_many, reasons, times_the_limit

#: The most rows in the headline.
WORST = 10

#: A component is one variable alone from this loading on, and most of the variance from this share on.
ALONE, MOST = 0.95, 0.8

#: Components with less than this share explain little.
LITTLE = 0.5


def headline(fitted: FittedModel, rows: Rows | None) -> str:
    """Return the findings, the worst rows with their reasons, and the next steps."""
    worst = [] if rows is None or rows.farthest is None else list(map(int, rows.farthest[:WORST]))
    body = f'<p class="headline">{escape(_found(fitted, rows))}</p>'
    if rows is not None and worst:
        title = f"The {len(worst)} worst rows" if len(worst) > 1 else "The worst row"
        items = "".join(f"<li>{button(rows, i)} {_why(fitted, rows, i)}</li>" for i in worst)
        body += f'<h3>{title}</h3><ol class="worst">{items}</ol>'
        if rows.details and any(share for *_, share in rows.details[worst[0]]):
            body += '<p class="hint">Percentages are shares of the squared distance of the row.</p>'
    steps = "".join(f"<li>{escape(step)}</li>" for step in _next_steps(fitted, rows, worst))
    return f"{body}<h3>What to do next</h3><ul>{steps}</ul>"


def _found(fitted: FittedModel, rows: Rows | None) -> str:
    words = ""
    if rows is not None and rows.flagged is not None:
        words = f"{counted(rows.total, 'row')}, none of which is flagged. "
        if rows.n_flagged:
            share = percent(rows.n_flagged / rows.total)
            fits = "does" if rows.n_flagged == 1 else "do"
            of = counted(rows.total, "row")
            words = f"{rows.n_flagged:,} of {of} ({share}) {fits} not fit the others. "
    if fitted.has_no_variance:
        return f"{words}There is no variance for components to hold."
    k, of = fitted.n_components, " of good rows" if fitted.is_robust else ""
    held = percent(float(fitted.cumulative_shares[-1]))
    where = "the feature space of the kernel"
    if fitted.is_linear:
        where = counted(fitted.n_features, "variable")
    hold = "holds" if k == 1 else "hold"
    return f"{words}{counted(k, 'component')} {hold} {held} of the variance{of} in {where}."


def _why(fitted: FittedModel, rows: Rows, i: int) -> str:
    """Return the kind, the distance and the reasons of a row, as HTML."""
    times = times_the_limit(fitted, rows, i)
    facts = [rows.kinds[i]] if rows.kinds else []
    facts += [] if times is None else [f"{how_many(times)} the limit"]
    because = reasons(rows.details[i], fitted.feature_names) if rows.details else []
    return escape(f"{', '.join(facts)}{': ' if facts and because else ''}{joined(because)}.")


def _next_steps(fitted: FittedModel, rows: Rows | None, worst: list[int]) -> list[str]:
    model, steps = fitted.estimator, []
    if float(model.residual_) > float(model.tol):
        steps.append("The fit stopped before it reached tol: raise max_iter and fit again.")
    if fitted.is_robust and not fitted.starts_agree:
        steps.append(
            "The starts of the fit disagree about which rows are good: look at the scores for groups, "
            "and compare fits with fewer and with more components."
        )
    if rows is not None and rows.flagged is not None:
        steps += _about_flagged(fitted, rows, worst)
    elif rows is None:
        steps.append("Give the report the rows, X, to see their scores and what stands out.")
    elif not fitted.is_robust:
        robust = "RobustPCA" if fitted.is_linear else "RobustKernelPCA"
        steps.append(
            f"{fitted.name} takes every row at its word, and a single wrong row can turn a component: "
            f"fit {robust} to see which rows do not fit."
        )
    if fitted.is_linear and fitted.preprocessor is None and fitted.n_features > 1:
        name, loading = (fitted.leading(0, 1) or [("", 0.0)])[0]
        if abs(loading) > ALONE and float(fitted.shares[0]) > MOST and fitted.name != "SparsePCA":
            steps.append(
                f"Component 1 is almost {name} alone, which has the largest numbers: if the units of the "
                "variables differ, put a Preprocessor(scaling='robust') before the model."
            )
    if not fitted.has_no_variance and float(fitted.cumulative_shares[-1]) < LITTLE:
        steps.append(
            "The components hold less than half of the variance: the scree tells whether more of them "
            "would hold much more."
        )
    return steps or ["Nothing stands out that needs work: read on from the scores to the loadings."]


def _about_flagged(fitted: FittedModel, rows: Rows, worst: list[int]) -> list[str]:
    """Return what flagged rows ask for."""
    steps = []
    if fitted.has_cells:
        steps.append(
            "Look at the single cells below the cell map, the worst first: correct what is wrong, and "
            "fit again."
        )
    if not rows.n_flagged:
        fine = "No row needs a look; plain PCA would find nearly the same components."
        return steps or [fine]
    if rows.details and len(worst) > 2:
        first = [rows.details[i][0] for i in worst if rows.details[i]]
        leading = [j for j, _, _, share in first if (share or 0.0) > LITTLE]
        for j, n in Counter(leading).most_common(1):
            if n > 2:
                steps.append(
                    f"{fitted.feature_names[j]} alone sets {n} of the {len(worst)} worst rows apart: "
                    "check its unit, its decimal point and how it was recorded."
                )
    steps.append(
        "Look at the rows above, the worst first: correct or leave out what is wrong, and fit again. "
        "Keep what is right: the robust components are hardly moved by it."
    )
    if rows.n_flagged > MANY_FLAGGED * rows.total:
        steps.append(
            "So many flagged rows may be a group of their own: colour the scores by what is known of the "
            "rows (labels), and fit the groups one by one."
        )
    return steps
